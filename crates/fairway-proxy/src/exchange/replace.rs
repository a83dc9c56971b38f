//! Answers that another backend makes: the client gets what it says of the failure instead of the failure.

use fairway_connection::sides::Downstream;
use fairway_http::{Head, Known, Method};
use fairway_net::clock::Instant;
use fairway_routing::Replacing;

use super::decide::has_endpoint;
use super::environment::{Ending, Environment, Exchange};
use super::forward::forward_as_it_is;
use super::respond::Outcome;
use super::{forwarded, respond, subrequest};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::filter::{Made, remove_login_cookies};
use crate::metrics::record::Record;
use crate::network::Network;
use crate::request::body::RequestBody;

/// Asks for the page of `status`, and gives it to the client.
///
/// The page is asked for in buffers of its own, so that the log shows the client's request.
pub(super) async fn replace<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    replacing: &Replacing,
    status: u16,
) -> Ending {
    let scheme = exchange.client_side.peer.scheme;
    let owner = replacing.rule.as_ref().filter(|rule| has_endpoint(&exchange.env, rule, scheme));
    let Some(rule) = owner else { return respond::without_page(exchange).await };
    let Exchange { env, client_side, buffers, record } = exchange;
    let mut question = env.worker.lend_buffers();
    write_question(&mut question.request, buffers, env, replacing, status);
    let Ok(mut intake) = subrequest::intake(&mut question) else {
        return respond::refuse_without_page(exchange, Fault::NoBackend, Made::ByRule).await;
    };
    let outer = &env.intake;
    (intake.version, intake.persistence, intake.expects_continue, intake.upgrade) =
        (outer.version, outer.persistence, outer.expects_continue, outer.upgrade);
    question.body = RequestBody::none(env.client.trust);
    question.forms.take_session_cookie(&mut buffers.forms);
    question.forms.accept(buffers.forms.read().accepted);
    let (worker, adopted, client) = (env.worker, env.adopted, env.client);
    let env = Environment::under(worker, adopted, rule, intake, client);
    // Counted and logged as the client's own, by its own rule. Its time begins here: nobody who makes a page is late for what
    // came before.
    let mut own = Record::new(Instant::now(), 0);
    own.is_traced = share_trace(record, buffers, &mut question);
    let after = own.began.saturating_duration_since(record.forwarding_began());
    buffers.forms.note_attempt_began(after.into());
    let ending = {
        let mut inner =
            Exchange { env, client_side: &mut **client_side, buffers: &mut question, record: &mut own };
        match forward_as_it_is(&mut inner).await {
            Outcome::Ended(ending) => ending,
            Outcome::Replaced(..) => unreachable!("the rule of a page replaces no answer"),
        }
    };
    record.take_answer_of(&own);
    // The log shows the answer that the client got.
    std::mem::swap(&mut buffers.answer, &mut question.answer);
    buffers.forms.take_received(&mut question.forms);
    buffers.forms.note_handshake(question.forms.read().handshake);
    ending
}

/// The request for a page is one more attempt in the trace of a sampled exchange. Says whether it is sampled.
fn share_trace(record: &Record<'_>, buffers: &mut Buffers, question: &mut Buffers) -> bool {
    let Some(sampled) = buffers.forms.sampled_mut() else { return false };
    let last = record.upstream.map_or(0, |upstream| upstream.attempts);
    sampled.attempts_before_page = sampled.unused.map_or(last, |unused| unused.number);
    question.forms.write().sampled = Some(Box::new(sampled.clone()));
    true
}

/// The fields of the client, without those that tell endpoints of its connection, but for its address.
fn write_question<N: Network>(
    question: &mut Head,
    buffers: &Buffers,
    env: &Environment<'_, N>,
    replacing: &Replacing,
    status: u16,
) {
    let Buffers { request, forms, .. } = buffers;
    let method: &[u8] = if request.method() == Method::Head { b"HEAD" } else { b"GET" };
    // Of the target the query stays, as rewrites have made it.
    let target = &*forms.read().target;
    let rewritten = target.iter().position(|byte| *byte == b'?').map(|at| &target[at + 1..]);
    let query = if target.is_empty() { env.intake.query(buffers) } else { rewritten.unwrap_or_default() };
    // It may be that with which a browser comes back from its login.
    let is_secret = env.rule().steps().takes_logins;
    match query {
        _ if is_secret => question.start_request(method, b"/"),
        [] => question.start_request(method, b"/"),
        query => question.start_request(method, &[b"/?", query].concat()),
    }
    let skipped = |known| matches!(known, Known::ContentLength | Known::Expect) || known.is_of_the_client();
    question.copy_fields(request, |field| !skipped(field.known));
    remove_login_cookies(question);
    let received = &forms.read().host;
    if !received.is_empty() || request.first(Known::Host).is_none() {
        question.set(b"Host", received);
    }
    forwarded::name_client(question, &env.client, || env.number());
    question.set(b"X-Code", itoa::Buffer::new().format(status).as_bytes());
    match is_secret {
        true => question.set(b"X-Original-URI", env.intake.normalised(buffers)),
        false => question.set(b"X-Original-URI", env.intake.received(buffers)),
    }
    if let Some(accepted) = request.named(b"accept") {
        question.set(b"X-Format", accepted);
    }
    for (name, value) in &replacing.pages.fields {
        question.set(name.as_bytes(), value.as_bytes());
    }
}
