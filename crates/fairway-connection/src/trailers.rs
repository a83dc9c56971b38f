//! Trailers that wait: those of a request until its exchange has read the body, those of an answer until the client has
//! taken it.

use fairway_http::Head;

/// Names and values in one buffer, each behind its length.
#[derive(Debug, Default)]
pub(crate) struct Trailers(Vec<u8>);

/// The bytes of a length.
const LENGTH: usize = size_of::<u32>();

impl Trailers {
    /// Of a message that came.
    pub(crate) fn of(head: &Head) -> Self {
        Self::collect(head.fields().map(|field| (field.name, field.value)))
    }

    /// In their order.
    pub(crate) fn collect<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut trailers = Self::default();
        for (name, value) in fields {
            trailers.put(name);
            trailers.put(value);
        }
        trailers
    }

    fn put(&mut self, text: &[u8]) {
        let length = u32::try_from(text.len()).expect("a head is far below 4 GiB");
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(text);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || Some((take(&mut rest)?, take(&mut rest)?)))
    }
}

/// The next name or value.
fn take<'t>(rest: &mut &'t [u8]) -> Option<&'t [u8]> {
    let (length, behind) = rest.split_first_chunk::<LENGTH>()?;
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
