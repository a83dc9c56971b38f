//! How a codec fills a head, and gets out what it writes: bytes are copied once, and spans say what they are.

use super::{Field, Head, Known, Method, Span, Start, Version, offset};

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
    pub fn found_response(&mut self, status: u16, reason: Span) {
        self.start = Start::Response { status, reason };
    }

    /// A field lies there as `name: value CRLF`: the name's span, and where the value ends.
    #[inline]
    pub fn found_field(&mut self, name: Span, end: usize) -> Known {
        let known = Known::of(name.of(&self.bytes));
        self.present |= known.bit();
        self.fields.push(Field { start: name.start, name_end: name.end, end: offset(end), known });
        known
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
