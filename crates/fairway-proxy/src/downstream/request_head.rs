//! Framing and hop-by-hop properties of HTTP/2 and HTTP/3 request heads, which the codec has already validated.

use fairway_connection::sides::{Persistence, RequestMeta, Upgrade};
use fairway_connection::websocket;
use fairway_http::{BodySize, Head, Known, Malformed, Span, Version};

/// Reads the hop-by-hop properties of a request head in `version` and removes them.
pub(super) fn read_arrival(
    head: &mut Head,
    version: Version,
    head_bytes: usize,
    is_end: bool,
    length: Option<u64>,
) -> RequestMeta {
    head.set_version(version);
    let body = match (is_end, length) {
        (true, _) => BodySize::None,
        (false, Some(length)) => BodySize::Exact(length),
        (false, None) => BodySize::Unknown,
    };
    let expects_continue = match head.first(Known::Expect) {
        None => Ok(false),
        Some(expected) if expected.eq_ignore_ascii_case(b"100-continue") => Ok(true),
        Some(_) => Err(Malformed::ExpectationUnsupported),
    };
    head.remove_hop_by_hop();
    let (persistence, upgrade) = (Persistence::KeepAlive, Upgrade::None);
    let head_bytes = u32::try_from(head_bytes).unwrap_or(u32::MAX);
    RequestMeta { head_bytes, body: Ok(body), expects_continue, persistence, upgrade }
}

/// Turns an extended CONNECT for a WebSocket into the HTTP/1.1 handshake, with a key generated here: HTTP/2 and
/// HTTP/3 clients send none (RFC 8441 §5, RFC 9220 §3). Other protocols stay CONNECT, which is refused.
#[cold]
pub(super) fn upgrade_connect(
    head: &mut Head,
    arrival: &mut RequestMeta,
    protocol: Span,
    length: Option<u64>,
    nonce: u128,
) {
    if !head.text(protocol).eq_ignore_ascii_case(b"websocket") {
        return;
    }
    head.set_method(b"GET");
    head.set(b"Sec-WebSocket-Key", websocket::key(nonce).as_bytes());
    arrival.upgrade = Upgrade::WebSocket;
    // Data that follows belongs to the tunnel, unless there is a content length.
    if length.unwrap_or(0) == 0 {
        arrival.body = Ok(BodySize::None);
    }
}
