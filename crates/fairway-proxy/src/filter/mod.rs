//! What a rule does to a request before it is forwarded, and to every answer of the rule: the steps that routing compiled.

mod answer;
mod basic_user;
mod caller;
mod certificate;
mod chosen;
mod cookie;
mod cors;
mod credential;
mod fields;
mod limit;
mod media_type;
mod received;
mod redirect;
mod template;
mod verdict;
mod vouched;

pub(crate) use answer::{keep_login_cookie, own_answer};
pub(crate) use caller::{
    admit_api_client, admit_session, admit_token, api_client, remove_credentials, remove_login_cookies,
    shown_session, shown_token, vouch_for_none,
};
pub(crate) use certificate::escaped_pem;
pub(crate) use chosen::choose_for_request;
pub(crate) use fields::{hide, set_on_request};
pub(crate) use received::on_received;
pub(crate) use redirect::own_origin;
pub(crate) use template::{Sources, compared, text};
pub(crate) use verdict::{FilterContext, Made, Verdict};
pub(crate) use vouched::{is_copied, keep_cookies, vouch};

use fairway_http::{Known, Method};
use fairway_model::AccessList;
use fairway_routing::{
    AnswerStep, CompiledDeny, CompiledRewrite, CompiledRule, GuardStep, Replacing, RequestStep,
};

use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::peer::Scheme;

/// Asks the guards of a rule in order, from number `first` up to the first that does not let the request pass; the head of one that
/// they all let pass is then changed as the rule says.
pub(crate) fn on_request<'r>(
    rule: &'r CompiledRule,
    first: u32,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    let steps = rule.steps();
    for (guard, next) in steps.guards.iter().zip(1..).skip(first as usize) {
        let verdict = ask(guard, next, rule, context, buffers);
        if !matches!(verdict, Verdict::Pass) {
            return verdict;
        }
    }
    if steps.takes_api_keys {
        caller::remove_api_keys(&steps.guards, &mut buffers.request);
    }
    if steps.takes_logins {
        remove_login_cookies(&mut buffers.request);
    }
    for step in &steps.request {
        edit(step, context, buffers);
    }
    if let Some(path) = &steps.forwarding.path {
        rewrite(path, context, buffers);
    }
    Verdict::Pass
}

/// Asks only the guards of the whole host: nginx takes them before it looks for a location.
#[cold]
pub(crate) fn before_location<'r>(
    rule: &'r CompiledRule,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    let is_of_host = |guard: &&GuardStep| match guard {
        GuardStep::Certificate(_) => true,
        GuardStep::Deny(requests) => requests.all,
        GuardStep::Respond(to) => to.of_host.is_some(),
        _ => false,
    };
    let guards = rule.steps().guards.iter().take_while(is_of_host).zip(1..);
    let mut verdicts = guards.map(|(guard, next)| ask(guard, next, rule, context, buffers));
    verdicts.find(|verdict| !matches!(verdict, Verdict::Pass)).unwrap_or(Verdict::Pass)
}

#[inline]
fn ask<'r>(
    guard: &'r GuardStep,
    next: u32,
    rule: &CompiledRule,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    match guard {
        GuardStep::HttpsRedirect(to) => redirect::to_https(to, context, buffers),
        GuardStep::Redirect(to) => redirect::elsewhere(to, context, buffers),
        GuardStep::Access(list) if lets_pass(list, context) => Verdict::Pass,
        GuardStep::Access(_) => Verdict::Refused(context.client.address_refused()),
        GuardStep::Certificate(of) => certificate::verified(of, context, buffers),
        GuardStep::OverTls if context.scheme == Scheme::Http => Verdict::Refused(Fault::AccessDenied),
        GuardStep::OverTls => Verdict::Pass,
        GuardStep::Deny(requests) => deny(requests, context, buffers),
        GuardStep::Respond(to) => chosen::respond(to, rule, context, buffers),
        GuardStep::Preflight(cors) => match context.intake.method {
            Method::Options => cors::preflight(cors, buffers),
            _ => Verdict::Pass,
        },
        GuardStep::Any(any) if any.access.as_ref().is_some_and(|list| vouches(list, context)) => {
            vouch_for_none(any, &mut buffers.request);
            Verdict::Pass
        }
        // Whoever asks the guards knows the endpoints.
        GuardStep::Endpoint => Verdict::Wait(guard, next),
        GuardStep::Ask(_) | GuardStep::AskGrpc(_) | GuardStep::Password(_) | GuardStep::Any(_) => {
            Verdict::Wait(guard, next)
        }
        GuardStep::Token(check) => match caller::verified_before(check, context, buffers) {
            Some(token) => {
                admit_token(&check.auth, &token, buffers);
                Verdict::Pass
            }
            None => Verdict::Wait(guard, next),
        },
        GuardStep::ApiKey(auth) => match api_client(auth, context.intake, buffers) {
            Ok(client) => {
                admit_api_client(auth, &client, buffers);
                Verdict::Pass
            }
            // Whoever waits for nobody answers it, too.
            Err(_) => Verdict::Wait(guard, next),
        },
        GuardStep::Login(check) => match caller::opened_before(check, context, buffers) {
            Some(session) => {
                admit_session(&check.auth, &session, buffers);
                Verdict::Pass
            }
            None => Verdict::Wait(guard, next),
        },
        GuardStep::Authorize(check) => caller::authorize(check, context, buffers),
        GuardStep::Rate(policy, limit) => limit::rate(context, *policy, limit, buffers),
        GuardStep::Concurrency(policy, limit) => {
            limit::concurrency(context.counts, *policy, limit, context.client, buffers)
        }
    }
}

#[inline]
fn edit(step: &RequestStep, context: &FilterContext<'_>, buffers: &mut Buffers) {
    match step {
        RequestStep::Edit(edits) => edits.apply(&mut buffers.request),
        RequestStep::Host(host) => {
            let kept = &mut buffers.forms.write().host;
            if kept.is_empty() {
                kept.extend_from_slice(buffers.request.first(Known::Host).unwrap_or_default());
            }
            buffers.request.set(b"Host", host.as_bytes());
        }
        RequestStep::Prefix(path) => forwarded_prefix(path, context, buffers),
    }
}

/// Who makes the answer instead, if it has this status.
pub(crate) fn replacing(rule: &CompiledRule, status: u16) -> Option<&Replacing> {
    let replacing = rule.steps().answers.replacing.as_deref()?;
    replacing.pages.statuses.binary_search(&status).is_ok().then_some(replacing)
}

/// Runs the steps of the answer's head, which was `made` there. `number` identifies a request that has no number yet.
pub(crate) fn on_answer(
    rule: &CompiledRule,
    made: Made,
    of: Sources<'_>,
    number: impl Fn() -> u128,
    buffers: &mut Buffers,
) {
    let scheme = of.client.scheme;
    answer::add_session_cookie(buffers);
    for step in rule.steps().answers.edits.iter().filter(|step| reaches(step, made)) {
        match step {
            AnswerStep::Cors(cors) => cors::answer(cors, buffers),
            AnswerStep::Cookies(which) => vouched::add_cookies(*which, buffers),
            AnswerStep::Granted => vouched::add_granted(buffers),
            AnswerStep::Edit(edits) => edits.apply(&mut buffers.answer),
            AnswerStep::Fields(fields) => fields::set_on_answer(fields, of, &number, buffers),
            AnswerStep::Chosen(fields) => {
                chosen::number(fields, &number, buffers);
                chosen::on_answer(fields, of, buffers);
            }
            AnswerStep::StrictTransportSecurity(value) if scheme == Scheme::Https => {
                buffers.answer.set(b"Strict-Transport-Security", value.as_bytes());
            }
            AnswerStep::StrictTransportSecurity(_) => {}
        }
    }
}

/// Whether a step acts on answers that were made there.
#[inline]
fn reaches(step: &AnswerStep, made: Made) -> bool {
    match made {
        Made::ByRule => true,
        Made::AtSignIn => !matches!(
            step,
            AnswerStep::Edit(_) | AnswerStep::Chosen(_) | AnswerStep::StrictTransportSecurity(_)
        ),
        Made::ByHost => matches!(step, AnswerStep::Fields(_)),
    }
}

/// Whether the address alone is enough: a list that only denies says of nobody that he may pass.
fn vouches(list: &AccessList, context: &FilterContext<'_>) -> bool {
    !list.allow.is_empty() && lets_pass(list, context)
}

/// Nobody passes whose address is unknown.
fn lets_pass(list: &AccessList, context: &FilterContext<'_>) -> bool {
    let Some(client) = context.client.address else { return false };
    let denied = list.deny.iter().any(|range| range.contains(&client));
    let allowed = list.allow.is_empty() || list.allow.iter().any(|range| range.contains(&client));
    !denied && allowed
}

fn deny<'r>(requests: &CompiledDeny, context: &FilterContext<'_>, buffers: &mut Buffers) -> Verdict<'r> {
    let fault = Fault::Denied(requests.status);
    match context.intake.as_routed(buffers, |request| requests.covers(request)) {
        true if requests.all => Verdict::RefusedByHost(fault),
        true => Verdict::Refused(fault),
        false => Verdict::Pass,
    }
}

/// Sets `X-Forwarded-Prefix`, where the pattern finds something.
fn forwarded_prefix(rewrite: &CompiledRewrite, context: &FilterContext<'_>, buffers: &mut Buffers) {
    let mut value = std::mem::take(&mut buffers.forms.write().value);
    value.clear();
    let path = context.intake.path_in(rewrite.path_form(), buffers);
    if rewrite.expand(path, &mut value) {
        buffers.request.set(b"X-Forwarded-Prefix", &value);
    }
    buffers.forms.write().value = value;
}

/// Writes the new target to the buffers; a pattern that finds nothing writes nothing, which leaves the request's own.
fn rewrite(rewrite: &CompiledRewrite, context: &FilterContext<'_>, buffers: &mut Buffers) {
    let mut target = std::mem::take(&mut buffers.forms.write().target);
    target.clear();
    let path = context.intake.path_in(rewrite.path_form(), buffers);
    rewrite.apply(path, context.intake.query(buffers), context.intake.prefix as usize, &mut target);
    buffers.forms.write().target = target;
}
