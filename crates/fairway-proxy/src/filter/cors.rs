//! Cross-origin resource sharing (Fetch Standard §3.2), as ingress-nginx or Gateway API do it: preflights are answered here,
//! every other answer to an allowed origin carries its headers.

use fairway_http::{Head, Known, Method};
use fairway_model::{Cors, CorsManner, CorsOrigin};
use fairway_routing::CorsAnswer;

use super::answer::own_answer;
use super::verdict::{Made, Verdict};
use crate::buffers::Buffers;

/// `OPTIONS` is answered 204, or forwarded: where it is no preflight, or as ingress-nginx does it, from an origin that is
/// not allowed.
pub(super) fn preflight<'r>(cors: &Cors, buffers: &mut Buffers) -> Verdict<'r> {
    let is_answered = match cors.manner {
        CorsManner::IngressNginx => allowed(cors, &buffers.request).is_some(),
        CorsManner::GatewayApi => is_preflight(&buffers.request),
    };
    if !is_answered {
        return Verdict::Pass;
    }
    own_answer(buffers, 204, None);
    Verdict::Answered(Made::ByRule)
}

/// Adds the headers to an answer for an allowed origin. What the backend said of the same is replaced.
pub(super) fn answer(of: &CorsAnswer, buffers: &mut Buffers) {
    let Buffers { request, answer, .. } = buffers;
    if of.varies {
        // "Cache requirements" (Fetch Standard §3.2): another origin gets another answer.
        answer.append(b"Vary", b"Origin");
    }
    if !of.open {
        let Some(origin) = allowed(&of.cors, request) else { return };
        answer.set(b"Access-Control-Allow-Origin", origin);
    }
    let is_preflight = of.cors.manner == CorsManner::GatewayApi && is_preflight(request);
    answer.set_ready(if is_preflight { &of.preflight } else { &of.fields });
    if is_preflight && of.cors.credentials {
        grant_what_is_asked(&of.cors, request, answer);
    }
}

/// A `*` that may not be said is what the request asks for, if it asks.
fn grant_what_is_asked(cors: &Cors, request: &Head, answer: &mut Head) {
    let asked: [(&str, &[u8], &[u8]); 2] = [
        (&*cors.methods, b"Access-Control-Allow-Methods", b"Access-Control-Request-Method"),
        (&*cors.headers, b"Access-Control-Allow-Headers", b"Access-Control-Request-Headers"),
    ];
    for (_, name, asking) in asked.into_iter().filter(|(allowed, ..)| *allowed == "*") {
        if let Some(value) = request.named(asking) {
            answer.set(name, value);
        }
    }
}

/// A CORS-preflight request (Fetch Standard §3.2.2).
fn is_preflight(request: &Head) -> bool {
    request.method() == Method::Options
        && request.first(Known::Origin).is_some()
        && request.first(Known::AccessControlRequestMethod).is_some()
}

/// What `Access-Control-Allow-Origin` says to this request, if it is allowed anything.
fn allowed<'a>(cors: &Cors, request: &'a Head) -> Option<&'a [u8]> {
    let origin = request.first(Known::Origin);
    cors.origins.iter().find_map(|pattern| match pattern {
        CorsOrigin::Any if cors.manner == CorsManner::GatewayApi && cors.credentials => origin,
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

/// Whether the origin is a label between these, in which the `others` may stand, too.
fn is_within(origin: &[u8], before: &str, after: &str, others: &[u8]) -> bool {
    let Ok(origin) = std::str::from_utf8(origin) else { return false };
    let origin = origin.to_ascii_lowercase();
    let label = origin.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    let may =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || others.contains(&byte);
    label.is_some_and(|label| !label.is_empty() && !label.starts_with('.') && label.bytes().all(may))
}
