//! Writes heads as canonical bytes: one space after each colon, CRLF after each line, an HTTP/1.1 request line.

use crate::bytes::{is_visible, push_escape};
use crate::{Head, Known, Version};

/// The hop-by-hop information of a request.
#[derive(Debug, Default, Clone, Copy)]
pub struct RequestHop<'a> {
    /// Whether its body is chunked.
    pub chunked: bool,
    /// The requested upgrade.
    pub upgrade: Option<&'a [u8]>,
    /// The `Connection` option, if it is sent and no upgrade is requested.
    pub connection: Option<&'a [u8]>,
    /// Whether the endpoint gets an HTTP/1.0 request.
    pub http10: bool,
}

/// Writes a request with this target, in the hop's own version (RFC 9112 §2.3).
///
/// Bytes that a target must not contain are escaped, so that a target made from a decoded path cannot split the request
/// line.
pub fn write_request(head: &Head, target: &[u8], hop: &RequestHop<'_>, out: &mut Vec<u8>) {
    out.reserve(head.capacity_hint() + target.len() + 32);
    out.extend_from_slice(head.method_bytes());
    out.push(b' ');
    if is_visible(target) {
        out.extend_from_slice(target);
    } else {
        write_escaped(target, out);
    }
    out.extend_from_slice(if hop.http10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
    head.for_each_run(|lines| out.extend_from_slice(lines));
    if hop.chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    // "A sender of TE MUST also send a "TE" connection option" (RFC 9110 §10.1.4).
    if hop.upgrade.is_none() && head.first(Known::Te).is_some() {
        out.extend_from_slice(b"Connection: TE\r\n");
    }
    if let (Some(option), None) = (hop.connection, hop.upgrade) {
        out.extend_from_slice(b"Connection: ");
        out.extend_from_slice(option);
        out.extend_from_slice(b"\r\n");
    }
    if let Some(protocol) = hop.upgrade {
        out.extend_from_slice(b"Connection: upgrade\r\nUpgrade: ");
        out.extend_from_slice(protocol);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes a response.
pub fn write_response(head: &Head, version: Version, out: &mut Vec<u8>) {
    let (status, reason) = (head.status(), head.reason());
    out.reserve(head.capacity_hint() + 48);
    let mut line = match version {
        Version::Http11 | Version::Http2 | Version::Http3 => *b"HTTP/1.1 000 ",
        Version::Http10 => *b"HTTP/1.0 000 ",
    };
    for (at, unit) in [(9, 100), (10, 10), (11, 1)] {
        line[at] += (status / unit % 10) as u8;
    }
    out.extend_from_slice(&line);
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
    head.for_each_run(|lines| out.extend_from_slice(lines));
    out.extend_from_slice(b"\r\n");
}

#[cold]
fn write_escaped(target: &[u8], out: &mut Vec<u8>) {
    for &byte in target {
        if byte.is_ascii_graphic() { out.push(byte) } else { push_escape(byte, out) }
    }
}
