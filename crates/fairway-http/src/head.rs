//! The head of a message: start line and fields in one reusable buffer, with spans into it.
//!
//! A codec fills it (`fill`), the methods here read and edit it. Knows only the names of fields, not their meaning.

mod field;
mod fill;
mod header_names;
mod method;
mod nominated;
pub(crate) mod ready;
mod reason;
pub(crate) mod spelling;

pub use field::{FieldRef, Span};
pub use header_names::Known;
pub use method::{Method, Version};

use field::Field;

use crate::bytes::is_token;

/// Initial capacity; few messages have more fields. A head waits with its stream, so spare capacity costs memory.
const FIELDS: usize = 12;

/// The start line.
#[derive(Debug, Clone, Copy)]
enum StartLine {
    None,
    Request { method: Method, name: Span, target: Span },
    Response { status: u16, reason: Span },
}

/// Limits of a message head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the head.
    pub head_bytes: u32,
    /// Number of fields.
    pub fields: u16,
    /// Bytes of the start line.
    pub line_bytes: u32,
}

impl Default for HeadLimits {
    fn default() -> Self {
        HeadLimits { head_bytes: 32 * 1024, fields: 100, line_bytes: 8 * 1024 }
    }
}

/// A message head. Reused for many messages: its buffers grow once.
#[derive(Debug, Clone)]
pub struct Head {
    bytes: Vec<u8>,
    fields: Vec<Field>,
    /// The fields that `Connection` nominated. Boxed, because nearly no request has any.
    #[expect(clippy::box_collection, reason = "two heads of each waiting stream keep it")]
    nominated: Option<Box<Vec<Field>>>,
    /// The known names that may be present, so that looking for an absent one costs nothing.
    present: u64,
    version: Version,
    start: StartLine,
}

impl Default for Head {
    fn default() -> Self {
        Head::new()
    }
}

impl Head {
    /// An empty head.
    pub const fn new() -> Self {
        Head {
            bytes: Vec::new(),
            fields: Vec::new(),
            nominated: None,
            present: 0,
            version: Version::Http11,
            start: StartLine::None,
        }
    }

    /// Clears the message and keeps the buffers.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        self.nominated = None;
        self.present = 0;
        self.version = Version::Http11;
        self.start = StartLine::None;
    }

    /// Bytes of memory that its buffers keep.
    #[inline]
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.bytes.capacity() + self.fields.capacity() * size_of::<Field>()
    }

    /// Clears the head and starts a response with the usual reason phrase.
    pub fn start_response(&mut self, status: u16) {
        self.clear();
        self.bytes.extend_from_slice(reason::phrase(status).as_bytes());
        self.start = StartLine::Response { status, reason: Span::new(0, self.bytes.len()) };
    }

    /// Clears the head and starts a request. `method` is a token.
    pub fn start_request(&mut self, method: &[u8], target: &[u8]) {
        debug_assert!(is_token(method));
        self.clear();
        self.bytes.extend_from_slice(method);
        self.bytes.extend_from_slice(target);
        let name = Span::new(0, method.len());
        let target = Span::new(method.len(), self.bytes.len());
        self.start = StartLine::Request { method: Method::from_name(method), name, target };
    }

    /// The version of a received message, HTTP/1.1 for one started here.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Sets the version that the message was received in.
    #[inline]
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// The method of a request.
    #[inline]
    pub fn method(&self) -> Method {
        match self.start {
            StartLine::Request { method, .. } => method,
            _ => Method::Other,
        }
    }

    /// The method of a request as it was written.
    #[inline]
    pub fn method_bytes(&self) -> &[u8] {
        match self.start {
            StartLine::Request { name, .. } => name.slice(&self.bytes),
            _ => b"",
        }
    }

    /// The request target as received.
    #[inline]
    pub fn target(&self) -> &[u8] {
        match self.start {
            StartLine::Request { target, .. } => target.slice(&self.bytes),
            _ => b"",
        }
    }

    /// Changes the method, which is a token; target and fields stay.
    pub fn set_method(&mut self, method: &[u8]) {
        debug_assert!(is_token(method));
        let name = self.append_text(method);
        if let StartLine::Request { target, .. } = self.start {
            self.start = StartLine::Request { method: Method::from_name(method), name, target };
        }
    }

    /// The status of a response, 0 for a request.
    #[inline]
    pub fn status(&self) -> u16 {
        match self.start {
            StartLine::Response { status, .. } => status,
            _ => 0,
        }
    }

    /// Changes the status and its reason phrase; the fields stay.
    pub fn set_status(&mut self, status: u16) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(reason::phrase(status).as_bytes());
        self.start = StartLine::Response { status, reason: Span::new(start, self.bytes.len()) };
    }

    /// The reason phrase of a response; empty if it has non-ASCII bytes.
    #[inline]
    pub fn reason(&self) -> &[u8] {
        match self.start {
            StartLine::Response { reason, .. } => reason.slice(&self.bytes),
            _ => b"",
        }
    }

    /// The fields in order.
    #[inline]
    pub fn fields(&self) -> impl Iterator<Item = FieldRef<'_>> {
        self.fields.iter().map(|field| field.field_ref(&self.bytes))
    }

    /// The number of fields.
    #[inline]
    pub fn field_count(&self) -> usize {
        self.fields.len()
    }

    /// The first value of a known name.
    #[inline]
    pub fn first(&self, known: Known) -> Option<&[u8]> {
        self.all(known).next()
    }

    /// All values of a known name.
    #[inline]
    pub fn all(&self, known: Known) -> impl DoubleEndedIterator<Item = &[u8]> {
        let fields = if self.may_have(known.bit()) { &self.fields[..] } else { &[] };
        fields.iter().filter(move |field| field.known == known).map(|field| field.value(&self.bytes))
    }

    /// The first value of a name in any case.
    #[inline]
    pub fn named(&self, name: &[u8]) -> Option<&[u8]> {
        let (known, bytes) = (Known::from_name(name), &self.bytes);
        if !self.may_have(known.bit()) {
            return None;
        }
        self.fields.iter().find(|field| field.matches(known, name, bytes)).map(|field| field.value(bytes))
    }

    /// All values of a name in any case.
    pub fn all_named<'a>(&'a self, name: &'a [u8]) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let (known, bytes) = (Known::from_name(name), &self.bytes);
        self.fields
            .iter()
            .filter(move |field| field.matches(known, name, bytes))
            .map(|field| field.value(bytes))
    }

    /// Appends a field. `name` is a token.
    #[inline]
    pub fn append(&mut self, name: &[u8], value: &[u8]) {
        self.append_with(name, |bytes| bytes.extend_from_slice(value));
    }

    /// Appends a field whose value is written in place; `write` must only append.
    #[inline]
    pub fn append_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let field = self.lay(name, Known::from_name(name), write);
        self.add(field);
    }

    #[inline]
    fn add(&mut self, field: Field) {
        if self.fields.len() == self.fields.capacity() {
            self.make_room();
        }
        self.present |= field.known.bit();
        self.fields.push(field);
    }

    /// Doubles the capacity, starting at [`FIELDS`].
    #[cold]
    fn make_room(&mut self) {
        self.fields.reserve_exact(self.fields.len().max(FIELDS));
    }

    /// Appends a field with a known name. `write` must only append, and must not write CR, LF or NUL: digits, names,
    /// parts of received values. Not for decoded text.
    #[inline]
    pub fn append_known(&mut self, known: Known, write: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!(known != Known::Other);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(known.line_start());
        let value = self.bytes.len();
        write(&mut self.bytes);
        let end = self.bytes.len();
        assert!(value <= end, "a value is only appended");
        debug_assert!(memchr::memchr3(b'\r', b'\n', 0, &self.bytes[value..]).is_none());
        self.bytes.extend_from_slice(b"\r\n");
        self.add(Field::at(start, value - 2, end, known));
    }

    /// Replaces all fields of this name with one, at the position of the first.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.forget_others(name);
        let known = Known::from_name(name);
        let found = match self.may_have(known.bit()) {
            true => self.fields.iter().position(|field| field.matches(known, name, &self.bytes)),
            false => None,
        };
        let field = self.lay(name, known, |bytes| bytes.extend_from_slice(value));
        let Some(first) = found else { return self.add(field) };
        self.fields[first] = field;
        let bytes = &self.bytes;
        let mut at = 0;
        self.fields.retain(|field| {
            at += 1;
            at <= first + 1 || !field.matches(known, name, bytes)
        });
    }

    /// Changes each value of this name to what `change` writes, if it returns true. `scratch` is a buffer for it.
    pub fn change_each(
        &mut self,
        name: &[u8],
        scratch: &mut Vec<u8>,
        mut change: impl FnMut(&[u8], &mut Vec<u8>) -> bool,
    ) {
        let known = Known::from_name(name);
        if !self.may_have(known.bit()) {
            return;
        }
        for at in 0..self.fields.len() {
            let field = &self.fields[at];
            scratch.clear();
            if !field.matches(known, name, &self.bytes) || !change(field.value(&self.bytes), scratch) {
                continue;
            }
            let sensitive = field.sensitive;
            let changed = self.lay(name, known, |bytes| bytes.extend_from_slice(scratch));
            self.fields[at] = Field { sensitive, ..changed };
        }
    }

    /// Removes all fields of this name.
    pub fn remove(&mut self, name: &[u8]) {
        self.forget_others(name);
        let known = Known::from_name(name);
        if known == Known::Other {
            let bytes = &self.bytes;
            self.fields.retain(|field| !field.matches(known, name, bytes));
        } else {
            self.remove_known(known);
        }
    }

    /// Removes fields whose names are read like this name but written differently.
    #[inline]
    fn forget_others(&mut self, name: &[u8]) {
        if self.has_loose_names() {
            self.remove_spellings(name);
        }
        if self.has_nominated() {
            self.forget_nominated(name);
        }
    }

    /// Removes all fields of a known name.
    #[inline]
    pub fn remove_known(&mut self, known: Known) {
        if known != Known::Other && self.may_have(known.bit()) {
            self.remove_set(known.bit());
        }
    }

    /// Removes all fields whose known name is in the set (of [`Known::bit`]).
    pub fn remove_set(&mut self, set: u64) {
        for fields in [Some(&mut self.fields), self.nominated.as_deref_mut()].into_iter().flatten() {
            fields.retain(|field| field.known.bit() & set == 0);
        }
        self.present &= !set;
    }

    /// Removes the fields that are always hop-by-hop, whatever `Connection` says ([`Known::HOP_BY_HOP`]).
    #[inline]
    pub fn remove_hop_by_hop(&mut self) {
        if self.may_have(Known::HOP_BY_HOP) {
            self.remove_set(Known::HOP_BY_HOP);
        }
    }

    /// Whether a field with a name in this set (of [`Known::bit`]) may be present; `false` is certain.
    #[inline]
    #[must_use]
    pub fn may_have(&self, set: u64) -> bool {
        self.present & set != 0
    }

    /// Keeps the fields for which `keeps` returns true.
    #[inline]
    pub fn retain(&mut self, keeps: impl Fn(FieldRef<'_>) -> bool) {
        let bytes = &self.bytes;
        for fields in [Some(&mut self.fields), self.nominated.as_deref_mut()].into_iter().flatten() {
            fields.retain(|field| keeps(field.field_ref(bytes)));
        }
    }

    /// Writes `name: value CRLF` to the end of the buffer.
    ///
    /// "a recipient of CR, LF, or NUL within a field value MUST either reject the message or replace each of those
    /// characters with SP" (RFC 9110 §5.5). The same is done for values written here, so that no decoded capture can
    /// split a head.
    #[inline]
    fn lay(&mut self, name: &[u8], known: Known, write: impl FnOnce(&mut Vec<u8>)) -> Field {
        debug_assert!(is_token(name));
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        let value = self.bytes.len();
        write(&mut self.bytes);
        let end = self.bytes.len();
        assert!(value <= end, "a value is only appended");
        if memchr::memchr3(b'\r', b'\n', 0, &self.bytes[value..]).is_some() {
            blank_line_breaks(&mut self.bytes[value..]);
        }
        self.bytes.extend_from_slice(b"\r\n");
        Field::at(start, value - 2, end, known)
    }
}

#[cold]
fn blank_line_breaks(value: &mut [u8]) {
    for byte in value {
        if matches!(*byte, b'\r' | b'\n' | 0) {
            *byte = b' ';
        }
    }
}
