//! Answers that send the client elsewhere.

use fairway_model::{HttpsRedirect, PathRewrite, RedirectTarget};
use fairway_routing::{CompiledRedirect, CompiledRewrite};

use super::answer::{host_for_redirect, own_answer, without_port};
use super::verdict::{FilterContext, Made, Verdict};
use crate::buffers::Buffers;
use crate::peer::Scheme;
use crate::request::client::{Client, Trust, forwarded_host};

/// To https, where the request came in the clear for certain: at the host that the client asked, as far as a trusted peer says it
/// (ingress-nginx, `best_http_host`).
pub(super) fn to_https<'r>(
    to: &HttpsRedirect,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    if !context.client.in_the_clear {
        return Verdict::Pass;
    }
    let mut location = b"https://".to_vec();
    let said = match context.client.trust {
        Trust::Trusted => forwarded_host(&buffers.request),
        Trust::Stranger => None,
    };
    location.extend_from_slice(said.map_or_else(|| host_for_redirect(buffers), without_port));
    match to.explicit_port {
        true => write_port(&mut location, context.https_port),
        false => push_port(&mut location, Scheme::Https, context.https_port),
    }
    let received = context.intake.received(buffers);
    let kept = if to.keep_trailing_slash { received } else { without_slash(received) };
    location.extend_from_slice(kept);
    answer(buffers, to.status, &location)
}

/// Scheme, host and port under which the client asked.
pub(crate) fn own_origin(client: &Client, buffers: &Buffers) -> Vec<u8> {
    let mut origin = format!("{}://", client.scheme.as_str()).into_bytes();
    origin.extend_from_slice(host_for_redirect(buffers));
    push_port(&mut origin, client.scheme, client.link_port);
    origin
}

/// Wherever the rule says.
pub(super) fn elsewhere<'r>(
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
            // Gateway API `HTTPRequestRedirectFilter.port`: a scheme that is named brings its well-known port with it.
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
    answer(buffers, to.status, &location)
}

fn push_path(
    location: &mut Vec<u8>,
    path: Option<&PathRewrite>,
    compiled: Option<&CompiledRewrite>,
    context: &FilterContext<'_>,
    buffers: &Buffers,
) {
    let received = context.intake.received(buffers);
    let own = received.split(|byte| *byte == b'?').next().unwrap_or(received);
    if let Some(PathRewrite::Full(full)) = path {
        // The API server takes one without a slash, too, which would continue the name of the host.
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
        location.extend_from_slice(own);
    }
}

fn push_query(location: &mut Vec<u8>, context: &FilterContext<'_>, buffers: &Buffers) {
    let query = context.intake.query(buffers);
    if !query.is_empty() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
}

/// As nginx's Lua does it: of the whole target, so that a query may lose it.
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

fn answer<'r>(buffers: &mut Buffers, status: u16, location: &[u8]) -> Verdict<'r> {
    own_answer(buffers, status, None);
    buffers.answer.append(b"Location", location);
    Verdict::Answered(Made::ByRule)
}
