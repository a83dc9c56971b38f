//! Circuit breaking: counts the requests, connections, retries and pending requests of one Service port across all
//! workers, if a backend limits them. Backends without limits are not counted. The limit of requests awaiting a
//! response may be adaptive ([`super::concurrency`]): workers measure separately and share their results periodically.
//!
//! A connection that is returned while others wait for one stays with its worker if the longest waiter is there, and is
//! closed otherwise. Idle connections of other workers are closed when a request needs them ([`Circuits::subscribe`]).

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_model::{AdaptiveConcurrency, Backend, BackendLimits, BackendProtocol};
use fairway_net::clock::Instant;
use tokio::sync::watch;

use super::concurrency::{Concurrency, Tally};
use super::gate::{Gate, Ticket};

/// The circuits of a process. Clones share the same state.
#[derive(Clone, Default)]
pub struct Circuits {
    by_name: Arc<Mutex<HashMap<Box<str>, Weak<Circuit>>>>,
    wanted_connections: ConnectionsWanted,
}

/// Notifies all workers that a request waits for a connection.
type ConnectionsWanted = Arc<watch::Sender<()>>;

/// What is in flight for one Service port.
#[derive(Default)]
struct Circuit {
    requests: Gate,
    connections: Gate,
    retries: AtomicU32,
    pending: AtomicU32,
    wanted_connections: ConnectionsWanted,
    /// The adaptive limit, if a backend has one.
    concurrency: Mutex<Weak<Concurrency>>,
}

/// What is in flight for all backends with limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CircuitTotals {
    /// Requests.
    pub requests: u64,
    /// Connections, idle ones included.
    pub connections: u64,
    /// Requests waiting because a limit is reached.
    pub pending: u64,
    /// Requests that are being retried.
    pub retries: u64,
    /// Requests awaiting a response, for backends with an adaptive limit.
    pub awaiting: u64,
}

/// The limit that a request has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The limit of requests.
    Requests,
    /// The current limit of requests awaiting a response.
    Concurrency,
    /// The limit of connections, all of which are in use.
    Connections,
    /// The limit of pending requests.
    Pending,
}

/// A circuit as one backend of one worker sees it.
pub(crate) struct Breaker {
    circuit: Arc<Circuit>,
    limits: BackendLimits,
    /// Identifies the worker.
    worker: usize,
    /// Whether a connection carries one request at a time.
    is_exclusive: bool,
    /// The adaptive limit of requests awaiting a response.
    measuring: Option<Measurement>,
}

/// What one backend of one worker measures for an adaptive limit.
struct Measurement {
    concurrency: Arc<Concurrency>,
    bounds: AdaptiveConcurrency,
    /// Results that were not reported yet, and when they will be.
    tally: Cell<Tally>,
    report_at: Cell<Instant>,
    /// The origin of request times.
    started_at: Instant,
}

impl Circuits {
    /// Changes whenever a request waits for a connection: idle ones should then be closed
    /// ([`super::Groups::yield_idle_connections`]).
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.wanted_connections.subscribe()
    }

    /// The totals over all circuits.
    #[must_use]
    pub fn totals(&self) -> CircuitTotals {
        let known = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = CircuitTotals::default();
        for circuit in known.values().filter_map(Weak::upgrade) {
            all.requests += u64::from(circuit.requests.in_use());
            all.connections += u64::from(circuit.connections.in_use());
            all.pending += u64::from(circuit.pending.load(Ordering::Relaxed));
            all.retries += u64::from(circuit.retries.load(Ordering::Relaxed));
            all.awaiting += circuit.concurrency().map_or(0, |concurrency| concurrency.gate.in_use().into());
        }
        all
    }

    /// The adaptive limits by Service port.
    #[must_use]
    pub fn moving_limits(&self) -> BTreeMap<Box<str>, u32> {
        let known = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = |circuit: &Weak<Circuit>| Some(circuit.upgrade()?.concurrency()?.limit());
        known.iter().filter_map(|(name, circuit)| Some((name.clone(), limit(circuit)?))).collect()
    }

    /// The breaker of a backend, if it has limits.
    pub(crate) fn breaker(&self, backend: &Backend, worker: usize) -> Option<Rc<Breaker>> {
        let limits = backend.traffic().limits?;
        let service = &backend.service;
        let name = match service.name.is_empty() {
            true => backend.key.0.to_string(),
            false => format!("{}/{}:{}", service.namespace, service.name, service.port),
        };
        let mut known = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == known.capacity() {
            known.retain(|_, circuit| circuit.strong_count() > 0);
        }
        let circuit = known.get(&*name).and_then(Weak::upgrade).unwrap_or_else(|| {
            let circuit = Arc::new(Circuit {
                wanted_connections: Arc::clone(&self.wanted_connections),
                ..Circuit::default()
            });
            known.insert(name.into(), Arc::downgrade(&circuit));
            circuit
        });
        let is_exclusive = backend.protocol == BackendProtocol::Http1;
        let measuring = limits.concurrency.map(|bounds| circuit.start_measurement(bounds, Instant::now()));
        Some(Rc::new(Breaker { circuit, limits, worker, is_exclusive, measuring }))
    }
}

impl Circuit {
    fn concurrency(&self) -> Option<Arc<Concurrency>> {
        self.concurrency.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// Starts measuring an adaptive limit within `bounds`.
    fn start_measurement(&self, bounds: AdaptiveConcurrency, now: Instant) -> Measurement {
        let mut known = self.concurrency.lock().unwrap_or_else(PoisonError::into_inner);
        let concurrency = known.upgrade().unwrap_or_else(|| {
            let concurrency = Arc::new(Concurrency::new(bounds, now));
            *known = Arc::downgrade(&concurrency);
            concurrency
        });
        Measurement {
            concurrency,
            bounds,
            tally: Cell::default(),
            report_at: Cell::new(now),
            started_at: now,
        }
    }
}

impl Measurement {
    fn try_acquire(&self) -> bool {
        self.concurrency.gate.try_acquire(self.concurrency.limit_within(self.bounds))
    }

    /// Records a request that took this long, or has waited this long without a response.
    fn record(&self, took: Duration, is_answered: bool, now: Instant) {
        let mut tally = self.tally.take();
        tally.record(took, is_answered, self.concurrency.gate.in_use());
        if now < self.report_at.get() {
            self.tally.set(tally);
        } else {
            self.report_at.set(self.concurrency.report(tally, self.bounds, now));
        }
    }

    /// Microseconds since [`Self::started_at`], modulo 2^32 (about an hour): an `Instant` in each request would be four
    /// times as large, and longer times are recorded as shorter ones.
    fn micros(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.started_at).as_micros() as u32
    }
}

impl Breaker {
    /// Acquires a permit for a request, or for a forwarded connection, which has no response.
    pub(super) fn begin_request(self: &Rc<Self>, has_response: bool) -> Result<RequestPermit, LimitReached> {
        let measuring = self.measuring.as_ref().filter(|_| has_response);
        if !measuring.is_none_or(Measurement::try_acquire) {
            return Err(LimitReached::Concurrency);
        }
        if !self.circuit.requests.try_acquire(limit_or_max(self.limits.requests.map(u32::from))) {
            if let Some(measuring) = measuring {
                measuring.concurrency.gate.release();
            }
            return Err(LimitReached::Requests);
        }
        let progress =
            if measuring.is_some() { ResponseProgress::Begun } else { ResponseProgress::Unlimited };
        Ok(RequestPermit {
            breaker: Rc::clone(self),
            is_retried: Cell::new(false),
            progress: Cell::new(progress),
            sent_micros: Cell::new(0),
        })
    }

    /// Acquires a permit for a new connection; `None` if connections are not limited.
    pub(super) fn begin_connection(self: &Rc<Self>) -> Result<Option<Rc<ConnectionPermit>>, LimitReached> {
        let Some(limit) = self.limits.connections else { return Ok(None) };
        match self.circuit.connections.try_acquire(limit.get()) {
            true => Ok(Some(Rc::new(ConnectionPermit(Rc::clone(self))))),
            false => Err(LimitReached::Connections),
        }
    }

    /// Acquires a place among those that wait for `full`. Where connections carry one request each, waiting for idle
    /// ones to be closed does not count as pending: some are idle while there are fewer requests than connections.
    pub(super) fn wait(self: &Rc<Self>, full: LimitReached) -> Result<PendingRequest, LimitReached> {
        let circuit = &self.circuit;
        let is_spare = circuit.requests.in_use() <= self.limits.connections.map_or(0, u32::from);
        let is_counted = full != LimitReached::Connections || !is_spare;
        if is_counted {
            let one_more = |pending: u32| (pending < self.limits.pending).then(|| pending + 1);
            let place = circuit.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
            place.map_err(|_| if self.limits.pending == 0 { full } else { LimitReached::Pending })?;
        }
        let asks_others = full == LimitReached::Connections && (is_spare || !self.is_exclusive);
        Ok(PendingRequest {
            breaker: Rc::clone(self),
            full,
            is_counted,
            may_wait_for_others: asks_others,
            ticket: Ticket::default(),
        })
    }

    /// Whether a request of another worker has waited longest for a connection.
    pub(super) fn is_awaited_by_other_worker(&self) -> bool {
        self.circuit.connections.first_worker().is_some_and(|worker| worker != self.worker)
    }

    fn gate(&self, full: LimitReached) -> &Gate {
        match full {
            LimitReached::Connections => &self.circuit.connections,
            LimitReached::Concurrency => match &self.measuring {
                Some(measuring) => &measuring.concurrency.gate,
                None => &self.circuit.requests,
            },
            LimitReached::Requests | LimitReached::Pending => &self.circuit.requests,
        }
    }
}

fn limit_or_max(limit: Option<u32>) -> u32 {
    limit.unwrap_or(u32::MAX)
}

/// A request of a backend with limits. Dropping it releases its permits.
pub struct RequestPermit {
    breaker: Rc<Breaker>,
    is_retried: Cell<bool>,
    progress: Cell<ResponseProgress>,
    /// When the request was sent; see [`Measurement::micros`].
    sent_micros: Cell<u32>,
}

/// Whether the request holds a permit to await a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResponseProgress {
    /// None, and needs none: the backend has no adaptive limit.
    Unlimited,
    /// Holds one; nothing was sent.
    Begun,
    /// Holds one and awaits the response.
    Sent,
    /// Released it: the response came.
    Answered,
}

impl RequestPermit {
    /// An attempt sends the request.
    #[inline]
    pub fn record_sent(&self, now: Instant) {
        let Some(measuring) = self.measuring() else { return };
        if self.progress.replace(ResponseProgress::Sent) == ResponseProgress::Answered {
            // Another attempt after a response that was not used: the request was admitted before.
            measuring.concurrency.gate.try_acquire(u32::MAX);
        }
        self.sent_micros.set(measuring.micros(now));
    }

    /// The response head came. The time is recorded for successful responses only: failures do not tell how long
    /// responses take.
    #[inline]
    pub fn record_response(&self, now: Instant, is_success: bool) {
        let Some(measuring) = self.measuring() else { return };
        if self.progress.replace(ResponseProgress::Answered) == ResponseProgress::Sent {
            if is_success {
                measuring.record(self.waited_since_sent(measuring, now), true, now);
            }
            measuring.concurrency.gate.release();
        }
    }

    /// The attempt ended without a response.
    pub fn record_failure(&self, now: Instant) {
        let Some(measuring) = self.measuring() else { return };
        if self.progress.get() == ResponseProgress::Sent {
            self.progress.set(ResponseProgress::Begun);
            let waited = self.waited_since_sent(measuring, now);
            if measuring.concurrency.is_slow(waited) {
                measuring.record(waited, false, now);
            }
        }
    }

    fn measuring(&self) -> Option<&Measurement> {
        self.breaker.measuring.as_ref().filter(|_| self.progress.get() != ResponseProgress::Unlimited)
    }

    fn waited_since_sent(&self, measuring: &Measurement, now: Instant) -> Duration {
        Duration::from_micros(measuring.micros(now).wrapping_sub(self.sent_micros.get()).into())
    }

    /// Acquires a permit for another attempt; `false` if the limit of retries is reached.
    pub fn begin_retry(&self) -> bool {
        if self.is_retried.get() {
            return true;
        }
        let limit = limit_or_max(self.breaker.limits.retries);
        let one_more = |retries: u32| (retries < limit).then(|| retries + 1);
        let retries = &self.breaker.circuit.retries;
        self.is_retried.set(retries.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok());
        self.is_retried.get()
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        if self.is_retried.get() {
            self.breaker.circuit.retries.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(measuring) = self.measuring()
            && self.progress.get() != ResponseProgress::Answered
        {
            if self.progress.get() == ResponseProgress::Sent {
                self.record_failure(Instant::now());
            }
            measuring.concurrency.gate.release();
        }
        self.breaker.circuit.requests.release();
    }
}

/// A connection of a backend that limits them. The permit is released with the last clone: a shared connection stays
/// open as long as an exchange uses it.
pub struct ConnectionPermit(Rc<Breaker>);

impl ConnectionPermit {
    /// The connection becomes idle. Returns whether it may stay open; otherwise a worker that has waited longer needs
    /// the permit.
    pub(super) fn stays_idle(&self) -> bool {
        let connections = &self.0.circuit.connections;
        match connections.first_worker() {
            Some(worker) if worker != self.0.worker => false,
            Some(_) => {
                connections.wake_first();
                true
            }
            None => true,
        }
    }

    /// One of several exchanges on the connection is over.
    pub(super) fn notify_room(&self) {
        match self.0.circuit.connections.first_worker() {
            Some(worker) if worker == self.0.worker => self.0.circuit.connections.wake_first(),
            Some(_) => self.0.circuit.wanted_connections.send_replace(()),
            None => {}
        }
    }

    /// Whether it belongs to the same circuit.
    pub(super) fn belongs_to(&self, breaker: &Breaker) -> bool {
        Arc::ptr_eq(&self.0.circuit, &breaker.circuit)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.circuit.connections.release();
    }
}

/// A request that waits because a limit is reached. Dropping it leaves the queue.
pub struct PendingRequest {
    breaker: Rc<Breaker>,
    /// The limit it waits for.
    full: LimitReached,
    is_counted: bool,
    /// Whether other workers may have idle connections.
    may_wait_for_others: bool,
    ticket: Ticket,
}

impl PendingRequest {
    /// Ready when it is worth trying again.
    pub fn poll_woken(&mut self, cx: &Context<'_>) -> Poll<()> {
        let gate = self.breaker.gate(self.full);
        let called = gate.poll_woken(cx, self.breaker.worker, &mut self.ticket);
        if called.is_pending() && std::mem::take(&mut self.may_wait_for_others) {
            self.breaker.circuit.wanted_connections.send_replace(());
        }
        called
    }

    /// The limit it waits for.
    #[must_use]
    pub fn full(&self) -> LimitReached {
        self.full
    }

    /// Waits for another limit, which the last try reached.
    pub fn wait_for(&mut self, full: LimitReached) {
        if full != self.full {
            self.breaker.gate(self.full).leave_queue(&self.ticket);
            (self.full, self.ticket) = (full, Ticket::default());
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if self.is_counted {
            self.breaker.circuit.pending.fetch_sub(1, Ordering::Relaxed);
        }
        self.breaker.gate(self.full).leave_queue(&self.ticket);
    }
}
