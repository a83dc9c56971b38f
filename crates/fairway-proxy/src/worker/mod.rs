//! One worker: a thread with its own listeners, connections, pools, counters and snapshot. Nothing in it is shared.

mod admission;
mod adopted;
mod group_table;
#[cfg(test)]
mod group_table_tests;
mod guards;
mod history;
mod neighbours;
mod reuse;
mod tally;

use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use fairway_connection::takebacks::Takebacks;
use fairway_connection::upstream::{Checks, Circuits};
use fairway_model::GeoFields;
use fairway_net::budgets::Budgets;
use fairway_net::clock::Instant;
use fairway_net::descriptors::{Budget, Descriptors};
use fairway_net::memory::{Freed, Memory};
use fairway_net::spent::thread_cpu;
use fairway_net::waits::Waits;
use fairway_routing::ClientLimits;

use crate::access_log::AccessLog;
use crate::attribution::{Attribution, RequestOutcome};
use crate::buffering::Disk;
use crate::buffers::Buffers;
use crate::cause::Cause;
use crate::fault::Fault;
use crate::geoip::View;
use crate::inspection::{ClientProtocol, EndpointQuery, EndpointStates, OpenConnections};
use crate::listener::ListenerId;
use crate::memory_share::MemoryShares;
use crate::metrics::{Counters, Gauges, Sample};
use crate::network::Network;
use crate::options::ProxyOptions;
use crate::peer::Peer;
use crate::publish::Published;
use crate::quic::keys::SharedEndpoints;
use crate::recorder::Recorder;
use crate::trace::Traces;
use crate::upstream::endpoint::{IdleLimit, PoolLimits};
use crate::upstream::{Connector, Groups, Room};

pub(crate) use adopted::{Adopted, ServerSide};
pub(crate) use fairway_net::stopping::{Phase, Registered};
pub(crate) use guards::{Guards, SharedGuards, Trusts};
pub(crate) use neighbours::{Arrivals, Moved, Neighbours};

use admission::Admission;
pub(crate) use history::{History, Subject};
use reuse::Reuse;
use tally::{Progress, Tallies, Tally};

/// What the windows of clients' uploads may grow by in a worker, all connections together.
const WINDOW_GROWTH: u64 = 32 * 1024 * 1024;

/// What carries exchanges to endpoints, in a worker over the network `N`.
pub(crate) type ToEndpoint<N> = <N as Network>::Hop;

/// What all workers of a process share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) memory: Arc<Memory>,
    pub(crate) guards: SharedGuards,
    pub(crate) disk: Disk,
    pub(crate) quic: SharedEndpoints,
    pub(crate) checks: Checks,
    pub(crate) circuits: Circuits,
}

/// What the connections of one thread share.
pub(crate) struct Worker<N: Network> {
    pub(crate) options: Arc<ProxyOptions>,
    pub(crate) connector: Connector<N>,
    pub(crate) groups: Rc<Groups<ToEndpoint<N>>>,
    pub(crate) budgets: Budgets,
    pub(crate) waits: Waits,
    pub(crate) reuse: Reuse,
    pub(crate) counters: Counters,
    tallies: Tallies<Self>,
    /// What compressors of responses take.
    pub(crate) compressors: MemoryShares,
    /// What bodies that are held take of memory.
    pub(crate) held: MemoryShares,
    /// Where they are beyond that.
    pub(crate) disk: Disk,
    pub(crate) log: AccessLog,
    pub(crate) recorder: Recorder,
    pub(crate) traces: Traces,
    pub(crate) guards: Guards,
    geoip: View,
    /// What its endpoints of QUIC have in common with those of other workers.
    pub(crate) quic: SharedEndpoints,
    /// What health checks say of endpoints.
    pub(crate) checks: Checks,
    /// What is under way with backends that limit it, of all workers.
    pub(crate) circuits: Circuits,
    /// When it began: what its exchanges count time from.
    pub(crate) began: Instant,
    adopted: RefCell<Rc<Adopted<ToEndpoint<N>>>>,
    pub(crate) history: History<ToEndpoint<N>>,
    random: RefCell<fastrand::Rng>,
    admission: Admission<ToEndpoint<N>, Open<N>>,
}

impl<N: Network> Worker<N> {
    pub(crate) fn new(
        options: Arc<ProxyOptions>,
        network: N,
        first: &Arc<Published>,
        log: AccessLog,
        shared: Shared,
        neighbours: Neighbours<Open<N>>,
    ) -> Self {
        let Shared { memory, guards, disk, quic, checks, circuits } = shared;
        let groups = Groups::at(options.location.clone(), checks.clone(), circuits.clone());
        let (groups, counters) = (Rc::new(groups), Counters::default());
        let limits = &options.limits;
        let heads = limits.head();
        let budget = Budget::new(limits.descriptors, options.workers, limits.connections);
        let descriptors = Descriptors::new(budget, counters.open(), groups.idle());
        let room = Rc::new(Room::new(descriptors, Rc::clone(&groups)));
        let reuse = Reuse::new();
        let generation = counters.generations.begin(first.snapshot.version());
        let adopted = Rc::new(Adopted::first(first, generation));
        log.adopt(adopted.settings());
        let recorder = Recorder::new(options.recorder);
        let traces = Traces::new(options.traces.clone());
        let geoip = options.geoip.view();
        Self {
            options,
            began: Instant::now(),
            connector: Connector::new(
                network,
                heads,
                Rc::clone(&room),
                Rc::clone(&reuse.workspace),
                counters.http2.endpoints.clone(),
            ),
            groups,
            budgets: Budgets::new(Instant::now()),
            waits: Waits::new(),
            reuse,
            counters,
            tallies: Tallies::default(),
            compressors: MemoryShares::default(),
            held: MemoryShares::default(),
            disk,
            log,
            recorder,
            traces,
            guards: guards.of_worker(),
            geoip,
            quic,
            checks,
            circuits,
            adopted: RefCell::new(adopted),
            history: History::default(),
            random: RefCell::new(fastrand::Rng::new()),
            admission: Admission::new(memory, room, neighbours),
        }
    }

    /// The snapshot to serve the next exchange by.
    pub(crate) fn adopted(&self) -> Rc<Adopted<ToEndpoint<N>>> {
        Rc::clone(&self.adopted.borrow())
    }

    /// Serves by a newer snapshot from the next exchange on; exchanges in flight keep theirs.
    pub(crate) fn adopt(&self, published: &Arc<Published>) {
        let older = self.adopted();
        if older.is(published) {
            return;
        }
        let generation = self.counters.generations.begin(published.snapshot.version());
        let next = Rc::new(Adopted::next(published, &older, &self.groups, generation));
        self.log.adopt(next.settings());
        let loses_a_listener = older.listening().is_more_than(next.listening());
        *self.adopted.borrow_mut() = next;
        self.history.replaced(older);
        if loses_a_listener {
            self.admission.stopping.wake();
        }
        self.counters.adoptions.set(self.counters.adoptions.get() + 1);
    }

    /// The snapshots of the last [`history::CHANGE_WINDOW`] and the one before them, the newest first: each may differ from the next in the list in
    /// what makes a request fail now. None where nothing changed.
    pub(crate) fn recent_snapshots(&self, now: Instant) -> Vec<Rc<Adopted<ToEndpoint<N>>>> {
        if self.history.is_empty() { Vec::new() } else { self.history.recent(self.adopted(), now) }
    }

    /// A connection was refused before its first request.
    #[cold]
    pub(crate) fn refused(&self, fault: Fault) {
        self.counters.refused(fault);
        let judged = match fault {
            Fault::NoListener => {
                let recent = self.recent_snapshots(Instant::now());
                let mut changes = recent.windows(2);
                let lost = changes.find(|pair| pair[1].listening().is_more_than(pair[0].listening()));
                lost.map(|pair| (pair[0].version(), Attribution::ConfigurationChange))
            }
            _ if fault.cause() == Cause::Fairway => {
                Some((self.adopted.borrow().version(), Attribution::Fairway))
            }
            _ => None,
        };
        if let Some((version, attribution)) = judged {
            self.counters.generations.note(version, attribution, RequestOutcome::Failed);
        }
    }

    /// What is kept of idle connections to endpoints.
    pub(crate) fn pool_limits(&self) -> PoolLimits {
        let adopted = self.adopted.borrow();
        let upstream = &adopted.settings().upstream;
        // A connection that becomes idle keeps the descriptor that its exchange had: beyond the share it is closed.
        let full = self.admission.room.descriptors.excess(0) > 0 || self.is_shedding();
        let idle_connections = match upstream.idle_connections {
            _ if full => IdleLimit::AtMost(0),
            Some(most) => IdleLimit::AtMost(most as usize),
            None => IdleLimit::AsNeeded,
        };
        PoolLimits {
            idle_connections,
            idle_timeout: upstream.idle_timeout,
            requests: upstream.requests_per_connection,
        }
    }

    /// Once a second.
    pub(crate) fn tick(&self) {
        self.groups.sweep(&self.pool_limits(), Instant::now());
        self.reuse.trim();
        self.geoip.adopt();
        self.log.flush();
        self.recorder.tick(Instant::now());
        self.traces.flush();
        self.history.forget_old(&self.adopted.borrow(), Instant::now());
        match self.takebacks().tick() {
            Some(true) => tracing::warn!(
                "clients take back many requests over HTTP/2 and HTTP/3: those of connections that had few answers are held"
            ),
            Some(false) => {
                tracing::info!("clients of HTTP/2 and HTTP/3 want their answers again: no request is held");
            }
            None => {}
        }
    }

    /// What was counted until now.
    pub(crate) fn sample(&self) -> Sample {
        let gauges = Gauges {
            upstream_idle: self.groups.idle_connections() as u64,
            log_dropped: self.log.dropped(),
            adoption: self.counters.adoption.get(),
            shedding_workers: u64::from(self.is_shedding()),
            http2_streams: self.counters.http2.streams().get(),
            http3_streams: self.counters.http3.streams().get(),
            http3_connections: self.counters.http3.connections.get(),
            http2_window: self.budgets.windows.lent(),
            buffer_memory: self.held.taken(),
            exchanges: self.admission.room.descriptors.exchanges() as u64,
            streams: self.counters.streams.open(),
            sessions: self.counters.datagrams.open(),
            cpu: thread_cpu(),
        };
        let mut sample = self.counters.sample(gauges);
        sample.zones = self.groups.attempts_by_zone();
        sample.counts.insert("recorder_dropped_failures_total", self.recorder.passed_over());
        sample.counts.insert("trace_exchanges_dropped_total", self.traces.dropped());
        sample
    }

    /// What it knows of the endpoints that are asked about.
    pub(crate) fn endpoint_states(&self, query: &EndpointQuery) -> EndpointStates {
        let (adopted, now) = (self.adopted(), Instant::now());
        let snapshot = adopted.snapshot();
        let mut states = EndpointStates::new();
        for key in &query.backends {
            let Some(backend) = snapshot.slot(key).and_then(|slot| snapshot.backend(slot)) else { continue };
            let known = self.groups.states(backend, query.most, now).into_iter();
            states.extend(known.map(|(address, carrier, state)| ((key.clone(), address, carrier), state)));
        }
        states
    }

    /// The connections that are open now.
    pub(crate) fn open_connections(&self) -> OpenConnections {
        let adopted = self.adopted();
        let listening = adopted.listening();
        let sessions = listening.sessions().collect();
        let endpoints = self.groups.state_of_all(Instant::now());
        let mut open = OpenConnections { sessions, endpoints, ..OpenConnections::default() };
        for (progress, count) in self.tallies.counts() {
            match progress {
                Progress::Greeted => open.greeted += count,
                Progress::Served(listener, protocol) => match listening.model(listener) {
                    Some(model) => *open.clients.entry((model.name.clone(), protocol)).or_default() += count,
                    None => open.orphaned += count,
                },
            }
        }
        open
    }

    pub(crate) fn random<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.random.borrow_mut())
    }

    /// Whether new work is refused for want of memory.
    pub(crate) fn is_shedding(&self) -> bool {
        self.admission.memory.is_shedding()
    }

    /// What the windows of all connections may have grown by: less where the process has little memory left, and nothing
    /// where it sheds.
    pub(crate) fn window_growth(&self) -> u64 {
        if self.is_shedding() {
            return 0;
        }
        let (used, budget) = self.admission.memory.figures();
        window_growth(used, budget, self.options.workers)
    }

    /// What all compressors of responses may take, and all bodies that are held: twice what windows may grow by.
    pub(crate) fn shared_memory(&self) -> u64 {
        2 * self.window_growth()
    }

    /// Tells what is in flight here, and frees what is only kept for speed while the process is short of memory.
    pub(crate) fn watch_memory(&self, index: usize) {
        self.admission.memory.note_exchanges(index, self.admission.room.descriptors.exchanges() as u64);
        if self.is_shedding() {
            self.reuse.clear();
            self.recorder.forget();
            self.guards.answers.clear();
            self.guards.tokens.forget();
            self.guards.logins.forget();
            self.groups.close_idle(usize::MAX);
            (self.options.return_memory)(Freed::All);
        }
    }

    /// Whether a client's connection may be taken. Idle connections to endpoints give way to it.
    pub(crate) fn has_room_for_a_client(&self) -> bool {
        let has_place = self.counters.open_connections() < self.max_connections();
        !self.is_shedding() && has_place && self.admission.room.make(1)
    }

    fn max_connections(&self) -> u64 {
        let most = self.adopted.borrow().settings().downstream.connections_per_worker.map(u64::from);
        most.unwrap_or(u64::MAX).min(self.admission.room.descriptors.connections())
    }

    /// Whether a connection is better closed than kept for the client's convenience: because the worker stops or is short of
    /// memory, or because half of the connections that it may have are open.
    pub(crate) fn has_scarce_connections(&self) -> bool {
        let is_half_full = self.counters.open_connections() > self.max_connections() / 2;
        self.phase() >= Phase::Draining || self.is_shedding() || is_half_full
    }

    /// What clients took back lately.
    pub(crate) fn takebacks(&self) -> &Takebacks {
        &self.admission.takebacks
    }

    /// The other workers.
    pub(crate) fn neighbours(&self) -> &Neighbours<Open<N>> {
        &self.admission.neighbours
    }

    pub(crate) fn phase(&self) -> Phase {
        self.admission.stopping.phase()
    }

    /// How far a connection of this listener is with stopping: one whose listener is gone drains.
    pub(crate) fn phase_of(&self, listener: ListenerId) -> Phase {
        match self.has(listener) {
            true => self.phase(),
            false => Phase::Draining,
        }
    }

    /// Whether the listener is in the snapshot to serve by.
    pub(crate) fn has(&self, listener: ListenerId) -> bool {
        self.adopted.borrow().listening().has(listener)
    }

    /// What the listener is called, while it is in the snapshot to serve by.
    pub(crate) fn listener_name(&self, listener: ListenerId) -> Option<Arc<str>> {
        self.adopted.borrow().listening().model(listener).map(|model| Arc::clone(&model.name))
    }

    /// Whether the client's listener verifies clients in the snapshot to serve by, but did not verify this one as it does now.
    pub(crate) fn is_unverified(&self, peer: &Peer) -> bool {
        let adopted = self.adopted.borrow();
        adopted.is_unverified(peer, adopted.listener(peer.listener))
    }

    /// What the snapshot to serve by says of the clients of a listener.
    #[inline]
    pub(crate) fn clients<T>(&self, listener: ListenerId, read: impl FnOnce(&ClientLimits) -> T) -> T {
        read(self.adopted.borrow().clients(listener))
    }

    /// The worker accepts on so many addresses from now on.
    pub(crate) fn listen_on(&self, addresses: usize) {
        self.admission.room.descriptors.listen_on(addresses);
    }

    /// For a connection that is forwarded as it comes: it has one more descriptor, and counts as open, until this is dropped.
    pub(crate) fn begin_stream(self: &Rc<Self>) -> StreamTicket<N> {
        self.admission.room.descriptors.begin();
        self.counters.streams.opened();
        StreamTicket(Rc::clone(self))
    }

    /// For a session of datagrams: it has one more descriptor until this is dropped. None where there is none left.
    pub(crate) fn begin_session(self: &Rc<Self>) -> Option<SessionTicket<N>> {
        let room = &self.admission.room;
        let has_place = self.counters.datagrams.open() < room.descriptors.sessions() && room.make(1);
        has_place.then(|| {
            room.descriptors.begin();
            SessionTicket(Rc::clone(self))
        })
    }

    /// Moves towards the end, and wakes idle connections so that they see it.
    pub(crate) fn enter(&self, phase: Phase) {
        self.admission.stopping.enter(phase);
    }

    /// Waits until the worker drains.
    pub(crate) async fn draining(&self) {
        self.admission.stopping.draining().await;
    }

    /// Leaves whatever is new to another process.
    pub(crate) fn hand_over(&self) {
        self.admission.stopping.hand_over();
    }

    /// Waits until the worker drains, or leaves whatever is new to another process.
    pub(crate) async fn accepts_no_more(&self) {
        self.admission.stopping.accepts_no_more().await;
    }

    /// Whether another process takes whatever is new.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.admission.stopping.is_handed_over()
    }

    /// A connection that is to be woken when the phase changes, until this is dropped.
    pub(crate) fn register(&self, waker: &Waker) -> Registered<'_> {
        self.admission.stopping.register(waker)
    }

    /// Asks databases for these fields of the client, and for those that the access log has of it: at most once per request.
    #[cold]
    pub(crate) fn locate(&self, fields: GeoFields, client: Option<IpAddr>, buffers: &mut Buffers) {
        let location = buffers.forms.write().location.get_or_insert_default();
        self.geoip.locate(fields.and(self.log.geo_fields()), client, location);
    }

    /// For the exchange that begins; counted until it is dropped.
    pub(crate) fn lend_buffers(self: &Rc<Self>) -> Loan<N> {
        self.admission.room.descriptors.begin();
        let buffers = self.reuse.buffers.borrow_mut().take().unwrap_or_default();
        Loan { buffers: Some(buffers), worker: Rc::clone(self) }
    }

    /// Room for one more copy of a request, if fewer than `most` are under way and memory is not short; until the ticket
    /// is dropped.
    pub(crate) fn begin_copy(self: &Rc<Self>, most: usize) -> Option<CopyTicket<N>> {
        if self.is_shedding() || self.budgets.copies.get() >= most {
            return None;
        }
        self.budgets.copies.set(self.budgets.copies.get() + 1);
        Some(CopyTicket(Rc::clone(self)))
    }

    /// Exchanges, from the first byte of a request to the last of its answer.
    #[cfg(test)]
    pub(crate) fn exchanges(&self) -> usize {
        self.admission.room.descriptors.exchanges()
    }

    /// Copies of requests that are under way.
    #[cfg(test)]
    pub(crate) fn copies(&self) -> usize {
        self.budgets.copies.get()
    }

    /// Connections that are woken when the phase changes.
    #[cfg(test)]
    pub(crate) fn registered(&self) -> usize {
        self.admission.stopping.registered()
    }

    fn take_back(&self, buffers: Box<Buffers>) {
        self.admission.room.descriptors.end();
        self.reuse.buffers.borrow_mut().keep(buffers);
    }
}

/// The buffers of an exchange, which return to the worker when it is over, however it ends.
pub(crate) struct Loan<N: Network> {
    buffers: Option<Box<Buffers>>,
    worker: Rc<Worker<N>>,
}

impl<N: Network> Deref for Loan<N> {
    type Target = Buffers;

    fn deref(&self) -> &Buffers {
        self.buffers.as_ref().expect("only dropping takes it")
    }
}

impl<N: Network> DerefMut for Loan<N> {
    fn deref_mut(&mut self) -> &mut Buffers {
        self.buffers.as_mut().expect("only dropping takes it")
    }
}

impl<N: Network> Loan<N> {
    /// Gives back buffers in which nothing was written: there is nothing to empty.
    pub(crate) fn give_back_untouched(mut self) {
        if let Some(buffers) = self.buffers.take() {
            debug_assert!(buffers.request.target().is_empty() && buffers.request.field_count() == 0);
            self.worker.take_back(buffers);
        }
    }
}

impl<N: Network> Drop for Loan<N> {
    fn drop(&mut self) {
        if let Some(mut buffers) = self.buffers.take() {
            buffers.trim();
            self.worker.take_back(buffers);
        }
    }
}

/// A copy of a request, counted as under way until this is dropped.
pub(crate) struct CopyTicket<N: Network>(Rc<Worker<N>>);

impl<N: Network> Drop for CopyTicket<N> {
    fn drop(&mut self) {
        let copies = &self.0.budgets.copies;
        copies.set(copies.get() - 1);
    }
}

/// A connection that is forwarded as it comes, counted as open until this is dropped.
pub(crate) struct StreamTicket<N: Network>(Rc<Worker<N>>);

impl<N: Network> Drop for StreamTicket<N> {
    fn drop(&mut self) {
        self.0.admission.room.descriptors.end();
        self.0.counters.streams.closed();
    }
}

/// The descriptor of a session of datagrams, counted until this is dropped.
pub(crate) struct SessionTicket<N: Network>(Rc<Worker<N>>);

impl<N: Network> Drop for SessionTicket<N> {
    fn drop(&mut self) {
        self.0.admission.room.descriptors.end();
    }
}

/// A client's connection, counted as open until this is dropped.
pub(crate) struct Open<N: Network>(Rc<Tally<Worker<N>>>);

impl<N: Network> Open<N> {
    /// One was accepted.
    pub(crate) fn new(worker: &Rc<Worker<N>>) -> Self {
        worker.counters.connection_opened();
        Self(worker.tallies.tally(worker, Progress::Greeted))
    }

    /// One that another worker accepted.
    pub(crate) fn taken_over(worker: &Rc<Worker<N>>) -> Self {
        worker.counters.connection_taken_over();
        Self(worker.tallies.tally(worker, Progress::Greeted))
    }

    /// From now on it is one of this listener.
    pub(crate) fn served_by(&mut self, listener: ListenerId, protocol: ClientProtocol) {
        let worker: &Rc<Worker<N>> = self;
        self.0 = worker.tallies.tally(worker, Progress::Served(listener, protocol));
    }
}

impl<N: Network> Deref for Open<N> {
    type Target = Rc<Worker<N>>;

    fn deref(&self) -> &Rc<Worker<N>> {
        &self.0
    }
}

impl<N: Network> Drop for Open<N> {
    fn drop(&mut self) {
        self.counters.connection_closed();
    }
}

/// All workers together may take a quarter of what is left.
fn window_growth(used: u64, budget: u64, workers: usize) -> u64 {
    match budget {
        0 => WINDOW_GROWTH,
        _ => WINDOW_GROWTH.min(budget.saturating_sub(used) / (4 * workers.max(1) as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_by_less_where_memory_is_short_and_by_nothing_where_there_is_none() {
        const MIB: u64 = 1024 * 1024;
        assert_eq!(window_growth(0, 0, 2), 32 * MIB, "no budget");
        assert_eq!(window_growth(100 * MIB, 1_000 * MIB, 2), 32 * MIB);
        assert_eq!(window_growth(100 * MIB, 180 * MIB, 2), 10 * MIB);
        assert_eq!(window_growth(180 * MIB, 180 * MIB, 2), 0);
        assert_eq!(window_growth(200 * MIB, 180 * MIB, 0), 0);
    }
}
