//! One worker: a thread with its own listeners, connections, pools, counters and snapshot. Shares no mutable
//! state with other workers except what [`WorkerShared`] lists.

mod admission;
mod adopted;
mod connection_counts;
mod group_table;
#[cfg(test)]
mod group_table_tests;
mod guards;
mod history;
mod neighbours;
mod reuse;

use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use fairway_connection::cancellations::CancellationRate;
use fairway_connection::upstream::{Circuits, HealthChecks};
use fairway_model::GeoFields;
use fairway_net::budgets::Budgets;
use fairway_net::clock::Instant;
use fairway_net::descriptors::{DescriptorBudget, WorkerDescriptors};
use fairway_net::memory::{Memory, ReturnScope};
use fairway_net::resource_usage::thread_cpu;
use fairway_net::response_waits::ResponseWaits;
use fairway_routing::ClientLimits;

use crate::access_log::AccessLog;
use crate::attribution::{Attribution, RequestOutcome};
use crate::buffering::Disk;
use crate::buffers::Buffers;
use crate::cause::Cause;
use crate::fault::Fault;
use crate::geoip::GeoIpView;
use crate::inspection::{ClientProtocol, EndpointQuery, EndpointStates, OpenConnections};
use crate::listener::ListenerId;
use crate::memory_share::MemoryPool;
use crate::metrics::{Counters, Gauges, Sample};
use crate::network::Network;
use crate::options::ProxyOptions;
use crate::peer::Peer;
use crate::publish::Published;
use crate::quic::keys::SharedEndpoints;
use crate::recorder::Recorder;
use crate::trace::TraceBatcher;
use crate::upstream::endpoint::{IdleLimit, PoolLimits};
use crate::upstream::{Connector, DescriptorRoom, Groups};

pub(crate) use adopted::{Adopted, TlsTermination};
pub(crate) use fairway_net::stopping::{ConnectionRegistration, StopPhase};
pub(crate) use guards::{ClientTrustCache, Guards, SharedGuards};
pub(crate) use neighbours::{Arrivals, Neighbours, TransferredConnection};

use admission::Admission;
use connection_counts::{Progress, Tallies, Tally};
pub(crate) use history::{FailureSignature, History};
use reuse::ReusableMemory;

/// Bytes by which all upload windows of a worker may grow together.
const MAX_WINDOW_GROWTH: u64 = 32 * 1024 * 1024;

/// The upstream protocol of a worker over the network `N`.
pub(crate) type EndpointHop<N> = <N as Network>::Hop;

/// State shared by all workers of a process.
#[derive(Clone)]
pub(crate) struct WorkerShared {
    pub(crate) memory: Arc<Memory>,
    pub(crate) guards: SharedGuards,
    pub(crate) disk: Disk,
    pub(crate) quic: SharedEndpoints,
    pub(crate) checks: HealthChecks,
    pub(crate) circuits: Circuits,
}

/// State shared by the connections of one thread.
pub(crate) struct Worker<N: Network> {
    pub(crate) options: Arc<ProxyOptions>,
    pub(crate) connector: Connector<N>,
    pub(crate) groups: Rc<Groups<EndpointHop<N>>>,
    pub(crate) budgets: Budgets,
    pub(crate) waits: ResponseWaits,
    pub(crate) reuse: ReusableMemory,
    pub(crate) counters: Counters,
    tallies: Tallies<Self>,
    /// Memory of response compressors.
    pub(crate) compressor_memory: MemoryPool,
    /// Memory of buffered bodies.
    pub(crate) body_memory: MemoryPool,
    /// Disk space of buffered bodies beyond memory.
    pub(crate) disk: Disk,
    pub(crate) log: AccessLog,
    pub(crate) recorder: Recorder,
    pub(crate) traces: TraceBatcher,
    pub(crate) guards: Guards,
    geoip: GeoIpView,
    /// Secrets of QUIC endpoints, shared with other workers.
    pub(crate) quic: SharedEndpoints,
    /// Results of health checks.
    pub(crate) checks: HealthChecks,
    /// Counts of work in flight with limited backends, of all workers.
    pub(crate) circuits: Circuits,
    /// Start time of the worker, from which its exchanges measure time.
    pub(crate) started_at: Instant,
    adopted: RefCell<Rc<Adopted<EndpointHop<N>>>>,
    pub(crate) history: History<EndpointHop<N>>,
    random: RefCell<fastrand::Rng>,
    admission: Admission<EndpointHop<N>, OpenConnection<N>>,
}

impl<N: Network> Worker<N> {
    pub(crate) fn new(
        options: Arc<ProxyOptions>,
        network: N,
        first: &Arc<Published>,
        log: AccessLog,
        shared: WorkerShared,
        neighbours: Neighbours<OpenConnection<N>>,
    ) -> Self {
        let WorkerShared { memory, guards, disk, quic, checks, circuits } = shared;
        let groups = Groups::new(options.location.clone(), checks.clone(), circuits.clone());
        let (groups, counters) = (Rc::new(groups), Counters::default());
        let limits = &options.limits;
        let heads = limits.head();
        let budget = DescriptorBudget::new(limits.descriptors, options.workers, limits.connections);
        let descriptors = WorkerDescriptors::new(budget, counters.open_gauge(), groups.idle_counter());
        let room = Rc::new(DescriptorRoom::new(descriptors, Rc::clone(&groups)));
        let reuse = ReusableMemory::new();
        let generation = counters.generations.start(first.snapshot.version());
        let adopted = Rc::new(Adopted::first(first, generation));
        log.adopt(adopted.settings());
        let recorder = Recorder::new(options.recorder);
        let traces = TraceBatcher::new(options.traces.clone());
        let geoip = options.geoip.view();
        Self {
            options,
            started_at: Instant::now(),
            connector: Connector::new(
                network,
                heads,
                Rc::clone(&room),
                Rc::clone(&reuse.workspace),
                counters.http2.endpoints.clone(),
            ),
            groups,
            budgets: Budgets::new(Instant::now()),
            waits: ResponseWaits::new(),
            reuse,
            counters,
            tallies: Tallies::default(),
            compressor_memory: MemoryPool::default(),
            body_memory: MemoryPool::default(),
            disk,
            log,
            recorder,
            traces,
            guards: guards.into_worker_guards(),
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

    /// The snapshot for the next exchange.
    pub(crate) fn adopted(&self) -> Rc<Adopted<EndpointHop<N>>> {
        Rc::clone(&self.adopted.borrow())
    }

    /// Serves a newer snapshot from the next exchange on; exchanges in flight keep theirs.
    pub(crate) fn adopt(&self, published: &Arc<Published>) {
        let older = self.adopted();
        if older.is_same(published) {
            return;
        }
        let generation = self.counters.generations.start(published.snapshot.version());
        let next = Rc::new(Adopted::next(published, &older, &self.groups, generation));
        self.log.adopt(next.settings());
        let loses_a_listener = older.listening().has_listener_missing_in(next.listening());
        *self.adopted.borrow_mut() = next;
        self.history.push_replaced(older);
        if loses_a_listener {
            self.admission.stopping.wake();
        }
        self.counters.adoptions.set(self.counters.adoptions.get() + 1);
    }

    /// Snapshots of the last [`history::CHANGE_WINDOW`] and the one before, newest first: each adjacent pair is
    /// a change that may have made a request fail. Empty if nothing changed.
    pub(crate) fn recent_snapshots(&self, now: Instant) -> Vec<Rc<Adopted<EndpointHop<N>>>> {
        if self.history.is_empty() { Vec::new() } else { self.history.recent(self.adopted(), now) }
    }

    /// Counts a connection refused before its first request.
    #[cold]
    pub(crate) fn record_refusal(&self, fault: Fault) {
        self.counters.count_refused(fault);
        let blamed = match fault {
            Fault::NoListener => {
                let recent = self.recent_snapshots(Instant::now());
                let mut changes = recent.windows(2);
                let lost =
                    changes.find(|pair| pair[1].listening().has_listener_missing_in(pair[0].listening()));
                lost.map(|pair| (pair[0].version(), Attribution::ConfigurationChange))
            }
            _ if fault.cause() == Cause::Fairway => {
                Some((self.adopted.borrow().version(), Attribution::Fairway))
            }
            _ => None,
        };
        if let Some((version, attribution)) = blamed {
            self.counters.generations.record(version, attribution, RequestOutcome::Failed);
        }
    }

    /// Limits of idle upstream connections.
    pub(crate) fn pool_limits(&self) -> PoolLimits {
        let adopted = self.adopted.borrow();
        let upstream = &adopted.settings().upstream;
        // An idle connection keeps the descriptor of its exchange: beyond the share it is closed.
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

    /// Housekeeping, once a second.
    pub(crate) fn tick(&self) {
        self.groups.sweep(&self.pool_limits(), Instant::now());
        self.reuse.trim();
        self.geoip.refresh();
        self.log.flush();
        self.recorder.tick(Instant::now());
        self.traces.flush();
        self.history.forget_old(&self.adopted.borrow(), Instant::now());
        match self.cancellation_rate().tick() {
            Some(true) => tracing::warn!(
                "clients cancel many requests over HTTP/2 and HTTP/3: requests of connections with few responses are held"
            ),
            Some(false) => {
                tracing::info!(
                    "clients of HTTP/2 and HTTP/3 no longer cancel many requests: no request is held"
                );
            }
            None => {}
        }
    }

    /// A copy of all counters and gauges.
    pub(crate) fn sample(&self) -> Sample {
        let gauges = Gauges {
            upstream_idle: self.groups.idle_connections() as u64,
            log_dropped: self.log.dropped(),
            adoption: self.counters.adoption_time.get(),
            shedding_workers: u64::from(self.is_shedding()),
            http2_streams: self.counters.http2.streams().get(),
            http3_streams: self.counters.http3.streams().get(),
            http3_connections: self.counters.http3.connections.get(),
            http2_window: self.budgets.window_growth.lent_bytes(),
            buffer_memory: self.body_memory.used_bytes(),
            exchanges: self.admission.room.descriptors.exchanges() as u64,
            streams: self.counters.streams.open(),
            sessions: self.counters.datagrams.open(),
            cpu: thread_cpu(),
        };
        let mut sample = self.counters.sample(gauges);
        sample.zones = self.groups.attempts_by_zone();
        sample.counts.insert("recorder_dropped_failures_total", self.recorder.dropped_failures());
        sample.counts.insert("trace_exchanges_dropped_total", self.traces.dropped());
        sample
    }

    /// States of the endpoints in the query.
    pub(crate) fn endpoint_states(&self, query: &EndpointQuery) -> EndpointStates {
        let (adopted, now) = (self.adopted(), Instant::now());
        let snapshot = adopted.snapshot();
        let mut states = EndpointStates::new();
        for key in &query.backends {
            let Some(backend) = snapshot.slot(key).and_then(|slot| snapshot.backend(slot)) else { continue };
            let known = self.groups.states(backend, query.max_per_backend, now).into_iter();
            states.extend(known.map(|(address, carrier, state)| ((key.clone(), address, carrier), state)));
        }
        states
    }

    /// Open connections.
    pub(crate) fn open_connections(&self) -> OpenConnections {
        let adopted = self.adopted();
        let listening = adopted.listening();
        let sessions = listening.sessions().collect();
        let endpoints = self.groups.total_state(Instant::now());
        let mut open = OpenConnections { sessions, endpoints, ..OpenConnections::default() };
        for (progress, count) in self.tallies.counts() {
            match progress {
                Progress::Accepted => open.greeted += count,
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

    /// Whether new work is refused for lack of memory.
    pub(crate) fn is_shedding(&self) -> bool {
        self.admission.memory.is_shedding()
    }

    /// Bytes by which all windows may grow: less when the process is short of memory, nothing while it sheds
    /// load.
    pub(crate) fn window_growth(&self) -> u64 {
        if self.is_shedding() {
            return 0;
        }
        let (used, budget) = self.admission.memory.figures();
        window_growth(used, budget, self.options.workers)
    }

    /// Memory for all compressors, and for all buffered bodies: twice the window growth.
    pub(crate) fn max_shared_memory(&self) -> u64 {
        2 * self.window_growth()
    }

    /// Reports exchanges in flight, and frees caches while the process is short of memory.
    pub(crate) fn watch_memory(&self, index: usize) {
        self.admission.memory.note_exchanges(index, self.admission.room.descriptors.exchanges() as u64);
        if self.is_shedding() {
            self.reuse.clear();
            self.recorder.clear();
            self.guards.auth_responses.clear();
            self.guards.tokens.forget();
            self.guards.logins.forget();
            self.groups.close_idle(usize::MAX);
            (self.options.return_memory)(ReturnScope::All);
        }
    }

    /// Whether a downstream connection may be accepted. Closes idle upstream connections to make room.
    pub(crate) fn has_room_for_a_client(&self) -> bool {
        let is_below_limit = self.counters.open_connections() < self.max_connections();
        !self.is_shedding() && is_below_limit && self.admission.room.make_room(1)
    }

    fn max_connections(&self) -> u64 {
        let configured = self.adopted.borrow().settings().downstream.connections_per_worker.map(u64::from);
        configured.unwrap_or(u64::MAX).min(self.admission.room.descriptors.max_client_connections())
    }

    /// Whether a connection should be closed rather than kept for the client's convenience: the worker drains,
    /// is short of memory, or has half of its connections open.
    pub(crate) fn has_scarce_connections(&self) -> bool {
        let is_half_full = self.counters.open_connections() > self.max_connections() / 2;
        self.phase() >= StopPhase::Draining || self.is_shedding() || is_half_full
    }

    /// How many requests clients have cancelled lately.
    pub(crate) fn cancellation_rate(&self) -> &CancellationRate {
        &self.admission.cancellation_rate
    }

    pub(crate) fn neighbours(&self) -> &Neighbours<OpenConnection<N>> {
        &self.admission.neighbours
    }

    pub(crate) fn phase(&self) -> StopPhase {
        self.admission.stopping.phase()
    }

    /// Phase for a connection of this listener: connections of a removed listener drain.
    pub(crate) fn phase_of(&self, listener: ListenerId) -> StopPhase {
        match self.has_listener(listener) {
            true => self.phase(),
            false => StopPhase::Draining,
        }
    }

    /// Whether the current snapshot has the listener.
    pub(crate) fn has_listener(&self, listener: ListenerId) -> bool {
        self.adopted.borrow().listening().has_listener(listener)
    }

    /// Name of the listener, if the current snapshot has it.
    pub(crate) fn listener_name(&self, listener: ListenerId) -> Option<Arc<str>> {
        self.adopted.borrow().listening().model(listener).map(|model| Arc::clone(&model.name))
    }

    /// Whether the listener verifies clients in the current snapshot, but did not verify this one with its
    /// current rules.
    pub(crate) fn is_unverified(&self, peer: &Peer) -> bool {
        let adopted = self.adopted.borrow();
        adopted.is_unverified(peer, adopted.listener(peer.listener))
    }

    /// Reads a client limit of a listener from the current snapshot.
    #[inline]
    pub(crate) fn client_limit<T>(&self, listener: ListenerId, read: impl FnOnce(&ClientLimits) -> T) -> T {
        read(self.adopted.borrow().client_limits(listener))
    }

    /// Sets how many addresses the worker accepts on.
    pub(crate) fn set_listening_addresses(&self, addresses: usize) {
        self.admission.room.descriptors.set_addresses(addresses);
    }

    /// Counts a forwarded connection as open, with one more descriptor, until the ticket is dropped.
    pub(crate) fn start_stream(self: &Rc<Self>) -> StreamTicket<N> {
        self.admission.room.descriptors.begin_exchange();
        self.counters.streams.opened();
        StreamTicket(Rc::clone(self))
    }

    /// Counts one more descriptor for a datagram session until the ticket is dropped. `None` if none is left.
    pub(crate) fn start_session(self: &Rc<Self>) -> Option<SessionTicket<N>> {
        let room = &self.admission.room;
        let is_below_limit =
            self.counters.datagrams.open() < room.descriptors.max_datagram_sessions() && room.make_room(1);
        is_below_limit.then(|| {
            room.descriptors.begin_exchange();
            SessionTicket(Rc::clone(self))
        })
    }

    /// Enters a drain phase and wakes idle connections.
    pub(crate) fn enter_phase(&self, phase: StopPhase) {
        self.admission.stopping.enter(phase);
    }

    /// Waits until the worker drains.
    pub(crate) async fn draining(&self) {
        self.admission.stopping.draining().await;
    }

    /// Leaves new connections to another process.
    pub(crate) fn hand_over(&self) {
        self.admission.stopping.hand_over();
    }

    /// Waits until the worker drains or hands over to another process.
    pub(crate) async fn accepts_no_more(&self) {
        self.admission.stopping.accepts_no_more().await;
    }

    /// Whether another process takes new connections.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.admission.stopping.is_handed_over()
    }

    /// Registers a connection to be woken when the phase changes, until the result is dropped.
    pub(crate) fn register(&self, waker: &Waker) -> ConnectionRegistration<'_> {
        self.admission.stopping.register(waker)
    }

    /// Looks up GeoIP fields for the client, including those that the access log uses: at most once per
    /// request.
    #[cold]
    pub(crate) fn locate(&self, fields: GeoFields, client: Option<IpAddr>, buffers: &mut Buffers) {
        let location = buffers.extras.write().location.get_or_insert_default();
        self.geoip.locate(fields.and(self.log.geo_fields()), client, location);
    }

    /// Leases buffers to a new exchange, which is counted until the lease is dropped.
    pub(crate) fn lend_buffers(self: &Rc<Self>) -> BuffersLease<N> {
        self.admission.room.descriptors.begin_exchange();
        let buffers = self.reuse.buffers.borrow_mut().take().unwrap_or_default();
        BuffersLease { buffers: Some(buffers), worker: Rc::clone(self) }
    }

    /// Starts a mirrored request if fewer than `max_copies` are in flight and memory is not short. Counted until the
    /// ticket is dropped.
    pub(crate) fn start_copy(self: &Rc<Self>, max_copies: usize) -> Option<CopyTicket<N>> {
        if self.is_shedding() || self.budgets.copies.get() >= max_copies {
            return None;
        }
        self.budgets.copies.set(self.budgets.copies.get() + 1);
        Some(CopyTicket(Rc::clone(self)))
    }

    /// Exchanges, from the first byte of the request to the last of the response.
    #[cfg(test)]
    pub(crate) fn exchanges(&self) -> usize {
        self.admission.room.descriptors.exchanges()
    }

    /// Mirrored requests in flight.
    #[cfg(test)]
    pub(crate) fn copies(&self) -> usize {
        self.budgets.copies.get()
    }

    /// Registered connections.
    #[cfg(test)]
    pub(crate) fn registered(&self) -> usize {
        self.admission.stopping.registered()
    }

    fn return_buffers(&self, buffers: Box<Buffers>) {
        self.admission.room.descriptors.end();
        self.reuse.buffers.borrow_mut().keep(buffers);
    }
}

/// Buffers leased to an exchange; they return to the worker when the lease is dropped.
pub(crate) struct BuffersLease<N: Network> {
    buffers: Option<Box<Buffers>>,
    worker: Rc<Worker<N>>,
}

impl<N: Network> Deref for BuffersLease<N> {
    type Target = Buffers;

    fn deref(&self) -> &Buffers {
        self.buffers.as_ref().expect("only dropping takes it")
    }
}

impl<N: Network> DerefMut for BuffersLease<N> {
    fn deref_mut(&mut self) -> &mut Buffers {
        self.buffers.as_mut().expect("only dropping takes it")
    }
}

impl<N: Network> BuffersLease<N> {
    /// Returns buffers that were not written to and need no clearing.
    pub(crate) fn return_untouched(mut self) {
        if let Some(buffers) = self.buffers.take() {
            debug_assert!(buffers.request.target().is_empty() && buffers.request.field_count() == 0);
            self.worker.return_buffers(buffers);
        }
    }
}

impl<N: Network> Drop for BuffersLease<N> {
    fn drop(&mut self) {
        if let Some(mut buffers) = self.buffers.take() {
            buffers.trim();
            self.worker.return_buffers(buffers);
        }
    }
}

/// A mirrored request, counted until dropped.
pub(crate) struct CopyTicket<N: Network>(Rc<Worker<N>>);

impl<N: Network> Drop for CopyTicket<N> {
    fn drop(&mut self) {
        let copies = &self.0.budgets.copies;
        copies.set(copies.get() - 1);
    }
}

/// A forwarded connection, counted as open until dropped.
pub(crate) struct StreamTicket<N: Network>(Rc<Worker<N>>);

impl<N: Network> Drop for StreamTicket<N> {
    fn drop(&mut self) {
        self.0.admission.room.descriptors.end();
        self.0.counters.streams.closed();
    }
}

/// The descriptor of a datagram session, counted until dropped.
pub(crate) struct SessionTicket<N: Network>(Rc<Worker<N>>);

impl<N: Network> Drop for SessionTicket<N> {
    fn drop(&mut self) {
        self.0.admission.room.descriptors.end();
    }
}

/// A downstream connection, counted as open until dropped.
pub(crate) struct OpenConnection<N: Network>(Rc<Tally<Worker<N>>>);

impl<N: Network> OpenConnection<N> {
    /// A newly accepted connection.
    pub(crate) fn new(worker: &Rc<Worker<N>>) -> Self {
        worker.counters.connection_opened();
        Self(worker.tallies.tally(worker, Progress::Accepted))
    }

    /// A connection accepted by another worker.
    pub(crate) fn taken_over_from_worker(worker: &Rc<Worker<N>>) -> Self {
        worker.counters.connection_taken_over();
        Self(worker.tallies.tally(worker, Progress::Accepted))
    }

    /// Assigns the connection to its listener and protocol.
    pub(crate) fn set_listener(&mut self, listener: ListenerId, protocol: ClientProtocol) {
        let worker: &Rc<Worker<N>> = self;
        self.0 = worker.tallies.tally(worker, Progress::Served(listener, protocol));
    }
}

impl<N: Network> Deref for OpenConnection<N> {
    type Target = Rc<Worker<N>>;

    fn deref(&self) -> &Rc<Worker<N>> {
        &self.0
    }
}

impl<N: Network> Drop for OpenConnection<N> {
    fn drop(&mut self) {
        self.counters.connection_closed();
    }
}

/// All workers together may use a quarter of the remaining memory.
fn window_growth(used: u64, budget: u64, workers: usize) -> u64 {
    match budget {
        0 => MAX_WINDOW_GROWTH,
        _ => MAX_WINDOW_GROWTH.min(budget.saturating_sub(used) / (4 * workers.max(1) as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_less_when_memory_is_short_and_not_at_all_without_any() {
        const MIB: u64 = 1024 * 1024;
        assert_eq!(window_growth(0, 0, 2), 32 * MIB, "no budget");
        assert_eq!(window_growth(100 * MIB, 1_000 * MIB, 2), 32 * MIB);
        assert_eq!(window_growth(100 * MIB, 180 * MIB, 2), 10 * MIB);
        assert_eq!(window_growth(180 * MIB, 180 * MIB, 2), 0);
        assert_eq!(window_growth(200 * MIB, 180 * MIB, 0), 0);
    }
}
