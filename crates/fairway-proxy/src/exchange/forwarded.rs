//! Who the client is, and how the endpoint is told.
//!
//! What the client says of itself counts only when its peer is in a trusted range; else it is replaced and kept under
//! `X-Original-*`, as ingress-nginx does. Other claims of strangers never come here (`fields`).

use std::io::Write;
use std::net::IpAddr;

use fairway_message::{Head, Known};
use fairway_model::ForwardedTrust;

use crate::accept::Peer;
use crate::listener::ListenerName;
use crate::worker::Buffers;

/// `http` or `https`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub(crate) const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Who the client is, after trust is settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) address: IpAddr,
    /// Who sent the bytes: the same, or a trusted peer that speaks for it.
    pub(crate) peer: IpAddr,
    pub(crate) scheme: Scheme,
    pub(crate) port: u16,
    pub(crate) trust: Trust,
}

/// Whether the peer may speak for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    Stranger,
    Trusted,
}

impl Client {
    /// Settles who the client of this request is.
    pub(crate) fn of(peer: &Peer, public_port: u16, trust: &ForwardedTrust, request: &Head) -> Self {
        let address = peer.client;
        let scheme = match peer.listener {
            ListenerName::Http => Scheme::Http,
            ListenerName::Https => Scheme::Https,
        };
        let stranger = Self { address, peer: address, scheme, port: public_port, trust: Trust::Stranger };
        if trust.ranges.is_empty() || !is_in(trust, address) {
            return stranger;
        }
        let port = text(request, Known::XForwardedPort).and_then(|port| port.parse().ok());
        let scheme = match text(request, Known::XForwardedProto) {
            Some(proto) if proto.eq_ignore_ascii_case("https") => Scheme::Https,
            Some(proto) if proto.eq_ignore_ascii_case("http") => Scheme::Http,
            _ => scheme,
        };
        let peer = address;
        let address = rightmost_stranger(request, trust).unwrap_or(peer);
        Self { address, peer, scheme, port: port.unwrap_or(public_port), trust: Trust::Trusted }
    }
}

/// Rewrites the forwarding headers of the request in the buffers.
pub(crate) fn rewrite(buffers: &mut Buffers, client: &Client, append: bool, id: impl FnOnce() -> u128) {
    let Buffers { request, text, .. } = buffers;
    match client.trust {
        Trust::Stranger => keep_original(request, text),
        Trust::Trusted => {}
    }
    let mut chain = Vec::new();
    let mut last = client.address;
    if append && client.trust == Trust::Trusted {
        for said in request.all(Known::XForwardedFor) {
            chain.extend_from_slice(said);
            chain.extend_from_slice(b", ");
        }
        last = client.peer;
    }
    let host = match (client.trust, request.first(Known::XForwardedHost)) {
        (Trust::Trusted, Some(said)) => said,
        _ => request.first(Known::Host).unwrap_or_default(),
    };
    text.clear();
    text.extend_from_slice(host);
    for known in REPLACED {
        request.remove_known(known);
    }
    let scheme = client.scheme.as_str().as_bytes();
    request.append(b"X-Forwarded-Host", text);
    request.append_with(b"X-Forwarded-For", |value| {
        value.extend_from_slice(&chain);
        write_ip(value, last);
    });
    request.append_with(b"X-Real-IP", |value| write_ip(value, client.address));
    request.append_with(b"X-Forwarded-Port", |value| {
        value.extend_from_slice(itoa::Buffer::new().format(client.port).as_bytes());
    });
    request.append(b"X-Forwarded-Proto", scheme);
    request.append(b"X-Forwarded-Scheme", scheme);
    request.append(b"X-Scheme", scheme);
    if request.first(Known::XRequestId).is_none() {
        request.append_with(b"X-Request-ID", |value| write_id(value, id()));
    }
}

/// Headers that are always written anew.
const REPLACED: [Known; 7] = [
    Known::XForwardedFor,
    Known::XForwardedHost,
    Known::XForwardedPort,
    Known::XForwardedProto,
    Known::XForwardedScheme,
    Known::XScheme,
    Known::XRealIp,
];

fn keep_original(request: &mut Head, text: &mut Vec<u8>) {
    request.remove_known(Known::XOriginalForwardedFor);
    request.remove_known(Known::XOriginalForwardedHost);
    for (said, kept) in [
        (Known::XForwardedFor, &b"X-Original-Forwarded-For"[..]),
        (Known::XForwardedHost, b"X-Original-Forwarded-Host"),
    ] {
        let Some(value) = request.first(said) else { continue };
        text.clear();
        text.extend_from_slice(value);
        request.append(kept, text);
    }
}

/// The last address of `X-Forwarded-For` that no trusted peer vouches for: whoever the first trusted peer saw. Several
/// lines are one list (RFC 9110 §5.3): a trusted peer may have added its line behind the one that its client sent.
fn rightmost_stranger(request: &Head, trust: &ForwardedTrust) -> Option<IpAddr> {
    let parts = request.all(Known::XForwardedFor).flat_map(|line| line.split(|byte| *byte == b','));
    parts.fold(None, |found, part| match address(part) {
        // What stands before it nobody can have vouched for.
        None => None,
        Some(trusted) if is_in(trust, trusted) => found.or(Some(trusted)),
        stranger => stranger,
    })
}

fn address(part: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(part).ok()?.trim().parse().ok()
}

fn is_in(trust: &ForwardedTrust, address: IpAddr) -> bool {
    trust.ranges.iter().any(|range| range.contains(&address))
}

fn text(request: &Head, known: Known) -> Option<&str> {
    std::str::from_utf8(request.first(known)?).ok().map(str::trim)
}

fn write_ip(into: &mut Vec<u8>, address: IpAddr) {
    if let IpAddr::V4(v4) = address {
        let mut digits = itoa::Buffer::new();
        for (index, octet) in v4.octets().into_iter().enumerate() {
            if index > 0 {
                into.push(b'.');
            }
            into.extend_from_slice(digits.format(octet).as_bytes());
        }
    } else {
        write!(into, "{address}").expect("a vector takes every write");
    }
}

/// 32 hexadecimal digits, as nginx's `$request_id`.
fn write_id(into: &mut Vec<u8>, id: u128) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in id.to_be_bytes() {
        into.push(DIGITS[usize::from(byte >> 4)]);
        into.push(DIGITS[usize::from(byte & 15)]);
    }
}
