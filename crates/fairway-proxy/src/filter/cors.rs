//! Cross-origin resource sharing (Fetch Standard §3.2) the way ingress-nginx does it: preflights of allowed origins are
//! answered here, every other answer to an allowed origin carries the same headers.

use fairway_message::{Head, Known};
use fairway_model::{Cors, CorsOrigin};
use fairway_routing::CorsAnswer;

use super::answer::own_answer;
use super::verdict::Verdict;
use crate::buffers::Buffers;

/// `OPTIONS` from an allowed origin is answered 204; from others it is forwarded.
pub(super) fn preflight<'r>(cors: &Cors, buffers: &mut Buffers) -> Verdict<'r> {
    if allowed(cors, &buffers.request).is_none() {
        return Verdict::Pass;
    }
    own_answer(buffers, 204, None);
    Verdict::Answered
}

/// Adds the headers to an answer for an allowed origin. What the backend said of the same is replaced.
pub(super) fn answer(CorsAnswer { cors, fields }: &CorsAnswer, buffers: &mut Buffers) {
    let Buffers { request, answer, .. } = buffers;
    let Some(origin) = allowed(cors, request) else { return };
    let name = b"Access-Control-Allow-Origin";
    if answer.has_names_in(b"Access-Control-") {
        answer.set(name, origin);
        fields.iter().for_each(|field| answer.set(field.name, field.value));
    } else {
        answer.append(name, origin);
        answer.append_ready(fields);
    }
}

/// What `Access-Control-Allow-Origin` says to this request, if it is allowed anything.
fn allowed<'a>(cors: &Cors, request: &'a Head) -> Option<&'a [u8]> {
    let origin = request.first(Known::Origin);
    cors.origins.iter().find_map(|pattern| match pattern {
        CorsOrigin::Any => Some(&b"*"[..]),
        CorsOrigin::Exact(exact) => origin.filter(|origin| origin.eq_ignore_ascii_case(exact.as_bytes())),
        CorsOrigin::OneLabel { before, after } => origin.filter(|origin| is_one_label(origin, before, after)),
    })
}

fn is_one_label(origin: &[u8], before: &str, after: &str) -> bool {
    let Ok(origin) = std::str::from_utf8(origin) else { return false };
    let origin = origin.to_ascii_lowercase();
    let label = origin.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    label.is_some_and(|label| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    })
}
