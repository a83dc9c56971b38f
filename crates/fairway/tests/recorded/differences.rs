//! Where Fairway answers otherwise than the recorded ingress-nginx on purpose, exactly. The reasons at length are in
//! docs/design/0003-differences-from-ingress-nginx.md; whatever is not here must agree.

/// A deviation that is meant.
pub(crate) struct Difference {
    pub(crate) case: &'static str,
    /// The exchange by its number in the case, from 0.
    pub(crate) exchange: usize,
    pub(crate) what: &'static str,
    pub(crate) recorded: &'static str,
    pub(crate) now: &'static str,
    pub(crate) why: &'static str,
}

const UNTRUSTED: &str = "what clients say about the way of a request is believed from trusted ranges alone";
const HOP_BY_HOP: &str = "RFC 9110 §7.6.1: fields that Connection names end at the next hop";
const LARGE_HEAD: &str = "a response head may be 32 KiB, not one proxy-buffer-size of 4 KiB";

const PAGES_BY_GET: &str = "the page of an error is asked for with GET or HEAD, without the client's body";
const PAGES_KEPT: &str = "the connection to the owner of the pages stays open, as to every endpoint";

/// All of them.
pub(crate) const DIFFERENCES: &[Difference] = &[
    of("headers-to-upstream", 2, "upstream header Forwarded", "for=1.1.1.1", "none", UNTRUSTED),
    of("headers-to-upstream", 2, "upstream header X-Forwarded-Prefix", "/p", "none", UNTRUSTED),
    of("headers-to-upstream", 7, "upstream header X-Original-Uri", "/z", "none", UNTRUSTED),
    of("headers-to-upstream", 7, "upstream header X-Original-Url", "/z", "none", UNTRUSTED),
    of("headers-to-upstream", 4, "upstream header X-Gone", "1", "none", HOP_BY_HOP),
    of("custom-http-errors", 0, "upstream header Connection", "close", "none", PAGES_KEPT),
    of("custom-http-errors", 1, "upstream header Connection", "close", "none", PAGES_KEPT),
    of("custom-http-errors", 4, "upstream header Connection", "close", "none", PAGES_KEPT),
    of("custom-http-errors", 4, "upstream method", "POST", "GET", PAGES_BY_GET),
    of("custom-http-errors", 4, "upstream header Content-Length", "1", "none", PAGES_BY_GET),
    of("big-response-header", 1, "status", "502", "200", LARGE_HEAD),
    of("big-response-header", 1, "header x-big", "none", "bbbbbbbb... (6000 bytes)", LARGE_HEAD),
    of("big-response-header", 1, "header x-content-type-options", "none", "nosniff", LARGE_HEAD),
    of("big-response-header", 1, "upstream", "none", "main", LARGE_HEAD),
];

const fn of(
    case: &'static str,
    exchange: usize,
    what: &'static str,
    recorded: &'static str,
    now: &'static str,
    why: &'static str,
) -> Difference {
    Difference { case, exchange, what, recorded, now, why }
}
