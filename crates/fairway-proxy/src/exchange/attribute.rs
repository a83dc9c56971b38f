//! Attributes failed and repeated requests to a cause and a version of the configuration. Responses shortly after a change are
//! compared with what the previous snapshots would have done ([`super::change`]).
//!
//! Successful requests cost one comparison. For the reasons, see docs/design/0066-self-inflicted-errors.md.

use std::net::SocketAddr;
use std::rc::Rc;

use fairway_connection::sides::{Downstream, Hop};
use fairway_net::clock::Instant;

use super::change::{Decider, Serving, is_to_blame, would_serve};
use super::environment::{Exchange, Unroutable};
use crate::attribution::{Attribution, RequestOutcome};
use crate::buffers::Buffers;
use crate::cause::Cause;
use crate::fault::Fault;
use crate::metrics::record::{AttemptOutcome, ExchangeRecord, FailedAttempt};
use crate::network::Network;
use crate::peer::Peer;
use crate::request::validation::Intake;
use crate::worker::{Adopted, EndpointHop, FailureSignature, Worker};

/// The cause, and the version that it counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Judgement {
    attribution: Attribution,
    version: u64,
}

/// Attributes a finished request that failed or was repeated, unless that was done before.
#[inline]
pub(super) fn attribute<N: Network, D: Downstream>(exchange: &mut Exchange<'_, '_, N, D>) {
    let is_repeated = !exchange.buffers.extras.read().failed_attempts.is_empty();
    match exchange.record.fault {
        None if !is_repeated => {}
        _ if exchange.record.attribution.is_some() => {}
        Some(fault) => attribute_failed(exchange, fault),
        None => attribute_repeated(exchange),
    }
}

/// Attributes a request that met this fault, whatever the client gets instead.
#[cold]
pub(super) fn attribute_failed<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    fault: Fault,
) {
    let attempts = exchange.buffers.extras.read().failed_attempts.iter().map(|attempt| attempt.endpoint);
    let endpoints: Vec<_> = attempts.chain(exchange.record.upstream.map(|it| it.endpoint)).collect();
    let judged = judge_fault(exchange, fault, &endpoints);
    record_judgement(exchange.env.worker, exchange.record, judged, RequestOutcome::Failed);
}

/// Attributes a request that got a response after a failed attempt.
#[cold]
fn attribute_repeated<N: Network, D: Downstream>(exchange: &mut Exchange<'_, '_, N, D>) {
    let version = exchange.env.adopted.version();
    let of_attempt = |attempt: &FailedAttempt| match attempt.outcome {
        AttemptOutcome::Fault(fault) => judge_fault(exchange, fault, &[attempt.endpoint]),
        AttemptOutcome::Status(_) => Judgement { attribution: Attribution::Endpoint, version },
    };
    let attempts: Vec<_> = exchange.buffers.extras.read().failed_attempts.iter().map(of_attempt).collect();
    let self_inflicted = attempts.iter().find(|judged| judged.attribution.is_self_inflicted());
    if let Some(judged) = self_inflicted.or(attempts.first()).copied() {
        record_judgement(exchange.env.worker, exchange.record, judged, RequestOutcome::Repeated);
    }
}

/// Attributes a request without a rule, or a malformed one.
#[cold]
pub(super) fn attribute_unroutable<N: Network>(
    worker: &Worker<N>,
    adopted: &Adopted<EndpointHop<N>>,
    peer: &Peer,
    buffers: &Buffers,
    why: &Unroutable,
    record: &mut ExchangeRecord<'_>,
) {
    let (fault, changed) = match why {
        Unroutable::Unserved(intake, fault @ (Fault::NoRoute | Fault::Misdirected)) => {
            (*fault, unserved_since(worker, adopted, peer, intake, buffers))
        }
        Unroutable::Unserved(_, fault) | Unroutable::Rejected(fault) => (*fault, None),
    };
    record_judgement(worker, record, judgement(fault, adopted.version(), changed), RequestOutcome::Failed);
}

/// Attributes a request that the end of a drain aborts. If it had failed before, that cause counts. A WebSocket already has its
/// response, so its end is not a failed request.
#[cold]
pub(super) fn attribute_cut<N: Network>(
    worker: &Worker<N>,
    adopted: &Adopted<EndpointHop<N>>,
    record: &mut ExchangeRecord<'_>,
) {
    let fault = *record.fault.get_or_insert(Fault::Drained);
    let is_tunnel = record.upstream.is_some_and(|upstream| upstream.status == 101);
    if record.attribution.is_none() && !is_tunnel {
        record_judgement(worker, record, judgement(fault, adopted.version(), None), RequestOutcome::Failed);
    }
}

fn record_judgement<N: Network>(
    worker: &Worker<N>,
    record: &mut ExchangeRecord<'_>,
    judged: Judgement,
    outcome: RequestOutcome,
) {
    record.attribution = Some(judged.attribution);
    worker.counters.generations.record(judged.version, judged.attribution, outcome);
}

/// Attributes a fault that was met at these endpoints.
fn judge_fault<N: Network, D: Downstream>(
    exchange: &Exchange<'_, '_, N, D>,
    fault: Fault,
    endpoints: &[SocketAddr],
) -> Judgement {
    judgement(fault, exchange.env.adopted.version(), blamed_version(exchange, fault, endpoints))
}

/// Attributes a fault when the version to blame, if any, is known. A change counts for the version that it made.
fn judgement(fault: Fault, served_by: u64, changed: Option<u64>) -> Judgement {
    match (fault.cause(), changed) {
        (Cause::Fairway, _) if fault == Fault::Drained => {
            Judgement { attribution: Attribution::Roll, version: served_by }
        }
        (Cause::Fairway, _) => Judgement { attribution: Attribution::Fairway, version: served_by },
        (_, Some(version)) => Judgement { attribution: Attribution::ConfigurationChange, version },
        (cause, None) => Judgement { attribution: cause.into(), version: served_by },
    }
}

/// The version whose change is to blame, if any: the newest that differs from the one before in what the fault depends on.
fn blamed_version<N: Network, D: Downstream>(
    exchange: &Exchange<'_, '_, N, D>,
    fault: Fault,
    endpoints: &[SocketAddr],
) -> Option<u64> {
    let decider = Decider::from_fault(fault);
    if decider == Decider::None {
        return None;
    }
    let worker = exchange.env.worker;
    let subject = FailureSignature::new(fault, exchange.record.served_by.rule);
    worker.history.find_blamed_version(subject, || {
        let recent = worker.recent_snapshots(Instant::now());
        let first = match decider {
            Decider::Endpoint => 0,
            _ => index_of(exchange.env.adopted, &recent)?,
        };
        newest_blamed_version(exchange, fault, endpoints, recent.get(first..)?)
    })
}

/// Of these snapshots, newest first, the newest whose change is to blame for the fault.
fn newest_blamed_version<N: Network, D: Downstream>(
    exchange: &Exchange<'_, '_, N, D>,
    fault: Fault,
    endpoints: &[SocketAddr],
    snapshots: &[Rc<Adopted<EndpointHop<N>>>],
) -> Option<u64> {
    let (newest, older) = snapshots.split_first()?;
    if older.is_empty() {
        return None;
    }
    // If edits of the request changed its rule, nothing can be compared.
    let serving_now = serving(exchange, exchange.env.adopted)?;
    if !exchange.record.served_by.rule.is_some_and(|rule| std::ptr::eq(rule, serving_now.rule)) {
        return None;
    }
    let (mut version, mut now) = (newest.version(), serving(exchange, newest));
    for snapshot in older {
        let before = serving(exchange, snapshot);
        // A newer version may no longer have the route.
        if let Some(now) = &now {
            // A failure on a new route did not break anything that worked before.
            if is_to_blame(fault, endpoints, before.as_ref()?, now) {
                return Some(version);
            }
        }
        (version, now) = (snapshot.version(), before);
    }
    None
}

/// What would serve the request under a snapshot.
fn serving<'s, N: Network, D: Downstream>(
    exchange: &Exchange<'_, '_, N, D>,
    adopted: &'s Adopted<EndpointHop<N>>,
) -> Option<Serving<'s, EndpointHop<N>>> {
    Serving::find(adopted, &exchange.client_side.peer, &exchange.env.intake, exchange.buffers)
}

/// The version that stopped serving a request.
fn unserved_since<N: Network>(
    worker: &Worker<N>,
    adopted: &Adopted<EndpointHop<N>>,
    peer: &Peer,
    intake: &Intake,
    buffers: &Buffers,
) -> Option<u64> {
    worker.history.find_blamed_version(FailureSignature::new(Fault::NoRoute, None), || {
        let recent = worker.recent_snapshots(Instant::now());
        let older = recent.get(index_of(adopted, &recent)?..)?;
        let mut changes = older.windows(2).filter(|pair| !has_same_hosts(&pair[1], &pair[0]));
        let changed = changes.find(|pair| would_serve(&pair[1], peer, intake, buffers))?;
        Some(changed[0].version())
    })
}

/// The index of the snapshot among the recent ones; if it is not there, of the next older one.
fn index_of<H: Hop>(adopted: &Adopted<H>, recent: &[Rc<Adopted<H>>]) -> Option<usize> {
    recent.iter().position(|it| it.version() <= adopted.version())
}

/// Whether hosts and listeners are the same. Unroutable requests are frequent, and most changes only affect endpoints.
fn has_same_hosts<H: Hop>(before: &Adopted<H>, now: &Adopted<H>) -> bool {
    std::ptr::eq(before.listening(), now.listening())
        && before.snapshot().config().hosts.ptr_eq(&now.snapshot().config().hosts)
}
