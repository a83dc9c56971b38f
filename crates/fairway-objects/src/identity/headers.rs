//! Names of headers in requests, and of headers that are sent to endpoints.

use std::sync::Arc;

use crate::annotations::is_hop_header;
use crate::annotations::value::check_header_name;
use crate::identity::errors::{IdentityFieldError, IdentityResult};

/// The name of a request header.
pub(super) fn request_header<'n>(field: &str, name: &'n str) -> IdentityResult<&'n str> {
    check_header_name(name).map_err(|problem| IdentityFieldError::new(field, problem))?;
    if is_hop_header(name) || name.eq_ignore_ascii_case("expect") {
        return Err(IdentityFieldError::new(
            field,
            format!("{name} belongs to the message or the connection"),
        ));
    }
    Ok(name)
}

/// Headers that claims cannot be written to, in addition to framing and connection headers: they have their own meaning, or
/// Fairway sets them.
const RESERVED_HEADERS: [&str; 15] = [
    "authorization",
    "cookie",
    "forwarded",
    "proxy-authorization",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-scheme",
    "x-original-forwarded-for",
    "x-real-ip",
    "x-request-id",
    "x-scheme",
    "range",
];

/// The name of a header that is sent to endpoints.
pub(super) fn written_header(field: &str, name: &str) -> IdentityResult<Arc<str>> {
    request_header(field, name)?;
    let plain = name.replace('_', "-").to_ascii_lowercase();
    if is_hop_header(&plain) || plain.starts_with("content-") || RESERVED_HEADERS.contains(&&*plain) {
        return Err(IdentityFieldError::new(field, format!("{name} has another meaning")));
    }
    Ok(name.into())
}

/// Whether endpoints may treat both names as equal.
pub(super) fn is_same_header(a: &str, b: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    a.bytes().map(plain).eq(b.bytes().map(plain))
}
