//! Minimal DER (X.690) reading and writing not offered by the libraries used here.

/// The first value of `bytes` including tag and length, and its content (X.690 §8.1).
pub(crate) fn value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, length) = match *bytes {
        [_, length @ 0..=0x7f, ..] => (2, usize::from(length)),
        [_, 0x81, length, ..] => (3, usize::from(length)),
        [_, 0x82, high, low, ..] => (4, usize::from(u16::from_be_bytes([high, low]))),
        _ => return None,
    };
    Some((bytes.get(..header + length)?, bytes.get(header..header + length)?))
}

/// Content of the first value.
pub(crate) fn content(bytes: &[u8]) -> Option<&[u8]> {
    value(bytes).map(|(_, content)| content)
}

/// A sequence of values, as in a SEQUENCE (X.690 §8.9). Ends at a value of unexpected form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'d>(&'d [u8]);

/// A value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'d> {
    pub(crate) tag: u8,
    /// Including tag and length.
    pub(crate) encoded: &'d [u8],
    pub(crate) content: &'d [u8],
}

impl<'d> Values<'d> {
    pub(crate) fn new(bytes: &'d [u8]) -> Self {
        Self(bytes)
    }

    /// The next value, if it has this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<Value<'d>> {
        self.next_if(|value| value.tag == tag)
    }

    /// The values inside the next value, if it has this tag.
    pub(crate) fn enter(&mut self, tag: u8) -> Option<Self> {
        self.expect(tag).map(|value| Self(value.content))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn next_if(&mut self, is_expected: impl Fn(&Value<'d>) -> bool) -> Option<Value<'d>> {
        let (encoded, content) = value(self.0)?;
        let next = Value { tag: *encoded.first()?, encoded, content };
        is_expected(&next).then(|| {
            self.0 = &self.0[encoded.len()..];
            next
        })
    }
}

impl<'d> Iterator for Values<'d> {
    type Item = Value<'d>;

    fn next(&mut self) -> Option<Value<'d>> {
        self.next_if(|_| true)
    }
}

/// A SEQUENCE with this content.
pub(crate) fn sequence(content: &[u8]) -> Vec<u8> {
    tagged(0x30, content)
}

/// A value with this tag and content.
pub(crate) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut encoded = vec![tag];
    match content.len() {
        0..=0x7f => encoded.extend(significant.first().or(Some(&0))),
        _ => {
            // At most eight bytes.
            encoded.push(0x80 | u8::try_from(significant.len()).unwrap_or(8));
            encoded.extend(significant);
        }
    }
    encoded.extend(content);
    encoded
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
