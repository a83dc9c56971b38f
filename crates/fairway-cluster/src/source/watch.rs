//! One watch: lists, follows, and resumes where it was after an interruption. What the events mean is up to the
//! [`super::tracker`].
//!
//! `kube`'s `watcher` is not used: it loses its position when it is interrupted from outside, does not fall back when a server
//! does not stream lists, and keeps a version that the server rejects with 410 before the watch starts.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::Client;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{self, Instant};

use super::backoff::Backoff;
use super::collection::{Collection, OfferedKinds, WatchedKind};
use super::fault::Fault;
use super::probe::{ProbeTrigger, RestartSignal};
use super::trimmed::Item;
use super::wire::{self, Event, Events, StartFrom};

/// A server sends a bookmark about once a minute if nothing else happens (`bookmarkFrequency`, with jitter): a watch that is
/// silent for longer is dead.
const MAX_SILENCE: Duration = Duration::from_secs(100);
/// While a list is streamed there is always something to send.
const MAX_SILENCE_IN_LIST: Duration = Duration::from_secs(10);
/// A watch that lasted this long was healthy, however it ended.
const MIN_HEALTHY_DURATION: Duration = Duration::from_secs(5);

/// Retry interval, while denied, for collections that only the writers of status need: many clusters permanently grant Fairway
/// only what they granted ingress-nginx.
const DENIED_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Identifies a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WatchId(pub(super) u64);

/// A report of a watch.
#[derive(Debug)]
pub(super) struct WatchReport {
    pub(super) id: WatchId,
    /// When it was received.
    pub(super) at: Instant,
    pub(super) event: WatchEvent,
}

#[derive(Debug)]
/// What happened to the objects of a watch, or to the watch.
pub(super) enum WatchEvent {
    /// A list started; it may never complete.
    ListStarted,
    /// The object was added or changed, or is in the list.
    Set(Item),
    /// The object was removed.
    Gone(Item),
    /// The list is complete: other objects do not exist. With the list's version.
    ListCompleted(String),
    /// The watch follows from its last version.
    Synced,
    /// It failed and will retry.
    Failed(Fault),
    /// The Gateway API kinds that the cluster serves. Not sent by a watch: the id is meaningless.
    Offered(OfferedKinds),
    /// The response to a request for one object: the object, if it exists.
    Fetched(fairway_objects::object::ObjectRef, Result<Option<Box<Item>>, Fault>),
}

/// What all watches share.
#[derive(Clone)]
pub(super) struct WatchContext {
    pub(super) client: Client,
    pub(super) reports: mpsc::Sender<WatchReport>,
    pub(super) pulse: RestartSignal,
    pub(super) alarm: ProbeTrigger,
    /// Limits how many requests start concurrently.
    pub(super) gate: Arc<Semaphore>,
    pub(super) lists: Lists,
}

/// How all objects are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lists {
    /// As the start of the watch: one request, objects decoded one by one (KEP-3157).
    Streamed,
    /// As pages before the watch.
    Paged,
}

/// A watch.
pub(super) struct Watch {
    context: WatchContext,
    id: WatchId,
    collection: Collection,
    /// The version up to which everything was reported.
    continue_token: Option<String>,
    backoff: Backoff,
}

/// Waits for the next restart signal.
async fn wait_for_restart(pulse: &mut RestartSignal) {
    if pulse.changed().await.is_err() {
        // The probe has ended, which only happens at shutdown.
        std::future::pending::<()>().await;
    }
}

/// The receiver is gone.
struct Closed;

impl WatchContext {
    async fn send(&self, id: WatchId, event: WatchEvent) -> Result<(), Closed> {
        let report = WatchReport { id, at: Instant::now(), event };
        self.reports.send(report).await.map_err(|_| Closed)
    }
}

/// Why a run ended.
enum RunEnd {
    Closed,
    Fault(Fault),
}

impl From<Closed> for RunEnd {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl From<Fault> for RunEnd {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Watch {
    pub(super) fn new(context: WatchContext, id: WatchId, collection: Collection) -> Self {
        Self { context, id, collection, continue_token: None, backoff: Backoff::default() }
    }

    /// Watches until the receiver is gone.
    pub(super) async fn run(mut self) {
        loop {
            let started = Instant::now();
            let ended = match (&self.continue_token, self.context.lists) {
                (None, Lists::Paged) => self.list().await,
                _ => self.follow_events().await,
            };
            let lasted = started.elapsed();
            let sent = match ended {
                Ok(()) if lasted >= MIN_HEALTHY_DURATION => Ok(()),
                Ok(()) => {
                    let pause = self.backoff.next_delay();
                    self.wait(pause).await;
                    Ok(())
                }
                Err(RunEnd::Closed) => Err(Closed),
                Err(RunEnd::Fault(fault)) => self.recover(fault, lasted).await,
            };
            if sent.is_err() {
                return;
            }
        }
    }

    async fn recover(&mut self, fault: Fault, lasted: Duration) -> Result<(), Closed> {
        tracing::debug!(collection = %self.collection, %fault, "a watch ended");
        if lasted >= MIN_HEALTHY_DURATION {
            self.backoff.reset();
        }
        // Causes include a disabled feature gate (422), an etcd that cannot report its progress (500), and a server that never
        // marks the list as complete: pages always work.
        let streamed = self.continue_token.is_none() && self.context.lists == Lists::Streamed;
        if streamed && !fault.is_permanent() {
            self.context.lists = Lists::Paged;
        }
        let is_withheld = fault.is_permanent() && matches!(self.collection.kind, WatchedKind::Full(_));
        match fault {
            Fault::Gone => self.continue_token = None,
            Fault::Refused { code, message } if streamed => {
                tracing::debug!(collection = %self.collection, code, message, "the list cannot be streamed; using pages");
                return Ok(());
            }
            other => {
                if matches!(other, Fault::Unreachable(_)) {
                    self.context.alarm.trigger();
                }
                self.context.send(self.id, WatchEvent::Failed(other)).await?;
            }
        }
        let pause = if is_withheld {
            self.backoff.next_delay_up_to(DENIED_RETRY_INTERVAL)
        } else {
            self.backoff.next_delay()
        };
        self.wait(pause).await;
        Ok(())
    }

    /// Waits, but no longer than until the server answers again.
    async fn wait(&mut self, pause: Duration) {
        tokio::select! {
            () = time::sleep(pause) => {}
            () = wait_for_restart(&mut self.context.pulse) => {}
        }
    }

    /// Requests all objects page by page.
    async fn list(&mut self) -> Result<(), RunEnd> {
        let gate = self.context.gate.clone();
        let _permit = gate.acquire().await.map_err(|_| Closed)?;
        self.context.send(self.id, WatchEvent::ListStarted).await?;
        let mut rest = None;
        loop {
            let page = wire::fetch_page(&self.context.client, &self.collection, rest.take()).await?;
            for item in page.items {
                self.context.send(self.id, WatchEvent::Set(item)).await?;
            }
            if page.continue_token.is_none() {
                self.complete(page.version).await?;
                return Ok(());
            }
            rest = page.continue_token;
        }
    }

    async fn complete(&mut self, version: String) -> Result<(), Closed> {
        self.continue_token = Some(version.clone());
        self.backoff.reset();
        self.context.send(self.id, WatchEvent::ListCompleted(version)).await
    }

    /// Follows from the last version until the server ends the watch or a restart is signalled.
    async fn follow_events(&mut self) -> Result<(), RunEnd> {
        self.context.pulse.mark_unchanged();
        let mut pulse = self.context.pulse.clone();
        let mut events = tokio::select! {
            events = self.open_stream() => events?,
            () = wait_for_restart(&mut pulse) => return Ok(()),
        };
        let first = if self.continue_token.is_none() { WatchEvent::ListStarted } else { WatchEvent::Synced };
        self.context.send(self.id, first).await?;
        loop {
            let limit = if self.continue_token.is_none() { MAX_SILENCE_IN_LIST } else { MAX_SILENCE };
            let event = tokio::select! {
                event = time::timeout(limit, events.next()) => event,
                () = wait_for_restart(&mut pulse) => return Ok(()),
            };
            match event {
                Ok(Some(event)) => self.handle_event(event).await?,
                Ok(None) if self.continue_token.is_none() => {
                    return Err(Fault::Unreachable("the list ended before it was complete".to_owned()).into());
                }
                Ok(None) => return Ok(()),
                Err(_) => {
                    return Err(Fault::Unreachable(format!("silent for {} s", limit.as_secs())).into());
                }
            }
        }
    }

    async fn open_stream(&self) -> Result<Events, RunEnd> {
        let _permit = self.context.gate.acquire().await.map_err(|_| Closed)?;
        let from = self.continue_token.as_deref().map_or(StartFrom::Everything, StartFrom::Version);
        Ok(wire::open_watch(&self.context.client, &self.collection, from).await?)
    }

    async fn handle_event(&mut self, event: Result<Event, Fault>) -> Result<(), RunEnd> {
        match event {
            Ok(Event::Complete(version)) => self.complete(version).await?,
            Ok(Event::Bookmark(version)) => {
                // A bookmark inside a list does not mean that the list is complete.
                if let Some(place) = &mut self.continue_token {
                    *place = version;
                    self.backoff.reset();
                }
            }
            Ok(Event::Set(item)) => {
                self.advance_to(&item);
                self.context.send(self.id, WatchEvent::Set(item)).await?;
            }
            Ok(Event::Gone(item)) => {
                self.advance_to(&item);
                self.context.send(self.id, WatchEvent::Gone(item)).await?;
            }
            // An object that cannot be decoded must not block the others; dropping it from the list would remove it.
            Err(Fault::Unreadable(problem)) if self.continue_token.is_some() => {
                tracing::warn!(collection = %self.collection, problem, "an object cannot be decoded; its last state stays");
            }
            Err(fault) => return Err(fault.into()),
        }
        Ok(())
    }

    fn advance_to(&mut self, item: &Item) {
        if let Some(place) = &mut self.continue_token {
            place.clone_from(&item.revision);
            self.backoff.reset();
        }
    }
}
