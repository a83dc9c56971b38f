//! Redirects, to https or to the target of a rule.

use fairway_model::{HttpsRedirect, PathRewrite, RedirectTarget};
use fairway_routing::{CompiledRedirect, CompiledRewrite};

use super::own_response::{host_for_redirect, start_own_response, without_port};
use super::verdict::{FilterContext, ResponseScope, Verdict};
use crate::buffers::Buffers;
use crate::peer::Scheme;
use crate::request::client::{Client, Trust, forwarded_host};

/// Redirects to https, if the request certainly came over plain HTTP: to the host that the client asked for or, from a trusted
/// peer, the forwarded host (ingress-nginx, `best_http_host`).
pub(super) fn to_https<'r>(
    to: &HttpsRedirect,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    if !context.client.is_plain_http {
        return Verdict::Pass;
    }
    let mut location = b"https://".to_vec();
    let original_host = match context.client.trust {
        Trust::Trusted => forwarded_host(&buffers.request),
        Trust::Untrusted => None,
    };
    location.extend_from_slice(original_host.map_or_else(|| host_for_redirect(buffers), without_port));
    match to.explicit_port {
        true => write_port(&mut location, context.https_port),
        false => push_port(&mut location, Scheme::Https, context.https_port),
    }
    let received = context.intake.received(buffers);
    let trimmed = if to.keep_trailing_slash { received } else { without_slash(received) };
    location.extend_from_slice(trimmed);
    respond(buffers, to.status, &location)
}

/// The origin that the client used: scheme, host and port.
pub(crate) fn own_origin(client: &Client, buffers: &Buffers) -> Vec<u8> {
    let mut origin = format!("{}://", client.scheme.as_str()).into_bytes();
    origin.extend_from_slice(host_for_redirect(buffers));
    push_port(&mut origin, client.scheme, client.link_port);
    origin
}

/// Redirects to the target of the rule.
pub(super) fn to_target<'r>(
    to: &CompiledRedirect,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    let location = match &to.target {
        RedirectTarget::Url(url) => url.as_bytes().to_vec(),
        RedirectTarget::Path(path) => {
            let mut location = path.as_bytes().to_vec();
            push_query(&mut location, context, buffers);
            location
        }
        RedirectTarget::Host(host) => {
            let mut location = format!("{}://{host}", context.client.scheme.as_str()).into_bytes();
            write_port(&mut location, context.client.link_port);
            location.extend_from_slice(without_slash(context.intake.received(buffers)));
            location
        }
        RedirectTarget::Parts { scheme, host, port, path, keep_query } => {
            // Gateway API `HTTPRequestRedirectFilter.port`: an explicit scheme implies its well-known port.
            let (scheme, own_port) = match scheme.as_deref() {
                Some("https") => (Scheme::Https, Scheme::Https.default_port()),
                Some("http") => (Scheme::Http, Scheme::Http.default_port()),
                _ => (context.client.scheme, context.client.link_port),
            };
            let port = port.unwrap_or(own_port);
            let mut location = format!("{}://", scheme.as_str()).into_bytes();
            location
                .extend_from_slice(host.as_ref().map_or(host_for_redirect(buffers), |host| host.as_bytes()));
            push_port(&mut location, scheme, port);
            push_path(&mut location, path.as_ref(), to.path.as_ref(), context, buffers);
            if *keep_query {
                push_query(&mut location, context, buffers);
            }
            location
        }
    };
    respond(buffers, to.status, &location)
}

fn push_path(
    location: &mut Vec<u8>,
    path: Option<&PathRewrite>,
    compiled: Option<&CompiledRewrite>,
    context: &FilterContext<'_>,
    buffers: &Buffers,
) {
    let received = context.intake.received(buffers);
    let received_path = received.split(|byte| *byte == b'?').next().unwrap_or(received);
    if let Some(PathRewrite::Full(full)) = path {
        // The API server also accepts a path without a leading slash, which would extend the host name.
        if !full.starts_with('/') {
            location.push(b'/');
        }
        return location.extend_from_slice(full.as_bytes());
    }
    let start = location.len();
    let applied = compiled.is_some_and(|rewrite| {
        let path = context.intake.path_in(rewrite.path_form(), buffers);
        rewrite.apply(path, b"", context.intake.prefix as usize, location)
    });
    if !applied {
        location.truncate(start);
        location.extend_from_slice(received_path);
    }
}

fn push_query(location: &mut Vec<u8>, context: &FilterContext<'_>, buffers: &Buffers) {
    let query = context.intake.query(buffers);
    if !query.is_empty() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
}

/// Like ingress-nginx's Lua, this strips the slash of the whole target, so a query may lose one.
fn without_slash(target: &[u8]) -> &[u8] {
    target.strip_suffix(b"/").unwrap_or(target)
}

fn push_port(location: &mut Vec<u8>, scheme: Scheme, port: u16) {
    if port != scheme.default_port() {
        write_port(location, port);
    }
}

fn write_port(location: &mut Vec<u8>, port: u16) {
    location.push(b':');
    location.extend_from_slice(itoa::Buffer::new().format(port).as_bytes());
}

fn respond<'r>(buffers: &mut Buffers, status: u16, location: &[u8]) -> Verdict<'r> {
    start_own_response(buffers, status, None);
    buffers.response.append(b"Location", location);
    Verdict::Responded(ResponseScope::Rule)
}
