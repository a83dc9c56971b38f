//! Conditional responses and headers (nginx `if`, `return`, `add_header`).

use fairway_http::bytes::push_escape;
use fairway_http::{BodySize, Head, Known, identify};
use fairway_model::{HeaderOperation, HeaderTemplate, ResponseContent, TemplatePart};
use fairway_routing::{
    CompiledCondition, CompiledConditionalHeaders, CompiledDirectResponse, CompiledRule, unescape_redirect,
};

use super::media_type;
use super::own_response::start_own_response;
use super::template::{self, Sources};
use super::verdict::{FilterContext, ResponseScope, Verdict};
use crate::buffers::Buffers;
use crate::fault::Fault;

/// Request Header Fields Too Large (RFC 6585 §5).
const STATUS_HEADERS_TOO_LARGE: u16 = 431;

/// Responds to a request for which all conditions hold.
#[cold]
pub(super) fn respond<'r>(
    to: &CompiledDirectResponse,
    rule: &CompiledRule,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    let sources = Sources { intake: context.intake, client: context.client, labels: &rule.rule().labels };
    for condition in &to.when {
        let text = template::render(&condition.value, sources, buffers);
        if condition.is_beyond(&text) {
            // A value that is too long to compare must not bypass the condition.
            return Verdict::Refused(Fault::Denied(STATUS_HEADERS_TOO_LARGE));
        }
        if !condition.holds(&text) {
            return Verdict::Pass;
        }
    }
    let (status, content) = match (context.intake.body, to.source.max_body) {
        (BodySize::Exact(length), Some(max_bytes)) if length > max_bytes => (413, &ResponseContent::Status),
        _ => (to.source.status, &to.source.content),
    };
    match content {
        ResponseContent::Status if to.of_host.is_none() => return Verdict::Refused(Fault::Denied(status)),
        ResponseContent::Status => start_own_response(buffers, status, None),
        ResponseContent::Empty => write_text_response(buffers, status, None, b""),
        ResponseContent::Text(text, usual) => {
            let text = template::render(text, sources, buffers);
            let media_type = media_type::for_path(context.intake.decoded_path(buffers)).unwrap_or(usual);
            let has_type = status != 204 && status != 304;
            write_text_response(buffers, status, has_type.then_some(media_type.as_bytes()), &text);
        }
        ResponseContent::Fixed { body, media_type } => {
            write_text_response(buffers, status, media_type.as_deref().map(str::as_bytes), body.as_bytes());
        }
        ResponseContent::Location(url) => {
            let url = template::render(url, sources, buffers);
            redirect(status, &url, context, buffers);
        }
        ResponseContent::UnescapedLocation(url) => {
            let mut unescaped = Vec::new();
            unescape_redirect(&template::render(url, sources, buffers), &mut unescaped);
            redirect(status, &unescaped, context, buffers);
        }
        ResponseContent::Rewritten { .. } => {
            let mut url = Vec::new();
            let received = context.intake.received(buffers);
            let raw = received.split(|byte| *byte == b'?').next().unwrap_or_default();
            let escaped = raw.iter().any(|byte| matches!(byte, b'%' | b'+'));
            let (path, query) = (context.intake.decoded_path(buffers), context.intake.query(buffers));
            let found = to.rewritten.as_ref().is_some_and(|it| it.write(path, escaped, query, &mut url));
            if !found {
                return Verdict::Pass;
            }
            redirect(status, &url, context, buffers);
        }
    }
    let Some(edits) = &to.of_host else { return Verdict::Responded(ResponseScope::Rule) };
    edits.iter().for_each(|edit| on_response(edit, sources, buffers));
    Verdict::Responded(ResponseScope::Host)
}

/// Starts a response with this text.
fn write_text_response(buffers: &mut Buffers, status: u16, media_type: Option<&[u8]>, text: &[u8]) {
    buffers.response.start_response(status);
    if let Some(media_type) = media_type {
        buffers.response.append(b"Content-Type", media_type);
    }
    if text.is_empty() && status != 204 && status != 304 {
        buffers.response.append(b"Content-Length", b"0");
    }
    buffers.text.clear();
    buffers.text.extend_from_slice(text);
}

/// Starts a redirect. nginx makes a path absolute (`absolute_redirect`), without a port (`port_in_redirect off`). Control
/// characters, which a decoded path may contain, are escaped.
fn redirect(status: u16, url: &[u8], context: &FilterContext<'_>, buffers: &mut Buffers) {
    let mut location = Vec::new();
    if url.starts_with(b"/") {
        location.extend_from_slice(context.scheme.as_str().as_bytes());
        location.extend_from_slice(b"://");
        location.extend_from_slice(buffers.host.as_bytes());
    }
    for &byte in url {
        if byte.is_ascii_control() { push_escape(byte, &mut location) } else { location.push(byte) }
    }
    start_own_response(buffers, status, None);
    buffers.response.append(b"Location", &location);
}

/// Sets or adds headers of the response, if its status and the conditions match.
pub(super) fn on_response(
    conditional: &CompiledConditionalHeaders,
    sources: Sources<'_>,
    buffers: &mut Buffers,
) {
    if conditional.is_for(buffers.response.status()) && all_match(&conditional.when, sources, buffers) {
        edit_headers(conditional, sources, buffers, |buffers| &mut buffers.response);
    }
}

/// Gives the request an ID if one of the headers contains it, so that the access log shows the same one.
pub(super) fn ensure_request_id(
    chosen: &CompiledConditionalHeaders,
    number: impl FnOnce() -> u128,
    buffers: &mut Buffers,
) {
    let names_it = |field: &HeaderTemplate| field.value.0.contains(&TemplatePart::RequestId);
    if buffers.request.first(Known::XRequestId).is_none() && chosen.source.fields.iter().any(names_it) {
        identify(&mut buffers.request, number);
    }
}

/// Sets or adds headers of the request.
pub(crate) fn set_chosen_on_request(
    chosen: &[CompiledConditionalHeaders],
    sources: Sources<'_>,
    buffers: &mut Buffers,
) {
    // Conditions do not see headers set here: nginx evaluates all conditions before it writes a header.
    let met: Vec<_> = chosen.iter().filter(|chosen| all_match(&chosen.when, sources, buffers)).collect();
    for chosen in met {
        edit_headers(chosen, sources, buffers, |buffers| &mut buffers.request);
    }
}

fn all_match(when: &[CompiledCondition], sources: Sources<'_>, buffers: &Buffers) -> bool {
    when.iter().all(|condition| {
        let text = template::render(&condition.value, sources, buffers);
        !condition.is_beyond(&text) && condition.holds(&text)
    })
}

fn edit_headers(
    chosen: &CompiledConditionalHeaders,
    sources: Sources<'_>,
    buffers: &mut Buffers,
    head: impl Fn(&mut Buffers) -> &mut Head,
) {
    for HeaderTemplate { name, value } in &chosen.source.fields {
        let text = template::render(value, sources, buffers);
        let head = head(buffers);
        match (text.trim_ascii(), chosen.source.operation) {
            ([], HeaderOperation::Set) => head.remove(name.as_bytes()),
            ([], HeaderOperation::Add) => {}
            (text, HeaderOperation::Set) => head.set(name.as_bytes(), text),
            (text, HeaderOperation::Add) => head.append(name.as_bytes(), text),
        }
    }
}
