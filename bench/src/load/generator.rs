//! The closed loop: each connection sends its next request when the last answer is complete. A phase begins and ends
//! with nothing in flight, so that the CPU read before and after belongs to exactly the requests that were counted.
//!
//! Owns the connections and the tally. Never reads a proxy's CPU.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::connection::{Connection, Step};
use super::failure::Failure;
use crate::backend::{Backing, Body};
use crate::interrupt;
use crate::readiness::{Readiness, Ready};

/// How long answers may take once nothing more is sent.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often an interruption is looked for.
const GLANCE: Duration = Duration::from_millis(50);

/// What is asked of the proxy.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) address: SocketAddr,
    pub(crate) host: &'static str,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) connections: usize,
    pub(crate) body: Body,
    pub(crate) backing: Backing,
    /// A new connection for each request.
    pub(crate) once: bool,
}

impl Plan {
    fn request(&self) -> Vec<u8> {
        let connection = if self.once { "Connection: close\r\n" } else { "" };
        format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: fairway-bench\r\nAccept: */*\r\n{connection}\r\n",
            self.body.path(),
            self.host
        )
        .into_bytes()
    }
}

/// What a phase came to.
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) errors: BTreeMap<Failure, u64>,
    pub(crate) latency_us: Histogram<u64>,
    pub(crate) wall: Duration,
}

impl Tally {
    fn new() -> Self {
        let latency_us = Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are valid");
        Self { requests: 0, errors: BTreeMap::new(), latency_us, wall: Duration::ZERO }
    }

    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    fn answered(&mut self, sent: Instant) {
        self.requests += 1;
        self.latency_us.saturating_record((sent.elapsed().as_micros() as u64).max(1));
    }
}

pub(crate) struct Generator {
    plan: Plan,
    request: Vec<u8>,
    name: ServerName<'static>,
    readiness: Readiness,
    connections: Vec<Option<Connection>>,
    in_flight: usize,
    tally: Tally,
    buffer: Vec<u8>,
    ready: Vec<Ready>,
}

impl Generator {
    pub(crate) fn new(plan: Plan) -> anyhow::Result<Self> {
        Ok(Self {
            request: plan.request(),
            name: ServerName::try_from(plan.host)?,
            readiness: Readiness::new()?,
            connections: (0..plan.connections).map(|_| None).collect(),
            in_flight: 0,
            tally: Tally::new(),
            buffer: vec![0; 64 * 1024],
            ready: Vec::new(),
            plan,
        })
    }

    /// Keeps every connection busy for `window`, then waits for what is in flight.
    pub(crate) fn run(&mut self, window: Duration) -> anyhow::Result<Tally> {
        let begun = Instant::now();
        let deadline = begun + window;
        for slot in 0..self.connections.len() {
            self.start(slot);
        }
        while self.in_flight > 0 && Instant::now() < deadline + PATIENCE {
            self.turn(deadline)?;
        }
        Ok(self.finish(begun))
    }

    /// One request on each connection in turn, after which all of them stay open and idle.
    pub(crate) fn visit_each(&mut self) -> anyhow::Result<Tally> {
        let begun = Instant::now();
        for slot in 0..self.connections.len() {
            self.start(slot);
            let sent = Instant::now();
            while self.in_flight > 0 && sent.elapsed() < PATIENCE {
                self.turn(begun)?;
            }
        }
        Ok(self.finish(begun))
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.connections.iter().flatten().count()
    }

    fn finish(&mut self, begun: Instant) -> Tally {
        if self.in_flight > 0 {
            self.tally.errors.insert(Failure::TimedOut, self.in_flight as u64);
            self.connections.iter_mut().for_each(|slot| *slot = None);
            self.in_flight = 0;
        }
        let mut tally = std::mem::replace(&mut self.tally, Tally::new());
        tally.wall = begun.elapsed();
        tally
    }

    /// Sends on a connection, opening it first where there is none. What fails here stays unsent in this phase, so
    /// that a dead peer is not hammered.
    fn start(&mut self, slot: usize) {
        match self.send(slot) {
            Ok(()) => self.in_flight += 1,
            Err(failure) => self.fail(slot, failure),
        }
    }

    fn send(&mut self, slot: usize) -> Result<(), Failure> {
        if let Some(connection) = &mut self.connections[slot] {
            connection.sent = Instant::now();
            return connection.send(&self.request);
        }
        let mut connection = Connection::open(self.plan.address, self.plan.tls.as_ref(), &self.name)?;
        connection.send(&self.request)?;
        self.readiness.watch(&connection.stream, slot).map_err(|_| Failure::Connect)?;
        self.connections[slot] = Some(connection);
        Ok(())
    }

    fn fail(&mut self, slot: usize, failure: Failure) {
        *self.tally.errors.entry(failure).or_default() += 1;
        self.connections[slot] = None;
    }

    fn turn(&mut self, deadline: Instant) -> anyhow::Result<()> {
        interrupt::check()?;
        let mut ready = std::mem::take(&mut self.ready);
        let limit = match &self.plan.backing {
            Backing::Thread => GLANCE,
            Backing::Generator(backend) => {
                backend.borrow_mut().turn(Duration::ZERO)?;
                Duration::ZERO
            }
        };
        self.readiness.wait(limit, &mut ready)?;
        let again = Instant::now() < deadline;
        for event in &ready {
            self.on_readable(event.token, again);
        }
        self.ready = ready;
        Ok(())
    }

    fn on_readable(&mut self, slot: usize, again: bool) {
        let Some(connection) = &mut self.connections[slot] else { return };
        let step = connection.read(&mut self.buffer, self.plan.body.bytes());
        let sent = connection.sent;
        match step {
            Ok(Step::More) => return,
            Ok(Step::Over) => {
                self.connections[slot] = None;
                return;
            }
            Ok(Step::Answered) if !self.plan.once => self.tally.answered(sent),
            Ok(Step::Answered | Step::AnsweredLast) => {
                self.tally.answered(sent);
                self.connections[slot] = None;
            }
            Err(failure) => self.fail(slot, failure),
        }
        self.in_flight -= 1;
        if again && step.is_ok() {
            self.start(slot);
        }
    }
}
