//! The static table (RFC 9204 Appendix A) as prepared lines, with lookup by field.

use fairway_http2::hpack::{Fixed, NameIndex};
use fairway_http2::{Defect, Verdict};

const REGULAR: Verdict = Verdict::Regular;

fairway_http2::static_table! {
    ":authority", "", Other, Verdict::Authority, Verdict::Bad(Defect::Authority);
    ":path", "/", Other, Verdict::Path;
    "age", "0", Other, REGULAR;
    "content-disposition", "", Other, REGULAR;
    "content-length", "0", ContentLength, Verdict::Length;
    "cookie", "", Other, Verdict::Cookie;
    "date", "", Date, REGULAR;
    "etag", "", Other, REGULAR;
    "if-modified-since", "", Other, REGULAR;
    "if-none-match", "", Other, REGULAR;
    "last-modified", "", Other, REGULAR;
    "link", "", Other, REGULAR;
    "location", "", Location, REGULAR;
    "referer", "", Referer, REGULAR;
    "set-cookie", "", Other, REGULAR;
    ":method", "CONNECT", Other, Verdict::Method;
    ":method", "DELETE", Other, Verdict::Method;
    ":method", "GET", Other, Verdict::Method;
    ":method", "HEAD", Other, Verdict::Method;
    ":method", "OPTIONS", Other, Verdict::Method;
    ":method", "POST", Other, Verdict::Method;
    ":method", "PUT", Other, Verdict::Method;
    ":scheme", "http", Other, Verdict::Scheme;
    ":scheme", "https", Other, Verdict::Scheme;
    ":status", "103", Other, Verdict::Status;
    ":status", "200", Other, Verdict::Status;
    ":status", "304", Other, Verdict::Status;
    ":status", "404", Other, Verdict::Status;
    ":status", "503", Other, Verdict::Status;
    "accept", "*/*", Other, REGULAR;
    "accept", "application/dns-message", Other, REGULAR;
    "accept-encoding", "gzip, deflate, br", Other, REGULAR;
    "accept-ranges", "bytes", Other, REGULAR;
    "access-control-allow-headers", "cache-control", Other, REGULAR;
    "access-control-allow-headers", "content-type", Other, REGULAR;
    "access-control-allow-origin", "*", Other, REGULAR;
    "cache-control", "max-age=0", Other, REGULAR;
    "cache-control", "max-age=2592000", Other, REGULAR;
    "cache-control", "max-age=604800", Other, REGULAR;
    "cache-control", "no-cache", Other, REGULAR;
    "cache-control", "no-store", Other, REGULAR;
    "cache-control", "public, max-age=31536000", Other, REGULAR;
    "content-encoding", "br", Other, REGULAR;
    "content-encoding", "gzip", Other, REGULAR;
    "content-type", "application/dns-message", ContentType, REGULAR;
    "content-type", "application/javascript", ContentType, REGULAR;
    "content-type", "application/json", ContentType, REGULAR;
    "content-type", "application/x-www-form-urlencoded", ContentType, REGULAR;
    "content-type", "image/gif", ContentType, REGULAR;
    "content-type", "image/jpeg", ContentType, REGULAR;
    "content-type", "image/png", ContentType, REGULAR;
    "content-type", "text/css", ContentType, REGULAR;
    "content-type", "text/html; charset=utf-8", ContentType, REGULAR;
    "content-type", "text/plain", ContentType, REGULAR;
    "content-type", "text/plain;charset=utf-8", ContentType, REGULAR;
    "range", "bytes=0-", Other, REGULAR;
    "strict-transport-security", "max-age=31536000", StrictTransportSecurity, REGULAR;
    "strict-transport-security", "max-age=31536000; includesubdomains", StrictTransportSecurity, REGULAR;
    "strict-transport-security", "max-age=31536000; includesubdomains; preload", StrictTransportSecurity, REGULAR;
    "vary", "accept-encoding", Other, REGULAR;
    "vary", "origin", Other, REGULAR;
    "x-content-type-options", "nosniff", Other, REGULAR;
    "x-xss-protection", "1; mode=block", Other, REGULAR;
    ":status", "100", Other, Verdict::Status;
    ":status", "204", Other, Verdict::Status;
    ":status", "206", Other, Verdict::Status;
    ":status", "302", Other, Verdict::Status;
    ":status", "400", Other, Verdict::Status;
    ":status", "403", Other, Verdict::Status;
    ":status", "421", Other, Verdict::Status;
    ":status", "425", Other, Verdict::Status;
    ":status", "500", Other, Verdict::Status;
    "accept-language", "", Other, REGULAR;
    "access-control-allow-credentials", "FALSE", Other, REGULAR;
    "access-control-allow-credentials", "TRUE", Other, REGULAR;
    "access-control-allow-headers", "*", Other, REGULAR;
    "access-control-allow-methods", "get", Other, REGULAR;
    "access-control-allow-methods", "get, post, options", Other, REGULAR;
    "access-control-allow-methods", "options", Other, REGULAR;
    "access-control-expose-headers", "content-length", Other, REGULAR;
    "access-control-request-headers", "content-type", Other, REGULAR;
    "access-control-request-method", "get", AccessControlRequestMethod, REGULAR;
    "access-control-request-method", "post", AccessControlRequestMethod, REGULAR;
    "alt-svc", "clear", Other, REGULAR;
    "authorization", "", Other, REGULAR;
    "content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'", Other, REGULAR;
    "early-data", "1", Other, REGULAR;
    "expect-ct", "", Other, REGULAR;
    "forwarded", "", Forwarded, REGULAR;
    "if-range", "", Other, REGULAR;
    "origin", "", Origin, REGULAR;
    "purpose", "prefetch", Other, REGULAR;
    "server", "", Server, REGULAR;
    "timing-allow-origin", "*", Other, REGULAR;
    "upgrade-insecure-requests", "1", Other, REGULAR;
    "user-agent", "", UserAgent, REGULAR;
    "x-forwarded-for", "", XForwardedFor, REGULAR;
    "x-frame-options", "deny", Other, REGULAR;
    "x-frame-options", "sameorigin", Other, REGULAR;
}

/// The entry at this index (RFC 9204 §3.1).
pub(super) fn entry(index: u64) -> Option<&'static Fixed> {
    TABLE.get(usize::try_from(index).ok()?)
}

/// A match in the static table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StaticMatch {
    /// The entry at this index has the same name and value.
    Field(usize),
    /// The entry at this index has the same name.
    Name(usize),
    /// No entry has this name.
    None,
}

static NAMES: NameIndex<{ TABLE.len() }> = NameIndex::new(&TABLE);

/// Looks up a field whose name can have any case.
pub(super) fn find(name: &[u8], value: &[u8]) -> StaticMatch {
    let mut found = StaticMatch::None;
    for place in NAMES.indices_of(name) {
        if TABLE[place].value == value {
            return StaticMatch::Field(place);
        }
        if found == StaticMatch::None {
            found = StaticMatch::Name(place);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_http::Known;

    #[test]
    fn rfc9204_a_the_static_table_has_99_entries_with_known_indices() {
        assert_eq!(TABLE.len(), 99);
        for entry in &TABLE {
            assert_eq!(entry.bytes, [entry.name, b": ", entry.value, b"\r\n"].concat());
            assert_eq!(entry.known, Known::from_name(entry.name), "{:?}", str::from_utf8(entry.name));
            assert_eq!(entry.name_verdict, Verdict::for_name(entry.name));
            assert_eq!(
                entry.verdict,
                Verdict::for_field(entry.name, entry.value),
                "{:?}",
                str::from_utf8(entry.bytes)
            );
        }
        assert_eq!((TABLE[17].value, TABLE[98].value), (&b"GET"[..], &b"sameorigin"[..]));
        assert_eq!((TABLE[52].name, TABLE[63].value), (&b"content-type"[..], &b"100"[..]));
    }

    #[test]
    fn every_field_and_name_is_found_in_any_case() {
        for (index, entry) in TABLE.iter().enumerate() {
            assert_eq!(find(&entry.name.to_ascii_uppercase(), entry.value), StaticMatch::Field(index));
            let lowest = TABLE.iter().position(|other| other.name == entry.name).unwrap();
            assert_eq!(find(entry.name, b"another value"), StaticMatch::Name(lowest));
        }
        for name in ["", "x", "accept-", "content-lengti", ":pat"] {
            assert_eq!(find(name.as_bytes(), b""), StaticMatch::None, "{name}");
        }
    }
}
