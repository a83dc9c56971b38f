//! Cross-origin resource sharing (Fetch Standard §3.2) the way ingress-nginx does it: preflights of allowed origins are
//! answered here, every other answer to an allowed origin carries the same headers.

use std::sync::Arc;

use fairway_message::{Head, Known};
use fairway_model::{Cors, CorsOrigin};

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
pub(super) fn answer(cors: &Cors, buffers: &mut Buffers) {
    let Buffers { request, answer, .. } = buffers;
    let Some(origin) = allowed(cors, request) else { return };
    answer.set(b"Access-Control-Allow-Origin", origin);
    if cors.credentials {
        answer.set(b"Access-Control-Allow-Credentials", b"true");
    }
    set_unless_empty(answer, b"Access-Control-Allow-Methods", &cors.methods);
    set_unless_empty(answer, b"Access-Control-Allow-Headers", &cors.headers);
    set_unless_empty(answer, b"Access-Control-Expose-Headers", &cors.expose);
    answer.set(b"Access-Control-Max-Age", itoa::Buffer::new().format(cors.max_age).as_bytes());
}

fn set_unless_empty(answer: &mut Head, name: &[u8], value: &Arc<str>) {
    if !value.is_empty() {
        answer.set(name, value.as_bytes());
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
