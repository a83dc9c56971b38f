//! Fields that are the same in many messages, written once and appended with one copy.

use super::Head;
use super::field::{Field, FieldRef, offset};

/// Such fields.
#[derive(Debug, Clone)]
pub struct ReadyFields {
    lines: Box<[u8]>,
    fields: Box<[Field]>,
    known: u64,
}

impl ReadyFields {
    /// These names, which are tokens, and values.
    #[must_use]
    pub fn new<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut head = Head::new();
        fields.into_iter().for_each(|(name, value)| head.append(name, value));
        Self { lines: head.bytes.into(), fields: head.fields.into(), known: head.present }
    }

    /// Their names and values.
    pub fn iter(&self) -> impl Iterator<Item = FieldRef<'_>> {
        self.fields.iter().map(|field| field.of(&self.lines))
    }
}

impl Head {
    /// Appends all of them.
    #[inline]
    pub fn append_ready(&mut self, ready: &ReadyFields) {
        let by = offset(self.bytes.len());
        self.bytes.extend_from_slice(&ready.lines);
        self.fields.reserve(ready.fields.len());
        let moved = |field: &Field| Field {
            start: field.start + by,
            name_end: field.name_end + by,
            end: field.end + by,
            ..*field
        };
        self.fields.extend(ready.fields.iter().map(moved));
        self.present |= ready.known;
    }

    /// Whether the name of a field begins with `start`, in any case.
    #[inline]
    #[must_use]
    pub fn has_names_in(&self, start: &[u8]) -> bool {
        let begins = |field: &Field| {
            let name = field.name(&self.bytes);
            name.len() >= start.len() && name[..start.len()].eq_ignore_ascii_case(start)
        };
        self.fields.iter().any(begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Known;

    #[test]
    fn ready_fields_are_fields_like_others() {
        let ready = ReadyFields::new([(&b"Server"[..], &b"a"[..]), (b"X-One", b"1\n2")]);
        let mut head = Head::new();
        head.start_response(200);
        head.append(b"Date", b"d");
        head.append_ready(&ready);
        assert_eq!((head.first(Known::Server), head.named(b"x-one")), (Some(&b"a"[..]), Some(&b"1 2"[..])));
        let mut lines = Vec::new();
        head.for_each_run(|run| lines.extend_from_slice(run));
        assert!(lines.ends_with(b"Date: d\r\nServer: a\r\nX-One: 1 2\r\n"));
        head.set(b"X-ONE", b"3");
        assert_eq!((head.named(b"X-One"), head.field_count()), (Some(&b"3"[..]), 3));
    }

    #[test]
    fn names_are_told_by_their_start() {
        let mut head = Head::new();
        head.append(b"X-One", b"1");
        assert!(head.has_names_in(b"x-o") && head.has_names_in(b"X-ONE"));
        assert!(!head.has_names_in(b"x-one-") && !head.has_names_in(b"one"));
    }
}
