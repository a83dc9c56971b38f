//! What a request's head says about its hop where requests are streams of a connection: HTTP/2 and HTTP/3. The codec has
//! checked the head already.

use fairway_connection::sides::{Arrival, Persistence, Upgrade};
use fairway_connection::websocket;
use fairway_http::{BodySize, Head, Known, Malformed, Span, Version};

/// What a head of a request in `version` says about its hop; it is removed from the head.
pub(super) fn arrival(
    head: &mut Head,
    version: Version,
    head_bytes: usize,
    end: bool,
    length: Option<u64>,
) -> Arrival {
    head.set_version(version);
    let body = match (end, length) {
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
    Arrival { head_bytes, body: Ok(body), expects_continue, persistence, upgrade }
}

/// Makes CONNECT for a WebSocket the handshake that it would be in HTTP/1, with a key of ours: a client has none here (RFC 8441
/// §5, RFC 9220 §3). Any other protocol stays CONNECT, which is refused.
#[cold]
pub(super) fn switch(
    head: &mut Head,
    arrival: &mut Arrival,
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
    // What follows is the tunnel's, unless its length says otherwise.
    if length.unwrap_or(0) == 0 {
        arrival.body = Ok(BodySize::None);
    }
}
