//! Health checks: requests of Fairway's own to endpoints, made by the first worker for all.
//!
//! [`run`] knows from each snapshot which endpoints are to be checked, also those that no request went to yet; each is asked by a task
//! of its own ([`probe`]), which ends when neither a snapshot nor a request of any worker has to do with it any more.

mod probe;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fairway_connection::upstream::{CheckState, Checked, Checks};
use fairway_model::{Backend, PortProtocol};
use fairway_net::clock::Instant;
use fairway_routing::{BackendSlot, Snapshot};
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep_until;

use crate::network::Network;
use crate::publish::Published;
use crate::upstream::endpoint::EndpointIdentity;
use crate::worker::{Phase, Worker};
use probe::Problem;

/// Checks under way at a time; others wait for one to end.
const MOST_AT_A_TIME: usize = 1024;

/// Endpoints that are asked in the same step are asked together: the worker wakes up once for them, which costs more than a check.
const STEP: Duration = Duration::from_millis(20);

/// Checks endpoints until the process drains.
pub(crate) async fn run<N: Network>(worker: Rc<Worker<N>>, mut updates: watch::Receiver<Arc<Published>>) {
    let turns = Rc::new(Semaphore::new(MOST_AT_A_TIME));
    let mut wanted = Wanted::new(worker.checks.clone());
    loop {
        let published = Arc::clone(&updates.borrow_and_update());
        wanted.follow(&published.snapshot);
        loop {
            tokio::select! {
                changed = updates.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                unchecked = worker.checks.next() => {
                    for (checked, state) in unchecked {
                        let (worker, turns) = (Rc::clone(&worker), Rc::clone(&turns));
                        tokio::task::spawn_local(watch_one(worker, turns, checked, state));
                    }
                }
            }
        }
    }
}

/// The endpoints of the latest snapshot that are to be checked.
struct Wanted {
    checks: Checks,
    snapshot: Option<Arc<Snapshot>>,
    states: HashMap<BackendSlot, Vec<Arc<CheckState>>>,
}

impl Wanted {
    fn new(checks: Checks) -> Self {
        Self { checks, snapshot: None, states: HashMap::new() }
    }

    /// Goes on with a newer snapshot. Costs what changed.
    fn follow(&mut self, snapshot: &Arc<Snapshot>) {
        let changed: Vec<BackendSlot> = match &self.snapshot {
            Some(older) => snapshot.backends_changed_since(older).collect(),
            None => (0..).take(snapshot.slots()).map(BackendSlot).collect(),
        };
        for slot in changed {
            let states = snapshot.backend(slot).map(|backend| self.of(backend)).unwrap_or_default();
            match states.is_empty() {
                true => _ = self.states.remove(&slot),
                false => _ = self.states.insert(slot, states),
            }
        }
        self.snapshot = Some(Arc::clone(snapshot));
    }

    fn of(&self, backend: &Backend) -> Vec<Arc<CheckState>> {
        let health = backend.traffic().health.as_deref();
        let Some(check) = health.and_then(|health| health.check.as_ref()) else { return Vec::new() };
        let identity = |address| EndpointIdentity::of(backend, address, PortProtocol::Tcp);
        let checked = |address| Checked { identity: identity(address), check: Arc::clone(check) };
        backend.endpoints.iter().map(|endpoint| self.checks.state(&checked(endpoint.address))).collect()
    }
}

/// What the last checks of an endpoint have found.
#[derive(Default)]
struct Streak {
    failures: u8,
    successes: u8,
}

/// Checks one endpoint as long as anybody has its state.
async fn watch_one<N: Network>(
    worker: Rc<Worker<N>>,
    turns: Rc<Semaphore>,
    checked: Checked,
    state: Weak<CheckState>,
) {
    let check = Arc::clone(&checked.check);
    // Spread, so that many endpoints are not asked at once; early enough for the last of the failures in a row to be over in time.
    let spread = check.interval.saturating_sub(check.timeout).mul_f64(worker.random(|random| random.f64()));
    let mut due = step_of(worker.began, Instant::now() + spread);
    let (mut streak, mut was_out) = (Streak::default(), false);
    let mut connection = None;
    loop {
        sleep_until(due).await;
        if worker.phase() >= Phase::Draining {
            return;
        }
        let Some(state) = state.upgrade() else { break };
        let turn = turns.acquire().await;
        let answer = probe::ask(&worker, &checked, &mut connection).await;
        drop(turn);
        worker.counters.health_checked(match answer {
            Ok(()) => "passed",
            Err(Problem::Endpoint(_)) => "failed",
            Err(Problem::NoSocket) => "unknown",
        });
        let turned = match answer {
            Err(Problem::NoSocket) => None,
            answer => streak.after(answer.is_ok(), was_out, &check),
        };
        if let Some(is_out) = turned {
            was_out = is_out;
            worker.checks.set(&state, is_out, Instant::now());
            let endpoint = checked.identity.address;
            match answer {
                Err(Problem::Endpoint(reason)) => {
                    tracing::warn!(%endpoint, reason, "fails its health checks, and gets no requests");
                }
                _ => tracing::info!(%endpoint, "passes its health checks again, and gets requests"),
            }
        }
        due = next(due, check.interval, Instant::now());
    }
    worker.checks.forget(&checked, was_out);
}

/// The beginning of the step, counted since `began`, that this time is in.
fn step_of(began: Instant, time: Instant) -> Instant {
    let since = time.duration_since(began);
    time - Duration::from_nanos((since.as_nanos() % STEP.as_nanos()) as u64)
}

/// When the check after that of `last` is due: at once where that one took its whole interval. Those that were missed are left out.
fn next(last: Instant, interval: Duration, now: Instant) -> Instant {
    (last + interval).max(now)
}

impl Streak {
    /// Whether the endpoint goes out, or comes back, by one more check.
    fn after(&mut self, passed: bool, is_out: bool, check: &fairway_model::HealthCheck) -> Option<bool> {
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
