//! Steps that wait for another service's word: a question of their own, through the same pools, before the request goes on.
//! Only a service that says so lets a request pass; whatever else happens keeps it out.

use fairway_message::{Head, Known};
use fairway_model::{Action, AuthService, OwnScheme};
use fairway_routing::{Asking, CompiledRule};

use super::environment::Exchange;
use super::subrequest::{self, Asker, Question, Unseen};
use super::{lookup, template};
use crate::fault::Fault;
use crate::filter::{self, FilterContext, Verdict, keep_cookies, own_answer, vouch};
use crate::network::Network;
use crate::peer::Scheme;
use crate::request::client::Client;
use crate::worker::Loan;
use fairway_sides::sides::Downstream;

/// What a service says.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    /// The request may pass.
    Yes,
    /// It may not, with this status.
    No(u16),
    /// It said neither.
    None(Fault),
}

/// Asks whether the request may pass. On [`Answer::Yes`] the request has the service's word in it; on [`Answer::No`] the answer
/// stands in the buffers.
pub(super) async fn ask<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    asking: &Asking,
) -> Answer {
    let mut question = exchange.env.worker.lend_buffers();
    write_question(exchange, asking, &mut question);
    let asked = put(exchange, asking, &mut question).await;
    let Exchange { buffers, record, env, .. } = exchange;
    let answer = &question.answer;
    match (asked, answer.status()) {
        (Ok(()), 200..=299) => {
            keep_cookies(answer, buffers);
            vouch(asking, answer, &mut buffers.request);
            Answer::Yes
        }
        (Ok(()), status @ (401 | 403)) => {
            keep_cookies(answer, buffers);
            record.fault = Some(Fault::Denied(status));
            match &asking.auth.sign_in {
                Some(sign_in) if status == 401 => {
                    let location = template::text(sign_in, (&env.intake, &env.client), buffers);
                    own_answer(buffers, 302, None);
                    buffers.answer.append(b"Location", &location);
                }
                _ => own_answer(buffers, status, Some(Fault::Denied(status).label())),
            }
            // "A server generating a 401 response MUST send a WWW-Authenticate header field" (RFC 9110 §11.6.1).
            if buffers.answer.status() == 401 {
                for challenge in answer.all_named(b"WWW-Authenticate") {
                    buffers.answer.append(b"WWW-Authenticate", challenge);
                }
            }
            Answer::No(status)
        }
        (Err(fault @ (Fault::ClientGone | Fault::DeadlineExceeded)), _) => Answer::None(fault),
        _ => Answer::None(Fault::Undecided),
    }
}

/// Puts the question to whoever decides.
async fn put<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    asking: &Asking,
    question: &mut Loan<N>,
) -> Result<(), Fault> {
    let Exchange { env, client_side, .. } = exchange;
    let intake = subrequest::intake(question)?;
    let (rule, prefix, client) = match (&asking.rule, &asking.auth.service) {
        (Some(rule), _) => (rule, 0, env.client),
        (None, AuthService::Backend { .. }) => return Err(Fault::NoBackend),
        (None, AuthService::OwnHost { scheme }) => {
            let client = seen_with(*scheme, &env.client);
            let table = env.adopted.listener(client_side.peer.listener).ok_or(Fault::NoRoute)?.table;
            let (_, rule, prefix) =
                lookup::lookup(env.adopted, table, &intake, question).ok_or(Fault::NoRoute)?;
            let counts = &env.worker.guards.counts;
            let context = FilterContext { intake: &intake, client: &client, counts, https_port: 0, prefix };
            follow(rule, &context, question)?;
            (rule, prefix, client)
        }
    };
    let down = Unseen::before(Asker(&mut client_side.down));
    let question = Question { rule, intake, client, prefix, buffers: question };
    subrequest::run(env, client_side.peer, question, down).await
}

/// The client as the rules of its own host see a question that is asked with `scheme`.
fn seen_with(scheme: Option<OwnScheme>, client: &Client) -> Client {
    let scheme = match scheme {
        None => return *client,
        Some(OwnScheme::Http) => Scheme::Http,
        Some(OwnScheme::Https) => Scheme::Https,
    };
    Client { scheme, port: scheme.default_port(), ..*client }
}

/// Runs the steps of a rule that answers a question. One that would wait for a word itself gives none: two rules could wait for
/// each other.
fn follow<N: Network>(
    rule: &CompiledRule,
    context: &FilterContext<'_>,
    question: &mut Loan<N>,
) -> Result<(), Fault> {
    match filter::on_request(rule, 0, context, question) {
        Verdict::Pass if matches!(rule.rule().action, Action::Forward(_)) => Ok(()),
        Verdict::Refused(fault) => Err(fault),
        Verdict::Pass | Verdict::Answered | Verdict::Wait(..) => Err(Fault::Undecided),
    }
}

/// The request's fields, as far as they say something without its body, and what was asked for.
fn write_question<N: Network, D>(exchange: &Exchange<'_, '_, N, D>, asking: &Asking, question: &mut Loan<N>) {
    let Exchange { env, buffers, .. } = exchange;
    let (auth, request) = (&asking.auth, &buffers.request);
    let write = |template| template::text(template, (&env.intake, &env.client), buffers);
    let own = request.first(Known::Host).unwrap_or_default();
    let host = match &auth.service {
        AuthService::Backend { host, .. } => host.as_bytes(),
        AuthService::OwnHost { .. } => own,
    };
    // The endpoint is told which host the client asked for.
    question.forms.write().host.extend_from_slice(own);
    let method = auth.method.as_ref().map_or(request.method_bytes(), |method| method.as_bytes());
    let head: &mut Head = &mut question.request;
    head.start_request(method, &write(&auth.target));
    head.append(b"Host", host);
    let dropped = Known::Host.bit() | Known::ContentLength.bit() | Known::Expect.bit();
    head.copy_fields(request, |field| dropped & field.known.bit() == 0 && !is_own(field.name));
    let target = env.intake.received(buffers);
    head.append_with(b"X-Original-URL", |value| {
        let parts = [env.client.scheme.as_str().as_bytes(), b"://", own, target];
        parts.iter().for_each(|part| value.extend_from_slice(part));
    });
    head.append(b"X-Original-URI", target);
    head.append(b"X-Original-Method", request.method_bytes());
    head.append(b"X-Sent-From", b"nginx-ingress-controller");
    match &auth.redirect {
        Some(redirect) => head.append(b"X-Auth-Request-Redirect", &write(redirect)),
        None => head.append(b"X-Auth-Request-Redirect", target),
    }
    for (name, value) in &auth.fields {
        head.set(name.as_bytes(), &write(value));
    }
}

/// Whether a field says to the service what Fairway alone may say.
fn is_own(name: &[u8]) -> bool {
    let own: [&[u8]; 5] = [
        b"X-Original-URL",
        b"X-Original-URI",
        b"X-Original-Method",
        b"X-Sent-From",
        b"X-Auth-Request-Redirect",
    ];
    own.iter().any(|own| name.eq_ignore_ascii_case(own))
}
