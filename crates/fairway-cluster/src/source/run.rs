//! The loop of the cluster thread: starts what the [`Tracker`] asks for, hands it what comes, and passes on what it says.
//! Owns the tasks and no knowledge.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fairway_control::inlet::Inlet;
use fairway_objects::object::ObjectRef;
use kube::Client;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{self, Instant};

use super::backoff::Backoff;
use super::collection::Collection;
use super::condition::SharedCondition;
use super::fault::Fault;
use super::probe::{self, Alarm, Probe, Pulse, Reach, ServerVersion};
use super::releases::Asking;
use super::selection::{Selection, ServeGateways};
use super::tracker::{Action, Tracker};
use super::trimmed::Item;
use super::watch::{Lists, Watch, WatchContext, WatchEvent, WatchId, WatchReport};
use super::{discovery, wire};

/// Reports that wait for the tracker; a watch that is faster waits.
const WAITING: usize = 1024;
/// Reports that are taken together before they are passed on. More than any change that people make at once, and few
/// enough that a storm is passed on in steps.
const TOGETHER: usize = 4096;
/// Requests that begin at the same moment.
const ABREAST: usize = 16;
/// How often a server is asked again whose version cannot be used.
const REFUSED: Duration = Duration::from_secs(5);

/// Watches for ever.
pub(super) async fn run(client: Client, selection: Selection, inlet: Inlet, condition: SharedCondition) {
    let alarm = Alarm::default();
    let (probe, mut pulse, reach) = Probe::new(client.clone(), alarm.clone());
    tokio::spawn(probe.run());
    tokio::spawn(show_reach(reach, condition.clone()));
    let version = usable_version(&client, &condition, &mut pulse).await;
    tracing::info!(version = version.name, "watching the cluster");
    let lists = if version.streams_lists() { Lists::Streamed } else { Lists::Paged };
    condition.server(version);
    let (reports, heard) = mpsc::channel(WAITING);
    let mut releases = None;
    if selection.gateways == ServeGateways::Yes {
        tokio::spawn(discovery::follow(client.clone(), reports.clone(), pulse.clone()));
        releases = Some(Asking { client: client.clone(), inlet: inlet.clone(), pulse: pulse.clone() });
    }
    let gate = Arc::new(Semaphore::new(ABREAST));
    let context = WatchContext { client, reports, pulse, alarm, gate, lists };
    let (tasks, tracker) = (HashMap::new(), Tracker::new(selection));
    let runner = Runner { context, heard, tasks, tracker, inlet, condition, releases };
    runner.run().await;
}

async fn show_reach(mut reach: watch::Receiver<Reach>, condition: SharedCondition) {
    while reach.changed().await.is_ok() {
        let now = reach.borrow_and_update().clone();
        condition.reach(now);
    }
}

/// Asks for the version until there is one that has what is watched.
async fn usable_version(client: &Client, condition: &SharedCondition, pulse: &mut Pulse) -> ServerVersion {
    let mut backoff = Backoff::default();
    loop {
        let (refusal, pause) = match probe::version(client).await {
            Ok(version) => match version.refusal() {
                None => {
                    condition.refusal(None);
                    return version;
                }
                Some(refusal) => (refusal, REFUSED),
            },
            Err(fault) => (fault.to_string(), backoff.next()),
        };
        tracing::warn!(problem = refusal, "the cluster cannot be watched yet; it is tried again");
        condition.refusal(Some(refusal));
        tokio::select! {
            () = time::sleep(pause) => {}
            _ = pulse.changed() => {}
        }
    }
}

struct Runner {
    context: WatchContext,
    heard: mpsc::Receiver<WatchReport>,
    tasks: HashMap<WatchId, Vec<AbortHandle>>,
    tracker: Tracker,
    inlet: Inlet,
    condition: SharedCondition,
    /// Begins when there are objects: nothing is made of what comes before them.
    releases: Option<Asking>,
}

impl Runner {
    async fn run(mut self) {
        loop {
            self.obey();
            if let Some(batch) = self.tracker.batch(Instant::now()) {
                // Telling it may have changed what is watched.
                self.obey();
                self.inlet.send(batch);
                self.releases.take().map(|asking| tokio::spawn(asking.run()));
            }
            self.condition.show(&mut self.tracker);
            let deadline = self.tracker.deadline();
            let patience = async {
                match deadline {
                    Some(deadline) => time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                report = self.heard.recv() => match report {
                    Some(report) => self.take(report),
                    None => return,
                },
                () = patience => {}
            }
        }
    }

    /// Takes what is there by now: the first report of a burst is passed on at once, since the others are not there yet, and
    /// what comes while the pipeline works is gathered there.
    fn take(&mut self, first: WatchReport) {
        self.tracker.take(first);
        for _ in 1..TOGETHER {
            match self.heard.try_recv() {
                Ok(report) => self.tracker.take(report),
                Err(_) => return,
            }
        }
    }

    fn obey(&mut self) {
        for order in self.tracker.actions() {
            match order {
                Action::Watch(id, collection) => {
                    let watch = Watch::new(self.context.clone(), id, collection);
                    self.begin(id, watch.run());
                }
                Action::Fetch(id, one, object) => {
                    let fetch = fetch(self.context.clone(), id, one, object);
                    self.begin(id, fetch);
                }
                Action::Stop(id) => {
                    for task in self.tasks.remove(&id).unwrap_or_default() {
                        task.abort();
                    }
                }
            }
        }
    }

    fn begin(&mut self, id: WatchId, work: impl Future<Output = ()> + Send + 'static) {
        let tasks = self.tasks.entry(id).or_default();
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(work).abort_handle());
    }
}

/// Asks for one object until the answer is definite. As a list of one, which needs no permission beside those of a watch.
async fn fetch(mut context: WatchContext, id: WatchId, one: Collection, object: ObjectRef) {
    let mut backoff = Backoff::default();
    let answer = loop {
        match ask(&context, &one).await {
            Err(fault) if !fault.is_definite() => {}
            answer => break answer,
        }
        tokio::select! {
            () = time::sleep(backoff.next()) => {}
            _ = context.pulse.changed() => {}
        }
    };
    let report = WatchReport { id, at: Instant::now(), event: WatchEvent::Fetched(object, answer) };
    // Nobody listens only while everything ends.
    _ = context.reports.send(report).await;
}

async fn ask(context: &WatchContext, one: &Collection) -> Result<Option<Box<Item>>, Fault> {
    let Ok(_permit) = context.gate.acquire().await else {
        return Err(Fault::Unreachable("the source has ended".to_owned()));
    };
    let page = wire::page(&context.client, one, None).await?;
    let named = |item: &Item| Some(&item.key.name) == one.name.as_ref();
    Ok(page.items.into_iter().find(named).map(Box::new))
}
