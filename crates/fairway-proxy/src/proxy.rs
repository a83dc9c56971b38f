//! The data plane as the rest of the process sees it: start, publish, measure, drain.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

use fairway_connection::upstream::{Checks, Circuits};
use fairway_net::descriptors::Budget;
use fairway_net::memory::Memory;
use fairway_net::output::{OutputSender, OutputThread};
use fairway_net::spent::Spent;
use fairway_net::spread::Spread;
use fairway_routing::Snapshot;
use tokio::sync::{mpsc, oneshot};

use crate::access_log::AccessLog;
use crate::buffering::Disk;
use crate::geoip::GeoIp;
use crate::guards::FleetLimits;
use crate::inspection::{EndpointQuery, EndpointStates, OpenConnections, merge_states};
use crate::listener::BindError;
use crate::metrics::{
    GenerationCounts, Sample, Text, Totals, write_buffer_disk, write_circuits, write_cpu,
    write_failing_checks, write_fleet_size, write_geoip, write_leases, write_memory, write_spent,
    write_spread, write_stapling, write_tickets,
};
use crate::options::{AccessLogFormat, Opening, ProxyOptions, RecorderOptions};
use crate::publish::{CertificateProblem, PublishProblem, Publisher};
use crate::quic::keys::SharedEndpoints;
use crate::recorder::{RecordedExchange, RecordedQuery, RecordedSamples, recorded_samples};
use crate::thread::{Command, Launch, NewConnections, Question, run};
use crate::tls::{IdentityError, ServerTls, SessionTickets, Stapling};
use crate::worker::{Neighbours, Shared, SharedGuards};

/// The running data plane.
pub struct Proxy {
    publisher: Publisher,
    handle: ProxyHandle,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
    log: Option<OutputThread>,
    /// Has an end once every worker has drained; nothing is ever sent.
    drained: Mutex<std::sync::mpsc::Receiver<Infallible>>,
}

/// Asks the workers things; may be cloned and sent anywhere.
#[derive(Clone)]
pub struct ProxyHandle {
    workers: Vec<mpsc::UnboundedSender<Command>>,
    memory: Arc<Memory>,
    disk: Disk,
    checks: Checks,
    circuits: Circuits,
    fleet: FleetLimits,
    spread: Arc<Spread>,
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
    /// The fallback certificate cannot be used.
    #[error("the fallback certificate: {0}")]
    Certificate(#[from] IdentityError),
    /// Bodies cannot be held where they should be.
    #[error("cannot make a file for bodies in {}: {error}", .directory.display())]
    Buffer {
        /// Where it should be.
        directory: PathBuf,
        /// Why it is not.
        error: std::io::Error,
    },
    /// The system gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl Proxy {
    /// Binds all addresses, then starts the workers, which serve by `first`.
    ///
    /// # Errors
    /// When an address that no object asks for, the fallback certificate or a thread cannot be had; nothing is left
    /// running then. An address that objects alone ask for, or the UDP port of HTTP/3, is tried again later
    /// ([`Publisher::bind_again`]).
    pub fn start(options: ProxyOptions, first: Arc<Snapshot>) -> Result<Self, StartError> {
        Self::start_with(options, first, Opening::default())
    }

    /// The same with sockets that are there already.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        options: ProxyOptions,
        first: Arc<Snapshot>,
        opening: Opening,
    ) -> Result<Self, StartError> {
        let workers = options.workers.max(1);
        let tls = ServerTls::new(&options.fallback_certificate, options.tickets.clone())?
            .with_stapling(options.stapling.clone());
        let limits = &options.limits;
        let most = Budget::new(limits.descriptors, workers, limits.connections).addresses();
        let is_of_an_object = of_objects(&first);
        let (publisher, problems) = Publisher::new(tls, first, workers, most, opening);
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
            Some(directory) => Disk::open(directory, options.buffer.disk)
                .map_err(|error| StartError::Buffer { directory: directory.clone(), error })?,
        };
        let guards = SharedGuards::new(workers, options.tickets.clone(), options.logouts.clone())
            .in_fleet(options.fleet.clone());
        let quic = SharedEndpoints::new(options.tickets.clone());
        let checks = Checks::default();
        let circuits = Circuits::default();
        let shared = Shared {
            memory: Arc::clone(&memory),
            guards,
            disk: disk.clone(),
            quic,
            checks: checks.clone(),
            circuits: circuits.clone(),
        };
        let spread = Spread::new(workers);
        let neighbours = Neighbours::all(&spread);
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

    /// Publishes snapshots; may be cloned and sent anywhere.
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        self.publisher.clone()
    }

    /// Asks the workers things; may be cloned and sent anywhere.
    #[must_use]
    pub fn handle(&self) -> ProxyHandle {
        self.handle.clone()
    }

    /// Waits until every worker has drained; they still say what they counted, until [`Self::join`]. Blocks: call it on a thread of its
    /// own.
    pub fn wait_until_drained(&self) {
        let drained = self.drained.lock().unwrap_or_else(PoisonError::into_inner);
        // An error is the end that is waited for.
        let Err(_) = drained.recv();
    }

    /// Waits until every worker has drained, and ends them. Blocks: call it on a thread of its own.
    ///
    /// # Errors
    /// The first error that ended a worker.
    pub fn join(self) -> std::io::Result<()> {
        self.wait_until_drained();
        let Self { threads, log, handle, publisher, .. } = self;
        for worker in &handle.workers {
            // One that failed has ended.
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
    /// Everything the workers counted, in the Prometheus text format, in pieces that are written when they are asked for. The
    /// metrics of ingress-nginx have the labels of `identity` as well: text like `controller_pod="a",controller_class="b"`.
    pub async fn metrics(&self, identity: &str) -> Text {
        let (mut sum, mut cpu) = (Sample::default(), Vec::with_capacity(self.workers.len()));
        for (index, worker) in self.workers.iter().enumerate() {
            let (reply, sample) = oneshot::channel();
            // A worker that failed has no numbers left to give.
            if worker.send(Command::Question(Question::Sample(reply))).is_ok()
                && let Ok(sample) = sample.await
            {
                cpu.push((index, sample.gauges.cpu));
                sum.merge(sample);
            }
        }
        let mut text = Text::of(sum, identity);
        let beginning = text.beginning();
        let (used, budget) = self.memory.figures();
        write_memory(used, budget, beginning);
        write_buffer_disk(self.disk.used(), beginning);
        write_failing_checks(self.checks.failing(), beginning);
        write_circuits(&self.circuits, beginning);
        write_fleet_size(self.fleet.size().replicas(), beginning);
        write_leases(&self.fleet.figures(), beginning);
        write_spread(&self.spread.counts(), beginning);
        write_cpu(&cpu, beginning);
        write_tickets(&self.tickets.figures(), beginning);
        write_geoip(&self.geoip.figures(), beginning);
        write_stapling(&self.stapling.figures(), beginning);
        write_spent(&Spent::by_process(), self.started, identity, beginning);
        text
    }

    /// What the workers counted, in a few numbers.
    pub async fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for totals in self.ask(Question::Totals).await {
            sum.merge(&totals);
        }
        sum
    }

    /// What each version of the configuration cost, the oldest first: as many of the last ones as workers keep apart.
    pub async fn generations(&self) -> Vec<GenerationCounts> {
        let mut sum = BTreeMap::<u64, GenerationCounts>::new();
        for one in self.ask(Question::Generations).await.into_iter().flatten() {
            let version = one.version;
            sum.entry(version).or_insert(GenerationCounts { version, ..Default::default() }).merge(&one);
        }
        sum.into_values().collect()
    }

    /// The exchanges that the workers remember and the query asks for, the last ones first.
    pub async fn recorded(&self, query: RecordedQuery) -> Vec<RecordedExchange> {
        let query = Arc::new(query);
        let mut found = Vec::new();
        let asked = |index: usize| query.before.is_none_or(|before| before.worker == index);
        for (_, worker) in self.workers.iter().enumerate().filter(|(index, _)| asked(*index)) {
            let (reply, exchanges) = oneshot::channel();
            let question = Question::Recorded(Arc::clone(&query), reply);
            // A worker that failed remembers nothing.
            if worker.send(Command::Question(question)).is_ok()
                && let Ok(exchanges) = exchanges.await
            {
                found.extend(exchanges);
            }
        }
        // Those of one worker are in the order of their numbers, which the next page goes on by.
        if query.before.is_none() {
            // RFC 3339 in UTC sorts as the time does.
            found.sort_by(|one, other| other.time.cmp(&one.time));
        }
        found.truncate(query.limit);
        found
    }

    /// A few requests of each rule, as the workers remember them.
    pub async fn sampled(&self) -> RecordedSamples {
        recorded_samples(self.ask(Question::Sampled).await, self.recorder)
    }

    /// What the workers know of endpoints of these backends. Takes as long for few routes as for many.
    pub async fn endpoints(&self, query: EndpointQuery) -> EndpointStates {
        let query = Arc::new(query);
        let mut states = EndpointStates::new();
        for known in self.ask(|reply| Question::Endpoints(Arc::clone(&query), reply)).await {
            merge_states(&mut states, known);
        }
        states
    }

    /// The connections that are open now. Takes each worker as long as its sweep of once a second.
    pub async fn open_connections(&self) -> OpenConnections {
        let mut open = OpenConnections::default();
        for of_worker in self.ask(Question::Connections).await {
            open.merge(of_worker);
        }
        open
    }

    /// Asks one worker after the other. One that has failed has nothing left to tell.
    async fn ask<T>(&self, question: impl Fn(oneshot::Sender<T>) -> Question) -> Vec<T> {
        let mut told = Vec::with_capacity(self.workers.len());
        for worker in &self.workers {
            let (reply, answer) = oneshot::channel();
            if worker.send(Command::Question(question(reply))).is_ok()
                && let Ok(answer) = answer.await
            {
                told.push(answer);
            }
        }
        told
    }

    /// Whether new requests have been refused for want of memory for 10 s although the load does not explain it.
    #[must_use]
    pub fn sheds_without_load(&self) -> bool {
        self.memory.is_stuck()
    }

    /// Tells every worker to stop as the options say.
    pub fn drain(&self) {
        self.leave(NewConnections::Accepted);
    }

    /// The same, but nothing new is accepted from now on: another process has the sockets.
    pub fn hand_over(&self) {
        self.leave(NewConnections::LeftToAnother);
    }

    fn leave(&self, connections: NewConnections) {
        for worker in &self.workers {
            // One that failed is gone.
            let _ = worker.send(Command::Drain(connections));
        }
    }

    /// The sockets on which workers accept TCP connections, for another process.
    ///
    /// # Errors
    /// A worker stops or has failed, or the process may open no more files.
    pub async fn listening_sockets(&self) -> std::io::Result<Vec<OwnedFd>> {
        let mut sockets = Vec::new();
        for worker in &self.workers {
            let (reply, of_worker) = oneshot::channel();
            let asked = worker.send(Command::Sockets(reply));
            let stopped = || std::io::Error::other("it is stopping");
            asked.map_err(|_| stopped())?;
            sockets.extend(of_worker.await.map_err(|_| stopped())??);
        }
        Ok(sockets)
    }
}

/// Whether only objects ask for an address: the mistake in one of them ends nothing else.
fn of_objects(snapshot: &Arc<Snapshot>) -> impl Fn(&BindError) -> bool + use<> {
    let snapshot = Arc::clone(snapshot);
    move |error| {
        let mut names = error.listener.split(", ").peekable();
        names.peek().is_some()
            && names.all(|name| snapshot.listener(name).is_some_and(|it| !it.origin.namespace.is_empty()))
    }
}

fn warn_of_too_many_connections(options: &ProxyOptions) {
    let limits = &options.limits;
    let served =
        Budget::new(limits.descriptors, options.workers, limits.connections).connections * options.workers;
    if let Some(wanted) = limits.connections.filter(|wanted| *wanted > served) {
        tracing::warn!(
            wanted,
            served,
            "the limit of open files allows fewer connections than --max-connections"
        );
    }
}
