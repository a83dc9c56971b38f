//! Trailers that wait: those of a request until its exchange has read the body, those of an answer until the client has
//! taken it.

use fairway_message::Head;

/// Names and values in one buffer.
#[derive(Debug, Default)]
pub(super) struct Trailers {
    bytes: Vec<u8>,
    /// The ends of each name and value.
    ends: Vec<(usize, usize)>,
}

impl Trailers {
    /// Of a message that came.
    pub(super) fn of(head: &Head) -> Self {
        Self::collect(head.fields().map(|field| (field.name, field.value)))
    }

    /// In their order.
    pub(super) fn collect<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut trailers = Self::default();
        for (name, value) in fields {
            trailers.bytes.extend_from_slice(name);
            let end = trailers.bytes.len();
            trailers.bytes.extend_from_slice(value);
            trailers.ends.push((end, trailers.bytes.len()));
        }
        trailers
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts
            .zip(&self.ends)
            .map(|(start, (name, value))| (&self.bytes[start..*name], &self.bytes[*name..*value]))
    }
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
