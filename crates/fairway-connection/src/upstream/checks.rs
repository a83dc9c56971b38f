//! What health checks say of endpoints, for all workers: one of them asks, the others look at a flag. Asks nothing itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use fairway_model::HealthCheck;
use fairway_net::clock::Instant;
use tokio::sync::Notify;

use super::endpoint::EndpointIdentity;

/// The endpoints of a process that are checked. A clone is the same.
#[derive(Clone)]
pub struct Checks(Arc<Shared>);

struct Shared {
    known: Mutex<Known>,
    /// Somebody has asked for the state of an endpoint that nobody checks yet.
    news: Notify,
    /// How often an endpoint went out or came back.
    changes: AtomicU64,
    failing: AtomicU64,
    began: Instant,
}

#[derive(Default)]
struct Known {
    states: HashMap<Checked, Weak<CheckState>>,
    unchecked: Vec<(Checked, Weak<CheckState>)>,
}

/// An endpoint, and what it is asked. Backends that ask the same of one share what is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Checked {
    /// The endpoint.
    pub identity: EndpointIdentity,
    /// What it is asked.
    pub check: Arc<HealthCheck>,
}

/// What checks say of an endpoint. In until they have failed.
#[derive(Debug, Default)]
pub struct CheckState {
    is_out: AtomicBool,
    /// When it came back last, in microseconds since there are checks; 0 where it never was out.
    back: AtomicU64,
}

impl Default for Checks {
    fn default() -> Self {
        Self(Arc::new(Shared {
            known: Mutex::default(),
            news: Notify::new(),
            changes: AtomicU64::new(0),
            failing: AtomicU64::new(0),
            began: Instant::now(),
        }))
    }
}

impl Checks {
    /// The state of an endpoint, which is checked as long as anybody has it.
    pub fn state(&self, checked: &Checked) -> Arc<CheckState> {
        let mut known = self.lock();
        if let Some(state) = known.states.get(checked).and_then(Weak::upgrade) {
            return state;
        }
        let state = Arc::<CheckState>::default();
        known.states.insert(checked.clone(), Arc::downgrade(&state));
        known.unchecked.push((checked.clone(), Arc::downgrade(&state)));
        drop(known);
        self.0.news.notify_one();
        state
    }

    /// Waits for endpoints that nobody checks yet.
    pub async fn next(&self) -> Vec<(Checked, Weak<CheckState>)> {
        loop {
            let unchecked = std::mem::take(&mut self.lock().unchecked);
            if !unchecked.is_empty() {
                return unchecked;
            }
            self.0.news.notified().await;
        }
    }

    /// Nobody has the state any more.
    pub fn forget(&self, checked: &Checked, was_out: bool) {
        let mut known = self.lock();
        if known.states.get(checked).is_some_and(|state| state.strong_count() == 0) {
            known.states.remove(checked);
        }
        if was_out {
            self.0.failing.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The endpoint is out from now on, or in again.
    pub fn set(&self, state: &CheckState, is_out: bool, now: Instant) {
        if state.is_out.swap(is_out, Ordering::AcqRel) == is_out {
            return;
        }
        if is_out {
            self.0.failing.fetch_add(1, Ordering::Relaxed);
        } else {
            self.0.failing.fetch_sub(1, Ordering::Relaxed);
            let since = now.saturating_duration_since(self.0.began).as_micros();
            state.back.store(u64::try_from(since).unwrap_or(u64::MAX).max(1), Ordering::Release);
        }
        self.0.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether this endpoint is out.
    pub(crate) fn fails(&self, checked: &Checked) -> bool {
        let state = self.lock().states.get(checked).and_then(Weak::upgrade);
        state.is_some_and(|state| state.is_out())
    }

    /// Endpoints that are out.
    pub fn failing(&self) -> u64 {
        self.0.failing.load(Ordering::Relaxed)
    }

    /// Grows whenever an endpoint goes out or comes back.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }

    /// When the endpoint came back last.
    pub(crate) fn came_back(&self, state: &CheckState) -> Option<Instant> {
        match state.back.load(Ordering::Acquire) {
            0 => None,
            since => self.0.began.checked_add(Duration::from_micros(since)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckState {
    /// Whether its last checks have failed.
    #[inline]
    pub fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Acquire)
    }
}
