//! What nginx stores of bodies and heads: `proxy-buffer*` and the like. None works yet; Fairway streams.

use crate::ingress::annotations::family::{Family, Known, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    offers("client-body-buffer-size", "bodies are streamed, never stored", &[]),
    offers("proxy-buffer-size", "an answer's head may be 32 KiB", &[]),
    offers("proxy-buffering", "the answer is streamed to the client while it arrives", &["off"]),
    offers("proxy-buffers-number", "answers are streamed, never stored", &[]),
    offers("proxy-busy-buffers-size", "answers are streamed, never stored", &[]),
    offers("proxy-max-temp-file-size", "answers are streamed, never stored", &[]),
    offers(
        "proxy-request-buffering",
        "the request body is streamed to the backend while it arrives",
        &["off"],
    ),
];
