//! Cross-origin resource sharing (Fetch Standard §3.2), as in ingress-nginx or Gateway API: responds to preflights, and adds
//! headers to every other response to an allowed origin.

use fairway_http::{Head, Known, Method};
use fairway_model::{Cors, CorsMode, CorsOrigin};
use fairway_routing::CompiledCors;

use super::own_response::start_own_response;
use super::verdict::{ResponseScope, Verdict};
use crate::buffers::Buffers;

/// Responds 204 to a preflight. `OPTIONS` is forwarded if it is not a preflight or, as in ingress-nginx, if the origin is not
/// allowed.
pub(super) fn preflight<'r>(cors: &Cors, buffers: &mut Buffers) -> Verdict<'r> {
    let is_answered = match cors.manner {
        CorsMode::IngressNginx => allowed_origin(cors, &buffers.request).is_some(),
        CorsMode::GatewayApi => is_preflight(&buffers.request),
    };
    if !is_answered {
        return Verdict::Pass;
    }
    start_own_response(buffers, 204, None);
    Verdict::Responded(ResponseScope::Rule)
}

/// Adds the headers to a response for an allowed origin. The backend's own are replaced.
pub(super) fn add_headers(compiled: &CompiledCors, buffers: &mut Buffers) {
    let Buffers { request, response, .. } = buffers;
    if compiled.varies {
        // "Cache requirements" (Fetch Standard §3.2): the response depends on the origin.
        response.append(b"Vary", b"Origin");
    }
    if !compiled.open {
        let Some(origin) = allowed_origin(&compiled.cors, request) else { return };
        response.set(b"Access-Control-Allow-Origin", origin);
    }
    let is_preflight = compiled.cors.manner == CorsMode::GatewayApi && is_preflight(request);
    response.set_ready(if is_preflight { &compiled.preflight } else { &compiled.fields });
    if is_preflight && compiled.cors.credentials {
        echo_requested(&compiled.cors, request, response);
    }
}

/// With credentials `*` is not allowed: the requested methods and headers are echoed instead.
fn echo_requested(cors: &Cors, request: &Head, response: &mut Head) {
    let requested: [(&str, &[u8], &[u8]); 2] = [
        (&*cors.methods, b"Access-Control-Allow-Methods", b"Access-Control-Request-Method"),
        (&*cors.headers, b"Access-Control-Allow-Headers", b"Access-Control-Request-Headers"),
    ];
    for (_, name, request_header) in requested.into_iter().filter(|(allowed, ..)| *allowed == "*") {
        if let Some(value) = request.named(request_header) {
            response.set(name, value);
        }
    }
}

/// A CORS-preflight request (Fetch Standard §3.2.2).
fn is_preflight(request: &Head) -> bool {
    request.method() == Method::Options
        && request.first(Known::Origin).is_some()
        && request.first(Known::AccessControlRequestMethod).is_some()
}

/// The value of `Access-Control-Allow-Origin` for this request, if its origin is allowed.
fn allowed_origin<'a>(cors: &Cors, request: &'a Head) -> Option<&'a [u8]> {
    let origin = request.first(Known::Origin);
    cors.origins.iter().find_map(|pattern| match pattern {
        CorsOrigin::Any if cors.manner == CorsMode::GatewayApi && cors.credentials => origin,
        CorsOrigin::Any => Some(&b"*"[..]),
        CorsOrigin::Exact(exact) => origin.filter(|origin| origin.eq_ignore_ascii_case(exact.as_bytes())),
        CorsOrigin::OneLabel { before, after } => {
            origin.filter(|origin| is_within(origin, before, after, b""))
        }
        CorsOrigin::Wildcard { before, after } => {
            origin.filter(|origin| is_within(origin, before, after, b"."))
        }
    })
}

/// Whether the origin is one label between `before` and `after`; the label may also contain `others`.
fn is_within(origin: &[u8], before: &str, after: &str, others: &[u8]) -> bool {
    let Ok(origin) = std::str::from_utf8(origin) else { return false };
    let origin = origin.to_ascii_lowercase();
    let label = origin.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    let may =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || others.contains(&byte);
    label.is_some_and(|label| !label.is_empty() && !label.starts_with('.') && label.bytes().all(may))
}
