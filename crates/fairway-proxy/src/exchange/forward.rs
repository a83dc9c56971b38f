//! Forwarding: attempts until one endpoint answers, then the answer.
//!
//! A failed attempt is followed by another only when that is safe: no byte of an answer came, and either the endpoint
//! saw nothing of the request, or repeating it does no harm (RFC 9110 §9.2.2) and its body is still held.

use std::rc::Rc;

use fairway_http1::{Framing, Known, Method, keep_alive, response_framing, strip_hop_by_hop};
use fairway_model::ForwardedPath;
use fairway_routing::BackendSlot;

use super::attempt::{Answered, Failed, Progress, Reuse, Target, attempt};
use super::body::{BodyBounds, RequestBody};
use super::forwarded;
use super::intake::Upgrade;
use super::record::{Record, UpstreamRecord};
use super::relay::{Relay, relay};
use super::respond;
use super::sides::{AnswerPlan, Downstream, Persistence, Upstream};
use super::transact::Reply;
use super::tunnel::tunnel;
use super::{Connection, Ending, Scene};
use crate::clock::Instant;
use crate::fault::Fault;
use crate::filter;
use crate::metrics::count;
use crate::transport::{Network, Transport};
use crate::upstream::{Endpoint, Group, Tried};
use crate::worker::{Desk, ToEndpoint};

/// An endpoint that answered, with what it answered on.
struct Delivered<S> {
    endpoint: Rc<Endpoint<S>>,
    answered: Answered<S>,
    attempts: u8,
}

impl<N: Network> Scene<'_, N> {
    /// The target as the policy forwards it when no filter rewrites it.
    pub(crate) fn forwarded_target<'d>(&self, desk: &'d Desk) -> &'d [u8] {
        // A normalised path with a query is made by `prepare`; here it is the path as received or plain already.
        self.intake.received(desk)
    }
}

/// Forwards the request on the desk and brings the answer back.
pub(crate) async fn forward<N: Network, S: Transport>(
    scene: &Scene<'_, N>,
    connection: &mut Connection<S>,
    desk: &mut Desk,
    record: &mut Record<'_>,
) -> Ending {
    let group = match group(scene) {
        Ok(group) => group,
        Err(fault) => return respond::refuse_by_rule(scene, connection, desk, fault, record).await,
    };
    prepare(scene, desk);
    let limits = &scene.worker.options.limits;
    let bounds = BodyBounds {
        most: scene.rule.rule().policy.max_body,
        replay: limits.replay_bytes,
        rate: limits.body_rate,
    };
    let mut body = RequestBody::new(bounds);
    let delivered = deliver(scene, connection, desk, &mut body, (&group, record)).await;
    record.request_bytes += body.received();
    match delivered {
        Ok(delivered) => {
            body.release(&mut desk.replay);
            let ending = conclude(scene, connection, desk, (delivered, &mut body), record).await;
            ending
        }
        Err(Fault::ClientGone) => {
            record.fault = Some(Fault::ClientGone);
            record.status = Fault::ClientGone.status();
            Ending::Abort
        }
        Err(fault) => respond::refuse_by_rule(scene, connection, desk, fault, record).await,
    }
}

/// The worker's group for the backend that the rule's weights choose. Called before anything is waited for, so that it
/// is the adopted snapshot's own.
fn group<N: Network>(scene: &Scene<'_, N>) -> Result<Rc<Group<ToEndpoint<N>>>, Fault> {
    let targets = scene.rule.targets();
    let slot: Option<BackendSlot> = targets.pick(scene.worker.random(|random| random.u32(..)));
    let slot = slot.ok_or(Fault::NoBackend)?;
    scene.adopted.group(slot, &scene.worker.groups).ok_or(Fault::NoEndpoint)
}

/// Makes the request's head what the endpoint shall see.
fn prepare<N: Network>(scene: &Scene<'_, N>, desk: &mut Desk) {
    strip_hop_by_hop(&mut desk.request);
    desk.request.remove_known(Known::Expect);
    if desk.request.first(Known::Host).is_none() {
        // HTTP/1.0 may leave it out, what is forwarded is HTTP/1.1 (RFC 9112 §3.2: "with an empty field value").
        desk.request.append(b"Host", b"");
    }
    drop_underscores(desk);
    match scene.intake.framing {
        Framing::Chunked => desk.request.append(b"Transfer-Encoding", b"chunked"),
        Framing::Length(_) | Framing::None | Framing::UntilClose => {}
    }
    if scene.intake.upgrade == Upgrade::WebSocket && scene.rule.rule().policy.websocket {
        desk.request.append(b"Connection", b"upgrade");
        desk.request.append(b"Upgrade", b"websocket");
    }
    let append = scene.adopted.settings().forwarded.append;
    forwarded::rewrite(desk, scene.client, append, || scene.worker.random(|random| random.u128(..)));
    let normalised = scene.rule.rule().policy.forwarded_path == ForwardedPath::Normalised;
    if normalised && desk.target.is_empty() {
        let mut target = std::mem::take(&mut desk.target);
        target.extend_from_slice(scene.intake.normalised(desk));
        let query = scene.intake.query(desk);
        if !query.is_empty() {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        desk.target = target;
    }
}

/// `a_b` and `a-b` are one variable to CGI-like backends, so a client could slip a forged header past whoever checks
/// the other: nginx drops names with underscores, and so does Fairway.
fn drop_underscores(desk: &mut Desk) {
    loop {
        let underscored = desk.request.fields().find(|field| field.name.contains(&b'_'));
        let Some(name) = underscored.map(|field| field.name.to_vec()) else { return };
        desk.request.remove(&name);
    }
}

/// Tries endpoints until one answers.
async fn deliver<N: Network, S: Transport>(
    scene: &Scene<'_, N>,
    connection: &mut Connection<S>,
    desk: &mut Desk,
    body: &mut RequestBody,
    (group, record): (&Group<ToEndpoint<N>>, &mut Record<'_>),
) -> Result<Delivered<ToEndpoint<N>>, Fault> {
    let retry = scene.rule.rule().policy.retry;
    let idempotent = scene.intake.method.is_idempotent();
    let mut reuse = if idempotent { Reuse::Any } else { Reuse::Proven };
    let mut tried = Tried::default();
    let mut attempts: u8 = 0;
    let mut now = record.began;
    loop {
        let endpoint =
            scene.worker.random(|random| group.pick(&tried, random, now)).ok_or(Fault::NoEndpoint)?;
        let spent = now.saturating_duration_since(record.began);
        let connect_limit = retry.connect_total.saturating_sub(spent);
        attempts = attempts.saturating_add(1);
        endpoint.begin();
        let target = Target { group, endpoint: &endpoint, reuse, connect_limit, now };
        let failed = match attempt(scene, connection, desk, body, &target).await {
            Ok(answered) => return Ok(Delivered { endpoint, answered, attempts }),
            Err(failed) => failed,
        };
        endpoint.end();
        now = Instant::now();
        record.upstream = Some(UpstreamRecord::failed(endpoint.identity.address, attempts, now - record.began));
        if !may_retry(scene, &failed, attempts, body) || connect_limit.is_zero() {
            if failed.progress != Progress::Nothing && !idempotent && failed.fault.blames_endpoint() {
                count(&scene.worker.counters.attempts.lost);
            }
            return Err(failed.fault);
        }
        if failed.is_stale() {
            reuse = Reuse::Never;
        } else {
            tried.insert(&endpoint);
        }
        count(&scene.worker.counters.attempts.retried);
    }
}

fn may_retry<N: Network>(scene: &Scene<'_, N>, failed: &Failed, attempts: u8, body: &RequestBody) -> bool {
    if !failed.fault.blames_endpoint() || !body.is_replayable() {
        return false;
    }
    match failed.progress {
        Progress::Nothing => {}
        Progress::Written if scene.intake.method.is_idempotent() => {}
        Progress::Written | Progress::Answered => return false,
    }
    // A stale connection is no attempt on an endpoint: it costs nobody anything, and is met once at most.
    failed.is_stale()
        || (attempts < scene.rule.rule().policy.retry.tries && scene.worker.budget.spend(Instant::now()))
}

/// Hands the answer on, and the connections back.
async fn conclude<N: Network, S: Transport>(
    scene: &Scene<'_, N>,
    connection: &mut Connection<S>,
    desk: &mut Desk,
    (delivered, body): (Delivered<ToEndpoint<N>>, &mut RequestBody),
    record: &mut Record<'_>,
) -> Ending {
    let Delivered { endpoint, answered, attempts } = delivered;
    let Answered { connection: mut pooled, reply, connect, sent, headed } = answered;
    let status = desk.answer.status();
    record.status = status;
    let address = endpoint.identity.address;
    let mut upstream =
        UpstreamRecord { endpoint: address, status, connect, header: headed - sent, response: headed - sent, attempts };
    let ending = if reply == Reply::Switched {
        switch(scene, connection, desk, &mut pooled.h1, record).await
    } else {
        let read_before = body.received();
        match answer(scene, connection, desk, (&mut pooled.h1, body, headed), record).await {
            Ok((persistence, reusable)) => {
                pooled.answered = Instant::now();
                record.ended = Some(pooled.answered);
                upstream.response = pooled.answered - sent;
                record.request_bytes += body.received() - read_before;
                if reusable {
                    endpoint.check_in(pooled, &scene.worker.pool_limits());
                }
                respond::settle(connection, persistence).await
            }
            Err(fault) => {
                upstream.response = sent.elapsed();
                fail_mid_answer(scene, connection, desk, fault, record).await
            }
        }
    };
    endpoint.end();
    record.upstream = Some(upstream);
    ending
}

/// An answer that broke: when nothing of it left for the client, it gets another; else it must see that it broke.
async fn fail_mid_answer<N: Network, S: Transport>(
    scene: &Scene<'_, N>,
    connection: &mut Connection<S>,
    desk: &mut Desk,
    fault: Fault,
    record: &mut Record<'_>,
) -> Ending {
    if let Fault::UpstreamMalformed(_) = fault
        && record.status == 0
    {
        return respond::refuse_by_rule(scene, connection, desk, fault, record).await;
    }
    record.fault = Some(fault);
    connection.h1.wire.abort();
    Ending::Abort
}

/// Relays the final answer. Says what becomes of the client's connection, and whether the endpoint's can be reused.
async fn answer<N: Network, S: Transport>(
    scene: &Scene<'_, N>,
    connection: &mut Connection<S>,
    desk: &mut Desk,
    (up, body, began): (&mut crate::h1::H1<ToEndpoint<N>>, &mut RequestBody, Instant),
    record: &mut Record<'_>,
) -> Result<(Persistence, bool), Fault> {
    let framing = match response_framing(&desk.answer, scene.intake.method) {
        Ok(framing) => framing,
        Err(rule) => {
            record.status = 0;
            return Err(Fault::UpstreamMalformed(rule));
        }
    };
    let stays = keep_alive(&desk.answer) && framing != Framing::UntilClose;
    Upstream::expect_body(up, framing);
    strip_hop_by_hop(&mut desk.answer);
    if desk.answer.status() == 204 {
        // "A server MUST NOT send a Content-Length header field in any response with a status code of 1xx or 204"
        // (RFC 9110 §8.6), and a client may be strict about it.
        desk.answer.remove_known(Known::ContentLength);
    }
    desk.answer.remove_known(Known::Server);
    filter::on_answer(scene.rule, scene.client.scheme, desk);
    let persistence = respond::persistence(scene.worker, connection, scene.intake);
    // Without chunks, a body of unknown length ends with the connection.
    let unbounded = matches!(framing, Framing::Chunked | Framing::UntilClose)
        && scene.intake.version == fairway_http1::Version::Http10
        && scene.intake.method != Method::Head;
    let persistence = if unbounded { Persistence::Close } else { persistence };
    let plan = AnswerPlan { version: scene.intake.version, persistence };
    connection.h1.send_head(&mut desk.answer, framing, &plan);
    let relayed = relay(Relay { scene, up, body, began }, connection, &mut desk.replay, record).await;
    relayed?;
    Ok((persistence, stays && body.is_sent() && up.is_body_read() && up.wire.residue() == 0))
}

/// The endpoint speaks another protocol now; so does the client.
async fn switch<N: Network, S: Transport>(
    scene: &Scene<'_, N>,
    connection: &mut Connection<S>,
    desk: &mut Desk,
    up: &mut crate::h1::H1<ToEndpoint<N>>,
    record: &mut Record<'_>,
) -> Ending {
    strip_hop_by_hop(&mut desk.answer);
    desk.answer.remove_known(Known::Server);
    desk.answer.remove_known(Known::ContentLength);
    filter::on_answer(scene.rule, scene.client.scheme, desk);
    desk.answer.append(b"Connection", b"upgrade");
    desk.answer.append(b"Upgrade", b"websocket");
    let plan = AnswerPlan { version: scene.intake.version, persistence: Persistence::Upgraded };
    connection.h1.send_head(&mut desk.answer, Framing::None, &plan);
    let idle = scene.rule.rule().policy.timeouts.read;
    record.body_bytes = tunnel(connection, up, idle).await;
    Ending::Finished
}
