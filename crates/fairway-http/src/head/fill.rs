//! Methods for codecs: filling a head and reading its parts. Bytes are copied once; spans refer to them.

use super::field::offset;
use super::{Field, FieldRef, Head, Known, Method, Span, StartLine, Version};

impl Head {
    /// Starts a received message with these bytes. [`Head::found_request`] or [`Head::set_response_spans`], and
    /// [`Head::add_field_span`] say what they are.
    #[inline]
    pub fn receive(&mut self, text: &[u8], version: Version) {
        self.clear();
        self.bytes.extend_from_slice(text);
        self.version = version;
    }

    /// Makes it a request with a method and a target at these positions.
    #[inline]
    pub fn found_request(&mut self, method: Span, target: Span) {
        let name = method;
        self.start = StartLine::Request { method: Method::from_name(name.slice(&self.bytes)), name, target };
    }

    /// Makes it a response with a reason phrase at this position.
    #[inline]
    pub(crate) fn set_response_spans(&mut self, status: u16, reason: Span) {
        self.start = StartLine::Response { status, reason };
    }

    /// Adds the field `name: value CRLF` at this position: the span of its name, and the end of its value.
    #[inline]
    pub(crate) fn add_field_span(&mut self, name: Span, end: usize) -> Known {
        let known = Known::from_name(name.slice(&self.bytes));
        self.add(Field { start: name.start, name_end: name.end, end: offset(end), known, sensitive: false });
        known
    }

    /// Appends bytes that belong to no field, such as a method or a target, and returns their position.
    #[inline]
    pub fn append_text(&mut self, text: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        Span::new(start, self.bytes.len())
    }

    /// The bytes appended by [`Head::append_text`].
    #[inline]
    #[must_use]
    pub fn text(&self, span: Span) -> &[u8] {
        span.slice(&self.bytes)
    }

    /// Appends a field as a prepared line `name: value CRLF`, from a codec that has checked it. The first `name_bytes`
    /// bytes are the name.
    #[inline]
    pub fn lay_line(&mut self, line: &[u8], name_bytes: usize, known: Known, sensitive: bool) {
        debug_assert!(line.ends_with(b"\r\n") && &line[name_bytes..name_bytes + 2] == b": ");
        let start = self.bytes.len();
        self.bytes.extend_from_slice(line);
        let field = Field::at(start, start + name_bytes, self.bytes.len() - 2, known);
        self.add(Field { sensitive, ..field });
    }

    /// Continues the value of the last field.
    pub fn extend_last(&mut self, separator: &[u8], value: &[u8], sensitive: bool) {
        let Some(last) = self.fields.last_mut() else { return };
        debug_assert_eq!(
            last.end as usize + 2,
            self.bytes.len(),
            "nothing was appended behind the last field"
        );
        self.bytes.truncate(last.end as usize);
        self.bytes.extend_from_slice(separator);
        self.bytes.extend_from_slice(value);
        last.end = offset(self.bytes.len());
        last.sensitive |= sensitive;
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends the fields of another head for which `keeps` returns true.
    pub fn copy_fields(&mut self, from: &Head, keeps: impl Fn(FieldRef<'_>) -> bool) {
        for field in from.fields.iter().filter(|field| keeps(field.field_ref(&from.bytes))) {
            let start = offset(self.bytes.len());
            self.bytes.extend_from_slice(&from.bytes[field.start as usize..field.end as usize + 2]);
            let moved_offset = |offset: u32| offset - field.start + start;
            self.add(Field {
                start,
                name_end: moved_offset(field.name_end),
                end: moved_offset(field.end),
                ..*field
            });
        }
        if from.has_loose_names() {
            self.note_loose_names();
        }
    }

    /// Joins all fields of this name into one at the end, which is sensitive if one of them was.
    pub fn join(&mut self, name: &[u8], separator: &[u8]) {
        let known = Known::from_name(name);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        let name_end = offset(self.bytes.len());
        self.bytes.extend_from_slice(b": ");
        let (mut count, mut sensitive) = (0, false);
        for field in &self.fields {
            if field.matches(known, name, &self.bytes) {
                if count > 0 {
                    self.bytes.extend_from_slice(separator);
                }
                count += 1;
                sensitive |= field.sensitive;
                self.bytes.extend_from_within(field.name_end as usize + 2..field.end as usize);
            }
        }
        if count < 2 {
            return self.bytes.truncate(start);
        }
        let end = offset(self.bytes.len());
        self.bytes.extend_from_slice(b"\r\n");
        let bytes = &self.bytes;
        self.fields.retain(|field| !field.matches(known, name, bytes));
        self.add(Field { start: offset(start), name_end, end, known, sensitive });
    }

    /// The fields in order, each with whether it must never enter a compression table (RFC 7541 §7.1.3).
    #[inline]
    pub fn marked_fields(&self) -> impl Iterator<Item = (FieldRef<'_>, bool)> {
        self.fields.iter().map(|field| (field.field_ref(&self.bytes), field.sensitive))
    }

    /// The size of the buffer, including lines that were edited away.
    #[inline]
    #[must_use]
    pub fn capacity_hint(&self) -> usize {
        self.bytes.len()
    }

    /// The fields as lines `name: value CRLF` in the buffer; neighbours are passed together.
    #[inline]
    pub fn for_each_run<'a>(&'a self, mut take: impl FnMut(&'a [u8])) {
        let (mut from, mut to) = (0, 0);
        for field in &self.fields {
            if field.start != to {
                take(&self.bytes[from as usize..to as usize]);
                from = field.start;
            }
            to = field.end + 2;
        }
        take(&self.bytes[from as usize..to as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(head: &Head) -> Vec<(&[u8], &[u8], bool)> {
        head.marked_fields().map(|(field, sensitive)| (field.name, field.value, sensitive)).collect()
    }

    #[test]
    fn ready_lines_become_fields() {
        let mut head = Head::new();
        let method = head.append_text(b"GET");
        let target = head.append_text(b"/a");
        head.lay_line(b"host: a\r\n", 4, Known::Host, false);
        head.lay_line(b"x: y\r\n", 1, Known::Other, true);
        head.found_request(method, target);
        assert_eq!((head.method(), head.target(), head.text(method)), (Method::Get, &b"/a"[..], &b"GET"[..]));
        assert_eq!(head.first(Known::Host), Some(&b"a"[..]));
        assert_eq!(listed(&head), [(&b"host"[..], &b"a"[..], false), (b"x", b"y", true)]);
        let mut lines = Vec::new();
        head.for_each_run(|run| lines.extend_from_slice(run));
        assert_eq!(lines, b"host: a\r\nx: y\r\n");
    }

    #[test]
    fn fields_are_copied_from_one_head_to_another() {
        let (mut one, mut other) = (Head::new(), Head::new());
        one.lay_line(b"Host: a\r\n", 4, Known::Host, false);
        one.append(b"x", b"y");
        one.set(b"Host", b"b");
        one.lay_line(b"z: \r\n", 1, Known::Other, true);
        other.start_request(b"GET", b"/");
        other.append(b"w", b"v");
        other.copy_fields(&one, |field| field.name != b"x");
        assert_eq!(
            listed(&other),
            [(&b"w"[..], &b"v"[..], false), (b"Host", b"b", false), (b"z", b"", true)]
        );
        assert_eq!(other.first(Known::Host), Some(&b"b"[..]));
    }

    #[test]
    fn the_last_field_can_be_continued() {
        let mut head = Head::new();
        head.append(b"cookie", b"a=1");
        head.extend_last(b"; ", b"b=2", true);
        head.append(b"x", b"y");
        assert_eq!(listed(&head), [(&b"cookie"[..], &b"a=1; b=2"[..], true), (b"x", b"y", false)]);
    }

    #[test]
    fn fields_of_one_name_are_joined_and_stay_sensitive() {
        let mut head = Head::new();
        head.append(b"cookie", b"a=1");
        head.append(b"x", b"y");
        head.join(b"cookie", b"; ");
        assert_eq!(listed(&head), [(&b"cookie"[..], &b"a=1"[..], false), (b"x", b"y", false)]);
        head.lay_line(b"cookie: b=2\r\n", 6, Known::Other, true);
        head.join(b"cookie", b"; ");
        assert_eq!(listed(&head), [(&b"x"[..], &b"y"[..], false), (b"cookie", b"a=1; b=2", true)]);
    }
}
