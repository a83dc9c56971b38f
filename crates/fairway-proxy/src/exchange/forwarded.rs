//! Who the client is, and how the endpoint is told.
//!
//! What the client says of itself counts only when its peer is in a trusted range. What is replaced is kept under
//! `X-Original-*`, as ingress-nginx does. Other claims of strangers never come here (`fields`).

use fairway_http::{Head, Known, identify, write_ip};

use crate::buffers::Buffers;
use crate::request::client::{Client, Trust, forwarded_host};

/// Rewrites the forwarding headers of the request in the buffers.
pub(crate) fn rewrite(buffers: &mut Buffers, client: &Client, id: impl FnOnce() -> u128) {
    let Buffers { request, text, forms, .. } = buffers;
    keep_original(request, client, text);
    let mut chain = Vec::new();
    let appends = client.appends && client.trust == Trust::Trusted;
    if appends {
        for said in request.all(Known::XForwardedFor) {
            chain.extend_from_slice(said);
            chain.extend_from_slice(b", ");
        }
        write_ip(&mut chain, client.peer);
    }
    let said = match client.trust {
        Trust::Trusted => forwarded_host(request),
        Trust::Stranger => None,
    };
    let host = match said {
        Some(said) => said,
        None if !forms.read().host.is_empty() => &forms.read().host,
        None => request.first(Known::Host).unwrap_or_default(),
    };
    text.clear();
    text.extend_from_slice(host);
    for known in Known::OF_THE_CLIENT {
        request.remove_known(known);
    }
    request.append_known(Known::XForwardedHost, |value| value.extend_from_slice(text));
    request.append_known(Known::XForwardedFor, |value| match appends {
        true => value.extend_from_slice(&chain),
        false => client.write_address(value),
    });
    request.append_known(Known::XRealIp, |value| client.write_address(value));
    request.append_known(Known::XForwardedPort, |value| {
        value.extend_from_slice(itoa::Buffer::new().format(client.port).as_bytes());
    });
    request.append_ready(client.scheme.fields());
    identify(request, id);
}

/// Adds no more than the address of the client and what identifies the request.
pub(crate) fn name_client(request: &mut Head, client: &Client, id: impl FnOnce() -> u128) {
    request.append_known(Known::XForwardedFor, |value| client.write_address(value));
    identify(request, id);
}

fn keep_original(request: &mut Head, client: &Client, text: &mut Vec<u8>) {
    let all = [
        (Known::XForwardedHost, Known::XOriginalForwardedHost),
        (Known::XForwardedFor, Known::XOriginalForwardedFor),
    ];
    for (said, kept) in all.into_iter().take(if client.keeps_original { 1 } else { 2 }) {
        request.remove_known(kept);
        let Some(value) = request.first(said).filter(|value| !value.is_empty()) else { continue };
        text.clear();
        text.extend_from_slice(value);
        request.append_known(kept, |value| value.extend_from_slice(text));
    }
}
