//! Answers of Fairway's own.

use fairway_http::{Head, Known};

use crate::buffers::{Buffers, Written};

/// Starts an answer of Fairway's own in the buffers, with a short body that says its status.
pub(crate) fn own_answer(buffers: &mut Buffers, status: u16, why: Option<&str>) {
    buffers.answer.start_response(status);
    buffers.text.clear();
    if status == 204 || status == 304 {
        return;
    }
    buffers.text.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    buffers.text.push(b' ');
    buffers.text.extend_from_slice(buffers.answer.reason());
    if let Some(why) = why {
        buffers.text.extend_from_slice(b": ");
        buffers.text.extend_from_slice(why.as_bytes());
    }
    buffers.text.push(b'\n');
    buffers.answer.append(b"Content-Type", b"text/plain; charset=utf-8");
}

/// Adds the cookie of the session that begins with this answer. It is no endpoint's, so rewrites of theirs have left it alone.
#[inline]
pub(super) fn add_session_cookie(buffers: &mut Buffers) {
    let Buffers { answer, forms, .. } = buffers;
    let Written { session_token, session_header, login_cookies, .. } = forms.read();
    if !session_token.is_empty() {
        match session_header {
            None => answer.append(b"Set-Cookie", session_token),
            Some(name) => answer.set(name.as_bytes(), session_token),
        }
    }
    if !login_cookies.is_empty() {
        add_login_cookies(login_cookies, answer);
    }
}

/// Adds the cookies of a login. Shared caches must keep none of them, whatever the endpoint says (RFC 9111 §5.2.2.7).
#[cold]
fn add_login_cookies(cookies: &[u8], answer: &mut Head) {
    for cookie in cookies.split(|byte| *byte == b'\n').filter(|cookie| !cookie.is_empty()) {
        answer.append(b"Set-Cookie", cookie);
    }
    answer.append(b"Cache-Control", b"private");
}

/// Keeps a cookie of a login for the answer to the client.
pub(crate) fn keep_login_cookie(line: &str, buffers: &mut Buffers) {
    let cookies = &mut buffers.forms.write().login_cookies;
    cookies.extend_from_slice(line.as_bytes());
    cookies.push(b'\n');
}

/// The host as redirects write it: as the client sent it, without port.
pub(crate) fn host_for_redirect(buffers: &Buffers) -> &[u8] {
    without_port(buffers.request.first(Known::Host).unwrap_or(buffers.host.as_bytes()))
}

/// A host without the port behind it.
pub(super) fn without_port(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if host[at] == b':' => &host[..at],
        _ => host,
    }
}
