//! The little of DER (X.690) that no library of this crate offers: values with their tag and length, and sequences.

/// The first value of `bytes` with its tag and length, and its content (X.690 §8.1).
pub(crate) fn value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, length) = match *bytes {
        [_, length @ 0..=0x7f, ..] => (2, usize::from(length)),
        [_, 0x81, length, ..] => (3, usize::from(length)),
        [_, 0x82, high, low, ..] => (4, usize::from(u16::from_be_bytes([high, low]))),
        _ => return None,
    };
    Some((bytes.get(..header + length)?, bytes.get(header..header + length)?))
}

/// The content of the first value.
pub(crate) fn content(bytes: &[u8]) -> Option<&[u8]> {
    value(bytes).map(|(_, content)| content)
}

/// A SEQUENCE with this content (X.690 §8.9).
pub(crate) fn sequence(content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut whole = vec![0x30];
    match content.len() {
        0..=0x7f => whole.extend(significant.first().or(Some(&0))),
        _ => {
            // At most eight bytes.
            whole.push(0x80 | u8::try_from(significant.len()).unwrap_or(8));
            whole.extend(significant);
        }
    }
    whole.extend(content);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_as_der_has_them() {
        for (content, header) in
            [(0, &[0x30, 0][..]), (127, &[0x30, 127]), (128, &[0x30, 0x81, 128]), (256, &[0x30, 0x82, 1, 0])]
        {
            assert!(sequence(&vec![7; content]).starts_with(header), "{content}");
        }
    }
}
