//! What a service that was asked says of the request's user: fields that nobody else may write, and cookies for the client.

use fairway_extension::change;
use fairway_http::{Head, Known};
use fairway_model::AuthCookies;
use fairway_routing::Asking;

use crate::buffers::Buffers;

/// Puts the fields that the service says in the place of the client's.
pub(crate) fn vouch(asking: &Asking, answer: &Head, request: &mut Head) {
    if asking.auth.filter.as_ref().is_some_and(|filter| filter.copies_all) {
        return vouch_all(answer, request);
    }
    remove_copied(asking, request);
    for name in &asking.auth.copied {
        let said = answer.fields().filter(|field| is_same(field.name, name.as_bytes()));
        for field in said.filter(|field| !field.value.is_empty()) {
            request.append(name.as_bytes(), field.value);
        }
    }
}

/// Puts all fields of the answer in the place of the client's, but for those that are about the answer itself.
fn vouch_all(answer: &Head, request: &mut Head) {
    let said = || answer.fields().filter(|field| !is_about_answer(field.known, field.name));
    request.retain(|field| !said().any(|of| is_same(field.name, of.name)));
    for field in said() {
        request.append(field.name, field.value);
    }
}

fn is_about_answer(known: Known, name: &[u8]) -> bool {
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
    known.bit() & OTHERS != 0 || NAMES.iter().any(|of| is_same(name, of))
}

/// The request passes without the service's word: what it would have said is gone.
pub(crate) fn vouch_for_nobody(asking: &Asking, request: &mut Head) {
    remove_copied(asking, request);
}

fn remove_copied(asking: &Asking, request: &mut Head) {
    let copied = &asking.auth.copied;
    if !copied.is_empty() {
        request.retain(|field| !is_copied(asking, field.name));
    }
}

/// Whether the request gets fields with this name from the answer.
pub(crate) fn is_copied(asking: &Asking, name: &[u8]) -> bool {
    asking.auth.copied.iter().any(|copied| is_same(name, copied.as_bytes()))
}

/// CGI-like endpoints take `_`, `-` and whatever else is no letter and no digit for the same, as the variables of nginx do.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let canonical = |byte: &u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    one.len() == other.len() && one.iter().map(canonical).eq(other.iter().map(canonical))
}

/// Keeps the cookies of the service for the answer to the client.
pub(crate) fn keep_cookies(answer: &Head, buffers: &mut Buffers) {
    if answer.named(b"Set-Cookie").is_none() {
        return;
    }
    let cookies = &mut buffers.forms.write().cookies;
    for cookie in answer.all_named(b"Set-Cookie") {
        cookies.extend_from_slice(cookie);
        // No value of a field has one (RFC 9110 §5.5).
        cookies.push(b'\n');
    }
}

/// Adds the cookies that were kept.
pub(super) fn add_cookies(which: AuthCookies, buffers: &mut Buffers) {
    let Buffers { answer, forms, .. } = buffers;
    let added = match which {
        AuthCookies::Always => true,
        AuthCookies::OfSuccess => {
            matches!(answer.status(), 200 | 201 | 204 | 206 | 301..=304 | 307 | 308)
        }
    };
    let cookies = &forms.read().cookies;
    for cookie in cookies.split(|byte| *byte == b'\n').filter(|cookie| added && !cookie.is_empty()) {
        answer.append(b"Set-Cookie", cookie);
    }
}
/// Adds the headers that an authorization service gave for the response.
pub(super) fn add_granted(buffers: &mut Buffers) {
    let Buffers { answer, forms, .. } = buffers;
    change::apply(&forms.read().granted, answer);
}
