//! What conditions on the request decide: answers, and fields of requests and answers (nginx `if`, `return`, `add_header`).

use fairway_http::bytes::push_escape;
use fairway_http::{BodySize, Head, Known, identify};
use fairway_model::{Content, FieldTemplate, Manner, TemplatePart};
use fairway_routing::{CompiledChosen, CompiledCondition, CompiledRespond, CompiledRule, unescape_redirect};

use super::answer::own_answer;
use super::media_type;
use super::template::{self, Sources};
use super::verdict::{FilterContext, Made, Verdict};
use crate::buffers::Buffers;
use crate::fault::Fault;

/// Request Header Fields Too Large (RFC 6585 §5).
const TOO_LONG: u16 = 431;

/// Answers a request for which all conditions hold.
#[cold]
pub(super) fn respond<'r>(
    to: &CompiledRespond,
    rule: &CompiledRule,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    let of = Sources { intake: context.intake, client: context.client, labels: &rule.rule().labels };
    for condition in &to.when {
        let text = template::text(&condition.value, of, buffers);
        if condition.is_beyond(&text) {
            // Nobody gets past a condition by sending what is too long for it.
            return Verdict::Refused(Fault::Denied(TOO_LONG));
        }
        if !condition.holds(&text) {
            return Verdict::Pass;
        }
    }
    let (status, content) = match (context.intake.body, to.of.max_body) {
        (BodySize::Exact(length), Some(most)) if length > most => (413, &Content::Status),
        _ => (to.of.status, &to.of.content),
    };
    match content {
        Content::Status if to.of_host.is_none() => return Verdict::Refused(Fault::Denied(status)),
        Content::Status => own_answer(buffers, status, None),
        Content::Empty => say(buffers, status, None, b""),
        Content::Text(text, usual) => {
            let text = template::text(text, of, buffers);
            let media_type = media_type::of_path(context.intake.decoded(buffers)).unwrap_or(usual);
            let has_type = status != 204 && status != 304;
            say(buffers, status, has_type.then_some(media_type.as_bytes()), &text);
        }
        Content::Fixed { body, media_type } => {
            say(buffers, status, media_type.as_deref().map(str::as_bytes), body.as_bytes());
        }
        Content::Location(url) => {
            let url = template::text(url, of, buffers);
            redirect(status, &url, context, buffers);
        }
        Content::UnescapedLocation(url) => {
            let mut unescaped = Vec::new();
            unescape_redirect(&template::text(url, of, buffers), &mut unescaped);
            redirect(status, &unescaped, context, buffers);
        }
        Content::Rewritten { .. } => {
            let mut url = Vec::new();
            let received = context.intake.received(buffers);
            let raw = received.split(|byte| *byte == b'?').next().unwrap_or_default();
            let escaped = raw.iter().any(|byte| matches!(byte, b'%' | b'+'));
            let (path, query) = (context.intake.decoded(buffers), context.intake.query(buffers));
            let found = to.rewritten.as_ref().is_some_and(|it| it.write(path, escaped, query, &mut url));
            if !found {
                return Verdict::Pass;
            }
            redirect(status, &url, context, buffers);
        }
    }
    let Some(edits) = &to.of_host else { return Verdict::Answered(Made::ByRule) };
    edits.iter().for_each(|edit| on_answer(edit, of, buffers));
    Verdict::Answered(Made::ByHost)
}

/// Starts an answer with this text.
fn say(buffers: &mut Buffers, status: u16, media_type: Option<&[u8]>, text: &[u8]) {
    buffers.answer.start_response(status);
    if let Some(media_type) = media_type {
        buffers.answer.append(b"Content-Type", media_type);
    }
    if text.is_empty() && status != 204 && status != 304 {
        buffers.answer.append(b"Content-Length", b"0");
    }
    buffers.text.clear();
    buffers.text.extend_from_slice(text);
}

/// Starts an answer that leads there. nginx makes a path absolute (`absolute_redirect`), without a port (`port_in_redirect off`).
/// Control characters, which a decoded path may have, are escaped.
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
    own_answer(buffers, status, None);
    buffers.answer.append(b"Location", &location);
}

/// Sets or adds fields of the answer in the buffers, where they are for it.
pub(super) fn on_answer(chosen: &CompiledChosen, of: Sources<'_>, buffers: &mut Buffers) {
    if chosen.is_for(buffers.answer.status()) && hold(&chosen.when, of, buffers) {
        change(chosen, of, buffers, |buffers| &mut buffers.answer);
    }
}

/// Gives the request a number where one of the fields names it: the access log shows the same.
pub(super) fn number(chosen: &CompiledChosen, number: impl FnOnce() -> u128, buffers: &mut Buffers) {
    let names_it = |field: &FieldTemplate| field.value.0.contains(&TemplatePart::RequestId);
    if buffers.request.first(Known::XRequestId).is_none() && chosen.of.fields.iter().any(names_it) {
        identify(&mut buffers.request, number);
    }
}

/// Sets or adds fields of the request in the buffers.
pub(crate) fn choose_for_request(chosen: &[CompiledChosen], of: Sources<'_>, buffers: &mut Buffers) {
    // What one sets, no condition of another sees: nginx evaluates all before it writes a field.
    let met: Vec<_> = chosen.iter().filter(|chosen| hold(&chosen.when, of, buffers)).collect();
    for chosen in met {
        change(chosen, of, buffers, |buffers| &mut buffers.request);
    }
}

fn hold(when: &[CompiledCondition], of: Sources<'_>, buffers: &Buffers) -> bool {
    when.iter().all(|condition| {
        let text = template::text(&condition.value, of, buffers);
        !condition.is_beyond(&text) && condition.holds(&text)
    })
}

fn change(
    chosen: &CompiledChosen,
    of: Sources<'_>,
    buffers: &mut Buffers,
    head: impl Fn(&mut Buffers) -> &mut Head,
) {
    for FieldTemplate { name, value } in &chosen.of.fields {
        let text = template::text(value, of, buffers);
        let head = head(buffers);
        match (text.trim_ascii(), chosen.of.manner) {
            ([], Manner::Set) => head.remove(name.as_bytes()),
            ([], Manner::Add) => {}
            (text, Manner::Set) => head.set(name.as_bytes(), text),
            (text, Manner::Add) => head.append(name.as_bytes(), text),
        }
    }
}
