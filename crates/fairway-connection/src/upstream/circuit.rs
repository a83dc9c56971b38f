//! What is under way with one Service and port, all workers of the process together, where a backend limits it: requests, connections and
//! retries, and the requests that wait because a limit is reached. Backends without a limit are not counted. Requests that await a response may
//! have a limit that moves ([`super::concurrency`]): each worker measures its own, and tells the others from time to time.
//!
//! A connection that is given back while others wait for one stays with its worker if whoever has waited longest is there, and is closed
//! otherwise. Those that are idle in other workers are closed when a request needs them ([`Circuits::listen`]).

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

/// The circuits of a process. A clone is the same.
#[derive(Clone, Default)]
pub struct Circuits {
    known: Arc<Mutex<HashMap<Box<str>, Weak<Circuit>>>>,
    wanted: Wanted,
}

/// Tells all workers that somebody waits for a connection.
type Wanted = Arc<watch::Sender<()>>;

/// What is under way with one Service and port.
#[derive(Default)]
struct Circuit {
    requests: Gate,
    connections: Gate,
    retries: AtomicU32,
    pending: AtomicU32,
    wanted: Wanted,
    /// Where a backend has a limit that moves.
    concurrency: Mutex<Weak<Concurrency>>,
}

/// What is under way with all backends that have limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Requests.
    pub requests: u64,
    /// Connections, idle ones included.
    pub connections: u64,
    /// Requests that wait because a limit is reached.
    pub pending: u64,
    /// Requests of which an attempt followed another one.
    pub retries: u64,
    /// Requests that await a response, of backends whose limit of those moves.
    pub awaiting: u64,
}

/// Why a request has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// There are as many requests as there may be.
    Requests,
    /// As many requests await a response as may for now.
    Concurrency,
    /// There are as many connections as there may be, and all are in use.
    Connections,
    /// As many wait as may.
    Pending,
}

/// A circuit as one backend of one worker sees it.
pub(crate) struct Breaker {
    circuit: Arc<Circuit>,
    limits: BackendLimits,
    /// What tells workers apart.
    worker: usize,
    /// Whether a connection carries one request at a time.
    is_exclusive: bool,
    /// The limit of requests that await a response, where it moves.
    measuring: Option<Measuring>,
}

/// What one backend of one worker measures for a limit that moves.
struct Measuring {
    concurrency: Arc<Concurrency>,
    bounds: AdaptiveConcurrency,
    /// What the others have not been told yet, and when they are.
    tally: Cell<Tally>,
    report_at: Cell<Instant>,
    /// What requests count time from.
    began: Instant,
}

impl Circuits {
    /// Is marked as changed whenever somebody waits for a connection: those that are idle are to give way ([`super::Groups::give_way`]).
    #[must_use]
    pub fn listen(&self) -> watch::Receiver<()> {
        self.wanted.subscribe()
    }

    /// What is under way with all of them.
    #[must_use]
    pub fn under_way(&self) -> UnderWay {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = UnderWay::default();
        for circuit in known.values().filter_map(Weak::upgrade) {
            all.requests += u64::from(circuit.requests.taken());
            all.connections += u64::from(circuit.connections.taken());
            all.pending += u64::from(circuit.pending.load(Ordering::Relaxed));
            all.retries += u64::from(circuit.retries.load(Ordering::Relaxed));
            all.awaiting += circuit.concurrency().map_or(0, |concurrency| concurrency.gate.taken().into());
        }
        all
    }

    /// The limits that move, by the name of their Service and port.
    #[must_use]
    pub fn moving_limits(&self) -> BTreeMap<Box<str>, u32> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = |circuit: &Weak<Circuit>| Some(circuit.upgrade()?.concurrency()?.limit());
        known.iter().filter_map(|(name, circuit)| Some((name.clone(), limit(circuit)?))).collect()
    }

    /// That of a backend, if it has a limit.
    pub(crate) fn breaker(&self, backend: &Backend, worker: usize) -> Option<Rc<Breaker>> {
        let limits = backend.traffic().limits?;
        let service = &backend.service;
        let name = match service.name.is_empty() {
            true => backend.key.0.to_string(),
            false => format!("{}/{}:{}", service.namespace, service.name, service.port),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == known.capacity() {
            known.retain(|_, circuit| circuit.strong_count() > 0);
        }
        let circuit = known.get(&*name).and_then(Weak::upgrade).unwrap_or_else(|| {
            let circuit = Arc::new(Circuit { wanted: Arc::clone(&self.wanted), ..Circuit::default() });
            known.insert(name.into(), Arc::downgrade(&circuit));
            circuit
        });
        let is_exclusive = backend.protocol == BackendProtocol::Http1;
        let measuring = limits.concurrency.map(|bounds| circuit.measure(bounds, Instant::now()));
        Some(Rc::new(Breaker { circuit, limits, worker, is_exclusive, measuring }))
    }
}

impl Circuit {
    fn concurrency(&self) -> Option<Arc<Concurrency>> {
        self.concurrency.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// The limit moves between these.
    fn measure(&self, bounds: AdaptiveConcurrency, now: Instant) -> Measuring {
        let mut known = self.concurrency.lock().unwrap_or_else(PoisonError::into_inner);
        let concurrency = known.upgrade().unwrap_or_else(|| {
            let concurrency = Arc::new(Concurrency::new(bounds, now));
            *known = Arc::downgrade(&concurrency);
            concurrency
        });
        Measuring { concurrency, bounds, tally: Cell::default(), report_at: Cell::new(now), began: now }
    }
}

impl Measuring {
    fn take(&self) -> bool {
        self.concurrency.gate.take(self.concurrency.limit_within(self.bounds))
    }

    /// A request took this long, or has waited as long without a response.
    fn note(&self, took: Duration, is_answered: bool, now: Instant) {
        let mut tally = self.tally.take();
        tally.note(took, is_answered, self.concurrency.gate.taken());
        if now < self.report_at.get() {
            self.tally.set(tally);
        } else {
            self.report_at.set(self.concurrency.report(tally, self.bounds, now));
        }
    }

    /// How long after [`Self::began`], in microseconds. Within a request an `Instant` would be four times as large; what takes more than an hour is
    /// taken for shorter.
    fn micros(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.began).as_micros() as u32
    }
}

impl Breaker {
    /// A place for a request that begins, or for a connection that is forwarded, which has no response.
    pub(super) fn begin_request(self: &Rc<Self>, has_response: bool) -> Result<RequestPlace, Full> {
        let measuring = self.measuring.as_ref().filter(|_| has_response);
        if !measuring.is_none_or(Measuring::take) {
            return Err(Full::Concurrency);
        }
        if !self.circuit.requests.take(most(self.limits.requests.map(u32::from))) {
            if let Some(measuring) = measuring {
                measuring.concurrency.gate.release();
            }
            return Err(Full::Requests);
        }
        let progress = if measuring.is_some() { Progress::Begun } else { Progress::Unlimited };
        Ok(RequestPlace {
            breaker: Rc::clone(self),
            is_retried: Cell::new(false),
            progress: Cell::new(progress),
            sent: Cell::new(0),
        })
    }

    /// A place for a connection that is to be made; none where connections are not limited.
    pub(super) fn begin_connection(self: &Rc<Self>) -> Result<Option<Rc<ConnectionPlace>>, Full> {
        let Some(limit) = self.limits.connections else { return Ok(None) };
        match self.circuit.connections.take(limit.get()) {
            true => Ok(Some(Rc::new(ConnectionPlace(Rc::clone(self))))),
            false => Err(Full::Connections),
        }
    }

    /// A place among those that wait for what is `full`. Of connections that carry one request each, some are idle while there are fewer requests
    /// than connections; waiting for those to be closed counts for nothing.
    pub(super) fn wait(self: &Rc<Self>, full: Full) -> Result<Pending, Full> {
        let circuit = &self.circuit;
        let is_spare = circuit.requests.taken() <= self.limits.connections.map_or(0, u32::from);
        let is_counted = full != Full::Connections || !is_spare;
        if is_counted {
            let one_more = |pending: u32| (pending < self.limits.pending).then(|| pending + 1);
            let taken = circuit.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
            taken.map_err(|_| if self.limits.pending == 0 { full } else { Full::Pending })?;
        }
        let asks_others = full == Full::Connections && (is_spare || !self.is_exclusive);
        Ok(Pending { breaker: Rc::clone(self), full, is_counted, asks_others, ticket: Ticket::default() })
    }

    /// Whether somebody of another worker has waited longest for a connection.
    pub(super) fn is_wanted_elsewhere(&self) -> bool {
        self.circuit.connections.first().is_some_and(|worker| worker != self.worker)
    }

    fn gate(&self, full: Full) -> &Gate {
        match full {
            Full::Connections => &self.circuit.connections,
            Full::Concurrency => match &self.measuring {
                Some(measuring) => &measuring.concurrency.gate,
                None => &self.circuit.requests,
            },
            Full::Requests | Full::Pending => &self.circuit.requests,
        }
    }
}

fn most(limit: Option<u32>) -> u32 {
    limit.unwrap_or(u32::MAX)
}

/// A request of a backend that has limits, until this is dropped.
pub struct RequestPlace {
    breaker: Rc<Breaker>,
    is_retried: Cell<bool>,
    progress: Cell<Progress>,
    /// When the request was sent, as [`Measuring::micros`].
    sent: Cell<u32>,
}

/// What a request has of the places of those that await a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// None, and needs none: the backend has no such limit.
    Unlimited,
    /// A place, but nothing was sent.
    Begun,
    /// A place, and awaits the response to what was sent.
    Sent,
    /// None any more: it has a response.
    Answered,
}

impl RequestPlace {
    /// An attempt sends the request.
    #[inline]
    pub fn note_sent(&self, now: Instant) {
        let Some(measuring) = self.measuring() else { return };
        if self.progress.replace(Progress::Sent) == Progress::Answered {
            // An attempt after a response that nobody gets: the request was let in.
            measuring.concurrency.gate.take(u32::MAX);
        }
        self.sent.set(measuring.micros(now));
    }

    /// The head of a response came. Whether it says how long responses take: one that says that something failed does not.
    #[inline]
    pub fn note_response(&self, now: Instant, is_success: bool) {
        let Some(measuring) = self.measuring() else { return };
        if self.progress.replace(Progress::Answered) == Progress::Sent {
            if is_success {
                measuring.note(self.waited(measuring, now), true, now);
            }
            measuring.concurrency.gate.release();
        }
    }

    /// The attempt is over without a response.
    pub fn note_failure(&self, now: Instant) {
        let Some(measuring) = self.measuring() else { return };
        if self.progress.get() == Progress::Sent {
            self.progress.set(Progress::Begun);
            let waited = self.waited(measuring, now);
            if measuring.concurrency.is_slow(waited) {
                measuring.note(waited, false, now);
            }
        }
    }

    fn measuring(&self) -> Option<&Measuring> {
        self.breaker.measuring.as_ref().filter(|_| self.progress.get() != Progress::Unlimited)
    }

    fn waited(&self, measuring: &Measuring, now: Instant) -> Duration {
        Duration::from_micros(measuring.micros(now).wrapping_sub(self.sent.get()).into())
    }

    /// Another attempt follows one of it. False where as many requests are tried again as may be.
    pub fn begin_retry(&self) -> bool {
        if self.is_retried.get() {
            return true;
        }
        let limit = most(self.breaker.limits.retries);
        let one_more = |retries: u32| (retries < limit).then(|| retries + 1);
        let retries = &self.breaker.circuit.retries;
        self.is_retried.set(retries.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok());
        self.is_retried.get()
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        if self.is_retried.get() {
            self.breaker.circuit.retries.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(measuring) = self.measuring()
            && self.progress.get() != Progress::Answered
        {
            if self.progress.get() == Progress::Sent {
                self.note_failure(Instant::now());
            }
            measuring.concurrency.gate.release();
        }
        self.breaker.circuit.requests.release();
    }
}

/// A connection of a backend that limits them, until the last clone is dropped: a connection that carries several exchanges is open as long as
/// one of them has a part of it.
pub struct ConnectionPlace(Rc<Breaker>);

impl ConnectionPlace {
    /// The connection is idle from now on. Whether it stays: otherwise a worker that has waited longer needs its place.
    pub(super) fn rests(&self) -> bool {
        let connections = &self.0.circuit.connections;
        match connections.first() {
            Some(worker) if worker != self.0.worker => false,
            Some(_) => {
                connections.call();
                true
            }
            None => true,
        }
    }

    /// One of several exchanges that it carries is over.
    pub(super) fn has_room(&self) {
        match self.0.circuit.connections.first() {
            Some(worker) if worker == self.0.worker => self.0.circuit.connections.call(),
            Some(_) => self.0.circuit.wanted.send_replace(()),
            None => {}
        }
    }

    /// Whether it counts for the same backend.
    pub(super) fn is_of(&self, breaker: &Breaker) -> bool {
        Arc::ptr_eq(&self.0.circuit, &breaker.circuit)
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.0.circuit.connections.release();
    }
}

/// A request that waits because a limit is reached, until this is dropped.
pub struct Pending {
    breaker: Rc<Breaker>,
    /// What it waits for.
    full: Full,
    is_counted: bool,
    /// Whether other workers may have idle connections.
    asks_others: bool,
    ticket: Ticket,
}

impl Pending {
    /// Ready when there is a reason to look for a place again.
    pub fn poll_call(&mut self, cx: &Context<'_>) -> Poll<()> {
        let gate = self.breaker.gate(self.full);
        let called = gate.poll_call(cx, self.breaker.worker, &mut self.ticket);
        if called.is_pending() && std::mem::take(&mut self.asks_others) {
            self.breaker.circuit.wanted.send_replace(());
        }
        called
    }

    /// What it waits for.
    #[must_use]
    pub fn full(&self) -> Full {
        self.full
    }

    /// It waits for this from now on, which another look found full.
    pub fn wait_for(&mut self, full: Full) {
        if full != self.full {
            self.breaker.gate(self.full).leave(&self.ticket);
            (self.full, self.ticket) = (full, Ticket::default());
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.is_counted {
            self.breaker.circuit.pending.fetch_sub(1, Ordering::Relaxed);
        }
        self.breaker.gate(self.full).leave(&self.ticket);
    }
}
