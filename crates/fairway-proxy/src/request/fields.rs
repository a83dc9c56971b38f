//! Which fields of a request go on: not those that a backend could read as others, and what
//! proxies say about a client from trusted peers alone (docs/design/0016-fields-of-strangers.md).
//!
//! This comes before routing and filters, so that no rule is chosen by a field that never arrives, and what a filter
//! sets stays.

use fairway_http::bytes::is_plain_name;
use fairway_http::{FieldRef, Head, Known, hyphenated};
use fairway_model::HeaderNames;
use fairway_routing::ClientLimits;

use crate::fault::Fault;
use crate::request::client::Trust;

/// Removes from the head what does not go on. Fields for one hop are gone already.
///
/// # Errors
/// The client is one of those that are blocked.
pub(crate) fn admit(request: &mut Head, trust: Trust, limits: &ClientLimits) -> Result<(), Fault> {
    if limits.is_usual {
        request.retain(|field| is_admitted(field, trust));
        return Ok(());
    }
    admit_some(request, trust, limits)
}

#[inline]
fn is_admitted(FieldRef { name, known, .. }: FieldRef<'_>, trust: Trust) -> bool {
    match known {
        // `forwarded` replaces them, and keeps what a stranger said under `X-Original-*`.
        Known::XForwardedFor | Known::XForwardedHost => true,
        // In nearly every request, and no claim: nothing of the name need be looked at.
        Known::Host | Known::UserAgent | Known::Referer | Known::ContentLength | Known::Origin => true,
        _ => is_usual(name) || passes(name, trust),
    }
}

/// The same where some clients are blocked, or where names with other bytes pass that are read like no name with a meaning.
#[cold]
fn admit_some(request: &mut Head, trust: Trust, limits: &ClientLimits) -> Result<(), Fault> {
    if limits.blocked.as_ref().is_some_and(|blocked| blocked.by_header(request).is_some()) {
        return Err(Fault::Denied(403));
    }
    request.retain(|field| is_admitted(field, trust) || is_own_name(field.name, limits));
    if request.received().any(|field| !is_plain_name(field.name)) {
        request.note_loose_names();
    }
    Ok(())
}

/// Whether a name with other bytes than letters, digits and `-` is the client's own: no backend that reads these bytes as `-`
/// takes it for the claim of a proxy, for what Fairway reads or writes, or for the header that names the client. From trusted
/// peers nothing else passes either: a proxy that removes `X-Forwarded-User` of strangers need not know of `X_Forwarded_User`.
fn is_own_name(name: &[u8], limits: &ClientLimits) -> bool {
    let allowed = |byte: &u8| match limits.header_names {
        HeaderNames::Plain => false,
        HeaderNames::Underscores => *byte == b'_' || *byte == b'-' || byte.is_ascii_alphanumeric(),
        HeaderNames::Any => true,
    };
    if is_plain_name(name) || !name.iter().all(allowed) {
        return false;
    }
    let read = hyphenated(name);
    let names_client = limits.forwarded.header.as_ref().is_some_and(|header| is_named(&read, header));
    Known::of(&read) == Known::Other && !is_claim(&read) && !names_client
}

fn is_named(name: &[u8], header: &str) -> bool {
    name.eq_ignore_ascii_case(&hyphenated(header.as_bytes()))
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
/// digits and `-` unless a setting lets them pass ([`HeaderNames`]), and from trailers always.
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

    #[test]
    fn a_loose_name_passes_unless_it_is_read_like_one_with_a_meaning() {
        let mut limits = ClientLimits::default();
        limits.forwarded.header = Some("cf-connecting-ip".into());
        let passes = |names, limits: &mut ClientLimits, name: &str| {
            limits.header_names = names;
            is_own_name(name.as_bytes(), limits)
        };
        for name in ["x_team", "X_Request", "_x", "cf_ray", "Api_Key", "x-a_b"] {
            assert!(!passes(HeaderNames::Plain, &mut limits, name), "{name}");
            assert!(passes(HeaderNames::Underscores, &mut limits, name), "{name}");
            assert!(passes(HeaderNames::Any, &mut limits, name), "{name}");
        }
        for name in ["x.team", "x!", "a.b_c"] {
            assert!(!passes(HeaderNames::Underscores, &mut limits, name), "{name}");
            assert!(passes(HeaderNames::Any, &mut limits, name), "{name}");
        }
        for name in [
            "X_Forwarded_User",
            "x_forwarded-for",
            "X.Forwarded.For",
            "SSL_CLIENT_VERIFY",
            "X_Auth_Request_User",
            "X_Real_IP",
            "X.Original.URL",
            "Content_Length",
            "transfer_encoding",
            "Transfer.Encoding",
            "Keep_Alive",
            "User_Agent",
            "X_Request_ID",
            "CF_Connecting_IP",
            "cf.connecting-ip",
        ] {
            for names in [HeaderNames::Underscores, HeaderNames::Any] {
                assert!(!passes(names, &mut limits, name), "{name}");
            }
        }
    }
}
