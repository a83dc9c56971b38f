//! Writes heads as field blocks (RFC 9113 §8.2, §8.3). Fields for one hop were removed before; any that remain are
//! skipped. Knows no frames.

use fairway_http::{Head, Known, Method};

use crate::hpack::Encoder;

/// Appends a request with this target and scheme: `Host` becomes `:authority`.
pub fn write_request(head: &Head, target: &[u8], scheme: &[u8], encoder: &mut Encoder, out: &mut Vec<u8>) {
    encoder.begin_block(out);
    encoder.write_field(b":method", head.method_bytes(), false, out);
    if head.method() != Method::Connect {
        encoder.write_field(b":scheme", scheme, false, out);
    }
    if let Some(host) = head.first(Known::Host).filter(|host| !host.is_empty()) {
        encoder.write_field(b":authority", host, false, out);
    }
    if head.method() != Method::Connect {
        encoder.write_field(b":path", target, false, out);
    }
    write_fields(head, Known::Host.bit(), encoder, out);
    // gRPC requires it as proof that no intermediary drops trailers (gRPC over HTTP2, "Requests").
    let is_grpc = |kind: &[u8]| kind.starts_with(b"application/grpc");
    if !head.may_have(Known::Te.bit()) && head.named(b"content-type").is_some_and(is_grpc) {
        encoder.write_field(b"te", b"trailers", false, out);
    }
}

/// The pseudo-header fields of an extended CONNECT (RFC 8441 §4).
#[derive(Debug, Clone, Copy)]
pub struct Connect<'a> {
    /// `:protocol`
    pub protocol: &'a [u8],
    /// `:scheme`
    pub scheme: &'a [u8],
    /// `:path`
    pub path: &'a [u8],
}

/// Appends an extended CONNECT, whatever the head's method: `Host` becomes `:authority`, and the fields of an HTTP/1
/// WebSocket handshake are omitted (RFC 8441 §5).
pub fn write_connect(head: &Head, connect: &Connect<'_>, encoder: &mut Encoder, out: &mut Vec<u8>) {
    encoder.begin_block(out);
    encoder.write_field(b":method", b"CONNECT", false, out);
    encoder.write_field(b":protocol", connect.protocol, false, out);
    encoder.write_field(b":scheme", connect.scheme, false, out);
    encoder.write_field(b":authority", head.first(Known::Host).unwrap_or_default(), false, out);
    encoder.write_field(b":path", connect.path, false, out);
    let without = Known::Host.bit() | Known::SecWebsocketKey.bit() | Known::ContentLength.bit();
    write_fields(head, without, encoder, out);
}

/// Appends a response.
#[inline]
pub fn write_response(head: &Head, encoder: &mut Encoder, out: &mut Vec<u8>) {
    encoder.begin_block(out);
    encoder.write_status(head.status(), out);
    write_fields(head, 0, encoder, out);
}

/// Appends trailers.
pub fn write_trailers<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
) {
    encoder.begin_block(out);
    for (name, value) in fields {
        encoder.write_field(name, value, false, out);
    }
}

#[inline]
fn write_fields(head: &Head, without: u64, encoder: &mut Encoder, out: &mut Vec<u8>) {
    for (field, sensitive) in head.marked_fields() {
        if field.known.bit() & (Known::HOP_BY_HOP | without) != 0 && !asks_for_trailers(field) {
            continue;
        }
        encoder.write_field(field.name, field.value, sensitive, out);
    }
}

/// `te` may only say `trailers` (RFC 9113 §8.2.2).
fn asks_for_trailers(field: fairway_http::FieldRef<'_>) -> bool {
    field.known == Known::Te && field.value == b"trailers"
}
