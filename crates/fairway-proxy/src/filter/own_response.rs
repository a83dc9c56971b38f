//! Responses that Fairway makes itself, and the cookies that it adds.

use fairway_http::{Head, Known};

use crate::buffers::{Buffers, ExtraFields};

/// Starts a response in the buffers, with a short body that names its status.
pub(crate) fn start_own_response(buffers: &mut Buffers, status: u16, why: Option<&str>) {
    buffers.response.start_response(status);
    buffers.text.clear();
    if status == 204 || status == 304 {
        return;
    }
    buffers.text.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    buffers.text.push(b' ');
    buffers.text.extend_from_slice(buffers.response.reason());
    if let Some(why) = why {
        buffers.text.extend_from_slice(b": ");
        buffers.text.extend_from_slice(why.as_bytes());
    }
    buffers.text.push(b'\n');
    buffers.response.append(b"Content-Type", b"text/plain; charset=utf-8");
}

/// Adds the cookie or header of a new session. It is not the endpoint's, so cookie rewrites do not apply to it.
#[inline]
pub(super) fn add_session_cookie(buffers: &mut Buffers) {
    let Buffers { response, extras, .. } = buffers;
    let ExtraFields { session_token, session_header, login_cookies, .. } = extras.read();
    if !session_token.is_empty() {
        match session_header {
            None => response.append(b"Set-Cookie", session_token),
            Some(name) => response.set(name.as_bytes(), session_token),
        }
    }
    if !login_cookies.is_empty() {
        add_login_cookies(login_cookies, response);
    }
}

/// Adds the cookies of a login. Shared caches must not store the response, whatever the endpoint says (RFC 9111 §5.2.2.7).
#[cold]
fn add_login_cookies(cookies: &[u8], response: &mut Head) {
    for cookie in cookies.split(|byte| *byte == b'\n').filter(|cookie| !cookie.is_empty()) {
        response.append(b"Set-Cookie", cookie);
    }
    response.append(b"Cache-Control", b"private");
}

/// Keeps a login cookie for the response to the client.
pub(crate) fn keep_login_cookie(line: &str, buffers: &mut Buffers) {
    let cookies = &mut buffers.extras.write().login_cookies;
    cookies.extend_from_slice(line.as_bytes());
    cookies.push(b'\n');
}

/// The host for redirects: as the client sent it, without port.
pub(crate) fn host_for_redirect(buffers: &Buffers) -> &[u8] {
    without_port(buffers.request.first(Known::Host).unwrap_or(buffers.host.as_bytes()))
}

/// A host without its port.
pub(super) fn without_port(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if host[at] == b':' => &host[..at],
        _ => host,
    }
}
