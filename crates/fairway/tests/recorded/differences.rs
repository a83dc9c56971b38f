//! The exact differences from the recorded ingress-nginx that are intended. docs/design/0003-differences-from-ingress-nginx.md
//! explains the reasons; everything else must agree.

/// An intended deviation.
pub(crate) struct Difference {
    pub(crate) case: &'static str,
    /// The index of the exchange in the case.
    pub(crate) exchange: usize,
    pub(crate) description: &'static str,
    pub(crate) recorded: &'static str,
    pub(crate) now: &'static str,
    pub(crate) why: &'static str,
}

const UNTRUSTED: &str = "what clients say about the way of a request is believed from trusted ranges alone";
const HOP_BY_HOP: &str = "RFC 9110 §7.6.1: fields that Connection names end at the next hop";
const LARGE_HEAD: &str = "a response head may be 32 KiB, not one proxy-buffer-size of 4 KiB";

const PAGES_BY_GET: &str = "the page of an error is asked for with GET or HEAD, without the client's body";
const PAGES_KEPT: &str = "the connection to the owner of the pages stays open, as to every endpoint";

/// All intended deviations.
pub(crate) const DIFFERENCES: &[Difference] = &[
    difference("headers-to-upstream", 2, "upstream header Forwarded", "for=1.1.1.1", "none", UNTRUSTED),
    difference("headers-to-upstream", 2, "upstream header X-Forwarded-Prefix", "/p", "none", UNTRUSTED),
    difference("headers-to-upstream", 7, "upstream header X-Original-Uri", "/z", "none", UNTRUSTED),
    difference("headers-to-upstream", 7, "upstream header X-Original-Url", "/z", "none", UNTRUSTED),
    difference("headers-to-upstream", 4, "upstream header X-Gone", "1", "none", HOP_BY_HOP),
    difference("custom-http-errors", 0, "upstream header Connection", "close", "none", PAGES_KEPT),
    difference("custom-http-errors", 1, "upstream header Connection", "close", "none", PAGES_KEPT),
    difference("custom-http-errors", 4, "upstream header Connection", "close", "none", PAGES_KEPT),
    difference("custom-http-errors", 4, "upstream method", "POST", "GET", PAGES_BY_GET),
    difference("custom-http-errors", 4, "upstream header Content-Length", "1", "none", PAGES_BY_GET),
    difference("big-response-header", 1, "status", "502", "200", LARGE_HEAD),
    difference("big-response-header", 1, "header x-big", "none", "bbbbbbbb... (6000 bytes)", LARGE_HEAD),
    difference("big-response-header", 1, "header x-content-type-options", "none", "nosniff", LARGE_HEAD),
    difference("big-response-header", 1, "upstream", "none", "main", LARGE_HEAD),
];

const fn difference(
    case: &'static str,
    exchange: usize,
    what: &'static str,
    recorded: &'static str,
    now: &'static str,
    why: &'static str,
) -> Difference {
    Difference { case, exchange, description: what, recorded, now, why }
}
