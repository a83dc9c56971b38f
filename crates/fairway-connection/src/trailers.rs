//! Buffered trailers: of a request until its exchange has read the body, of a response until the client took it.

use fairway_http::Head;

/// Names and values in one buffer, each preceded by its length.
#[derive(Debug, Default)]
pub(crate) struct Trailers(Vec<u8>);

/// Bytes of a length.
const LENGTH_BYTES: usize = size_of::<u32>();

impl Trailers {
    /// The fields of a received head.
    pub(crate) fn from_head(head: &Head) -> Self {
        Self::collect(head.fields().map(|field| (field.name, field.value)))
    }

    /// The fields in order.
    pub(crate) fn collect<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut trailers = Self::default();
        for (name, value) in fields {
            trailers.push(name);
            trailers.push(value);
        }
        trailers
    }

    fn push(&mut self, text: &[u8]) {
        let length = u32::try_from(text.len()).expect("a head is far below 4 GiB");
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(text);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || Some((take_text(&mut rest)?, take_text(&mut rest)?)))
    }
}

/// The next name or value.
fn take_text<'t>(rest: &mut &'t [u8]) -> Option<&'t [u8]> {
    let (length, behind) = rest.split_first_chunk::<LENGTH_BYTES>()?;
    let (text, behind) = behind.split_at(u32::from_ne_bytes(*length) as usize);
    *rest = behind;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_out_as_they_went_in() {
        let fields: [(&[u8], &[u8]); 3] =
            [(b"grpc-status", b"0"), (b"empty", b""), (b"grpc-message", b"fine")];
        let trailers = Trailers::collect(fields.into_iter());
        assert_eq!(trailers.iter().collect::<Vec<_>>(), fields);
        assert!(!trailers.is_empty() && Trailers::default().is_empty());
    }
}
