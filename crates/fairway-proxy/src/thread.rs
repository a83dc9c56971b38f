//! A worker's thread from its start to its end.

use std::cell::Cell;
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_net::clock::Instant;
use fairway_net::memory::{self, MemoryBudget};
use fairway_net::waits::LOOK;
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
use crate::worker::{Arrivals, Neighbours, Open, Phase, Shared, Worker};

/// How often pools are swept.
const TICK: Duration = Duration::from_secs(1);

/// What the time of a drain cuts has this much more to end by itself: with a reset for its peers, a line in the log, and a number in the
/// metrics.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// What a worker's thread is given.
pub(crate) struct Launch {
    pub(crate) index: usize,
    pub(crate) options: Arc<ProxyOptions>,
    pub(crate) publisher: Publisher,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    pub(crate) log: AccessLog,
    pub(crate) shared: Shared,
    pub(crate) neighbours: Neighbours<Open<TcpNetwork>>,
    pub(crate) arrivals: Arrivals<Open<TcpNetwork>>,
    /// Dropped once the worker has drained.
    pub(crate) undrained: std::sync::mpsc::Sender<Infallible>,
}

/// What the rest of the process asks of a worker.
pub(crate) enum Command {
    /// Answer this.
    Question(Question),
    /// Give away the sockets that accept connections, and keep them as well.
    Sockets(oneshot::Sender<std::io::Result<Vec<OwnedFd>>>),
    /// Stop as the options say.
    Drain(NewConnections),
    /// Nobody asks any more: a worker that has drained may end.
    End,
}

/// What becomes of new connections while a worker stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewConnections {
    /// They are accepted until the delay of the drain is over.
    Accepted,
    /// Another process accepts them.
    LeftToAnother,
}

/// What a worker answers at any time.
pub(crate) enum Question {
    /// Its counters.
    Sample(oneshot::Sender<Sample>),
    /// What they add up to.
    Totals(oneshot::Sender<Totals>),
    /// What each version of the configuration cost.
    Generations(oneshot::Sender<Vec<GenerationCounts>>),
    /// What it remembers of its last exchanges.
    Recorded(Arc<RecordedQuery>, oneshot::Sender<Vec<RecordedExchange>>),
    /// A few requests of each rule.
    Sampled(oneshot::Sender<WorkerSamples>),
    /// What it knows of endpoints.
    Endpoints(Arc<EndpointQuery>, oneshot::Sender<EndpointStates>),
    /// Its open connections.
    Connections(oneshot::Sender<OpenConnections>),
}

impl Question {
    /// Whoever asks may have given up.
    fn answer(self, worker: &Worker<TcpNetwork>, index: usize) {
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

/// Serves until the worker has drained, then answers questions until nobody has any: its numbers stay, as long as others drain.
pub(crate) fn run(launch: Launch) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let (local, index) = (LocalSet::new(), launch.index);
    let (worker, mut commands, undrained) = local.block_on(&runtime, serve(launch))?;
    // What is still open closes.
    drop(local);
    drop(undrained);
    runtime.block_on(async {
        loop {
            match commands.recv().await {
                Some(Command::Question(question)) => question.answer(&worker, index),
                // Whoever asked for sockets sees that there are none.
                Some(Command::Drain(_) | Command::Sockets(_)) => {}
                Some(Command::End) | None => return,
            }
        }
    });
    Ok(())
}

/// A worker that has drained, what it is asked, and what says that it drains no more.
type Drained =
    (Rc<Worker<TcpNetwork>>, mpsc::UnboundedReceiver<Command>, std::sync::mpsc::Sender<Infallible>);

async fn serve(launch: Launch) -> std::io::Result<Drained> {
    let Launch { index, options, publisher, mut commands, log, shared, neighbours, arrivals, undrained } =
        launch;
    let network = TcpNetwork { patience: options.limits.upstream_unacknowledged };
    let mut updates = publisher.subscribe();
    let first = Arc::clone(&updates.borrow_and_update());
    let worker = Rc::new(Worker::new(options, network, &first, log, shared, neighbours));
    let loops = Rc::new(AcceptLoops::new(&worker, index)?);
    if publisher.accepts() {
        loops.follow()?;
    }
    publisher.note_adoption(index, first.snapshot.version());

    if index == 0 {
        tokio::task::spawn_local(checks::run(Rc::clone(&worker), publisher.subscribe()));
    }
    tokio::task::spawn_local(follow(Rc::clone(&worker), Rc::clone(&loops), publisher, index, updates));
    tokio::task::spawn_local(tick(Rc::clone(&worker)));
    tokio::task::spawn_local(look_at_waits(Rc::clone(&worker)));
    tokio::task::spawn_local(give_way(Rc::clone(&worker)));
    tokio::task::spawn_local(downstream::take_over(Rc::clone(&worker), arrivals));
    if worker.options.limits.memory != MemoryBudget::Unlimited {
        tokio::task::spawn_local(watch_memory(Rc::clone(&worker), index));
    }

    // A control side that is gone without a word counts as an order to stop.
    let new_connections = loop {
        match commands.recv().await {
            Some(Command::Question(question)) => question.answer(&worker, index),
            // Who asked may have given up.
            Some(Command::Sockets(reply)) => _ = reply.send(loops.sockets()),
            Some(Command::Drain(new_connections)) => break new_connections,
            Some(Command::End) | None => break NewConnections::Accepted,
        }
    };
    if new_connections == NewConnections::LeftToAnother {
        worker.hand_over();
    }
    drain(&worker, index, &mut commands).await;
    // Nobody ticks any more.
    worker.log.flush();
    worker.traces.flush();
    loops.abort();
    Ok((worker, commands, undrained))
}

/// Adopts each newer snapshot as soon as it is published.
async fn follow(
    worker: Rc<Worker<TcpNetwork>>,
    loops: Rc<AcceptLoops<TcpNetwork>>,
    publisher: Publisher,
    index: usize,
    mut updates: watch::Receiver<Arc<Published>>,
) {
    while updates.changed().await.is_ok() {
        let published = Arc::clone(&updates.borrow_and_update());
        worker.adopt(&published);
        if publisher.accepts()
            && let Err(error) = loops.follow()
        {
            tracing::error!(%error, worker = index, "a new address cannot be accepted on by this worker");
        }
        worker.counters.adoption.set(publisher.age());
        publisher.note_adoption(index, published.snapshot.version());
    }
}

async fn tick(worker: Rc<Worker<TcpNetwork>>) {
    let mut interval = tokio::time::interval(TICK);
    loop {
        interval.tick().await;
        worker.tick();
    }
}

/// Until the worker's end.
pub(crate) async fn look_at_waits<N: Network>(worker: Rc<Worker<N>>) {
    let mut interval = tokio::time::interval(LOOK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        worker.waits.look(Instant::now());
    }
}

/// Closes idle connections to backends that limit them when another worker needs one.
pub(crate) async fn give_way<N: Network>(worker: Rc<Worker<N>>) {
    let mut wanted = worker.circuits.listen();
    while wanted.changed().await.is_ok() {
        worker.groups.give_way();
    }
}

async fn watch_memory(worker: Rc<Worker<TcpNetwork>>, index: usize) {
    let mut interval = tokio::time::interval(memory::LOOK);
    loop {
        interval.tick().await;
        worker.watch_memory(index);
    }
}

/// Goes on accepting for a while, then waits for the exchanges in flight, and cuts those that take too long.
pub(crate) async fn leave<N: Network>(worker: &Worker<N>, options: DrainOptions) {
    worker.enter(Phase::Leaving);
    tokio::time::sleep(options.delay).await;
    worker.enter(Phase::Draining);
    worker.counters.connections_closed(options.timeout).await;
    worker.enter(Phase::Cutting);
    // Counted from here, so that a worker that stood still gives what it cuts the time all the same.
    worker.counters.connections_closed(LAST_WORDS).await;
}

/// Leaves, and answers questions all the time.
async fn drain(
    worker: &Rc<Worker<TcpNetwork>>,
    index: usize,
    commands: &mut mpsc::UnboundedReceiver<Command>,
) {
    let drained = leave(worker, worker.options.drain);
    tokio::pin!(drained);
    let open = Cell::new(true);
    loop {
        tokio::select! {
            () = &mut drained => return,
            command = commands.recv(), if open.get() => match command {
                Some(Command::Question(question)) => question.answer(worker, index),
                Some(Command::Drain(_) | Command::Sockets(_) | Command::End) => {}
                None => open.set(false),
            },
        }
    }
}
