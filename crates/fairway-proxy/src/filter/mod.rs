//! What a rule does to a request before it is forwarded, and to every answer of the rule: the steps that routing compiled.

mod cors;
mod redirect;

use std::net::IpAddr;

use fairway_message::{Head, Known, Method};
use fairway_model::AccessList;
use fairway_routing::{AnswerStep, CompiledRewrite, CompiledRule, FieldEdits, RequestStep};

use crate::exchange::forwarded::{Client, Scheme};
use crate::exchange::intake::Intake;
use crate::fault::Fault;
use crate::worker::Desk;

/// What filters know of the request besides its head.
pub(crate) struct FilterContext<'a> {
    pub(crate) intake: &'a Intake,
    pub(crate) client: &'a Client,
    /// The public port of the listener `https`.
    pub(crate) https_port: u16,
    /// Bytes of the path that the matched prefix covers.
    pub(crate) prefix: usize,
}

/// Whether the request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// To the next filter, or to its backend.
    Pass,
    /// The answer stands on the desk.
    Answered,
    /// It is refused.
    Refused(Fault),
}

/// Runs the steps of the request's head in order, up to the first that answers.
pub(crate) fn on_request(rule: &CompiledRule, context: &FilterContext<'_>, desk: &mut Desk) -> Verdict {
    for step in &rule.steps().request {
        let verdict = match step {
            RequestStep::HttpsRedirect(to) => redirect::to_https(to, context, desk),
            RequestStep::Redirect(to) => redirect::elsewhere(to, context, desk),
            RequestStep::Access(list) => access(list, context.client.address),
            RequestStep::Preflight(cors) => match context.intake.method {
                Method::Options => cors::preflight(cors, desk),
                _ => Verdict::Pass,
            },
            RequestStep::Edit(edits) => {
                apply(edits, &mut desk.request);
                Verdict::Pass
            }
            RequestStep::Host(host) => {
                desk.request.set(b"Host", host.as_bytes());
                Verdict::Pass
            }
            RequestStep::Path(path) => {
                rewrite(path, context, desk);
                Verdict::Pass
            }
        };
        if verdict != Verdict::Pass {
            return verdict;
        }
    }
    Verdict::Pass
}

/// Runs the steps of the answer's head, whoever made the answer.
pub(crate) fn on_answer(rule: &CompiledRule, scheme: Scheme, desk: &mut Desk) {
    for step in &rule.steps().answer {
        match step {
            AnswerStep::Cors(cors) => cors::answer(cors, desk),
            AnswerStep::Edit(edits) => apply(edits, &mut desk.answer),
            AnswerStep::StrictTransportSecurity(value) if scheme == Scheme::Https => {
                desk.answer.set(b"Strict-Transport-Security", value.as_bytes());
            }
            AnswerStep::StrictTransportSecurity(_) => {}
        }
    }
}

fn access(list: &AccessList, client: IpAddr) -> Verdict {
    let denied = list.deny.iter().any(|range| range.contains(&client));
    let allowed = list.allow.is_empty() || list.allow.iter().any(|range| range.contains(&client));
    if denied || !allowed { Verdict::Refused(Fault::AccessDenied) } else { Verdict::Pass }
}

fn apply(edits: &FieldEdits, head: &mut Head) {
    for name in &edits.remove {
        head.remove(name.as_bytes());
    }
    for field in &edits.set {
        head.set(field.name.as_bytes(), field.value.as_bytes());
    }
    for field in &edits.add {
        head.append(field.name.as_bytes(), field.value.as_bytes());
    }
}

/// Writes the new target to the desk; a pattern that finds nothing leaves the request's own.
fn rewrite(rewrite: &CompiledRewrite, context: &FilterContext<'_>, desk: &mut Desk) {
    let mut target = std::mem::take(&mut desk.target);
    target.clear();
    let path = context.intake.path_in(rewrite.path_form(), desk);
    if !rewrite.apply(path, context.intake.query(desk), context.prefix, &mut target) {
        target.clear();
    }
    desk.target = target;
}

/// Starts an answer of Fairway's own on the desk, with a short body that says its status.
pub(crate) fn own_answer(desk: &mut Desk, status: u16, why: Option<&str>) {
    desk.answer.start_response(status);
    desk.text.clear();
    if status == 204 || status == 304 {
        return;
    }
    desk.text.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    desk.text.push(b' ');
    desk.text.extend_from_slice(desk.answer.reason());
    if let Some(why) = why {
        desk.text.extend_from_slice(b": ");
        desk.text.extend_from_slice(why.as_bytes());
    }
    desk.text.push(b'\n');
    desk.answer.append(b"Content-Type", b"text/plain; charset=utf-8");
}

/// The host as redirects write it: as the client sent it, without port.
pub(crate) fn host_for_redirect(desk: &Desk) -> &[u8] {
    let host = desk.request.first(Known::Host).unwrap_or(desk.host.as_bytes());
    match host.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if host[at] == b':' => &host[..at],
        _ => host,
    }
}
