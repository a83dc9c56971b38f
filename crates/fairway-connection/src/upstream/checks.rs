//! The results of active health checks, shared by all workers: one task probes, workers read a flag. Does no probing
//! itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use fairway_model::HealthCheck;
use fairway_net::clock::Instant;
use tokio::sync::Notify;

use super::endpoint::EndpointIdentity;

/// The checked endpoints of a process. Clones share the same state.
#[derive(Clone)]
pub struct HealthChecks(Arc<ChecksShared>);

struct ChecksShared {
    registry: Mutex<CheckRegistry>,
    /// Notified when an endpoint needs a probe that does not exist yet.
    new_checks: Notify,
    /// How often an endpoint was marked out or in.
    changes: AtomicU64,
    failing: AtomicU64,
    started_at: Instant,
}

#[derive(Default)]
struct CheckRegistry {
    states: HashMap<CheckedEndpoint, Weak<CheckState>>,
    unchecked: Vec<(CheckedEndpoint, Weak<CheckState>)>,
}

/// An endpoint and its health check. Backends with the same check share the result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CheckedEndpoint {
    /// The endpoint.
    pub identity: EndpointIdentity,
    /// The check.
    pub check: Arc<HealthCheck>,
}

/// The result of an endpoint's checks. In until they fail.
#[derive(Debug, Default)]
pub struct CheckState {
    is_out: AtomicBool,
    /// When it came back last, in microseconds since the start; 0 if it never was out.
    back_at_micros: AtomicU64,
}

impl Default for HealthChecks {
    fn default() -> Self {
        Self(Arc::new(ChecksShared {
            registry: Mutex::default(),
            new_checks: Notify::new(),
            changes: AtomicU64::new(0),
            failing: AtomicU64::new(0),
            started_at: Instant::now(),
        }))
    }
}

impl HealthChecks {
    /// The state of an endpoint, which is checked as long as anyone holds the state.
    pub fn state(&self, checked: &CheckedEndpoint) -> Arc<CheckState> {
        let mut known = self.lock();
        if let Some(state) = known.states.get(checked).and_then(Weak::upgrade) {
            return state;
        }
        let state = Arc::<CheckState>::default();
        known.states.insert(checked.clone(), Arc::downgrade(&state));
        known.unchecked.push((checked.clone(), Arc::downgrade(&state)));
        drop(known);
        self.0.new_checks.notify_one();
        state
    }

    /// Waits for endpoints that are not checked yet.
    pub async fn next_unchecked(&self) -> Vec<(CheckedEndpoint, Weak<CheckState>)> {
        loop {
            let unchecked = std::mem::take(&mut self.lock().unchecked);
            if !unchecked.is_empty() {
                return unchecked;
            }
            self.0.new_checks.notified().await;
        }
    }

    /// Forgets an endpoint whose state nobody holds any more.
    pub fn remove(&self, checked: &CheckedEndpoint, was_out: bool) {
        let mut known = self.lock();
        if known.states.get(checked).is_some_and(|state| state.strong_count() == 0) {
            known.states.remove(checked);
        }
        if was_out {
            self.0.failing.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Marks the endpoint out or in.
    pub fn set_out(&self, state: &CheckState, is_out: bool, now: Instant) {
        if state.is_out.swap(is_out, Ordering::AcqRel) == is_out {
            return;
        }
        if is_out {
            self.0.failing.fetch_add(1, Ordering::Relaxed);
        } else {
            self.0.failing.fetch_sub(1, Ordering::Relaxed);
            let since = now.saturating_duration_since(self.0.started_at).as_micros();
            state.back_at_micros.store(u64::try_from(since).unwrap_or(u64::MAX).max(1), Ordering::Release);
        }
        self.0.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether this endpoint is out.
    pub(crate) fn fails(&self, checked: &CheckedEndpoint) -> bool {
        let state = self.lock().states.get(checked).and_then(Weak::upgrade);
        state.is_some_and(|state| state.is_out())
    }

    /// The number of endpoints that are out.
    pub fn failing(&self) -> u64 {
        self.0.failing.load(Ordering::Relaxed)
    }

    /// Increases whenever an endpoint goes out or comes back.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }

    /// When the endpoint came back last.
    pub(crate) fn came_back(&self, state: &CheckState) -> Option<Instant> {
        match state.back_at_micros.load(Ordering::Acquire) {
            0 => None,
            since => self.0.started_at.checked_add(Duration::from_micros(since)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CheckRegistry> {
        self.0.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckState {
    /// Whether its last checks failed.
    #[inline]
    pub fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Acquire)
    }
}
