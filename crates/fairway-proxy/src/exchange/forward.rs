//! Forwarding: attempts until one endpoint answers, then the answer.
//!
//! A failed attempt is followed by another only when that is safe: no byte of an answer came, and either the endpoint
//! saw nothing of the request, or repeating it does no harm (RFC 9110 §9.2.2) and its body is still held.

use std::rc::Rc;
use std::time::Duration;

use fairway_message::{BodySize, Known};
use fairway_model::ForwardedPath;
use fairway_routing::BackendSlot;

use super::acquire::acquire;
use super::attempt::{Answered, Failed, Progress, Reuse, attempt, blame};
use super::body::RequestBody;
use super::forwarded;
use super::record::UpstreamRecord;
use super::relay::relay;
use super::respond;
use super::sides::{AnswerPlan, Downstream, Persistence, Reply, Upgrade, Upstream};
use super::tunnel::tunnel;
use super::{Ending, Scene, Turn};
use crate::clock::Instant;
use crate::fault::Fault;
use crate::filter;
use crate::metrics::count;
use crate::transport::{Network, Transport};
use crate::upstream::health::Blame;
use crate::upstream::{Chosen, Group, Lease, Tried};
use crate::worker::{Desk, ToEndpoint, Worker};

/// An endpoint that answered, with what it answered on.
struct Delivered<S: Transport> {
    answered: Answered<S>,
    attempts: u8,
}

/// Forwards the request on the desk and brings the answer back.
///
/// Not an `async fn`: that would keep its argument twice for as long as the exchange takes.
pub(crate) fn forward<N: Network, D: Downstream>(
    turn: &mut Turn<'_, '_, N, D>,
) -> impl Future<Output = Ending> {
    let group = group(&turn.scene);
    if group.is_ok() {
        prepare(&turn.scene, turn.desk);
    }
    async move {
        let delivered = match &group {
            Ok(group) => deliver(turn, group).await,
            Err(fault) => Err(*fault),
        };
        match delivered {
            Ok(delivered) => {
                turn.desk.body.release(&mut turn.desk.replay);
                conclude(turn, delivered).await
            }
            Err(Fault::ClientGone) => {
                turn.record.fault = Some(Fault::ClientGone);
                turn.record.status = Fault::ClientGone.status();
                Ending::Abort
            }
            Err(fault) => respond::refuse_by_rule(turn, fault).await,
        }
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
    desk.request.remove_known(Known::Expect);
    if desk.request.first(Known::Host).is_none() {
        // HTTP/1.0 may leave it out, what is forwarded is HTTP/1.1 (RFC 9112 §3.2: "with an empty field value").
        desk.request.append(b"Host", b"");
    }
    let append = scene.adopted.settings().forwarded.append;
    forwarded::rewrite(desk, &scene.client, append, || scene.worker.random(|random| random.u128(..)));
    let normalised = scene.rule.rule().policy.forwarded_path == ForwardedPath::Normalised;
    if normalised && desk.target.is_empty() && !scene.intake.is_plain() {
        let mut target = std::mem::take(&mut desk.target);
        target.extend_from_slice(scene.intake.normalised(desk));
        if scene.intake.has_query(desk) {
            target.push(b'?');
            target.extend_from_slice(scene.intake.query(desk));
        }
        desk.target = target;
    }
}

/// Tries endpoints until one answers.
///
/// Not an `async fn`: that would keep its arguments twice.
fn deliver<'e, N: Network, D: Downstream>(
    turn: &'e mut Turn<'_, '_, N, D>,
    group: &'e Rc<Group<ToEndpoint<N>>>,
) -> impl Future<Output = Result<Delivered<ToEndpoint<N>>, Fault>> {
    let mut course = Course::begin(turn.record.began, turn.scene.intake.method.is_idempotent());
    async move {
        loop {
            let chosen = course.next(&turn.scene, group)?;
            let failed = match acquire(turn, group, &mut course, chosen).await {
                Err(failed) => failed,
                Ok(acquired) => match attempt(turn, group, acquired, course.now).await {
                    Err(failed) => failed,
                    Ok(answered) => {
                        course.confirm(turn.scene.worker, group, &answered.lease);
                        return Ok(Delivered { answered, attempts: course.attempts });
                    }
                },
            };
            conclude_attempt(turn, group, &mut course, &failed)?;
        }
    }
}

/// Whether there is another attempt after this one.
fn conclude_attempt<N: Network, D: Downstream>(
    turn: &mut Turn<'_, '_, N, D>,
    group: &Group<ToEndpoint<N>>,
    course: &mut Course,
    failed: &Failed,
) -> Result<(), Fault> {
    course.now = Instant::now();
    course.note(failed);
    let took = course.now.saturating_duration_since(turn.record.began);
    let address = group.member(failed.endpoint).identity.address;
    turn.record.upstream = Some(UpstreamRecord::failed(address, course.attempts, took));
    if may_retry(&turn.scene, failed, course, &turn.desk.body) && !Course::is_late(&turn.scene, took) {
        count(&turn.scene.worker.counters.attempts.retried);
        return Ok(());
    }
    let idempotent = turn.scene.intake.method.is_idempotent();
    if failed.progress != Progress::Nothing && !idempotent && failed.fault.blames_endpoint() {
        count(&turn.scene.worker.counters.attempts.lost);
    }
    course.give_up(turn.scene.worker, group);
    Err(failed.fault)
}

/// Which endpoints were tried, and what the next attempt may do.
pub(crate) struct Course {
    /// When the attempt begins.
    pub(crate) now: Instant,
    pub(crate) reuse: Reuse,
    pub(crate) tried: Tried,
    /// Those tried that failed after the connect: whether it was their fault, the next attempt tells.
    accused: Tried,
    attempts: u8,
}

impl Course {
    fn begin(now: Instant, idempotent: bool) -> Self {
        let reuse = if idempotent { Reuse::Any } else { Reuse::Proven };
        Self { now, reuse, tried: Tried::default(), accused: Tried::default(), attempts: 0 }
    }

    fn next<N: Network>(
        &mut self,
        scene: &Scene<'_, N>,
        group: &Group<ToEndpoint<N>>,
    ) -> Result<Chosen<ToEndpoint<N>>, Fault> {
        let picked = scene.worker.random(|random| group.pick(&self.tried, random, self.now));
        let chosen = picked.ok_or(Fault::NoEndpoint)?;
        self.attempts = self.attempts.saturating_add(1);
        Ok(chosen)
    }

    fn note(&mut self, failed: &Failed) {
        if failed.is_stale() {
            self.reuse = Reuse::Never;
            return;
        }
        self.tried.insert(failed.endpoint);
        if failed.is_of_doubtful_cause() {
            self.accused.insert(failed.endpoint);
        }
    }

    /// An endpoint answered the request: it was the others' fault that they did not.
    fn confirm<N: Network>(
        &self,
        worker: &Worker<N>,
        group: &Group<ToEndpoint<N>>,
        answered: &Lease<ToEndpoint<N>>,
    ) {
        for accused in self.accused.iter().filter(|accused| *accused != answered.index()) {
            blame(worker, group, group.member(accused), Blame::BeforeHead);
        }
    }

    /// No endpoint answered. Several that fail alike are not at fault: the request is.
    fn give_up<N: Network>(&self, worker: &Worker<N>, group: &Group<ToEndpoint<N>>) {
        let mut accused = self.accused.iter();
        if let (Some(only), None) = (accused.next(), accused.next()) {
            blame(worker, group, group.member(only), Blame::Unconfirmed);
        }
    }

    /// Attempts that count: a stale connection, which is met once at most, says nothing about any endpoint. While two
    /// endpoints leave at once, a request may meet it and then both of them.
    fn tries(&self) -> u8 {
        self.attempts.saturating_sub(u8::from(self.reuse == Reuse::Never))
    }

    /// What is left for connecting, all attempts together.
    pub(crate) fn connect_limit<N: Network>(scene: &Scene<'_, N>, spent: Duration) -> Duration {
        scene.rule.rule().policy.retry.connect_total.saturating_sub(spent)
    }

    fn is_late<N: Network>(scene: &Scene<'_, N>, spent: Duration) -> bool {
        Self::connect_limit(scene, spent).is_zero()
    }
}

fn may_retry<N: Network>(scene: &Scene<'_, N>, failed: &Failed, course: &Course, body: &RequestBody) -> bool {
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
        || (course.tries() < scene.rule.rule().policy.retry.tries
            && scene.worker.budgets.retries.spend(Instant::now()))
}

/// Hands the answer on, and the connections back.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the answer takes.
fn conclude<N: Network, D: Downstream>(
    turn: &mut Turn<'_, '_, N, D>,
    delivered: Delivered<ToEndpoint<N>>,
) -> impl Future<Output = Ending> {
    let Delivered { answered, attempts } = delivered;
    let Answered { mut lease, reply, connect, detour, sent, headed } = answered;
    let status = turn.desk.answer.status();
    turn.record.status = status;
    let header = (headed - sent).into();
    let address = lease.endpoint().identity.address;
    let response = header;
    let upstream = UpstreamRecord { endpoint: address, status, connect, header, response, attempts, detour };
    turn.record.upstream = Some(upstream);
    async move {
        if reply.upgrade == Upgrade::WebSocket {
            // Boxed: a tunnel is rare, and every connection's task would carry room for it.
            Box::pin(switch(turn, lease.up())).await
        } else {
            let relayed = answer(turn, lease.up(), (reply, headed)).await;
            let ended = Instant::now();
            turn.record.answered((ended - sent).into());
            match relayed {
                Ok((persistence, reusable)) => {
                    turn.record.ended = Some(ended);
                    match reusable {
                        true => lease.give_back(ended, &turn.scene.worker.pool_limits()),
                        false => drop(lease),
                    }
                    respond::settle(&mut turn.caller, persistence).await
                }
                Err(fault) => fail_mid_answer(turn, fault),
            }
        }
    }
}

/// An answer that broke: the client must see that it did.
fn fail_mid_answer<N: Network, D: Downstream>(turn: &mut Turn<'_, '_, N, D>, fault: Fault) -> Ending {
    turn.record.fault = Some(fault);
    turn.caller.down.abort();
    Ending::Abort
}

/// Relays the final answer. Says what becomes of the client's connection, and whether the endpoint's can be reused.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the answer takes.
fn answer<'e, N: Network, D: Downstream, U: Upstream>(
    turn: &'e mut Turn<'_, '_, N, D>,
    up: &'e mut U,
    (reply, began): (Reply, Instant),
) -> impl Future<Output = Result<(Persistence, bool), Fault>> {
    let intake = &turn.scene.intake;
    clean(&turn.scene, turn.desk);
    let persistence = respond::persistence(turn.scene.worker, &turn.caller, intake);
    let plan = AnswerPlan { version: intake.version, persistence, body: reply.body };
    let persistence = turn.caller.down.send_head(&mut turn.desk.answer, &plan);
    async move {
        relay(turn, up, began).await?;
        Ok((persistence, turn.desk.body.is_sent() && up.is_reusable()))
    }
}

/// Makes the answer's head what the client shall see.
fn clean<N: Network>(scene: &Scene<'_, N>, desk: &mut Desk) {
    if matches!(desk.answer.status(), 101 | 204) {
        // "A server MUST NOT send a Content-Length header field in any response with a status code of 1xx or 204"
        // (RFC 9110 §8.6), and a client may be strict about it.
        desk.answer.remove_known(Known::ContentLength);
    }
    desk.answer.remove_known(Known::Server);
    filter::on_answer(scene.rule, scene.client.scheme, desk);
}

/// The endpoint speaks another protocol now; so does the client.
async fn switch<N: Network, D: Downstream>(turn: &mut Turn<'_, '_, N, D>, up: &mut impl Upstream) -> Ending {
    clean(&turn.scene, turn.desk);
    let intake = &turn.scene.intake;
    let plan =
        AnswerPlan { version: intake.version, persistence: Persistence::Upgraded, body: BodySize::None };
    turn.caller.down.send_head(&mut turn.desk.answer, &plan);
    let idle = turn.scene.rule.rule().policy.timeouts.read;
    turn.record.body_bytes = tunnel(&mut turn.caller, up, idle, turn.scene.worker).await;
    Ending::Finished
}
