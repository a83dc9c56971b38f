//! The thread of a worker, from start to end.

use std::cell::Cell;
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_net::clock::Instant;
use fairway_net::memory::{self, MemoryBudget};
use fairway_net::response_waits::CHECK_INTERVAL;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;
use tokio::time::MissedTickBehavior;

use crate::accept::AcceptLoops;
use crate::access_log::AccessLog;
use crate::checks;
use crate::downstream;
use crate::inspection::{EndpointQuery, EndpointStates, OpenConnections};
use crate::metrics::{GenerationCounts, Sample, Totals};
use crate::network::{Network, TcpNetwork};
use crate::options::{DrainOptions, ProxyOptions};
use crate::publish::{Published, Publisher};
use crate::recorder::{RecordedExchange, RecordedQuery, WorkerSamples};
use crate::worker::{Arrivals, Neighbours, OpenConnection, StopPhase, Worker, WorkerShared};

/// Interval of housekeeping, such as sweeping pools.
const TICK_INTERVAL: Duration = Duration::from_secs(1);

/// Time that exchanges cut by the drain timeout have to end by themselves: a reset for their peers, an access
/// log line and a metric.
const CUT_GRACE_PERIOD: Duration = Duration::from_millis(100);

/// Arguments of a worker's thread.
pub(crate) struct Launch {
    pub(crate) index: usize,
    pub(crate) options: Arc<ProxyOptions>,
    pub(crate) publisher: Publisher,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    pub(crate) log: AccessLog,
    pub(crate) shared: WorkerShared,
    pub(crate) neighbours: Neighbours<OpenConnection<TcpNetwork>>,
    pub(crate) arrivals: Arrivals<OpenConnection<TcpNetwork>>,
    /// Dropped once the worker has drained.
    pub(crate) undrained: std::sync::mpsc::Sender<Infallible>,
}

/// A command from the rest of the process to a worker.
pub(crate) enum Command {
    /// Answer a query.
    Query(WorkerQuery),
    /// Return duplicates of the sockets that accept connections.
    Sockets(oneshot::Sender<std::io::Result<Vec<OwnedFd>>>),
    /// Stop as the options say.
    Drain(NewConnections),
    /// End, once drained: no queries follow.
    End,
}

/// Handling of new connections during a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewConnections {
    /// Accepted until the drain delay is over.
    Accepted,
    /// Another process accepts them.
    HandedOver,
}

/// A query that a worker answers at any time.
pub(crate) enum WorkerQuery {
    /// Counters of the worker.
    Sample(oneshot::Sender<Sample>),
    /// Totals of the counters.
    Totals(oneshot::Sender<Totals>),
    /// Requests and failures by configuration version.
    Generations(oneshot::Sender<Vec<GenerationCounts>>),
    /// Recorded exchanges.
    Recorded(Arc<RecordedQuery>, oneshot::Sender<Vec<RecordedExchange>>),
    /// Sampled requests of each rule.
    Sampled(oneshot::Sender<WorkerSamples>),
    /// Endpoint states.
    Endpoints(Arc<EndpointQuery>, oneshot::Sender<EndpointStates>),
    /// Open connections.
    Connections(oneshot::Sender<OpenConnections>),
}

impl WorkerQuery {
    /// Answers the query. The caller may have given up.
    fn respond(self, worker: &Worker<TcpNetwork>, index: usize) {
        let names = |listener| worker.listener_name(listener);
        match self {
            Self::Sample(reply) => _ = reply.send(worker.sample()),
            Self::Totals(reply) => _ = reply.send(worker.counters.totals()),
            Self::Generations(reply) => _ = reply.send(worker.counters.generations.counts()),
            Self::Recorded(query, reply) => _ = reply.send(worker.recorder.find(index, &query, &names)),
            Self::Sampled(reply) => _ = reply.send(worker.recorder.samples(&names)),
            Self::Endpoints(query, reply) => _ = reply.send(worker.endpoint_states(&query)),
            Self::Connections(reply) => _ = reply.send(worker.open_connections()),
        }
    }
}

/// Serves until the worker has drained, then answers queries until the process ends: its numbers stay available
/// while other workers drain.
pub(crate) fn run(launch: Launch) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let (local, index) = (LocalSet::new(), launch.index);
    let (worker, mut commands, undrained) = local.block_on(&runtime, serve(launch))?;
    // Closes connections that are still open.
    drop(local);
    drop(undrained);
    runtime.block_on(async {
        loop {
            match commands.recv().await {
                Some(Command::Query(question)) => question.respond(&worker, index),
                // Dropping the reply tells the caller that there are none.
                Some(Command::Drain(_) | Command::Sockets(_)) => {}
                Some(Command::End) | None => return,
            }
        }
    });
    Ok(())
}

/// A drained worker, its command queue and its drain guard.
type DrainedWorker =
    (Rc<Worker<TcpNetwork>>, mpsc::UnboundedReceiver<Command>, std::sync::mpsc::Sender<Infallible>);

async fn serve(launch: Launch) -> std::io::Result<DrainedWorker> {
    let Launch { index, options, publisher, mut commands, log, shared, neighbours, arrivals, undrained } =
        launch;
    let network = TcpNetwork { keepalive_timeout: options.limits.upstream_unacknowledged };
    let mut updates = publisher.subscribe();
    let first = Arc::clone(&updates.borrow_and_update());
    let worker = Rc::new(Worker::new(options, network, &first, log, shared, neighbours));
    let loops = Rc::new(AcceptLoops::new(&worker, index)?);
    if publisher.is_accepting() {
        loops.update_ports()?;
    }
    publisher.record_adoption(index, first.snapshot.version());

    if index == 0 {
        tokio::task::spawn_local(checks::run(Rc::clone(&worker), publisher.subscribe()));
    }
    tokio::task::spawn_local(adopt_updates(Rc::clone(&worker), Rc::clone(&loops), publisher, index, updates));
    tokio::task::spawn_local(tick(Rc::clone(&worker)));
    tokio::task::spawn_local(check_waits(Rc::clone(&worker)));
    tokio::task::spawn_local(yield_idle_connections(Rc::clone(&worker)));
    tokio::task::spawn_local(downstream::take_over(Rc::clone(&worker), arrivals));
    if worker.options.limits.memory != MemoryBudget::Unlimited {
        tokio::task::spawn_local(watch_memory(Rc::clone(&worker), index));
    }

    // A closed command channel counts as an order to drain.
    let new_connections = loop {
        match commands.recv().await {
            Some(Command::Query(question)) => question.respond(&worker, index),
            // The caller may have given up.
            Some(Command::Sockets(reply)) => _ = reply.send(loops.sockets()),
            Some(Command::Drain(new_connections)) => break new_connections,
            Some(Command::End) | None => break NewConnections::Accepted,
        }
    };
    if new_connections == NewConnections::HandedOver {
        worker.hand_over();
    }
    drain_and_respond(&worker, index, &mut commands).await;
    // The tick task has ended: flush here.
    worker.log.flush();
    worker.traces.flush();
    loops.abort();
    Ok((worker, commands, undrained))
}

/// Adopts each snapshot as soon as it is published.
async fn adopt_updates(
    worker: Rc<Worker<TcpNetwork>>,
    loops: Rc<AcceptLoops<TcpNetwork>>,
    publisher: Publisher,
    index: usize,
    mut updates: watch::Receiver<Arc<Published>>,
) {
    while updates.changed().await.is_ok() {
        let published = Arc::clone(&updates.borrow_and_update());
        worker.adopt(&published);
        if publisher.is_accepting()
            && let Err(error) = loops.update_ports()
        {
            tracing::error!(%error, worker = index, "this worker cannot accept connections at a new address");
        }
        worker.counters.adoption_time.set(publisher.time_since_publication());
        publisher.record_adoption(index, published.snapshot.version());
    }
}

async fn tick(worker: Rc<Worker<TcpNetwork>>) {
    let mut interval = tokio::time::interval(TICK_INTERVAL);
    loop {
        interval.tick().await;
        worker.tick();
    }
}

/// Checks waiting exchanges until the worker ends.
pub(crate) async fn check_waits<N: Network>(worker: Rc<Worker<N>>) {
    let mut interval = tokio::time::interval(CHECK_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        worker.waits.look(Instant::now());
    }
}

/// Closes idle connections to limited backends when another worker needs one.
pub(crate) async fn yield_idle_connections<N: Network>(worker: Rc<Worker<N>>) {
    let mut demand = worker.circuits.subscribe();
    while demand.changed().await.is_ok() {
        worker.groups.yield_idle_connections();
    }
}

async fn watch_memory(worker: Rc<Worker<TcpNetwork>>, index: usize) {
    let mut interval = tokio::time::interval(memory::CHECK_INTERVAL);
    loop {
        interval.tick().await;
        worker.watch_memory(index);
    }
}

/// Accepts for the drain delay, then waits for exchanges in flight, and cuts those that exceed the drain
/// timeout.
pub(crate) async fn drain_connections<N: Network>(worker: &Worker<N>, options: DrainOptions) {
    worker.enter_phase(StopPhase::Leaving);
    tokio::time::sleep(options.delay).await;
    worker.enter_phase(StopPhase::Draining);
    worker.counters.wait_for_connections(options.timeout).await;
    worker.enter_phase(StopPhase::Cutting);
    // Starts only now, so that a worker that was stalled still gives connections time to end.
    worker.counters.wait_for_connections(CUT_GRACE_PERIOD).await;
}

/// Drains, and answers queries meanwhile.
async fn drain_and_respond(
    worker: &Rc<Worker<TcpNetwork>>,
    index: usize,
    commands: &mut mpsc::UnboundedReceiver<Command>,
) {
    let drained = drain_connections(worker, worker.options.drain);
    tokio::pin!(drained);
    let open = Cell::new(true);
    loop {
        tokio::select! {
            () = &mut drained => return,
            command = commands.recv(), if open.get() => match command {
                Some(Command::Query(question)) => question.respond(worker, index),
                Some(Command::Drain(_) | Command::Sockets(_) | Command::End) => {}
                None => open.set(false),
            },
        }
    }
}
