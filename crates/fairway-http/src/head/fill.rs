//! How a codec fills a head, and gets out what it writes: bytes are copied once, and spans say what they are.

use super::field::offset;
use super::{Field, FieldRef, Head, Known, Method, Span, Start, Version};

impl Head {
    /// Begins a received message of these bytes. Which of them are what, [`Head::found_request`] or
    /// [`Head::found_response`] and [`Head::found_field`] tell.
    #[inline]
    pub fn receive(&mut self, text: &[u8], version: Version) {
        self.clear();
        self.bytes.extend_from_slice(text);
        self.version = version;
    }

    /// It is a request with a method and a target, which lie there.
    #[inline]
    pub fn found_request(&mut self, method: Span, target: Span) {
        let name = method;
        self.start = Start::Request { method: Method::of(name.of(&self.bytes)), name, target };
    }

    /// It is a response with a reason phrase, which lies there.
    #[inline]
    pub(crate) fn found_response(&mut self, status: u16, reason: Span) {
        self.start = Start::Response { status, reason };
    }

    /// A field lies there as `name: value CRLF`: the name's span, and where the value ends.
    #[inline]
    pub(crate) fn found_field(&mut self, name: Span, end: usize) -> Known {
        let known = Known::of(name.of(&self.bytes));
        self.add(Field { start: name.start, name_end: name.end, end: offset(end), known, sensitive: false });
        known
    }

    /// Appends bytes that are part of no field, such as a method or a target, and returns where they lie.
    #[inline]
    pub fn lay_text(&mut self, text: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        Span::new(start, self.bytes.len())
    }

    /// The bytes that [`Head::lay_text`] appended.
    #[inline]
    #[must_use]
    pub fn text(&self, span: Span) -> &[u8] {
        span.of(&self.bytes)
    }

    /// Appends a field that comes as a ready line, `name: value CRLF`, from a codec that has checked it. The line begins
    /// with `name_bytes` bytes of name.
    #[inline]
    pub fn lay_line(&mut self, line: &[u8], name_bytes: usize, known: Known, sensitive: bool) {
        debug_assert!(line.ends_with(b"\r\n") && &line[name_bytes..name_bytes + 2] == b": ");
        let start = self.bytes.len();
        self.bytes.extend_from_slice(line);
        let field = Field::at(start, start + name_bytes, self.bytes.len() - 2, known);
        self.add(Field { sensitive, ..field });
    }

    /// Continues the value of the field that was appended last.
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

    /// Appends the fields of another head for which this holds.
    pub fn copy_fields(&mut self, from: &Head, keeps: impl Fn(FieldRef<'_>) -> bool) {
        for field in from.fields.iter().filter(|field| keeps(field.of(&from.bytes))) {
            let start = offset(self.bytes.len());
            self.bytes.extend_from_slice(&from.bytes[field.start as usize..field.end as usize + 2]);
            let moved = |place: u32| place - field.start + start;
            self.add(Field { start, name_end: moved(field.name_end), end: moved(field.end), ..*field });
        }
        if from.has_loose_names() {
            self.note_loose_names();
        }
    }

    /// Joins all fields of this name into one at the end, which is sensitive if one of them was.
    pub fn join(&mut self, name: &[u8], separator: &[u8]) {
        let known = Known::of(name);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        let name_end = offset(self.bytes.len());
        self.bytes.extend_from_slice(b": ");
        let (mut count, mut sensitive) = (0, false);
        for field in &self.fields {
            if field.is(known, name, &self.bytes) {
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
        self.fields.retain(|field| !field.is(known, name, bytes));
        self.add(Field { start: offset(start), name_end, end, known, sensitive });
    }

    /// The fields in their order, each with whether it must never enter a compression table (RFC 7541 §7.1.3).
    #[inline]
    pub fn marked_fields(&self) -> impl Iterator<Item = (FieldRef<'_>, bool)> {
        self.fields.iter().map(|field| (field.of(&self.bytes), field.sensitive))
    }

    /// How many bytes it has, lines that were edited away included.
    #[inline]
    #[must_use]
    pub fn capacity_hint(&self) -> usize {
        self.bytes.len()
    }

    /// The fields as they lie in the buffer, `name: value CRLF` each: neighbours come together.
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
        let method = head.lay_text(b"GET");
        let target = head.lay_text(b"/a");
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
