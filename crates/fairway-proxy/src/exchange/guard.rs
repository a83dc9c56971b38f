//! Guards that wait before the request goes on: for a password that is verified on other threads, a token whose keys are
//! fetched from its issuer, another service, or the first of these that passes. Also writes the responses of guards that
//! refuse.

use std::time::Duration;

use fairway_connection::sides::Downstream;
use fairway_model::BasicAuth;
use fairway_routing::{AnyOfCheck, GuardStep};

use super::auth_subrequest::{self, AuthOutcome};
use super::check;
use super::environment::Exchange;
use super::refused::{GuardError, refuse_credential, wait};
use super::token;
use super::{login, respond};
use crate::fault::{Denial, Fault};
use crate::filter::{
    ResponseScope, Verdict, admit_api_client, admit_token, api_client, remove_credentials,
    remove_identity_headers, start_own_response,
};
use crate::guards::{Claim, PasswordVerdict};
use crate::network::Network;

/// Waits for the decision of a guard. Only an explicit pass lets the request through.
pub(super) async fn await_guard<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    step: &GuardStep,
) -> Verdict<'r> {
    match step {
        GuardStep::Ask(auth_check) => {
            let response = auth_subrequest::call_auth_service(exchange, auth_check).await;
            auth_verdict(exchange, response)
        }
        GuardStep::AskGrpc(auth_check) => {
            let response = check::check(exchange, auth_check).await;
            auth_verdict(exchange, response)
        }
        GuardStep::Password(basic) => match verify_password(exchange, basic).await {
            Ok(PasswordVerdict::Right) => Verdict::Pass,
            Ok(PasswordVerdict::Wrong) => challenge(exchange, basic),
            Ok(PasswordVerdict::Overloaded) => Verdict::Refused(Fault::Overloaded),
            Err(fault) => Verdict::Refused(fault),
        },
        GuardStep::Token(check) => match token::verified_token(exchange, check).await {
            Ok(token) => {
                admit_token(&check.auth, &token, exchange.buffers);
                Verdict::Pass
            }
            Err(GuardError::Failed(fault)) => Verdict::Refused(fault),
            Err(GuardError::Denied(denial)) => {
                token::challenge(exchange, &check.auth, denial);
                refuse_credential(exchange, denial)
            }
        },
        GuardStep::Login(check) => login::require_session(exchange, check).await,
        GuardStep::ApiKey(auth) => match api_client(auth, &exchange.env.intake, exchange.buffers) {
            Ok(client) => {
                admit_api_client(auth, &client, exchange.buffers);
                Verdict::Pass
            }
            Err(denial) => {
                token::challenge_for_api_key(exchange, denial);
                refuse_credential(exchange, denial)
            }
        },
        // Its address list has already been checked and does not allow the client.
        GuardStep::Any(any) => await_any_guard(exchange, any).await,
        // No other guard waits.
        _ => Verdict::Refused(Fault::ProtectionUnavailable),
    }
}

/// Waits for the first of several guards that lets the request pass. If none does, a challenge is preferred over a plain
/// refusal, because the client can respond to it.
async fn await_any_guard<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    any: &AnyOfCheck,
) -> Verdict<'r> {
    let token = match &any.jwt {
        Some(check) => token::verified_token(exchange, check).await.map(|token| (check, token)),
        None => Err(GuardError::Denied(Denial::NotAllowed)),
    };
    match &token {
        Ok((check, token)) => {
            remove_identity_headers(any, &mut exchange.buffers.request);
            admit_token(&check.auth, token, exchange.buffers);
            return Verdict::Pass;
        }
        Err(GuardError::Denied(_) | GuardError::Failed(Fault::KeysUnavailable)) => {}
        Err(GuardError::Failed(fault)) => return Verdict::Refused(*fault),
    }
    let client =
        any.api_key.as_ref().map(|auth| (auth, api_client(auth, &exchange.env.intake, exchange.buffers)));
    if let Some((auth, Ok(client))) = &client {
        remove_identity_headers(any, &mut exchange.buffers.request);
        admit_api_client(auth, client, exchange.buffers);
        return Verdict::Pass;
    }
    let password = match &any.basic {
        Some(basic) => verify_password(exchange, basic).await,
        None => Ok(PasswordVerdict::Wrong),
    };
    match password {
        Ok(PasswordVerdict::Right) => {
            remove_identity_headers(any, &mut exchange.buffers.request);
            return Verdict::Pass;
        }
        Ok(PasswordVerdict::Wrong | PasswordVerdict::Overloaded) => {}
        Err(fault) => return Verdict::Refused(fault),
    }
    let response = match &any.asking {
        Some(auth_check) => {
            remove_credentials(any, &mut exchange.buffers.request);
            auth_subrequest::call_auth_service(exchange, auth_check).await
        }
        None => AuthOutcome::Denied(403),
    };
    let AuthOutcome::Denied(403) = response else { return auth_verdict(exchange, response) };
    match (&any.basic, token, &any.jwt, client) {
        (Some(_), ..) if password == Ok(PasswordVerdict::Overloaded) => Verdict::Refused(Fault::Overloaded),
        (Some(basic), ..) => challenge(exchange, basic),
        (None, Err(GuardError::Failed(fault)), ..) => Verdict::Refused(fault),
        (None, Err(GuardError::Denied(denial)), Some(check), _) => {
            token::challenge(exchange, &check.auth, denial);
            refuse_credential(exchange, denial)
        }
        (.., Some((_, Err(denial)))) => {
            token::challenge_for_api_key(exchange, denial);
            refuse_credential(exchange, denial)
        }
        _ if any.asking.is_none() => Verdict::Refused(exchange.env.client.address_fault()),
        _ => auth_verdict(exchange, response),
    }
}

/// Turns the outcome of an authentication service into a verdict.
fn auth_verdict<'r, N: Network, D>(exchange: &Exchange<'_, '_, N, D>, response: AuthOutcome) -> Verdict<'r> {
    match response {
        AuthOutcome::Allowed => Verdict::Pass,
        AuthOutcome::Denied(status) => denied_verdict(exchange, status),
        AuthOutcome::SignIn => Verdict::Responded(ResponseScope::SignIn),
        AuthOutcome::Failed(fault) => Verdict::Refused(fault),
    }
}

/// Refuses with the response in the buffers, or with the rule's page for its status.
fn denied_verdict<'r, N: Network, D>(exchange: &Exchange<'_, '_, N, D>, status: u16) -> Verdict<'r> {
    match respond::replacement(&exchange.env, exchange.buffers.response.status()) {
        Some(_) => Verdict::Refused(Fault::Denied(status)),
        None => Verdict::Responded(ResponseScope::Rule),
    }
}

/// Responds with a challenge for a password (RFC 7617 §2).
fn challenge<'r, N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, basic: &BasicAuth) -> Verdict<'r> {
    let fault = Fault::Denied(401);
    exchange.record.fault = Some(fault);
    start_own_response(exchange.buffers, 401, Some(fault.label()));
    let challenge = ["Basic realm=\"", &basic.realm, "\""].concat();
    exchange.buffers.response.append(b"WWW-Authenticate", challenge.as_bytes());
    denied_verdict(exchange, 401)
}

/// Verifies the password of the request.
///
/// # Errors
/// The client has gone, or the request's deadline has passed. A verification that no thread has started is then skipped.
async fn verify_password<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    basic: &BasicAuth,
) -> Result<PasswordVerdict, Fault> {
    let worker = exchange.env.worker;
    let claim = {
        let mut values = exchange.buffers.request.all_named(b"Authorization");
        match (values.next(), values.next()) {
            (Some(value), None) => Claim::read(value),
            _ => None,
        }
    };
    let Some(claim) = claim else { return Ok(PasswordVerdict::Wrong) };
    let verified = worker.guards.passwords.verify(basic, claim);
    wait(exchange, verified, Duration::MAX).await
}
