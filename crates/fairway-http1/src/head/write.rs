//! A head as canonical bytes: one space after each colon, CRLF after each line, an HTTP/1.1 request line.
//! Never reads what the fields mean.

use super::{Head, Start, Version};
use crate::bytes::{is_visible, push_escape};

impl Head {
    /// Writes a request with this target, always as HTTP/1.1 (RFC 9112 §2.3: a version is per hop).
    ///
    /// Bytes that no target may have are escaped, so that a target made from a decoded path cannot split
    /// the request line.
    pub fn write_request(&self, target: &[u8], out: &mut Vec<u8>) {
        out.reserve(self.bytes.len() + target.len() + 32);
        out.extend_from_slice(self.method_bytes());
        out.push(b' ');
        if is_visible(target) {
            out.extend_from_slice(target);
        } else {
            write_escaped(target, out);
        }
        out.extend_from_slice(b" HTTP/1.1\r\n");
        self.write_fields(out);
    }

    /// Writes a response.
    pub fn write_response(&self, version: Version, out: &mut Vec<u8>) {
        let (status, reason) = match self.start {
            Start::Response { status, reason } => (status, reason.of(&self.bytes)),
            _ => (0, &b""[..]),
        };
        out.reserve(self.bytes.len() + 48);
        let mut line = match version {
            Version::Http11 => *b"HTTP/1.1 000 ",
            Version::Http10 => *b"HTTP/1.0 000 ",
        };
        for (at, unit) in [(9, 100), (10, 10), (11, 1)] {
            line[at] += (status / unit % 10) as u8;
        }
        out.extend_from_slice(&line);
        out.extend_from_slice(reason);
        out.extend_from_slice(b"\r\n");
        self.write_fields(out);
    }

    /// The field lines and the empty line. Each field lies in the buffer as its canonical line, so
    /// neighbours are copied together.
    fn write_fields(&self, out: &mut Vec<u8>) {
        let (mut from, mut to) = (0, 0);
        for field in &self.fields {
            if field.start != to {
                out.extend_from_slice(&self.bytes[from as usize..to as usize]);
                from = field.start;
            }
            to = field.end + 2;
        }
        out.extend_from_slice(&self.bytes[from as usize..to as usize]);
        out.extend_from_slice(b"\r\n");
    }
}

#[cold]
fn write_escaped(target: &[u8], out: &mut Vec<u8>) {
    for &byte in target {
        if byte.is_ascii_graphic() { out.push(byte) } else { push_escape(byte, out) }
    }
}
