//! The data plane as the rest of the process uses it: start, publish, measure, drain.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

use fairway_connection::upstream::{Circuits, HealthChecks};
use fairway_net::descriptors::DescriptorBudget;
use fairway_net::memory::Memory;
use fairway_net::output::{OutputSender, OutputThread};
use fairway_net::resource_usage::ProcessUsage;
use fairway_net::spread::ConnectionSpread;
use fairway_routing::Snapshot;
use tokio::sync::{mpsc, oneshot};

use crate::access_log::AccessLog;
use crate::buffering::Disk;
use crate::geoip::GeoIp;
use crate::guards::FleetLimits;
use crate::inspection::{EndpointQuery, EndpointStates, OpenConnections, merge_states};
use crate::listener::BindError;
use crate::metrics::{
    GenerationCounts, Sample, ScrapeText, Totals, write_buffer_disk, write_circuits, write_cpu,
    write_failing_checks, write_fleet_size, write_geoip, write_leases, write_memory, write_spent,
    write_spread, write_stapling, write_tickets,
};
use crate::options::{AccessLogFormat, ProxyOptions, RecorderOptions, StartupSockets};
use crate::publish::{CertificateProblem, PublishProblem, Publisher};
use crate::quic::keys::SharedEndpoints;
use crate::recorder::{RecordedExchange, RecordedQuery, RecordedSamples, recorded_samples};
use crate::thread::{Command, Launch, NewConnections, WorkerQuery, run};
use crate::tls::{IdentityError, ServerTls, SessionTickets, Stapling};
use crate::worker::{Neighbours, SharedGuards, WorkerShared};

/// The running data plane.
pub struct Proxy {
    publisher: Publisher,
    handle: ProxyHandle,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
    log: Option<OutputThread>,
    /// Disconnected once every worker has drained; carries no messages.
    drained: Mutex<std::sync::mpsc::Receiver<Infallible>>,
}

/// Queries and controls the workers; may be cloned and sent anywhere.
#[derive(Clone)]
pub struct ProxyHandle {
    workers: Vec<mpsc::UnboundedSender<Command>>,
    memory: Arc<Memory>,
    disk: Disk,
    checks: HealthChecks,
    circuits: Circuits,
    fleet: FleetLimits,
    spread: Arc<ConnectionSpread>,
    tickets: SessionTickets,
    geoip: GeoIp,
    stapling: Stapling,
    recorder: RecorderOptions,
    started: SystemTime,
}

/// Why the data plane does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The fallback certificate is unusable.
    #[error("the fallback certificate: {0}")]
    Certificate(#[from] IdentityError),
    /// The directory for buffered bodies is unusable.
    #[error("cannot create a file for buffered bodies in {}: {error}", .directory.display())]
    Buffer {
        /// The directory.
        directory: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl Proxy {
    /// Binds all addresses, then starts the workers with the snapshot `first`.
    ///
    /// # Errors
    /// An address that the flags demand cannot be bound, the fallback certificate is unusable, or a thread
    /// cannot be started; nothing keeps running then. Addresses that only objects demand, and the UDP port of
    /// HTTP/3, are tried again later ([`Publisher::retry_binds`]).
    pub fn start(options: ProxyOptions, first: Arc<Snapshot>) -> Result<Self, StartError> {
        Self::start_with(options, first, StartupSockets::default())
    }

    /// The same with inherited sockets.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        options: ProxyOptions,
        first: Arc<Snapshot>,
        opening: StartupSockets,
    ) -> Result<Self, StartError> {
        let workers = options.workers.max(1);
        let tls = ServerTls::new(&options.fallback_certificate, options.tickets.clone())?
            .with_stapling(options.stapling.clone());
        let limits = &options.limits;
        let max_addresses =
            DescriptorBudget::new(limits.descriptors, workers, limits.connections).addresses();
        let is_of_an_object = is_for_objects_only(&first);
        let (publisher, problems) = Publisher::new(tls, first, workers, max_addresses, opening);
        for problem in problems {
            match problem {
                PublishProblem::Listener(error) if error.is_for_http3 || is_of_an_object(&error) => {
                    tracing::warn!("{error}");
                }
                PublishProblem::Listener(error) => return Err(error.into()),
                PublishProblem::Trust(error) => tracing::warn!("{error}"),
                PublishProblem::Certificate(CertificateProblem { certificate, error }) => {
                    tracing::warn!(%certificate, %error, "a certificate cannot be used");
                }
            }
        }
        let (log, sender) = match options.access_log {
            AccessLogFormat::Off => (None, OutputSender::none()),
            _ => OutputThread::start("access-log", options.access_log_copies.clone())
                .map(|(thread, sender)| (Some(thread), sender))?,
        };
        warn_of_too_many_connections(&options);
        let options = Arc::new(options);
        let mut threads = Vec::new();
        let memory = Memory::watch(options.limits.memory, workers, options.return_memory)?;
        let disk = match &options.buffer.directory {
            None => Disk::default(),
            Some(directory) => Disk::open(directory, options.buffer.disk_bytes)
                .map_err(|error| StartError::Buffer { directory: directory.clone(), error })?,
        };
        let guards = SharedGuards::new(workers, options.tickets.clone(), options.logouts.clone())
            .in_fleet(options.fleet.clone());
        let quic = SharedEndpoints::new(options.tickets.clone());
        let checks = HealthChecks::default();
        let circuits = Circuits::default();
        let shared = WorkerShared {
            memory: Arc::clone(&memory),
            guards,
            disk: disk.clone(),
            quic,
            checks: checks.clone(),
            circuits: circuits.clone(),
        };
        let spread = ConnectionSpread::new(workers);
        let neighbours = Neighbours::for_workers(&spread);
        let mut handle = ProxyHandle {
            workers: Vec::new(),
            memory,
            disk,
            checks,
            circuits,
            fleet: options.fleet.clone(),
            spread,
            tickets: options.tickets.clone(),
            geoip: options.geoip.clone(),
            stapling: options.stapling.clone(),
            recorder: options.recorder,
            started: SystemTime::now(),
        };
        let (undrained, drained) = std::sync::mpsc::channel();
        for (index, (neighbours, arrivals)) in neighbours.into_iter().enumerate() {
            let (commands, receiver) = mpsc::unbounded_channel();
            let launch = Launch {
                index,
                options: Arc::clone(&options),
                publisher: publisher.clone(),
                commands: receiver,
                log: AccessLog::new(options.access_log, sender.clone()),
                shared: shared.clone(),
                neighbours,
                arrivals,
                undrained: undrained.clone(),
            };
            handle.workers.push(commands);
            threads.push(
                std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || run(launch))?,
            );
        }
        Ok(Self { publisher, handle, threads, log, drained: Mutex::new(drained) })
    }

    /// The publisher of snapshots; may be cloned and sent anywhere.
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        self.publisher.clone()
    }

    /// The handle to query and control the workers; may be cloned and sent anywhere.
    #[must_use]
    pub fn handle(&self) -> ProxyHandle {
        self.handle.clone()
    }

    /// Waits until every worker has drained. Workers still answer queries until [`Self::join`]. Blocks: call it
    /// on its own thread.
    pub fn wait_until_drained(&self) {
        let drained = self.drained.lock().unwrap_or_else(PoisonError::into_inner);
        // Disconnection is the expected end.
        let Err(_) = drained.recv();
    }

    /// Waits until every worker has drained, and ends them. Blocks: call it on its own thread.
    ///
    /// # Errors
    /// The first error of a worker.
    pub fn join(self) -> std::io::Result<()> {
        self.wait_until_drained();
        let Self { threads, log, handle, publisher, .. } = self;
        for worker in &handle.workers {
            // A failed worker has ended.
            let _ = worker.send(Command::End);
        }
        let mut first = Ok(());
        for thread in threads {
            let ended = thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a worker panicked")));
            first = first.and(ended);
        }
        drop((handle, publisher));
        if let Some(log) = log {
            log.join();
        }
        first
    }
}

impl ProxyHandle {
    /// All metrics in the Prometheus text format, in chunks written on demand. `identity` is added to the
    /// labels of the metrics of ingress-nginx: text like `controller_pod="a",controller_class="b"`.
    pub async fn metrics(&self, identity: &str) -> ScrapeText {
        let (mut sum, mut cpu) = (Sample::default(), Vec::with_capacity(self.workers.len()));
        for (index, worker) in self.workers.iter().enumerate() {
            let (reply, sample) = oneshot::channel();
            // A failed worker has no numbers.
            if worker.send(Command::Query(WorkerQuery::Sample(reply))).is_ok()
                && let Ok(sample) = sample.await
            {
                cpu.push((index, sample.gauges.cpu));
                sum.merge(sample);
            }
        }
        let mut text = ScrapeText::new(sum, identity);
        let beginning = text.head_mut();
        let (used, budget) = self.memory.figures();
        write_memory(used, budget, beginning);
        write_buffer_disk(self.disk.used_bytes(), beginning);
        write_failing_checks(self.checks.failing(), beginning);
        write_circuits(&self.circuits, beginning);
        write_fleet_size(self.fleet.size().replicas(), beginning);
        write_leases(&self.fleet.figures(), beginning);
        write_spread(&self.spread.counts(), beginning);
        write_cpu(&cpu, beginning);
        write_tickets(&self.tickets.figures(), beginning);
        write_geoip(&self.geoip.figures(), beginning);
        write_stapling(&self.stapling.figures(), beginning);
        write_spent(&ProcessUsage::by_process(), self.started, identity, beginning);
        text
    }

    /// A few totals over all workers.
    pub async fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for totals in self.query_workers(WorkerQuery::Totals).await {
            sum.merge(&totals);
        }
        sum
    }

    /// Requests and failures by configuration version, oldest first, for the last versions that workers keep
    /// apart.
    pub async fn generation_counts(&self) -> Vec<GenerationCounts> {
        let mut sum = BTreeMap::<u64, GenerationCounts>::new();
        for one in self.query_workers(WorkerQuery::Generations).await.into_iter().flatten() {
            let version = one.version;
            sum.entry(version).or_insert(GenerationCounts { version, ..Default::default() }).merge(&one);
        }
        sum.into_values().collect()
    }

    /// Recorded exchanges that match the query, newest first.
    pub async fn recorded_exchanges(&self, query: RecordedQuery) -> Vec<RecordedExchange> {
        let query = Arc::new(query);
        let mut found = Vec::new();
        let is_queried = |index: usize| query.before.is_none_or(|before| before.worker == index);
        for (_, worker) in self.workers.iter().enumerate().filter(|(index, _)| is_queried(*index)) {
            let (reply, exchanges) = oneshot::channel();
            let question = WorkerQuery::Recorded(Arc::clone(&query), reply);
            // A failed worker has no records.
            if worker.send(Command::Query(question)).is_ok()
                && let Ok(exchanges) = exchanges.await
            {
                found.extend(exchanges);
            }
        }
        // Exchanges of one worker are sorted by number, which the next page continues from.
        if query.before.is_none() {
            // RFC 3339 times in UTC sort chronologically.
            found.sort_by(|one, other| other.time.cmp(&one.time));
        }
        found.truncate(query.limit);
        found
    }

    /// Sampled requests of each rule, from all workers.
    pub async fn recorded_samples(&self) -> RecordedSamples {
        recorded_samples(self.query_workers(WorkerQuery::Sampled).await, self.recorder)
    }

    /// Endpoint state of these backends, over all workers. The cost does not depend on the number of routes.
    pub async fn endpoint_states(&self, query: EndpointQuery) -> EndpointStates {
        let query = Arc::new(query);
        let mut states = EndpointStates::new();
        for known in self.query_workers(|reply| WorkerQuery::Endpoints(Arc::clone(&query), reply)).await {
            merge_states(&mut states, known);
        }
        states
    }

    /// Open connections. Costs each worker as much as its sweep once a second.
    pub async fn open_connections(&self) -> OpenConnections {
        let mut open = OpenConnections::default();
        for of_worker in self.query_workers(WorkerQuery::Connections).await {
            open.merge(of_worker);
        }
        open
    }

    /// Queries the workers one after another. A failed worker gives no reply.
    async fn query_workers<T>(&self, question: impl Fn(oneshot::Sender<T>) -> WorkerQuery) -> Vec<T> {
        let mut replies = Vec::with_capacity(self.workers.len());
        for worker in &self.workers {
            let (reply, response) = oneshot::channel();
            if worker.send(Command::Query(question(reply))).is_ok()
                && let Ok(answer) = response.await
            {
                replies.push(answer);
            }
        }
        replies
    }

    /// Whether requests have been refused for lack of memory for 10 s although the load does not explain it.
    #[must_use]
    pub fn sheds_without_load(&self) -> bool {
        self.memory.is_stuck()
    }

    /// Drains every worker as the options say.
    pub fn drain(&self) {
        self.begin_drain(NewConnections::Accepted);
    }

    /// Drains without accepting new connections: another process has the sockets.
    pub fn hand_over(&self) {
        self.begin_drain(NewConnections::HandedOver);
    }

    fn begin_drain(&self, connections: NewConnections) {
        for worker in &self.workers {
            // A failed worker is gone.
            let _ = worker.send(Command::Drain(connections));
        }
    }

    /// The sockets that accept TCP connections, for another process.
    ///
    /// # Errors
    /// A worker stops or has failed, or the process has no free file descriptor.
    pub async fn listening_sockets(&self) -> std::io::Result<Vec<OwnedFd>> {
        let mut sockets = Vec::new();
        for worker in &self.workers {
            let (reply, of_worker) = oneshot::channel();
            let sent = worker.send(Command::Sockets(reply));
            let stopped = || std::io::Error::other("it is stopping");
            sent.map_err(|_| stopped())?;
            sockets.extend(of_worker.await.map_err(|_| stopped())??);
        }
        Ok(sockets)
    }
}

/// Whether only objects demand an address: a mistake in one of them must not end the process.
fn is_for_objects_only(snapshot: &Arc<Snapshot>) -> impl Fn(&BindError) -> bool + use<> {
    let snapshot = Arc::clone(snapshot);
    move |error| {
        let mut names = error.listener.split(", ").peekable();
        names.peek().is_some()
            && names.all(|name| snapshot.listener(name).is_some_and(|it| !it.origin.namespace.is_empty()))
    }
}

fn warn_of_too_many_connections(options: &ProxyOptions) {
    let limits = &options.limits;
    let served = DescriptorBudget::new(limits.descriptors, options.workers, limits.connections).connections
        * options.workers;
    if let Some(wanted) = limits.connections.filter(|wanted| *wanted > served) {
        tracing::warn!(
            wanted,
            served,
            "the limit of open files allows fewer connections than --max-connections"
        );
    }
}
