//! Decides which headers of a request are forwarded (docs/design/0016-fields-of-strangers.md). Fairway removes
//! headers that a backend could mistake for other headers. It forwards headers that describe the client only if a
//! trusted peer sent them.
//!
//! Headers are filtered before routing, so that a removed header cannot select a rule, and before the filters of
//! rules, so that headers set by those filters are kept.

use fairway_http::bytes::is_plain_name;
use fairway_http::{FieldRef, Head, Known, hyphenated};
use fairway_model::HeaderNames;
use fairway_routing::ClientLimits;

use crate::fault::Fault;
use crate::request::client::Trust;

/// Removes headers that are not forwarded. The caller has already removed hop-by-hop headers.
///
/// # Errors
/// The client is blocked.
pub(crate) fn filter_headers(request: &mut Head, trust: Trust, limits: &ClientLimits) -> Result<(), Fault> {
    if limits.is_usual {
        request.retain(|field| is_admitted(field, trust));
        return Ok(());
    }
    filter_headers_by_settings(request, trust, limits)
}

#[inline]
fn is_admitted(FieldRef { name, known, .. }: FieldRef<'_>, trust: Trust) -> bool {
    match known {
        // `forwarded` replaces them, and keeps the values of untrusted clients under `X-Original-*`.
        Known::XForwardedFor | Known::XForwardedHost => true,
        // These headers are in most requests and always allowed. The arm only saves the checks below.
        Known::Host | Known::UserAgent | Known::Referer | Known::ContentLength | Known::Origin => true,
        _ => is_common_browser_header(name) || passes(name, trust),
    }
}

/// Does the work of [`filter_headers`] if the settings block clients by header, or allow names with other bytes than
/// letters, digits and `-`.
#[cold]
fn filter_headers_by_settings(request: &mut Head, trust: Trust, limits: &ClientLimits) -> Result<(), Fault> {
    if limits.blocked.as_ref().is_some_and(|blocked| blocked.by_header(request).is_some()) {
        return Err(Fault::Denied(403));
    }
    request.retain(|field| is_admitted(field, trust) || is_allowed_loose_name(field.name, limits));
    if request.received_fields().any(|field| !is_plain_name(field.name)) {
        request.note_loose_names();
    }
    Ok(())
}

/// Whether the settings allow a loose name: one with bytes other than letters, digits and `-`.
///
/// Some backends read these bytes as `-`. Such a backend must not mistake the header for one that describes the
/// client, for one that Fairway reads or writes, or for the header with the client's address. This also applies to
/// trusted peers: a proxy that removes the `X-Forwarded-User` of its clients may let `X_Forwarded_User` pass.
fn is_allowed_loose_name(name: &[u8], limits: &ClientLimits) -> bool {
    let is_allowed_byte = |byte: &u8| match limits.header_names {
        HeaderNames::Plain => false,
        HeaderNames::Underscores => *byte == b'_' || *byte == b'-' || byte.is_ascii_alphanumeric(),
        HeaderNames::Any => true,
    };
    if is_plain_name(name) || !name.iter().all(is_allowed_byte) {
        return false;
    }
    let hyphenated_name = hyphenated(name);
    let is_address_header =
        limits.forwarded.header.as_ref().is_some_and(|header| is_same_name(&hyphenated_name, header));
    Known::from_name(&hyphenated_name) == Known::Other
        && !describes_client(&hyphenated_name)
        && !is_address_header
}

/// Whether two names are equal once loose bytes are `-`. The caller has done this for `name`.
fn is_same_name(name: &[u8], header: &str) -> bool {
    name.eq_ignore_ascii_case(&hyphenated(header.as_bytes()))
}

/// Whether the header is one that browsers send with every request, as they spell it in HTTP/1 or HTTP/2. These
/// headers always pass; the comparison is faster than the checks of [`passes`].
fn is_common_browser_header(name: &[u8]) -> bool {
    matches!(name, b"Accept" | b"Accept-Encoding" | b"Accept-Language" | b"Cookie")
        || matches!(name, b"accept" | b"accept-encoding" | b"accept-language" | b"cookie")
}

/// Whether a header or trailer with this name is forwarded.
///
/// CGI-like backends read `a_b` and `a-b` as the same variable, and PHP also `a.b`. A client could therefore forge
/// the header `a-b` by sending `a_b`, which a proxy that removes `a-b` does not know. Like nginx
/// (`ignore_invalid_headers`), Fairway drops names with bytes other than letters, digits and `-`. A setting
/// ([`HeaderNames`]) can allow them in headers, but not in trailers.
pub(crate) fn passes(name: &[u8], trust: Trust) -> bool {
    is_plain_name(name) && (trust == Trust::Trusted || !describes_client(name))
}

/// Whether proxies or authenticators use this header to describe the client or its original request to a backend.
fn describes_client(name: &[u8]) -> bool {
    // `| 0x20` makes an ASCII letter lower case.
    let prefixes: &[&[u8]] = match name {
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
    prefixes.iter().any(|prefix| {
        name.get(..prefix.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(prefix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_browser_headers_pass_from_untrusted_clients() {
        for header in ["Accept", "Accept-Encoding", "Accept-Language", "Cookie"] {
            for name in [header.to_owned(), header.to_lowercase()] {
                assert!(is_common_browser_header(name.as_bytes()), "{name} is a common header");
                assert!(passes(name.as_bytes(), Trust::Untrusted), "{name} passes");
            }
        }
        for other in ["", "Accep", "Accept_Encoding", "accept.language", "X-Forwarded-By", "cookie "] {
            assert!(!is_common_browser_header(other.as_bytes()), "{other:?} is not a common header");
        }
    }

    #[test]
    fn an_allowed_loose_name_passes_unless_its_hyphenated_form_is_a_protected_header() {
        let mut limits = ClientLimits::default();
        limits.forwarded.header = Some("cf-connecting-ip".into());
        let is_allowed = |setting, limits: &mut ClientLimits, name: &str| {
            limits.header_names = setting;
            is_allowed_loose_name(name.as_bytes(), limits)
        };
        for name in ["x_team", "X_Request", "_x", "cf_ray", "Api_Key", "x-a_b"] {
            assert!(!is_allowed(HeaderNames::Plain, &mut limits, name), "{name} has a loose byte");
            assert!(is_allowed(HeaderNames::Underscores, &mut limits, name), "{name} has only underscores");
            assert!(is_allowed(HeaderNames::Any, &mut limits, name), "{name} is allowed with any bytes");
        }
        for name in ["x.team", "x!", "a.b_c"] {
            assert!(!is_allowed(HeaderNames::Underscores, &mut limits, name), "{name} has other bytes");
            assert!(is_allowed(HeaderNames::Any, &mut limits, name), "{name} is allowed with any bytes");
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
            for setting in [HeaderNames::Underscores, HeaderNames::Any] {
                assert!(!is_allowed(setting, &mut limits, name), "{name} reads like a protected header");
            }
        }
    }
}
