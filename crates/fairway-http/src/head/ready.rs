//! Fields that are the same in many messages: formatted once and appended with one copy.

use super::Head;
use super::field::{Field, FieldRef, offset};

/// Prepared fields.
#[derive(Debug, Clone)]
pub struct ReadyFields {
    lines: Box<[u8]>,
    fields: Box<[Field]>,
    known: u64,
    /// The set of name lengths (`length_bit`).
    lengths: u64,
}

impl ReadyFields {
    /// Prepares these names, which are tokens, and values.
    #[must_use]
    pub fn new<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut head = Head::new();
        fields.into_iter().for_each(|(name, value)| head.append(name, value));
        let lengths = head.fields.iter().fold(0, |set, field| set | length_bit(field));
        Self { lines: head.bytes.into(), fields: head.fields.into(), known: head.present, lengths }
    }

    /// Prepares what setting each of these with [`Head::set`] in turn would leave: the last value of each name, at the
    /// position of its first one.
    #[must_use]
    pub fn distinct<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut head = Head::new();
        fields.into_iter().for_each(|(name, value)| head.set(name, value));
        Self::new(head.fields().map(|field| (field.name, field.value)))
    }

    /// Whether it is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The names and values.
    pub fn iter(&self) -> impl Iterator<Item = FieldRef<'_>> {
        self.fields.iter().map(|field| field.field_ref(&self.lines))
    }
}

impl Head {
    /// Appends all of them.
    #[inline]
    pub fn append_ready(&mut self, ready: &ReadyFields) {
        if ready.is_empty() {
            return;
        }
        let shift = offset(self.bytes.len());
        self.bytes.extend_from_slice(&ready.lines);
        self.fields.reserve(ready.fields.len());
        let moved = |field: &Field| Field {
            start: field.start + shift,
            name_end: field.name_end + shift,
            end: field.end + shift,
            ..*field
        };
        self.fields.extend(ready.fields.iter().map(moved));
        self.present |= ready.known;
    }

    /// Sets each of them, as [`Head::set`] does; with one copy if the head has none of their names. The names must be
    /// distinct.
    #[inline]
    pub fn set_ready(&mut self, ready: &ReadyFields) {
        if self.has_loose_names() || self.has_nominated() || self.has_one_of(ready) {
            ready.iter().for_each(|field| self.set(field.name, field.value));
        } else {
            self.append_ready(ready);
        }
    }

    /// Whether the head has a field with one of their names.
    #[inline]
    fn has_one_of(&self, ready: &ReadyFields) -> bool {
        let may_be = |field: &&Field| ready.lengths & length_bit(field) != 0;
        let is_one = |field: &Field| {
            ready.fields.iter().any(|ready_field| {
                field.matches(ready_field.known, ready_field.name(&ready.lines), &self.bytes)
            })
        };
        self.may_have(ready.known) && self.fields.iter().filter(may_be).any(is_one)
    }
}

/// The bit for the length of the name in a set of lengths. Most names that differ have different lengths.
#[inline]
fn length_bit(field: &Field) -> u64 {
    1 << ((field.name_end - field.start) & 63)
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
    fn of_ready_fields_with_one_name_the_last_stands_where_the_first_did() {
        let fields: [(&[u8], &[u8]); 4] = [(b"Date", b"1"), (b"X-A", b"2"), (b"x-a", b"3"), (b"date", b"4")];
        let ready = ReadyFields::distinct(fields);
        let expected: [(&[u8], &[u8]); 2] = [(b"date", b"4"), (b"x-a", b"3")];
        assert_eq!(ready.iter().map(|field| (field.name, field.value)).collect::<Vec<_>>(), expected);
        assert!(ReadyFields::distinct([]).is_empty() && !ready.is_empty());
    }

    #[test]
    fn ready_fields_replace_only_fields_of_the_same_names() {
        let long = [b'x'; 69];
        let ready = ReadyFields::new([(&b"Server"[..], &b"a"[..]), (b"X-One", b"1")]);
        // The names in the head, and the values of all fields afterwards.
        for (names, values) in [
            (&[&b"Date"[..]][..], &["0", "a", "1"][..]),
            (&[b"X-Two", b"X-One-", b"x", &long], &["0", "0", "0", "0", "a", "1"]),
            (&[b"x-one", b"Date", b"X-ONE"], &["1", "0", "a"]),
            (&[b"Date", b"server"], &["0", "a", "1"]),
            (&[b"server", b"x-one"], &["a", "1"]),
            (&[], &["a", "1"]),
        ] {
            let mut head = Head::new();
            names.iter().for_each(|name| head.append(name, b"0"));
            head.set_ready(&ready);
            let found: Vec<_> = head.fields().map(|field| String::from_utf8_lossy(field.value)).collect();
            assert_eq!(found, values, "{names:?}");
            assert_eq!((head.first(Known::Server), head.named(b"X-One")), (Some(&b"a"[..]), Some(&b"1"[..])));
        }
    }
}
