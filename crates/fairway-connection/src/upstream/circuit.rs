//! What is under way with one Service and port, all workers of the process together, where a backend limits it: requests, connections and
//! retries, and the requests that wait because a limit is reached. Backends without a limit are not counted.
//!
//! A connection that is given back while others wait for one stays with its worker if whoever has waited longest is there, and is closed
//! otherwise. Those that are idle in other workers are closed when a request needs them ([`Circuits::listen`]).

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use fairway_model::{Backend, BackendLimits, BackendProtocol};
use tokio::sync::watch;

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
}

/// Why a request has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// There are as many requests as there may be.
    Requests,
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
        }
        all
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
        Some(Rc::new(Breaker { circuit, limits, worker, is_exclusive }))
    }
}

impl Breaker {
    /// A place for a request that begins.
    pub(super) fn begin_request(self: &Rc<Self>) -> Result<RequestPlace, Full> {
        match self.circuit.requests.take(most(self.limits.requests.map(u32::from))) {
            true => Ok(RequestPlace { breaker: Rc::clone(self), is_retried: Cell::new(false) }),
            false => Err(Full::Requests),
        }
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
}

impl RequestPlace {
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
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.is_counted {
            self.breaker.circuit.pending.fetch_sub(1, Ordering::Relaxed);
        }
        self.breaker.gate(self.full).leave(&self.ticket);
    }
}
