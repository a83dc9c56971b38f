//! Names of headers that requests have, and of those that endpoints get.

use std::sync::Arc;

use crate::annotations::is_of_the_hop;
use crate::annotations::value::header_name;
use crate::identity::mistake::{Checked, Mistake};

/// The name of a header that requests have.
pub(super) fn request_header<'n>(field: &str, name: &'n str) -> Checked<&'n str> {
    header_name(name).map_err(|problem| Mistake::new(field, problem))?;
    if is_of_the_hop(name) || name.eq_ignore_ascii_case("expect") {
        return Err(Mistake::new(field, format!("{name} belongs to the message or the connection")));
    }
    Ok(name)
}

/// What a claim cannot be written to besides what belongs to the message: it has a meaning of its own, or Fairway writes it.
const TAKEN: [&str; 15] = [
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

/// The name of a header that endpoints get.
pub(super) fn written_header(field: &str, name: &str) -> Checked<Arc<str>> {
    request_header(field, name)?;
    let plain = name.replace('_', "-").to_ascii_lowercase();
    if is_of_the_hop(&plain) || plain.starts_with("content-") || TAKEN.contains(&&*plain) {
        return Err(Mistake::new(field, format!("{name} has another meaning")));
    }
    Ok(name.into())
}

/// Whether endpoints may take both for the same.
pub(super) fn is_same_header(a: &str, b: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    a.bytes().map(plain).eq(b.bytes().map(plain))
}
