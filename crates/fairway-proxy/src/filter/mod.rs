//! What a rule does to a request before it is forwarded, and to every answer of the rule.

mod cors;
mod redirect;

use std::net::IpAddr;

use fairway_message::{Head, Known, Method};
use fairway_model::{AccessList, Filter, HeaderEdit};
use fairway_routing::CompiledRule;

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

/// Applies the request filters in order, up to the first that answers.
pub(crate) fn on_request(rule: &CompiledRule, context: &FilterContext<'_>, desk: &mut Desk) -> Verdict {
    for filter in &rule.rule().filters {
        let verdict = match filter {
            Filter::HttpsRedirect(to) => redirect::to_https(to, context, desk),
            Filter::Redirect(to) => redirect::elsewhere(to, rule, context, desk),
            Filter::Access(list) => access(list, context.client.address),
            Filter::Cors(cors) if context.intake.method == Method::Options => cors::preflight(cors, desk),
            Filter::RequestHeaders(edit) => {
                apply(edit, &mut desk.request);
                Verdict::Pass
            }
            Filter::RewriteHost(host) => {
                desk.request.set(b"Host", host.as_bytes());
                Verdict::Pass
            }
            Filter::RewritePath(_) => {
                rewrite(rule, context, desk);
                Verdict::Pass
            }
            Filter::Cors(_) | Filter::ResponseHeaders(_) | Filter::StrictTransportSecurity(_) => {
                Verdict::Pass
            }
        };
        if verdict != Verdict::Pass {
            return verdict;
        }
    }
    Verdict::Pass
}

/// Applies the response filters to the answer on the desk, whoever made it.
pub(crate) fn on_answer(rule: &CompiledRule, scheme: Scheme, desk: &mut Desk) {
    for filter in &rule.rule().filters {
        match filter {
            Filter::Cors(cors) => cors::answer(cors, desk),
            Filter::ResponseHeaders(edit) => apply(edit, &mut desk.answer),
            Filter::StrictTransportSecurity(value) if scheme == Scheme::Https => {
                desk.answer.set(b"Strict-Transport-Security", value.as_bytes());
            }
            _ => {}
        }
    }
}

fn access(list: &AccessList, client: IpAddr) -> Verdict {
    let denied = list.deny.iter().any(|range| range.contains(&client));
    let allowed = list.allow.is_empty() || list.allow.iter().any(|range| range.contains(&client));
    if denied || !allowed { Verdict::Refused(Fault::AccessDenied) } else { Verdict::Pass }
}

/// Edits all fields but those that say where the message ends and what becomes of the connection. There is always one
/// `Host`.
fn apply(edit: &HeaderEdit, head: &mut Head) {
    for name in &edit.remove {
        let known = Known::of(name.as_bytes());
        if !known.is_of_one_hop() && known != Known::Host {
            head.remove(name.as_bytes());
        }
    }
    for field in &edit.set {
        if !Known::of(field.name.as_bytes()).is_of_one_hop() {
            head.set(field.name.as_bytes(), field.value.as_bytes());
        }
    }
    for field in &edit.add {
        match Known::of(field.name.as_bytes()) {
            Known::Host => head.set(b"Host", field.value.as_bytes()),
            known if known.is_of_one_hop() => {}
            _ => head.append(field.name.as_bytes(), field.value.as_bytes()),
        }
    }
}

/// Writes the new target to the desk; a pattern that finds nothing leaves the request's own.
fn rewrite(rule: &CompiledRule, context: &FilterContext<'_>, desk: &mut Desk) {
    let Some(rewrite) = rule.rewrite() else { return };
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
