//! Error pages of another backend (`custom-http-errors`): replace a failed response with one that the backend makes.

use fairway_connection::sides::Downstream;
use fairway_http::{Head, Known, Method};
use fairway_net::clock::Instant;
use fairway_routing::ErrorPagesStep;

use super::decide::has_endpoint;
use super::environment::{Ending, Environment, Exchange};
use super::forward::forward_unchanged;
use super::respond::ForwardOutcome;
use super::{forwarded, respond, subrequest};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::filter::{ResponseScope, remove_login_cookies};
use crate::metrics::record::ExchangeRecord;
use crate::network::Network;
use crate::request::body::RequestBody;

/// Requests the page for `status` and sends it to the client.
///
/// The request for the page uses buffers of its own, so that the log shows the client's request.
pub(super) async fn replace<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    replacing: &ErrorPagesStep,
    status: u16,
) -> Ending {
    let scheme = exchange.client_side.peer.scheme;
    let owner = replacing.rule.as_ref().filter(|rule| has_endpoint(&exchange.env, rule, scheme));
    let Some(rule) = owner else { return respond::respond_without_page(exchange).await };
    let Exchange { env, client_side, buffers, record } = exchange;
    let mut page_request = env.worker.lend_buffers();
    write_page_request(&mut page_request.request, buffers, env, replacing, status);
    let Ok(mut intake) = subrequest::check(&mut page_request) else {
        return respond::refuse_without_page(exchange, Fault::NoBackend, ResponseScope::Rule).await;
    };
    let outer = &env.intake;
    (intake.version, intake.persistence, intake.expects_continue, intake.upgrade) =
        (outer.version, outer.persistence, outer.expects_continue, outer.upgrade);
    page_request.body = RequestBody::none(env.client.trust);
    page_request.extras.take_session_cookie(&mut buffers.extras);
    page_request.extras.set_accepted(buffers.extras.read().accepted);
    let (worker, adopted, client) = (env.worker, env.adopted, env.client);
    let env = Environment::for_rule(worker, adopted, rule, intake, client);
    // Counted and logged as the client's request, by its own rule. The deadline starts here: the backend of the page is not
    // late for what came before.
    let mut page_record = ExchangeRecord::new(Instant::now(), 0);
    page_record.is_traced = share_trace(record, buffers, &mut page_request);
    let after = page_record.started_at.saturating_duration_since(record.forwarding_started_at());
    buffers.extras.record_attempt_start(after.into());
    let ending = {
        let mut inner = Exchange {
            env,
            client_side: &mut **client_side,
            buffers: &mut page_request,
            record: &mut page_record,
        };
        match forward_unchanged(&mut inner).await {
            ForwardOutcome::Ended(ending) => ending,
            ForwardOutcome::Replaced(..) => unreachable!("the rule of a page replaces no answer"),
        }
    };
    record.take_response_of(&page_record);
    // The log shows the response that the client got.
    std::mem::swap(&mut buffers.response, &mut page_request.response);
    buffers.extras.take_received(&mut page_request.extras);
    buffers.extras.record_handshake(page_request.extras.read().handshake);
    ending
}

/// Makes the request for the page one more attempt in the trace of a sampled exchange. Returns whether it is sampled.
fn share_trace(record: &ExchangeRecord<'_>, buffers: &mut Buffers, page_request: &mut Buffers) -> bool {
    let Some(sampled) = buffers.extras.sampled_mut() else { return false };
    let last = record.upstream.map_or(0, |upstream| upstream.attempts);
    sampled.attempts_before_page = sampled.replaced_attempt.map_or(last, |unused| unused.number);
    page_request.extras.write().sampled = Some(Box::new(sampled.clone()));
    true
}

/// Writes the request for the page: the client's headers without those that describe its connection, except for its address.
fn write_page_request<N: Network>(
    page_request: &mut Head,
    buffers: &Buffers,
    env: &Environment<'_, N>,
    replacing: &ErrorPagesStep,
    status: u16,
) {
    let Buffers { request, extras, .. } = buffers;
    let method: &[u8] = if request.method() == Method::Head { b"HEAD" } else { b"GET" };
    // The query of the (rewritten) target is kept.
    let target = &*extras.read().target;
    let rewritten = target.iter().position(|byte| *byte == b'?').map(|at| &target[at + 1..]);
    let query = if target.is_empty() { env.intake.query(buffers) } else { rewritten.unwrap_or_default() };
    // The query may carry the code of a login.
    let is_secret = env.rule().steps().takes_logins;
    match query {
        _ if is_secret => page_request.start_request(method, b"/"),
        [] => page_request.start_request(method, b"/"),
        query => page_request.start_request(method, &[b"/?", query].concat()),
    }
    let skipped = |known| matches!(known, Known::ContentLength | Known::Expect) || known.is_of_the_client();
    page_request.copy_fields(request, |field| !skipped(field.known));
    remove_login_cookies(page_request);
    let received = &extras.read().host;
    if !received.is_empty() || request.first(Known::Host).is_none() {
        page_request.set(b"Host", received);
    }
    forwarded::add_client_headers(page_request, &env.client, || env.new_request_id());
    page_request.set(b"X-Code", itoa::Buffer::new().format(status).as_bytes());
    match is_secret {
        true => page_request.set(b"X-Original-URI", env.intake.normalised(buffers)),
        false => page_request.set(b"X-Original-URI", env.intake.received(buffers)),
    }
    if let Some(accepted) = request.named(b"accept") {
        page_request.set(b"X-Format", accepted);
    }
    for (name, value) in &replacing.pages.fields {
        page_request.set(name.as_bytes(), value.as_bytes());
    }
}
