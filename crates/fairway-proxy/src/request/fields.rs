//! Which fields of a request go on: not those that a backend could read as others, and what
//! proxies say about a client from trusted peers alone (docs/design/0016-fields-of-strangers.md).
//!
//! This comes before routing and filters, so that no rule is chosen by a field that never arrives, and what a filter
//! sets stays.

use fairway_http::bytes::is_plain_name;
use fairway_http::{FieldRef, Head, Known};

use crate::request::client::Trust;

/// Removes from the head what does not go on. Fields for one hop are gone already.
pub(crate) fn admit(request: &mut Head, trust: Trust) {
    request.retain(|FieldRef { name, known, .. }| match known {
        // `forwarded` replaces them, and keeps what a stranger said under `X-Original-*`.
        Known::XForwardedFor | Known::XForwardedHost => true,
        // In nearly every request, and no claim: nothing of the name need be looked at.
        Known::Host | Known::UserAgent | Known::Referer | Known::ContentLength | Known::Origin => true,
        _ => is_usual(name) || passes(name, trust),
    });
}

/// Whether it is a name that browsers always send, as they spell it in HTTP/1 or HTTP/2: it passes without a closer look.
fn is_usual(name: &[u8]) -> bool {
    matches!(name, b"Accept" | b"Accept-Encoding" | b"Accept-Language" | b"Cookie")
        || matches!(name, b"accept" | b"accept-encoding" | b"accept-language" | b"cookie")
}

/// Whether a field or trailer of this name goes on.
///
/// `a_b` and `a-b` are one variable to CGI-like backends, to PHP `a.b` is too, so a client could slip a forged field
/// past whoever checks the other: like nginx (`ignore_invalid_headers`), Fairway drops names of other bytes than letters,
/// digits and `-`.
pub(crate) fn passes(name: &[u8], trust: Trust) -> bool {
    is_plain_name(name) && (trust == Trust::Trusted || !is_claim(name))
}

/// Whether this is a name in which a proxy, or an authenticator in front of it, tells a backend who the client is and
/// what it asked for.
fn is_claim(name: &[u8]) -> bool {
    let claims: &[&[u8]] = match name {
        [b'x' | b'X', b'-', third, ..] => match third | 0x20 {
            b'a' => &[b"x-auth-request-"],
            b'c' => &[b"x-client-cert", b"x-client-verify"],
            b'f' => &[b"x-forwarded"],
            b'o' => &[b"x-original-"],
            b'r' => &[b"x-real-", b"x-rewrite-url"],
            b's' => &[b"x-scheme", b"x-sent-from", b"x-ssl-"],
            _ => &[],
        },
        [b'c' | b'C', ..] => &[b"client-cert"],
        [b'f' | b'F', ..] => &[b"forwarded"],
        [b's' | b'S', ..] => &[b"ssl-client-"],
        _ => &[],
    };
    claims
        .iter()
        .any(|claim| name.get(..claim.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(claim)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_names_are_names_that_pass() {
        for usual in ["Accept", "Accept-Encoding", "Accept-Language", "Cookie"] {
            for name in [usual.to_owned(), usual.to_lowercase()] {
                assert!(is_usual(name.as_bytes()) && passes(name.as_bytes(), Trust::Stranger), "{name}");
            }
        }
        for other in ["", "Accep", "Accept_Encoding", "accept.language", "X-Forwarded-By", "cookie "] {
            assert!(!is_usual(other.as_bytes()), "{other}");
        }
    }
}
