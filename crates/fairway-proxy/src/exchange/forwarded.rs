//! Who the client is, and how the endpoint is told.
//!
//! What the client says of itself counts only when its peer is in a trusted range; else it is replaced and kept under
//! `X-Original-*`, as ingress-nginx does. Other claims of strangers never come here (`fields`).

use std::io::Write;
use std::net::IpAddr;

use fairway_message::{Head, Known};

use crate::buffers::Buffers;
use crate::request::client::{Client, Trust};
use crate::request::id::identify;

/// Rewrites the forwarding headers of the request in the buffers.
pub(crate) fn rewrite(buffers: &mut Buffers, client: &Client, id: impl FnOnce() -> u128) {
    let Buffers { request, text, forms, .. } = buffers;
    match client.trust {
        Trust::Stranger => keep_original(request, text),
        Trust::Trusted => {}
    }
    let mut chain = Vec::new();
    let mut last = client.address;
    if client.appends && client.trust == Trust::Trusted {
        for said in request.all(Known::XForwardedFor) {
            chain.extend_from_slice(said);
            chain.extend_from_slice(b", ");
        }
        last = client.peer;
    }
    let host = match (client.trust, request.first(Known::XForwardedHost)) {
        (Trust::Trusted, Some(said)) => said,
        _ if !forms.read().host.is_empty() => &forms.read().host,
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
    identify(request, id);
}

/// Adds no more than the address of the client and what identifies the request.
pub(crate) fn name_client(request: &mut Head, client: IpAddr, id: impl FnOnce() -> u128) {
    request.append_known(Known::XForwardedFor, |value| write_ip(value, client));
    identify(request, id);
}

/// Whether [`rewrite`] writes a field.
pub(crate) fn is_ours(known: Known) -> bool {
    REPLACED.contains(&known) || matches!(known, Known::XOriginalForwardedFor | Known::XOriginalForwardedHost)
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
        let (mut text, mut length) = ([0; 16], 0);
        for octet in v4.octets() {
            for (least, unit) in [(100, 100), (10, 10), (0, 1)] {
                if octet >= least {
                    text[length] = b'0' + octet / unit % 10;
                    length += 1;
                }
            }
            text[length] = b'.';
            length += 1;
        }
        into.extend_from_slice(&text[..length - 1]);
    } else {
        write!(into, "{address}").expect("a vector takes every write");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_library_writes_them() {
        let each = (0..=255).map(|octet| IpAddr::from([octet, 255 - octet, octet / 3, 10]));
        for address in each.chain(["::1".parse().unwrap(), "2001:db8::a:0:1".parse().unwrap()]) {
            let mut written = Vec::new();
            write_ip(&mut written, address);
            assert_eq!(String::from_utf8(written).unwrap(), address.to_string());
        }
    }
}
