//! Headers from an authentication service: identity headers for the endpoint, which clients cannot set, and cookies for the
//! client.

use fairway_extension::change;
use fairway_http::{Head, Known};
use fairway_model::AuthCookies;
use fairway_routing::ExternalAuthCheck;

use crate::buffers::Buffers;

/// Replaces the client's headers with those of the service.
pub(crate) fn copy_auth_headers(auth_check: &ExternalAuthCheck, response: &Head, request: &mut Head) {
    if auth_check.auth.filter.as_ref().is_some_and(|filter| filter.copies_all) {
        return copy_all_headers(response, request);
    }
    remove_copied(auth_check, request);
    for name in &auth_check.auth.copied {
        let same_name = response.fields().filter(|field| is_same_header(field.name, name.as_bytes()));
        for field in same_name.filter(|field| !field.value.is_empty()) {
            request.append(name.as_bytes(), field.value);
        }
    }
}

/// Replaces the client's headers with all of the service's, except those that describe the service's response itself.
fn copy_all_headers(response: &Head, request: &mut Head) {
    let forwarded_headers = || response.fields().filter(|field| !is_about_response(field.known, field.name));
    request.retain(|field| !forwarded_headers().any(|header| is_same_header(field.name, header.name)));
    for field in forwarded_headers() {
        request.append(field.name, field.value);
    }
}

fn is_about_response(known: Known, name: &[u8]) -> bool {
    const OTHERS: u64 =
        Known::HOP_BY_HOP | Known::Host.bit() | Known::Expect.bit() | Known::ContentLength.bit();
    const NAMES: [&[u8]; 9] = [
        b"Authority",
        b"Host",
        b"Content-Length",
        b"Content-Type",
        b"Content-Encoding",
        b"Transfer-Encoding",
        b"Date",
        b"Server",
        b"Set-Cookie",
    ];
    known.bit() & OTHERS != 0 || NAMES.iter().any(|header| is_same_header(name, header))
}

/// Removes the headers of the service from a request that passes without asking it.
pub(crate) fn remove_auth_headers(auth_check: &ExternalAuthCheck, request: &mut Head) {
    remove_copied(auth_check, request);
}

fn remove_copied(auth_check: &ExternalAuthCheck, request: &mut Head) {
    let copied = &auth_check.auth.copied;
    if !copied.is_empty() {
        request.retain(|field| !is_copied(auth_check, field.name));
    }
}

/// Whether this header is copied from the service's response to the request.
pub(crate) fn is_copied(auth_check: &ExternalAuthCheck, name: &[u8]) -> bool {
    auth_check.auth.copied.iter().any(|copied| is_same_header(name, copied.as_bytes()))
}

/// Whether two names are the same to a CGI-like endpoint, which, like nginx's variables, treats all characters other than
/// letters and digits alike.
pub(super) fn is_same_header(left: &[u8], right: &[u8]) -> bool {
    let canonical = |byte: &u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    left.len() == right.len() && left.iter().map(canonical).eq(right.iter().map(canonical))
}

/// Keeps the cookies of the service for the response to the client.
pub(crate) fn keep_cookies(response: &Head, buffers: &mut Buffers) {
    if response.named(b"Set-Cookie").is_none() {
        return;
    }
    let cookies = &mut buffers.extras.write().cookies;
    for cookie in response.all_named(b"Set-Cookie") {
        cookies.extend_from_slice(cookie);
        // Header values contain no line feed (RFC 9110 §5.5).
        cookies.push(b'\n');
    }
}

/// Adds the kept cookies.
pub(super) fn add_cookies(kind: AuthCookies, buffers: &mut Buffers) {
    let Buffers { response, extras, .. } = buffers;
    let added = match kind {
        AuthCookies::Always => true,
        AuthCookies::OfSuccess => {
            matches!(response.status(), 200 | 201 | 204 | 206 | 301..=304 | 307 | 308)
        }
    };
    let cookies = &extras.read().cookies;
    for cookie in cookies.split(|byte| *byte == b'\n').filter(|cookie| added && !cookie.is_empty()) {
        response.append(b"Set-Cookie", cookie);
    }
}
/// Adds the headers that an authorization service set for the response.
pub(super) fn add_auth_response_headers(buffers: &mut Buffers) {
    let Buffers { response, extras, .. } = buffers;
    change::apply(&extras.read().auth_response_changes, response);
}
