//! A worker's thread from its start to its end.

use std::cell::Cell;
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
use crate::downstream;
use crate::metrics::{Sample, Totals};
use crate::network::{Network, TcpNetwork};
use crate::options::ProxyOptions;
use crate::publish::{Published, Publisher};
use crate::recorder::{RecordedExchange, RecordedQuery};
use crate::worker::{Arrivals, Neighbours, Open, Phase, Shared, Worker};

/// How often pools are swept.
const TICK: Duration = Duration::from_secs(1);

/// What the time of a drain cuts has this much more to end by itself: with a reset for its peers, and a line in the log.
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
}

/// What the rest of the process asks of a worker.
pub(crate) enum Command {
    /// Answer this.
    Question(Question),
    /// Stop as the options say.
    Drain,
}

/// What a worker answers at any time.
pub(crate) enum Question {
    /// Its counters.
    Sample(oneshot::Sender<Sample>),
    /// What they add up to.
    Totals(oneshot::Sender<Totals>),
    /// What it remembers of its last exchanges.
    Recorded(Arc<RecordedQuery>, oneshot::Sender<Vec<RecordedExchange>>),
}

impl Question {
    /// Whoever asks may have given up.
    fn answer(self, worker: &Worker<TcpNetwork>, index: usize) {
        match self {
            Self::Sample(reply) => _ = reply.send(worker.sample()),
            Self::Totals(reply) => _ = reply.send(worker.counters.totals()),
            Self::Recorded(query, reply) => _ = reply.send(worker.recorder.find(index, &query)),
        }
    }
}

/// Runs until the worker has drained.
pub(crate) fn run(launch: Launch) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    LocalSet::new().block_on(&runtime, serve(launch))
}

async fn serve(launch: Launch) -> std::io::Result<()> {
    let Launch { index, options, publisher, mut commands, log, shared, neighbours, arrivals } = launch;
    let network = TcpNetwork { patience: options.limits.upstream_unacknowledged };
    let mut updates = publisher.subscribe();
    let first = Arc::clone(&updates.borrow_and_update());
    let worker = Rc::new(Worker::new(options, network, &first, log, shared, neighbours));
    let loops = Rc::new(AcceptLoops::new(&worker, index)?);
    loops.follow()?;
    publisher.note_adoption(index, first.snapshot.version());

    tokio::task::spawn_local(follow(Rc::clone(&worker), Rc::clone(&loops), publisher, index, updates));
    tokio::task::spawn_local(tick(Rc::clone(&worker)));
    tokio::task::spawn_local(look_at_waits(Rc::clone(&worker)));
    tokio::task::spawn_local(downstream::take_over(Rc::clone(&worker), arrivals));
    if worker.options.limits.memory != MemoryBudget::Unlimited {
        tokio::task::spawn_local(watch_memory(Rc::clone(&worker), index));
    }

    // A control side that is gone without a word counts as an order to stop.
    while let Some(Command::Question(question)) = commands.recv().await {
        question.answer(&worker, index);
    }
    drain(&worker, index, &mut commands).await;
    // Nobody ticks any more.
    worker.log.flush();
    loops.abort();
    Ok(())
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
        if let Err(error) = loops.follow() {
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

async fn watch_memory(worker: Rc<Worker<TcpNetwork>>, index: usize) {
    let mut interval = tokio::time::interval(memory::LOOK);
    loop {
        interval.tick().await;
        worker.watch_memory(index);
    }
}

/// Goes on accepting for a while, then waits for the exchanges in flight; answers questions all the time.
async fn drain(
    worker: &Rc<Worker<TcpNetwork>>,
    index: usize,
    commands: &mut mpsc::UnboundedReceiver<Command>,
) {
    worker.enter(Phase::Leaving);
    let drained = async {
        tokio::time::sleep(worker.options.drain.delay).await;
        worker.enter(Phase::Draining);
        worker.counters.connections_closed(worker.options.drain.timeout).await;
        // Counted from here, so that a worker that stood still gives what it cuts the time all the same.
        worker.counters.connections_closed(LAST_WORDS).await;
    };
    tokio::pin!(drained);
    let open = Cell::new(true);
    loop {
        tokio::select! {
            () = &mut drained => return,
            command = commands.recv(), if open.get() => match command {
                Some(Command::Question(question)) => question.answer(worker, index),
                Some(Command::Drain) => {}
                None => open.set(false),
            },
        }
    }
}
