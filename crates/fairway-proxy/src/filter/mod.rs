//! The compiled steps of a rule: guards and edits of the request before it is forwarded, and edits of every response.

mod auth_headers;
mod basic_user;
mod caller;
mod certificate;
mod conditional;
mod cookie;
mod cors;
mod credential;
mod fields;
mod limit;
mod media_type;
mod own_response;
mod received;
mod redirect;
mod template;
mod verdict;

pub(crate) use auth_headers::{copy_auth_headers, is_copied, keep_cookies};
pub(crate) use caller::{
    admit_api_client, admit_session, admit_token, api_client, remove_credentials, remove_identity_headers,
    remove_login_cookies, shown_session, shown_token,
};
pub(crate) use certificate::escaped_pem;
pub(crate) use conditional::set_chosen_on_request;
pub(crate) use fields::{remove_hidden_headers, set_on_request};
pub(crate) use own_response::{keep_login_cookie, start_own_response};
pub(crate) use received::on_received;
pub(crate) use redirect::own_origin;
pub(crate) use template::{Sources, cache_key, render};
pub(crate) use verdict::{FilterContext, ResponseScope, Verdict};

use fairway_http::{Known, Method};
use fairway_model::AccessList;
use fairway_routing::{
    CompiledDeny, CompiledRewrite, CompiledRule, ErrorPagesStep, GuardStep, RequestStep, ResponseStep,
};

use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::peer::Scheme;

/// Runs the guards of a rule in order, from number `first` to the first that does not let the request pass. If all pass, the
/// request is then edited as the rule says.
pub(crate) fn on_request<'r>(
    rule: &'r CompiledRule,
    first: u32,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    let steps = rule.steps();
    for (guard, next) in steps.guards.iter().zip(1..).skip(first as usize) {
        let verdict = run_guard(guard, next, rule, context, buffers);
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

/// Runs only the guards of the whole host: nginx applies them before it looks for a location.
#[cold]
pub(crate) fn before_location<'r>(
    rule: &'r CompiledRule,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    let is_of_host = |guard: &&GuardStep| match guard {
        GuardStep::Certificate(_) => true,
        GuardStep::Deny(requests) => requests.all_requests,
        GuardStep::Respond(to) => to.of_host.is_some(),
        _ => false,
    };
    let guards = rule.steps().guards.iter().take_while(is_of_host).zip(1..);
    let mut verdicts = guards.map(|(guard, next)| run_guard(guard, next, rule, context, buffers));
    verdicts.find(|verdict| !matches!(verdict, Verdict::Pass)).unwrap_or(Verdict::Pass)
}

#[inline]
fn run_guard<'r>(
    guard: &'r GuardStep,
    next: u32,
    rule: &CompiledRule,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    match guard {
        GuardStep::HttpsRedirect(to) => redirect::to_https(to, context, buffers),
        GuardStep::Redirect(to) => redirect::to_target(to, context, buffers),
        GuardStep::Access(list) if allows(list, context) => Verdict::Pass,
        GuardStep::Access(_) => Verdict::Refused(context.client.address_fault()),
        GuardStep::Certificate(check) => certificate::check_certificate(check, context, buffers),
        GuardStep::OverTls if context.scheme == Scheme::Http => Verdict::Refused(Fault::AccessDenied),
        GuardStep::OverTls => Verdict::Pass,
        GuardStep::Deny(requests) => deny(requests, context, buffers),
        GuardStep::Respond(to) => conditional::respond(to, rule, context, buffers),
        GuardStep::Preflight(cors) => match context.intake.method {
            Method::Options => cors::preflight(cors, buffers),
            _ => Verdict::Pass,
        },
        GuardStep::Any(any) if any.access.as_ref().is_some_and(|list| allows_explicitly(list, context)) => {
            remove_identity_headers(any, &mut buffers.request);
            Verdict::Pass
        }
        // The caller checks the endpoints.
        GuardStep::Endpoint => Verdict::Wait(guard, next),
        GuardStep::Ask(_) | GuardStep::AskGrpc(_) | GuardStep::Password(_) | GuardStep::Any(_) => {
            Verdict::Wait(guard, next)
        }
        GuardStep::Token(check) => match caller::remembered_token(check, context, buffers) {
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
            // The refusal is written where waiting guards are handled.
            Err(_) => Verdict::Wait(guard, next),
        },
        GuardStep::Login(check) => match caller::remembered_session(check, context, buffers) {
            Some(session) => {
                admit_session(&check.auth, &session, buffers);
                Verdict::Pass
            }
            None => Verdict::Wait(guard, next),
        },
        GuardStep::Authorize(check) => caller::authorize(check, context, buffers),
        GuardStep::Rate(policy, limit) => limit::check_rate(context, *policy, limit, buffers),
        GuardStep::Concurrency(policy, limit) => {
            limit::check_concurrency(context.counts, *policy, limit, context.client, buffers)
        }
    }
}

#[inline]
fn edit(step: &RequestStep, context: &FilterContext<'_>, buffers: &mut Buffers) {
    match step {
        RequestStep::Edit(edits) => edits.apply(&mut buffers.request),
        RequestStep::Host(host) => {
            let kept_host = &mut buffers.extras.write().host;
            if kept_host.is_empty() {
                kept_host.extend_from_slice(buffers.request.first(Known::Host).unwrap_or_default());
            }
            buffers.request.set(b"Host", host.as_bytes());
        }
        RequestStep::Prefix(path) => forwarded_prefix(path, context, buffers),
    }
}

/// The error page that replaces a response with this status.
pub(crate) fn replacement(rule: &CompiledRule, status: u16) -> Option<&ErrorPagesStep> {
    let replacing = rule.steps().responses.replacing.as_deref()?;
    replacing.pages.statuses.binary_search(&status).is_ok().then_some(replacing)
}

/// Runs the response steps of a rule that apply to this scope. `number` creates the ID of a request that has none yet.
pub(crate) fn on_response(
    rule: &CompiledRule,
    made: ResponseScope,
    sources: Sources<'_>,
    number: impl Fn() -> u128,
    buffers: &mut Buffers,
) {
    let scheme = sources.client.scheme;
    own_response::add_session_cookie(buffers);
    for step in rule.steps().responses.edits.iter().filter(|step| applies_to(step, made)) {
        match step {
            ResponseStep::Cors(cors) => cors::add_headers(cors, buffers),
            ResponseStep::Cookies(which) => auth_headers::add_cookies(*which, buffers),
            ResponseStep::Granted => auth_headers::add_auth_response_headers(buffers),
            ResponseStep::Edit(edits) => edits.apply(&mut buffers.response),
            ResponseStep::Fields(fields) => fields::set_on_response(fields, sources, &number, buffers),
            ResponseStep::Chosen(fields) => {
                conditional::ensure_request_id(fields, &number, buffers);
                conditional::on_response(fields, sources, buffers);
            }
            ResponseStep::StrictTransportSecurity(value) if scheme == Scheme::Https => {
                buffers.response.set(b"Strict-Transport-Security", value.as_bytes());
            }
            ResponseStep::StrictTransportSecurity(_) => {}
        }
    }
}

/// Whether a step applies to responses of this scope.
#[inline]
fn applies_to(step: &ResponseStep, scope: ResponseScope) -> bool {
    match scope {
        ResponseScope::Rule => true,
        ResponseScope::SignIn => !matches!(
            step,
            ResponseStep::Edit(_) | ResponseStep::Chosen(_) | ResponseStep::StrictTransportSecurity(_)
        ),
        ResponseScope::Host => matches!(step, ResponseStep::Fields(_)),
    }
}

/// Whether the list explicitly allows the address: a list that only denies does not.
fn allows_explicitly(list: &AccessList, context: &FilterContext<'_>) -> bool {
    !list.allow.is_empty() && allows(list, context)
}

/// Whether the list allows the client. Clients with an unknown address are refused.
fn allows(list: &AccessList, context: &FilterContext<'_>) -> bool {
    let Some(client) = context.client.address else { return false };
    let denied = list.deny.iter().any(|range| range.contains(&client));
    let allowed = list.allow.is_empty() || list.allow.iter().any(|range| range.contains(&client));
    !denied && allowed
}

fn deny<'r>(requests: &CompiledDeny, context: &FilterContext<'_>, buffers: &mut Buffers) -> Verdict<'r> {
    let fault = Fault::Denied(requests.status);
    match context.intake.with_routing_request(buffers, |request| requests.covers(request)) {
        true if requests.all_requests => Verdict::RefusedByHost(fault),
        true => Verdict::Refused(fault),
        false => Verdict::Pass,
    }
}

/// Sets `X-Forwarded-Prefix`, if the pattern matches.
fn forwarded_prefix(rewrite: &CompiledRewrite, context: &FilterContext<'_>, buffers: &mut Buffers) {
    let mut value = std::mem::take(&mut buffers.extras.write().value);
    value.clear();
    let path = context.intake.path_in(rewrite.path_form(), buffers);
    if rewrite.expand(path, &mut value) {
        buffers.request.set(b"X-Forwarded-Prefix", &value);
    }
    buffers.extras.write().value = value;
}

/// Writes the new target to the buffers. If the pattern does not match, it stays empty, which keeps the request's own.
fn rewrite(rewrite: &CompiledRewrite, context: &FilterContext<'_>, buffers: &mut Buffers) {
    let mut target = std::mem::take(&mut buffers.extras.write().target);
    target.clear();
    let path = context.intake.path_in(rewrite.path_form(), buffers);
    rewrite.apply(path, context.intake.query(buffers), context.intake.prefix as usize, &mut target);
    buffers.extras.write().target = target;
}
