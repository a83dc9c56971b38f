//! The loop of the source thread: starts what the [`Tracker`] asks for, feeds it reports, and sends its batches to the pipeline.
//! Owns the tasks and no other state.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fairway_control::input::Inlet;
use fairway_objects::object::ObjectRef;
use kube::Client;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{self, Instant};

use super::backoff::Backoff;
use super::collection::Collection;
use super::condition::SharedCondition;
use super::fault::Fault;
use super::probe::{self, Probe, ProbeTrigger, Reachability, RestartSignal, ServerVersion};
use super::releases::ReleasePoller;
use super::selection::{Selection, ServeGateways};
use super::tracker::{Action, Tracker};
use super::trimmed::Item;
use super::watch::{Lists, Watch, WatchContext, WatchEvent, WatchId, WatchReport};
use super::{discovery, wire};

/// Reports in the queue to the tracker; a faster watch waits.
const REPORT_QUEUE_SIZE: usize = 1024;
/// Reports per batch: more than a person changes at once, and small enough that a storm is sent in steps.
const MAX_REPORTS_PER_BATCH: usize = 4096;
/// Requests that start concurrently.
const MAX_CONCURRENT_REQUESTS: usize = 16;
/// The retry interval for a server with an unsupported version.
const UNSUPPORTED_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Watches forever.
pub(super) async fn run(client: Client, selection: Selection, inlet: Inlet, condition: SharedCondition) {
    let alarm = ProbeTrigger::default();
    let (probe, mut pulse, reach) = Probe::new(client.clone(), alarm.clone());
    tokio::spawn(probe.run());
    tokio::spawn(publish_reachability(reach, condition.clone()));
    let version = usable_version(&client, &condition, &mut pulse).await;
    tracing::info!(version = version.name, "watching the cluster");
    let lists = if version.streams_lists() { Lists::Streamed } else { Lists::Paged };
    condition.set_server_version(version);
    let (reports, heard) = mpsc::channel(REPORT_QUEUE_SIZE);
    let mut releases = None;
    if selection.gateways == ServeGateways::Yes {
        tokio::spawn(discovery::poll_kinds(client.clone(), reports.clone(), pulse.clone()));
        releases = Some(ReleasePoller { client: client.clone(), inlet: inlet.clone(), pulse: pulse.clone() });
    }
    let gate = Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS));
    let context = WatchContext { client, reports, pulse, alarm, gate, lists };
    let (tasks, tracker) = (HashMap::new(), Tracker::new(selection));
    let runner = Runner { context, reports: heard, tasks, tracker, inlet, condition, releases };
    runner.run().await;
}

async fn publish_reachability(mut reach: watch::Receiver<Reachability>, condition: SharedCondition) {
    while reach.changed().await.is_ok() {
        let now = reach.borrow_and_update().clone();
        condition.set_reachability(now);
    }
}

/// Requests the version until it is supported.
async fn usable_version(
    client: &Client,
    condition: &SharedCondition,
    pulse: &mut RestartSignal,
) -> ServerVersion {
    let mut backoff = Backoff::default();
    loop {
        let (refusal, pause) = match probe::fetch_version(client).await {
            Ok(version) => match version.unsupported_reason() {
                None => {
                    condition.set_refusal(None);
                    return version;
                }
                Some(refusal) => (refusal, UNSUPPORTED_RETRY_INTERVAL),
            },
            Err(fault) => (fault.to_string(), backoff.next_delay()),
        };
        tracing::warn!(problem = refusal, "the cluster cannot be watched yet; retrying");
        condition.set_refusal(Some(refusal));
        tokio::select! {
            () = time::sleep(pause) => {}
            _ = pulse.changed() => {}
        }
    }
}

struct Runner {
    context: WatchContext,
    reports: mpsc::Receiver<WatchReport>,
    tasks: HashMap<WatchId, Vec<AbortHandle>>,
    tracker: Tracker,
    inlet: Inlet,
    condition: SharedCondition,
    /// Starts once there are objects: earlier reports would have no effect.
    releases: Option<ReleasePoller>,
}

impl Runner {
    async fn run(mut self) {
        loop {
            self.run_actions();
            if let Some(batch) = self.tracker.take_batch(Instant::now()) {
                // Reading the condition may have changed what is watched.
                self.run_actions();
                self.inlet.send(batch);
                self.releases.take().map(|asking| tokio::spawn(asking.run()));
            }
            self.condition.update_watches(&mut self.tracker);
            let deadline = self.tracker.deadline();
            let patience = async {
                match deadline {
                    Some(deadline) => time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                report = self.reports.recv() => match report {
                    Some(report) => self.take_reports(report),
                    None => return,
                },
                () = patience => {}
            }
        }
    }

    /// Takes all queued reports. The first report of a burst is sent at once, because the others are not queued yet; what arrives
    /// while the pipeline works is batched there.
    fn take_reports(&mut self, first: WatchReport) {
        self.tracker.handle_report(first);
        for _ in 1..MAX_REPORTS_PER_BATCH {
            match self.reports.try_recv() {
                Ok(report) => self.tracker.handle_report(report),
                Err(_) => return,
            }
        }
    }

    fn run_actions(&mut self) {
        for order in self.tracker.take_actions() {
            match order {
                Action::Watch(id, collection) => {
                    let watch = Watch::new(self.context.clone(), id, collection);
                    self.spawn_task(id, watch.run());
                }
                Action::Fetch(id, one, object) => {
                    let fetch = fetch_object(self.context.clone(), id, one, object);
                    self.spawn_task(id, fetch);
                }
                Action::Stop(id) => {
                    for task in self.tasks.remove(&id).unwrap_or_default() {
                        task.abort();
                    }
                }
            }
        }
    }

    fn spawn_task(&mut self, id: WatchId, work: impl Future<Output = ()> + Send + 'static) {
        let tasks = self.tasks.entry(id).or_default();
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(work).abort_handle());
    }
}

/// Requests one object until the answer is definite. As a list of one, which needs no permission beyond those of a watch.
async fn fetch_object(mut context: WatchContext, id: WatchId, collection: Collection, object: ObjectRef) {
    let mut backoff = Backoff::default();
    let response = loop {
        match fetch_once(&context, &collection).await {
            Err(fault) if !fault.is_permanent() => {}
            answer => break answer,
        }
        tokio::select! {
            () = time::sleep(backoff.next_delay()) => {}
            _ = context.pulse.changed() => {}
        }
    };
    let report = WatchReport { id, at: Instant::now(), event: WatchEvent::Fetched(object, response) };
    // The receiver is gone only during shutdown.
    _ = context.reports.send(report).await;
}

async fn fetch_once(context: &WatchContext, collection: &Collection) -> Result<Option<Box<Item>>, Fault> {
    let Ok(_permit) = context.gate.acquire().await else {
        return Err(Fault::Unreachable("the source has ended".to_owned()));
    };
    let page = wire::fetch_page(&context.client, collection, None).await?;
    let named = |item: &Item| Some(&item.key.name) == collection.name.as_ref();
    Ok(page.items.into_iter().find(named).map(Box::new))
}
