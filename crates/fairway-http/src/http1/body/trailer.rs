//! Trailer fields (RFC 9110 §6.5): which may be forwarded, and reading the section. They are never merged into a head.

use crate::bytes::{is_token, is_value_byte, trimmed};
use crate::{Known, Malformed, Span};

/// "A sender MUST NOT generate a trailer field unless the sender knows the corresponding header field name's definition
/// permits" it; excluded are fields for framing, routing, request modifiers, authentication and content handling (RFC
/// 9110 §6.5.1). This list has those that are not [`Known`].
const FORBIDDEN: [&str; 28] = [
    "age",
    "authorization",
    "cache-control",
    "content-encoding",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "expires",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "range",
    "retry-after",
    "set-cookie",
    "te",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "x-http-method-override",
];

/// Whether a field may be a trailer. Nearly every [`Known`] name is for routing, framing or one hop.
pub(super) fn is_allowed(name: &[u8]) -> bool {
    Known::from_name(name).may_be_trailer()
        && !FORBIDDEN.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

/// A trailer section that is being read.
#[derive(Debug, Default)]
pub(super) struct TrailerSection {
    bytes: Vec<u8>,
    fields: Vec<(Span, Span)>,
    /// Where the current line begins.
    line: usize,
    /// Bytes of the section so far, including dropped fields.
    bytes_taken: u32,
}

impl TrailerSection {
    /// Adds a byte of the section. Returns whether the section is complete.
    pub(super) fn take(&mut self, byte: u8, limit: u32) -> Result<bool, Malformed> {
        let after_return = self.bytes.len() > self.line && self.bytes.last() == Some(&b'\r');
        if (byte == b'\n') != after_return {
            return Err(Malformed::TrailerInvalid);
        }
        // The final empty line is not counted.
        if self.bytes_taken >= limit.saturating_add(2) {
            return Err(Malformed::TrailersTooLarge);
        }
        self.bytes_taken += 1;
        if byte != b'\n' {
            self.bytes.push(byte);
            return Ok(false);
        }
        self.bytes.pop();
        if self.bytes.len() == self.line {
            return Ok(true);
        }
        self.end_line()?;
        Ok(false)
    }

    /// Ends a line and keeps it if it may be forwarded.
    fn end_line(&mut self) -> Result<(), Malformed> {
        let line = &self.bytes[self.line..];
        let colon = memchr::memchr(b':', line).ok_or(Malformed::TrailerInvalid)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if !is_token(name) || !value.iter().all(|&byte| is_value_byte(byte)) {
            return Err(Malformed::TrailerInvalid);
        }
        if !is_allowed(name) {
            self.bytes.truncate(self.line);
            return Ok(());
        }
        let before = value.len() - value.trim_ascii_start().len();
        let start = self.line + colon + 1 + before;
        self.fields
            .push((Span::new(self.line, self.line + colon), Span::new(start, start + trimmed(value).len())));
        self.line = self.bytes.len();
        Ok(())
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(name, value)| (name.slice(&self.bytes), value.slice(&self.bytes)))
    }
}
