//! One watch: lists, follows, and after any break goes on from where it was. Owns its place in the history of the
//! collection; what the events mean is the business of the [`super::tracker`].
//!
//! `kube`'s own `watcher` is not used: it forgets its place when it is interrupted from outside, does not fall back when a
//! server sends no lists as streams, and stays with a version that the server answers with 410 before a watch begins.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::Client;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{self, Instant};

use super::backoff::Backoff;
use super::collection::{Collection, Offered, Watched};
use super::fault::Fault;
use super::probe::{Alarm, Pulse};
use super::trimmed::Item;
use super::wire::{self, Event, Events, From};

/// A server sends a bookmark about once a minute where nothing else happens (`bookmarkFrequency`, with some scatter): a
/// watch that is silent for longer is not alive.
const SILENCE: Duration = Duration::from_secs(100);
/// While a list is streamed there is always something to send.
const SILENCE_IN_LIST: Duration = Duration::from_secs(10);
/// A watch that lasted so long was in order, whatever ended it.
const HEALTHY: Duration = Duration::from_secs(5);

/// What only the writers of status need is asked for this rarely while it is denied: many grant Fairway no more than they granted
/// ingress-nginx, for good.
const DENIED: Duration = Duration::from_secs(60);

/// Names a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WatchId(pub(super) u64);

/// What a watch reports.
#[derive(Debug)]
pub(super) struct WatchReport {
    pub(super) id: WatchId,
    /// When it was heard.
    pub(super) at: Instant,
    pub(super) event: WatchEvent,
}

#[derive(Debug)]
/// What happened to the objects of a watch, or to the watch.
pub(super) enum WatchEvent {
    /// A list begins; it may never be complete.
    Began,
    /// The object is new or different, or is in the list.
    Set(Item),
    /// The object is gone.
    Gone(Item),
    /// The list is complete: what was not in it does not exist. With its version.
    Complete(String),
    /// It follows from where it was.
    InStep,
    /// It failed and will try again.
    Failed(Fault),
    /// The kinds of the Gateway API that the cluster has. No watch says this: the id means nothing.
    Offered(Offered),
    /// What a question for one object was answered with: the object, if there is one, and the version of the answer.
    Fetched(fairway_objects::object::ObjectRef, Result<Option<Box<Item>>, Fault>),
}

/// What all watches share.
#[derive(Clone)]
pub(super) struct WatchContext {
    pub(super) client: Client,
    pub(super) reports: mpsc::Sender<WatchReport>,
    pub(super) pulse: Pulse,
    pub(super) alarm: Alarm,
    /// Not all begin at the same moment.
    pub(super) gate: Arc<Semaphore>,
    pub(super) lists: Lists,
}

/// How all objects are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lists {
    /// As the beginning of the watch: one request, and objects are decoded one by one (KEP-3157).
    Streamed,
    /// As pages before the watch.
    Paged,
}

/// A watch.
pub(super) struct Watch {
    context: WatchContext,
    id: WatchId,
    collection: Collection,
    /// Up to where everything was reported.
    place: Option<String>,
    backoff: Backoff,
}

/// Waits until all shall begin anew.
async fn restarted(pulse: &mut Pulse) {
    if pulse.changed().await.is_err() {
        // The probe has ended, which it does only with everything else.
        std::future::pending::<()>().await;
    }
}

/// Nobody listens any more.
struct Closed;

impl WatchContext {
    async fn tell(&self, id: WatchId, event: WatchEvent) -> Result<(), Closed> {
        let report = WatchReport { id, at: Instant::now(), event };
        self.reports.send(report).await.map_err(|_| Closed)
    }
}

/// Why a turn ended.
enum End {
    Closed,
    Fault(Fault),
}

impl std::convert::From<Closed> for End {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl std::convert::From<Fault> for End {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Watch {
    pub(super) fn new(context: WatchContext, id: WatchId, collection: Collection) -> Self {
        Self { context, id, collection, place: None, backoff: Backoff::default() }
    }

    /// Watches until nobody listens.
    pub(super) async fn run(mut self) {
        loop {
            let begun = Instant::now();
            let ended = match (&self.place, self.context.lists) {
                (None, Lists::Paged) => self.list().await,
                _ => self.follow().await,
            };
            let lasted = begun.elapsed();
            let sent = match ended {
                Ok(()) if lasted >= HEALTHY => Ok(()),
                Ok(()) => {
                    let pause = self.backoff.next();
                    self.pause(pause).await;
                    Ok(())
                }
                Err(End::Closed) => Err(Closed),
                Err(End::Fault(fault)) => self.recover(fault, lasted).await,
            };
            if sent.is_err() {
                return;
            }
        }
    }

    async fn recover(&mut self, fault: Fault, lasted: Duration) -> Result<(), Closed> {
        tracing::debug!(collection = %self.collection, %fault, "a watch ended");
        if lasted >= HEALTHY {
            self.backoff.reset();
        }
        // A feature gate that is off (422), an etcd that cannot say how far it is (500), a server that never says that the
        // list is complete: pages always work.
        let streamed = self.place.is_none() && self.context.lists == Lists::Streamed;
        if streamed && !fault.is_definite() {
            self.context.lists = Lists::Paged;
        }
        let is_withheld = fault.is_definite() && matches!(self.collection.kind, Watched::Whole(_));
        match fault {
            Fault::Gone => self.place = None,
            Fault::Refused { code, message } if streamed => {
                tracing::debug!(collection = %self.collection, code, message, "no list as a stream: pages are asked for");
                return Ok(());
            }
            other => {
                if matches!(other, Fault::Unreachable(_)) {
                    self.context.alarm.ring();
                }
                self.context.tell(self.id, WatchEvent::Failed(other)).await?;
            }
        }
        let pause = if is_withheld { self.backoff.next_up_to(DENIED) } else { self.backoff.next() };
        self.pause(pause).await;
        Ok(())
    }

    /// Waits, but no longer than until the server answers again.
    async fn pause(&mut self, pause: Duration) {
        tokio::select! {
            () = time::sleep(pause) => {}
            () = restarted(&mut self.context.pulse) => {}
        }
    }

    /// Asks for all objects page by page.
    async fn list(&mut self) -> Result<(), End> {
        let gate = self.context.gate.clone();
        let _permit = gate.acquire().await.map_err(|_| Closed)?;
        self.context.tell(self.id, WatchEvent::Began).await?;
        let mut rest = None;
        loop {
            let page = wire::page(&self.context.client, &self.collection, rest.take()).await?;
            for item in page.items {
                self.context.tell(self.id, WatchEvent::Set(item)).await?;
            }
            if page.rest.is_none() {
                self.complete(page.version).await?;
                return Ok(());
            }
            rest = page.rest;
        }
    }

    async fn complete(&mut self, version: String) -> Result<(), Closed> {
        self.place = Some(version.clone());
        self.backoff.reset();
        self.context.tell(self.id, WatchEvent::Complete(version)).await
    }

    /// Follows from where it is until the server ends it or all shall begin anew.
    async fn follow(&mut self) -> Result<(), End> {
        self.context.pulse.mark_unchanged();
        let mut pulse = self.context.pulse.clone();
        let mut events = tokio::select! {
            events = self.open() => events?,
            () = restarted(&mut pulse) => return Ok(()),
        };
        let first = if self.place.is_none() { WatchEvent::Began } else { WatchEvent::InStep };
        self.context.tell(self.id, first).await?;
        loop {
            let limit = if self.place.is_none() { SILENCE_IN_LIST } else { SILENCE };
            let event = tokio::select! {
                event = time::timeout(limit, events.next()) => event,
                () = restarted(&mut pulse) => return Ok(()),
            };
            match event {
                Ok(Some(event)) => self.hear(event).await?,
                Ok(None) if self.place.is_none() => {
                    return Err(Fault::Unreachable("the list ended before it was complete".to_owned()).into());
                }
                Ok(None) => return Ok(()),
                Err(_) => {
                    return Err(Fault::Unreachable(format!("silent for {} s", limit.as_secs())).into());
                }
            }
        }
    }

    async fn open(&self) -> Result<Events, End> {
        let _permit = self.context.gate.acquire().await.map_err(|_| Closed)?;
        let from = self.place.as_deref().map_or(From::Everything, From::Version);
        Ok(wire::watch(&self.context.client, &self.collection, from).await?)
    }

    async fn hear(&mut self, event: Result<Event, Fault>) -> Result<(), End> {
        match event {
            Ok(Event::Complete(version)) => self.complete(version).await?,
            Ok(Event::Bookmark(version)) => {
                // One inside of a list says nothing about what the list still owes.
                if let Some(place) = &mut self.place {
                    *place = version;
                    self.backoff.reset();
                }
            }
            Ok(Event::Set(item)) => {
                self.advance(&item);
                self.context.tell(self.id, WatchEvent::Set(item)).await?;
            }
            Ok(Event::Gone(item)) => {
                self.advance(&item);
                self.context.tell(self.id, WatchEvent::Gone(item)).await?;
            }
            // One object that cannot be read must not hold up the others; a list without it would remove it.
            Err(Fault::Unreadable(problem)) if self.place.is_some() => {
                tracing::warn!(collection = %self.collection, problem, "an object cannot be read; it stays as it was");
            }
            Err(fault) => return Err(fault.into()),
        }
        Ok(())
    }

    fn advance(&mut self, item: &Item) {
        if let Some(place) = &mut self.place {
            place.clone_from(&item.revision);
            self.backoff.reset();
        }
    }
}
