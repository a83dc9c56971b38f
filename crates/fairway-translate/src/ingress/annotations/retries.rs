//! When a request is tried again: `proxy-next-upstream*`. None works yet; Fairway retries where that is safe.

use crate::ingress::annotations::family::{Family, Known, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    offers(
        "proxy-next-upstream",
        "a request is tried again only where that is safe: before any byte of an answer, and for methods that are not idempotent before any byte was sent",
        &["error timeout", "error"],
    ),
    offers("proxy-next-upstream-timeout", "the connect timeouts of all tries are the only limit", &["0"]),
    offers("proxy-next-upstream-tries", "a request is tried three times", &["3"]),
];
