//! Guards that wait for somebody's word before the request goes on: a password that is verified off the worker, another
//! service, or the first of both.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fairway_connection::sides::Downstream;
use fairway_model::BasicAuth;
use fairway_net::clock::Instant;
use fairway_routing::{AnyOf, GuardStep};

use super::ask::{self, Answer};
use super::environment::{ClientSide, Exchange};
use super::respond;
use crate::fault::Fault;
use crate::filter::{Made, Verdict, own_answer, vouch_for_nobody};
use crate::guards::{Claim, Word};
use crate::network::Network;

/// Waits for the word of a guard. Whatever does not let the request pass keeps it out.
pub(super) async fn pass<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    step: &GuardStep,
) -> Verdict<'r> {
    match step {
        GuardStep::Ask(asking) => {
            let answer = ask::ask(exchange, asking).await;
            conclude(exchange, answer)
        }
        GuardStep::Password(basic) => match verify(exchange, basic).await {
            Ok(Word::Right) => Verdict::Pass,
            Ok(Word::Wrong) => challenge(exchange, basic),
            Ok(Word::None) => Verdict::Refused(Fault::Overloaded),
            Err(fault) => Verdict::Refused(fault),
        },
        // Its list of addresses has not let the request pass.
        GuardStep::Any(any) => pass_one(exchange, any).await,
        // The others wait for nobody.
        _ => Verdict::Refused(Fault::ProtectionUnavailable),
    }
}

/// Waits for the first of several guards that lets the request pass. Where none does, a challenge comes before a plain no: the
/// client can do something about it.
async fn pass_one<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    any: &AnyOf,
) -> Verdict<'r> {
    let password = match &any.basic {
        Some(basic) => verify(exchange, basic).await,
        None => Ok(Word::Wrong),
    };
    match password {
        Ok(Word::Right) => {
            any.asking.iter().for_each(|it| vouch_for_nobody(it, &mut exchange.buffers.request));
            return Verdict::Pass;
        }
        Ok(Word::Wrong | Word::None) => {}
        Err(fault) => return Verdict::Refused(fault),
    }
    let answer = match &any.asking {
        Some(asking) => ask::ask(exchange, asking).await,
        None => Answer::No(403),
    };
    match (answer, &any.basic) {
        (Answer::No(403), Some(_)) if password == Ok(Word::None) => Verdict::Refused(Fault::Overloaded),
        (Answer::No(403), Some(basic)) => challenge(exchange, basic),
        (Answer::No(403), None) if any.asking.is_none() => {
            Verdict::Refused(exchange.env.client.address_refused())
        }
        (answer, _) => conclude(exchange, answer),
    }
}

/// What becomes of the request after another service was asked.
fn conclude<'r, N: Network, D>(exchange: &Exchange<'_, '_, N, D>, answer: Answer) -> Verdict<'r> {
    match answer {
        Answer::Yes => Verdict::Pass,
        Answer::No(status) => denied(exchange, status),
        Answer::SignIn => Verdict::Answered(Made::AtSignIn),
        Answer::None(fault) => Verdict::Refused(fault),
    }
}

/// The answer that says no stands in the buffers, unless the rule has a page for its status.
fn denied<'r, N: Network, D>(exchange: &Exchange<'_, '_, N, D>, status: u16) -> Verdict<'r> {
    match respond::replacing(&exchange.env, exchange.buffers.answer.status()) {
        Some(_) => Verdict::Refused(Fault::Denied(status)),
        None => Verdict::Answered(Made::ByRule),
    }
}

/// Asks the client for a password (RFC 7617 §2).
fn challenge<'r, N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, basic: &BasicAuth) -> Verdict<'r> {
    let fault = Fault::Denied(401);
    exchange.record.fault = Some(fault);
    own_answer(exchange.buffers, 401, Some(fault.label()));
    let challenge = ["Basic realm=\"", &basic.realm, "\""].concat();
    exchange.buffers.answer.append(b"WWW-Authenticate", challenge.as_bytes());
    denied(exchange, 401)
}

/// Verifies what the client claims.
///
/// # Errors
/// The client has gone, or its request's time is over: the word is not waited for, and nothing is verified that nobody has begun
/// to.
async fn verify<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    basic: &BasicAuth,
) -> Result<Word, Fault> {
    let Exchange { env, buffers, client_side, .. } = exchange;
    let mut values = buffers.request.all_named(b"Authorization");
    let claim = match (values.next(), values.next()) {
        (Some(value), None) => Claim::read(value),
        _ => None,
    };
    let Some(claim) = claim else { return Ok(Word::Wrong) };
    let mut verified = pin!(env.worker.guards.passwords.verify(basic, claim));
    let ClientSide { down, deadline, .. } = &mut **client_side;
    env.arm(deadline, Instant::now(), Duration::MAX);
    poll_fn(|cx| match verified.as_mut().poll(cx) {
        Poll::Ready(word) => Poll::Ready(Ok(word)),
        Poll::Pending if down.poll_gone(cx).is_ready() => Poll::Ready(Err(Fault::ClientGone)),
        Poll::Pending => deadline.poll_passed(cx).map(|()| Err(env.overdue())),
    })
    .await
}
