//! Who the client is, and how the endpoint is told.
//!
//! What the client says of itself counts only when its peer is in a trusted range; else it is replaced and kept under
//! `X-Original-*`, as ingress-nginx does. Other claims of strangers never come here (`fields`).

use std::io::Write;
use std::net::IpAddr;

use fairway_message::{Head, Known};

use crate::buffers::Buffers;
use crate::request::client::{Client, Trust};

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
    request.append_known(Known::XForwardedHost, |value| value.extend_from_slice(text));
    request.append_known(Known::XForwardedFor, |value| {
        value.extend_from_slice(&chain);
        write_ip(value, last);
    });
    request.append_known(Known::XRealIp, |value| write_ip(value, client.address));
    request.append_known(Known::XForwardedPort, |value| {
        value.extend_from_slice(itoa::Buffer::new().format(client.port).as_bytes());
    });
    for known in [Known::XForwardedProto, Known::XForwardedScheme, Known::XScheme] {
        request.append_known(known, |value| value.extend_from_slice(scheme));
    }
    if request.first(Known::XRequestId).is_none() {
        request.append_known(Known::XRequestId, |value| write_id(value, id()));
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
        (Known::XForwardedFor, Known::XOriginalForwardedFor),
        (Known::XForwardedHost, Known::XOriginalForwardedHost),
    ] {
        let Some(value) = request.first(said) else { continue };
        text.clear();
        text.extend_from_slice(value);
        request.append_known(kept, |value| value.extend_from_slice(text));
    }
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
