//! Writes the headers that describe the client to the endpoint.
//!
//! Values of the client count only if its peer is in a trusted range. Replaced values are kept under `X-Original-*`, as in
//! ingress-nginx. `fields` has already removed other claims of untrusted clients.

use fairway_http::{Head, Known, identify, write_ip};

use crate::buffers::Buffers;
use crate::request::client::{Client, Trust, forwarded_host};

/// Rewrites the forwarding headers of the request in the buffers.
pub(crate) fn rewrite(buffers: &mut Buffers, client: &Client, id: impl FnOnce() -> u128) {
    let Buffers { request, text, extras, .. } = buffers;
    keep_original(request, client, text);
    let mut chain = Vec::new();
    let appends_chain = client.appends_chain && client.trust == Trust::Trusted;
    if appends_chain {
        for said in request.all(Known::XForwardedFor) {
            chain.extend_from_slice(said);
            chain.extend_from_slice(b", ");
        }
        write_ip(&mut chain, client.peer);
    }
    let sent_by_client = match client.trust {
        Trust::Trusted => forwarded_host(request),
        Trust::Untrusted => None,
    };
    let host = match sent_by_client {
        Some(said) => said,
        None if !extras.read().host.is_empty() => &extras.read().host,
        None => request.first(Known::Host).unwrap_or_default(),
    };
    text.clear();
    text.extend_from_slice(host);
    for known in Known::OF_THE_CLIENT {
        request.remove_known(known);
    }
    request.append_known(Known::XForwardedHost, |value| value.extend_from_slice(text));
    request.append_known(Known::XForwardedFor, |value| match appends_chain {
        true => value.extend_from_slice(&chain),
        false => client.write_address(value),
    });
    request.append_known(Known::XRealIp, |value| client.write_address(value));
    request.append_known(Known::XForwardedPort, |value| {
        value.extend_from_slice(itoa::Buffer::new().format(client.port).as_bytes());
    });
    request.append_ready(client.scheme.forwarded_headers());
    identify(request, id);
}

/// Adds only the client's address and the request ID.
pub(crate) fn add_client_headers(request: &mut Head, client: &Client, id: impl FnOnce() -> u128) {
    request.append_known(Known::XForwardedFor, |value| client.write_address(value));
    identify(request, id);
}

fn keep_original(request: &mut Head, client: &Client, text: &mut Vec<u8>) {
    let all = [
        (Known::XForwardedHost, Known::XOriginalForwardedHost),
        (Known::XForwardedFor, Known::XOriginalForwardedFor),
    ];
    for (said, original_name) in all.into_iter().take(if client.keeps_original { 1 } else { 2 }) {
        request.remove_known(original_name);
        let Some(value) = request.first(said).filter(|value| !value.is_empty()) else { continue };
        text.clear();
        text.extend_from_slice(value);
        request.append_known(original_name, |value| value.extend_from_slice(text));
    }
}
