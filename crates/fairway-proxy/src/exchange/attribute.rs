//! On whose account a request failed or was repeated, and for which version of the configuration it counts. What Fairway answers a moment
//! after a change is compared with what the snapshots before would have done ([`super::change`]).
//!
//! A request that goes well meets one comparison here. Why it is judged like this: docs/design/0066-self-inflicted-errors.md.

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
use crate::metrics::record::{AttemptOutcome, FailedAttempt, Record};
use crate::network::Network;
use crate::peer::Peer;
use crate::request::intake::Intake;
use crate::worker::{Adopted, Subject, ToEndpoint, Worker};

/// On whose account, and the version that it counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Judged {
    attribution: Attribution,
    version: u64,
}

/// Judges a request that is over, if it failed or was repeated and was not judged before.
#[inline]
pub(super) fn attribute<N: Network, D: Downstream>(exchange: &mut Exchange<'_, '_, N, D>) {
    let is_repeated = !exchange.buffers.forms.read().failed_attempts.is_empty();
    match exchange.record.fault {
        None if !is_repeated => {}
        _ if exchange.record.attribution.is_some() => {}
        Some(fault) => attribute_failed(exchange, fault),
        None => attribute_repeated(exchange),
    }
}

/// Judges a request that has met this fault, whatever the client gets in its place.
#[cold]
pub(super) fn attribute_failed<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    fault: Fault,
) {
    let attempts = exchange.buffers.forms.read().failed_attempts.iter().map(|attempt| attempt.endpoint);
    let endpoints: Vec<_> = attempts.chain(exchange.record.upstream.map(|it| it.endpoint)).collect();
    let judged = judge(exchange, fault, &endpoints);
    note(exchange.env.worker, exchange.record, judged, RequestOutcome::Failed);
}

/// Judges a request that was answered by an endpoint after an attempt that brought nothing.
#[cold]
fn attribute_repeated<N: Network, D: Downstream>(exchange: &mut Exchange<'_, '_, N, D>) {
    let version = exchange.env.adopted.version();
    let of_attempt = |attempt: &FailedAttempt| match attempt.outcome {
        AttemptOutcome::Fault(fault) => judge(exchange, fault, &[attempt.endpoint]),
        AttemptOutcome::Status(_) => Judged { attribution: Attribution::Endpoint, version },
    };
    let attempts: Vec<_> = exchange.buffers.forms.read().failed_attempts.iter().map(of_attempt).collect();
    let own = attempts.iter().find(|judged| judged.attribution.is_self_inflicted());
    if let Some(judged) = own.or(attempts.first()).copied() {
        note(exchange.env.worker, exchange.record, judged, RequestOutcome::Repeated);
    }
}

/// Judges a request that has no rule, or is none.
#[cold]
pub(super) fn attribute_unroutable<N: Network>(
    worker: &Worker<N>,
    adopted: &Adopted<ToEndpoint<N>>,
    peer: &Peer,
    buffers: &Buffers,
    why: &Unroutable,
    record: &mut Record<'_>,
) {
    let (fault, changed) = match why {
        Unroutable::Unserved(intake, fault @ (Fault::NoRoute | Fault::Misdirected)) => {
            (*fault, unserved_since(worker, adopted, peer, intake, buffers))
        }
        Unroutable::Unserved(_, fault) | Unroutable::Broken(fault) => (*fault, None),
    };
    note(worker, record, judged(fault, adopted.version(), changed), RequestOutcome::Failed);
}

/// Judges a request that the end of a drain cuts. One that had failed before fails on the account of whoever made it fail. A WebSocket has
/// got its response: that it ends with the process costs nobody a request.
#[cold]
pub(super) fn attribute_cut<N: Network>(
    worker: &Worker<N>,
    adopted: &Adopted<ToEndpoint<N>>,
    record: &mut Record<'_>,
) {
    let fault = *record.fault.get_or_insert(Fault::Drained);
    let is_tunnel = record.upstream.is_some_and(|upstream| upstream.status == 101);
    if record.attribution.is_none() && !is_tunnel {
        note(worker, record, judged(fault, adopted.version(), None), RequestOutcome::Failed);
    }
}

fn note<N: Network>(worker: &Worker<N>, record: &mut Record<'_>, judged: Judged, outcome: RequestOutcome) {
    record.attribution = Some(judged.attribution);
    worker.counters.generations.note(judged.version, judged.attribution, outcome);
}

/// On whose account a fault is that was met at these endpoints.
fn judge<N: Network, D: Downstream>(
    exchange: &Exchange<'_, '_, N, D>,
    fault: Fault,
    endpoints: &[SocketAddr],
) -> Judged {
    judged(fault, exchange.env.adopted.version(), changed(exchange, fault, endpoints))
}

/// The same, where it is known which version is to blame, if any: what a change is to blame for counts for the version that it made.
fn judged(fault: Fault, served_by: u64, changed: Option<u64>) -> Judged {
    match (fault.cause(), changed) {
        (Cause::Fairway, _) if fault == Fault::Drained => {
            Judged { attribution: Attribution::Roll, version: served_by }
        }
        (Cause::Fairway, _) => Judged { attribution: Attribution::Fairway, version: served_by },
        (_, Some(version)) => Judged { attribution: Attribution::ConfigurationChange, version },
        (cause, None) => Judged { attribution: cause.into(), version: served_by },
    }
}

/// The version whose change is to blame, if one is: the newest that differs, in what the fault is about, from the one before.
fn changed<N: Network, D: Downstream>(
    exchange: &Exchange<'_, '_, N, D>,
    fault: Fault,
    endpoints: &[SocketAddr],
) -> Option<u64> {
    let decider = Decider::of(fault);
    if decider == Decider::None {
        return None;
    }
    let worker = exchange.env.worker;
    let subject = Subject::of(fault, exchange.record.served_by.rule);
    worker.history.compare(subject, || {
        let recent = worker.recent_snapshots(Instant::now());
        let first = match decider {
            Decider::Endpoint => 0,
            _ => place_of(exchange.env.adopted, &recent)?,
        };
        blamed(exchange, fault, endpoints, recent.get(first..)?)
    })
}

/// The newest of these snapshots, the newest first, whose change is to blame for the fault.
fn blamed<N: Network, D: Downstream>(
    exchange: &Exchange<'_, '_, N, D>,
    fault: Fault,
    endpoints: &[SocketAddr],
    snapshots: &[Rc<Adopted<ToEndpoint<N>>>],
) -> Option<u64> {
    let (newest, older) = snapshots.split_first()?;
    if older.is_empty() {
        return None;
    }
    // What edits have made of the request may lead elsewhere: then nothing can be compared.
    let own = serving(exchange, exchange.env.adopted)?;
    if !exchange.record.served_by.rule.is_some_and(|rule| std::ptr::eq(rule, own.rule)) {
        return None;
    }
    let (mut version, mut now) = (newest.version(), serving(exchange, newest));
    for snapshot in older {
        let before = serving(exchange, snapshot);
        // A newer version may not have the route any more.
        if let Some(now) = &now {
            // Nothing that had worked before fails on a route that is new.
            if is_to_blame(fault, endpoints, before.as_ref()?, now) {
                return Some(version);
            }
        }
        (version, now) = (snapshot.version(), before);
    }
    None
}

/// What would serve the request by a snapshot.
fn serving<'s, N: Network, D: Downstream>(
    exchange: &Exchange<'_, '_, N, D>,
    adopted: &'s Adopted<ToEndpoint<N>>,
) -> Option<Serving<'s, ToEndpoint<N>>> {
    Serving::find(adopted, &exchange.client_side.peer, &exchange.env.intake, exchange.buffers)
}

/// The version since which a request is served no more.
fn unserved_since<N: Network>(
    worker: &Worker<N>,
    adopted: &Adopted<ToEndpoint<N>>,
    peer: &Peer,
    intake: &Intake,
    buffers: &Buffers,
) -> Option<u64> {
    worker.history.compare(Subject::of(Fault::NoRoute, None), || {
        let recent = worker.recent_snapshots(Instant::now());
        let older = recent.get(place_of(adopted, &recent)?..)?;
        let mut changes = older.windows(2).filter(|pair| !has_same_hosts(&pair[1], &pair[0]));
        let changed = changes.find(|pair| would_serve(&pair[1], peer, intake, buffers))?;
        Some(changed[0].version())
    })
}

/// Where the snapshot stands among the recent ones; where it was left out, the next older one.
fn place_of<H: Hop>(adopted: &Adopted<H>, recent: &[Rc<Adopted<H>>]) -> Option<usize> {
    recent.iter().position(|it| it.version() <= adopted.version())
}

/// Whether nothing differs that could serve a request: clients that ask for what nobody serves are many, and most changes are about
/// endpoints.
fn has_same_hosts<H: Hop>(before: &Adopted<H>, now: &Adopted<H>) -> bool {
    std::ptr::eq(before.listening(), now.listening())
        && before.snapshot().config().hosts.ptr_eq(&now.snapshot().config().hosts)
}
