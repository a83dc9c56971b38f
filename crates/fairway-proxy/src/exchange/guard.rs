//! Guards that wait for somebody's word before the request goes on: a password that is verified off the worker, a token whose keys come
//! from its issuer, another service, or the first of them. Also answers the requests that a guard keeps out.

use std::time::Duration;

use fairway_connection::sides::Downstream;
use fairway_model::BasicAuth;
use fairway_routing::{AnyOf, GuardStep};

use super::ask::{self, Answer};
use super::check;
use super::environment::Exchange;
use super::refused::{Refused, keep_out, wait};
use super::token;
use super::{login, respond};
use crate::fault::{Denial, Fault};
use crate::filter::{
    Made, Verdict, admit_api_client, admit_token, api_client, own_answer, remove_credentials, vouch_for_none,
};
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
        GuardStep::AskGrpc(asking) => {
            let answer = check::check(exchange, asking).await;
            conclude(exchange, answer)
        }
        GuardStep::Password(basic) => match verify(exchange, basic).await {
            Ok(Word::Right) => Verdict::Pass,
            Ok(Word::Wrong) => challenge(exchange, basic),
            Ok(Word::None) => Verdict::Refused(Fault::Overloaded),
            Err(fault) => Verdict::Refused(fault),
        },
        GuardStep::Token(check) => match token::verified(exchange, check).await {
            Ok(token) => {
                admit_token(&check.auth, &token, exchange.buffers);
                Verdict::Pass
            }
            Err(Refused::Failed(fault)) => Verdict::Refused(fault),
            Err(Refused::Denied(denial)) => {
                token::challenge(exchange, &check.auth, denial);
                keep_out(exchange, denial)
            }
        },
        GuardStep::Login(check) => login::pass(exchange, check).await,
        GuardStep::ApiKey(auth) => match api_client(auth, &exchange.env.intake, exchange.buffers) {
            Ok(client) => {
                admit_api_client(auth, &client, exchange.buffers);
                Verdict::Pass
            }
            Err(denial) => {
                token::challenge_for_api_key(exchange, denial);
                keep_out(exchange, denial)
            }
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
    let token = match &any.jwt {
        Some(check) => token::verified(exchange, check).await.map(|token| (check, token)),
        None => Err(Refused::Denied(Denial::NotAllowed)),
    };
    match &token {
        Ok((check, token)) => {
            vouch_for_none(any, &mut exchange.buffers.request);
            admit_token(&check.auth, token, exchange.buffers);
            return Verdict::Pass;
        }
        Err(Refused::Denied(_) | Refused::Failed(Fault::KeysUnavailable)) => {}
        Err(Refused::Failed(fault)) => return Verdict::Refused(*fault),
    }
    let client =
        any.api_key.as_ref().map(|auth| (auth, api_client(auth, &exchange.env.intake, exchange.buffers)));
    if let Some((auth, Ok(client))) = &client {
        vouch_for_none(any, &mut exchange.buffers.request);
        admit_api_client(auth, client, exchange.buffers);
        return Verdict::Pass;
    }
    let password = match &any.basic {
        Some(basic) => verify(exchange, basic).await,
        None => Ok(Word::Wrong),
    };
    match password {
        Ok(Word::Right) => {
            vouch_for_none(any, &mut exchange.buffers.request);
            return Verdict::Pass;
        }
        Ok(Word::Wrong | Word::None) => {}
        Err(fault) => return Verdict::Refused(fault),
    }
    let answer = match &any.asking {
        Some(asking) => {
            remove_credentials(any, &mut exchange.buffers.request);
            ask::ask(exchange, asking).await
        }
        None => Answer::No(403),
    };
    let Answer::No(403) = answer else { return conclude(exchange, answer) };
    match (&any.basic, token, &any.jwt, client) {
        (Some(_), ..) if password == Ok(Word::None) => Verdict::Refused(Fault::Overloaded),
        (Some(basic), ..) => challenge(exchange, basic),
        (None, Err(Refused::Failed(fault)), ..) => Verdict::Refused(fault),
        (None, Err(Refused::Denied(denial)), Some(check), _) => {
            token::challenge(exchange, &check.auth, denial);
            keep_out(exchange, denial)
        }
        (.., Some((_, Err(denial)))) => {
            token::challenge_for_api_key(exchange, denial);
            keep_out(exchange, denial)
        }
        _ if any.asking.is_none() => Verdict::Refused(exchange.env.client.address_refused()),
        _ => conclude(exchange, answer),
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
    let worker = exchange.env.worker;
    let claim = {
        let mut values = exchange.buffers.request.all_named(b"Authorization");
        match (values.next(), values.next()) {
            (Some(value), None) => Claim::read(value),
            _ => None,
        }
    };
    let Some(claim) = claim else { return Ok(Word::Wrong) };
    let verified = worker.guards.passwords.verify(basic, claim);
    wait(exchange, verified, Duration::MAX).await
}
