//! Answers of Fairway's own.

use fairway_http::Known;

use crate::buffers::Buffers;

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
    let cookie = &forms.read().session_cookie;
    if !cookie.is_empty() {
        answer.append(b"Set-Cookie", cookie);
    }
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
