//! Active health checks: requests to endpoints, made by the first worker for all.
//!
//! [`run`] knows from each snapshot which endpoints to check, including those without requests so far; each is
//! checked by its own task ([`probe`]), which ends when no snapshot and no request of any worker uses the
//! endpoint any more.

mod probe;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fairway_connection::upstream::{CheckState, CheckedEndpoint, HealthChecks};
use fairway_model::{Backend, PortProtocol};
use fairway_net::clock::Instant;
use fairway_routing::{BackendSlot, Snapshot};
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep_until;

use crate::network::Network;
use crate::publish::Published;
use crate::upstream::endpoint::EndpointIdentity;
use crate::worker::{StopPhase, Worker};
use probe::ProbeError;

/// Concurrent checks; others wait.
const MAX_CONCURRENT_CHECKS: usize = 1024;

/// Checks are aligned to this step: the worker wakes up once for all of a step, which costs more than a check.
const SCHEDULE_STEP: Duration = Duration::from_millis(20);

/// Checks endpoints until the process drains.
pub(crate) async fn run<N: Network>(worker: Rc<Worker<N>>, mut updates: watch::Receiver<Arc<Published>>) {
    let permits = Rc::new(Semaphore::new(MAX_CONCURRENT_CHECKS));
    let mut endpoints = CheckedEndpoints::new(worker.checks.clone());
    loop {
        let published = Arc::clone(&updates.borrow_and_update());
        endpoints.update(&published.snapshot);
        loop {
            tokio::select! {
                changed = updates.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                unchecked = worker.checks.next_unchecked() => {
                    for (checked, state) in unchecked {
                        let (worker, turns) = (Rc::clone(&worker), Rc::clone(&permits));
                        tokio::task::spawn_local(check_endpoint(worker, turns, checked, state));
                    }
                }
            }
        }
    }
}

/// Endpoints of the latest snapshot with health checks.
struct CheckedEndpoints {
    checks: HealthChecks,
    snapshot: Option<Arc<Snapshot>>,
    states: HashMap<BackendSlot, Vec<Arc<CheckState>>>,
}

impl CheckedEndpoints {
    fn new(checks: HealthChecks) -> Self {
        Self { checks, snapshot: None, states: HashMap::new() }
    }

    /// Updates to a newer snapshot, at the cost of what changed.
    fn update(&mut self, snapshot: &Arc<Snapshot>) {
        let changed: Vec<BackendSlot> = match &self.snapshot {
            Some(older) => snapshot.backends_changed_since(older).collect(),
            None => (0..).take(snapshot.slots()).map(BackendSlot).collect(),
        };
        for slot in changed {
            let states = snapshot.backend(slot).map(|backend| self.states_of(backend)).unwrap_or_default();
            match states.is_empty() {
                true => _ = self.states.remove(&slot),
                false => _ = self.states.insert(slot, states),
            }
        }
        self.snapshot = Some(Arc::clone(snapshot));
    }

    fn states_of(&self, backend: &Backend) -> Vec<Arc<CheckState>> {
        let health = backend.traffic().health.as_deref();
        let Some(check) = health.and_then(|health| health.check.as_ref()) else { return Vec::new() };
        let identity = |address| EndpointIdentity::of_backend(backend, address, PortProtocol::Tcp);
        let checked = |address| CheckedEndpoint { identity: identity(address), check: Arc::clone(check) };
        backend.endpoints.iter().map(|endpoint| self.checks.state(&checked(endpoint.address))).collect()
    }
}

/// Consecutive results of an endpoint.
#[derive(Default)]
struct CheckStreak {
    failures: u8,
    successes: u8,
}

/// Checks one endpoint while its state is used.
async fn check_endpoint<N: Network>(
    worker: Rc<Worker<N>>,
    permits: Rc<Semaphore>,
    checked: CheckedEndpoint,
    state: Weak<CheckState>,
) {
    let check = Arc::clone(&checked.check);
    // Spread over the interval, so that endpoints are not all checked at once, yet early enough for the last
    // consecutive failure to complete in time.
    let spread = check.interval.saturating_sub(check.timeout).mul_f64(worker.random(|random| random.f64()));
    let mut due = align_to_step(worker.started_at, Instant::now() + spread);
    let (mut streak, mut was_out) = (CheckStreak::default(), false);
    let mut connection = None;
    loop {
        sleep_until(due).await;
        if worker.phase() >= StopPhase::Draining {
            return;
        }
        let Some(state) = state.upgrade() else { break };
        let permit = permits.acquire().await;
        let result = probe::probe(&worker, &checked, &mut connection).await;
        drop(permit);
        worker.counters.count_health_check(match result {
            Ok(()) => "passed",
            Err(ProbeError::Endpoint(_)) => "failed",
            Err(ProbeError::NoSocket) => "unknown",
        });
        let change = match result {
            Err(ProbeError::NoSocket) => None,
            result => streak.record(result.is_ok(), was_out, &check),
        };
        if let Some(is_out) = change {
            was_out = is_out;
            worker.checks.set_out(&state, is_out, Instant::now());
            let endpoint = checked.identity.address;
            match result {
                Err(ProbeError::Endpoint(reason)) => {
                    tracing::warn!(%endpoint, reason, "the endpoint fails its health checks and gets no requests");
                }
                _ => {
                    tracing::info!(%endpoint, "the endpoint passes its health checks again and gets requests");
                }
            }
        }
        due = next_due(due, check.interval, Instant::now());
    }
    worker.checks.remove(&checked, was_out);
}

/// The start of the step, counted from `started_at`, that contains this time.
fn align_to_step(started_at: Instant, time: Instant) -> Instant {
    let since = time.duration_since(started_at);
    time - Duration::from_nanos((since.as_nanos() % SCHEDULE_STEP.as_nanos()) as u64)
}

/// Time of the next check: at once if the last took its whole interval. Missed checks are skipped.
fn next_due(last: Instant, interval: Duration, now: Instant) -> Instant {
    (last + interval).max(now)
}

impl CheckStreak {
    /// Records a check; returns whether the endpoint goes out (`true`) or comes back (`false`), if it changes.
    fn record(&mut self, passed: bool, is_out: bool, check: &fairway_model::HealthCheck) -> Option<bool> {
        if passed {
            (self.failures, self.successes) = (0, self.successes.saturating_add(1));
        } else {
            (self.failures, self.successes) = (self.failures.saturating_add(1), 0);
        }
        let goes_out = !is_out && self.failures >= check.failures.get();
        let comes_back = is_out && self.successes >= check.successes.get();
        (goes_out || comes_back).then_some(goes_out)
    }
}
