//! Steps that wait for another service's word: a question of their own, through the same pools, before the request goes on.

use fairway_message::{Head, Known};
use fairway_routing::Asking;

use super::environment::Exchange;
use super::subrequest::{self, Asker, Unseen};
use crate::fault::Fault;
use crate::filter::{Verdict, own_answer};
use crate::network::Network;
use crate::request::client::Client;
use fairway_sides::sides::Downstream;

/// Asks whether the request may pass. On `Pass` it goes on with the step behind this one.
pub(super) async fn ask<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    asking: &Asking,
) -> Verdict<'r> {
    let Exchange { env, client_side, buffers, record } = exchange;
    let mut question = env.worker.lend_buffers();
    let target = env.intake.received(buffers);
    write_question(&mut question.request, &buffers.request, (target, &env.client), asking);
    let asked = match subrequest::intake(&mut question) {
        Ok(intake) => {
            let down = Unseen::before(Asker(&mut client_side.down));
            subrequest::run(env, client_side.peer, (&asking.rule, intake), (down, &mut question)).await
        }
        Err(fault) => Err(fault),
    };
    match (asked, question.answer.status()) {
        (Ok(()), 200..=299) => {
            copy_fields(&question.answer, &mut buffers.request, asking);
            Verdict::Pass
        }
        (Ok(()), status @ (401 | 403)) => {
            record.fault = Some(Fault::Denied(status));
            own_answer(buffers, status, Some(Fault::Denied(status).label()));
            // "A server generating a 401 response MUST send a WWW-Authenticate header field" (RFC 9110 §11.6.1).
            for challenge in question.answer.all_named(b"WWW-Authenticate") {
                buffers.answer.append(b"WWW-Authenticate", challenge);
            }
            Verdict::Answered
        }
        (Err(fault @ (Fault::ClientGone | Fault::DeadlineExceeded)), _) => Verdict::Refused(fault),
        _ => Verdict::Refused(Fault::Undecided),
    }
}

/// The request's fields, as far as they say something without its body, and what was asked for.
fn write_question(question: &mut Head, request: &Head, (target, client): (&[u8], &Client), asking: &Asking) {
    let auth = &asking.auth;
    let method = auth.method.as_ref().map_or(request.method_bytes(), |method| method.as_bytes());
    question.start_request(method, auth.target.as_bytes());
    question.append(b"Host", auth.host.as_bytes());
    let of_the_body = [Known::Host, Known::ContentLength, Known::Expect];
    for field in request.fields().filter(|field| !of_the_body.contains(&field.known)) {
        question.append(field.name, field.value);
    }
    let host = request.first(Known::Host).unwrap_or_default();
    let url = [client.scheme.as_str().as_bytes(), b"://", host, target].concat();
    question.set(b"X-Original-URL", &url);
    question.set(b"X-Original-Method", request.method_bytes());
    question.set(b"X-Auth-Request-Redirect", target);
}

fn copy_fields(answer: &Head, request: &mut Head, asking: &Asking) {
    for name in &asking.auth.copied {
        request.remove(name.as_bytes());
        for value in answer.all_named(name.as_bytes()) {
            request.append(name.as_bytes(), value);
        }
    }
}
