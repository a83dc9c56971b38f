//! Answers that another backend makes: the client gets what it says of the failure instead of the failure.

use fairway_message::{Head, Known, Method};
use fairway_routing::Replacing;

use super::environment::{Ending, Environment, Exchange};
use super::forward::forward;
use super::respond::Outcome;
use super::{respond, subrequest};
use crate::fault::Fault;
use crate::network::Network;
use crate::record::Record;
use crate::request::body::RequestBody;
use fairway_sides::sides::Downstream;

/// Asks for the page of `status`, and gives it to the client.
///
/// The page is asked for in buffers of its own, so that the log shows the client's request.
pub(super) async fn replace<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    replacing: &Replacing,
    status: u16,
) -> Ending {
    let Exchange { env, client_side, buffers, record } = exchange;
    let mut question = env.worker.lend_buffers();
    write_question(
        &mut question.request,
        &buffers.request,
        env.intake.received(buffers),
        (replacing, status),
    );
    let Ok(mut intake) = subrequest::intake(&mut question) else {
        return respond::refuse_by_rule(exchange, Fault::NoBackend).await;
    };
    let outer = &env.intake;
    (intake.version, intake.persistence, intake.expectation, intake.upgrade) =
        (outer.version, outer.persistence, outer.expectation, outer.upgrade);
    question.body = RequestBody::none(env.client.trust);
    let (rule, limit) = (&replacing.rule, None);
    let (worker, adopted, client) = (env.worker, env.adopted, env.client);
    let env = Environment { worker, adopted, rule, intake, client, prefix: 0, https_port: 0, limit };
    // Counted and logged as the client's own, by its own rule.
    let mut own = Record::new(record.began, 0);
    let ending = {
        let mut inner =
            Exchange { env, client_side: &mut **client_side, buffers: &mut question, record: &mut own };
        match forward(&mut inner).await {
            Outcome::Ended(ending) => ending,
            Outcome::Replaced(..) => unreachable!("the rule of a page replaces no answer"),
        }
    };
    record.take_answer_of(&own);
    ending
}

fn write_question(
    question: &mut Head,
    request: &Head,
    target: &[u8],
    (replacing, status): (&Replacing, u16),
) {
    let method: &[u8] = if request.method() == Method::Head { b"HEAD" } else { b"GET" };
    question.start_request(method, b"/");
    let of_the_body = [Known::ContentLength, Known::Expect];
    for field in request.fields().filter(|field| !of_the_body.contains(&field.known)) {
        question.append(field.name, field.value);
    }
    question.set(b"X-Code", itoa::Buffer::new().format(status).as_bytes());
    question.set(b"X-Original-URI", target);
    if let Some(accepted) = request.named(b"accept") {
        question.set(b"X-Format", accepted);
    }
    for (name, value) in &replacing.pages.fields {
        question.set(name.as_bytes(), value.as_bytes());
    }
}
