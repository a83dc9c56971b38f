//! Tracks the cluster's objects and decides what to send to the pipeline. Remembers the version of every object and the progress
//! of every watch; keeps objects only while they are held. No I/O and no clock: the time is passed in, and work comes out as
//! [`Action`]s.
//!
//! * A list removes what it lacks only once it is complete; a failed list removes nothing.
//! * An object that has not changed since it was sent is not sent again, however often it is listed.
//! * An Ingress that references an unknown Secret is held until the Secret is known, so that no host briefly presents another
//!   certificate ([`super::pending_changes`]).

mod events;
mod offered_kinds;
mod pods;
mod references;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fairway_control::input::ChangeBatch;
use fairway_ingress::References;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::resources::Change;
use tokio::time::Instant;

use super::collection::{Collection, WatchedKind};
use super::fault::Fault;
use super::pending_changes::HeldChanges;
use super::selection::{Selection, ServeGateways};
use super::stage::{self, WatchStage};
use super::trimmed::Version;
use super::watch::WatchId;

/// How long an Ingress waits for a Secret.
const MAX_HOLD: Duration = Duration::from_secs(2);
/// Longer before anything is served: haste costs more then.
const MAX_HOLD_AT_START: Duration = Duration::from_secs(10);

/// Work for the runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Start this watch.
    Watch(WatchId, Collection),
    /// Stop this watch, and drop its pending requests.
    Stop(WatchId),
    /// Request one object on behalf of a watch.
    Fetch(WatchId, Collection, ObjectRef),
}

/// An object, of any watched kind.
type WatchedName = (WatchedKind, ObjectKey);

/// The state of all watches and objects.
pub(super) struct Tracker {
    scope: Scope,
    /// Watched by name: no other watch covers these objects.
    named: BTreeSet<WatchedName>,
    watches: BTreeMap<WatchId, Progress>,
    ids: BTreeMap<Collection, WatchId>,
    last_id: u64,
    entries: HashMap<WatchedName, TrackedObject>,
    references: References,
    fetching: BTreeSet<ObjectRef>,
    /// Referenced while a first list was in progress, which may have skipped them.
    passed_over: BTreeSet<ObjectRef>,
    held_changes: HeldChanges,
    /// No longer referenced; removed once nothing is held.
    unnamed: BTreeSet<ObjectRef>,
    outbox: Outbox,
}

/// What to watch.
struct Scope {
    selection: Selection,
    gateways: GatewayKinds,
}

/// The watched kinds of the Gateway API, each in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GatewayKinds {
    /// Discovery has not reported yet.
    Unknown,
    Known(BTreeMap<Kind, &'static str>),
}

/// A watch and its progress.
#[derive(Debug)]
struct Progress {
    collection: Collection,
    stage: WatchStage,
    /// Counts its lists.
    round: u32,
    /// Whether any list was ever completed.
    listed: bool,
}

/// An object that was sent or is held.
#[derive(Clone, Copy, Debug)]
struct TrackedObject {
    version: Version,
    watch: WatchId,
    round: u32,
    origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    FromWatch,
    /// The watch may be behind this response.
    FromFetch,
}

/// Work and changes to hand out.
#[derive(Debug, Default)]
struct Outbox {
    actions: Vec<Action>,
    changes: Vec<Change>,
    received_at: Option<Instant>,
    written: Option<SystemTime>,
    phase: Phase,
    watches: ReportedStages,
}

/// Whether the stages of the watches were reported since they changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ReportedStages {
    by_diagnostics: bool,
    by_condition: bool,
}

/// Whether the pipeline received anything yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Gathering,
    Synced,
}

impl Outbox {
    fn push_change(&mut self, change: Change, received_at: Instant) {
        self.changes.push(change);
        self.received_at = Some(self.received_at.map_or(received_at, |before| before.min(received_at)));
    }

    fn set_written(&mut self, written: Option<SystemTime>) {
        self.written = match (self.written, written) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

impl Tracker {
    /// Starts with actions for the initial watches.
    pub(super) fn new(selection: Selection) -> Self {
        let named = selection.named_objects().into_iter().filter_map(watched_name_of).collect();
        let references = References::new(&selection.options);
        let gateways = match selection.gateways {
            ServeGateways::Yes => GatewayKinds::Unknown,
            ServeGateways::No => GatewayKinds::Known(BTreeMap::new()),
        };
        let mut tracker = Self {
            named,
            watches: BTreeMap::new(),
            ids: BTreeMap::new(),
            last_id: 0,
            entries: HashMap::new(),
            references,
            fetching: BTreeSet::new(),
            passed_over: BTreeSet::new(),
            held_changes: HeldChanges::default(),
            unnamed: BTreeSet::new(),
            outbox: Outbox::default(),
            scope: Scope { selection, gateways },
        };
        for collection in tracker.scope.selection.initial_collections() {
            tracker.ensure_watch(collection);
        }
        tracker
    }

    /// Takes the pending actions.
    pub(super) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.outbox.actions)
    }

    /// Takes what to send after all reports were handled; `None` if there is nothing, or the first complete state is not there
    /// yet.
    pub(super) fn take_batch(&mut self, now: Instant) -> Option<ChangeBatch> {
        self.release_held(now);
        self.forget_unreferenced(now);
        if self.outbox.phase == Phase::Gathering {
            if !self.is_complete() {
                return None;
            }
            self.outbox.phase = Phase::Synced;
        } else if self.outbox.changes.is_empty() && self.outbox.watches.by_diagnostics {
            return None;
        }
        self.outbox.watches.by_diagnostics = true;
        Some(ChangeBatch {
            changes: std::mem::take(&mut self.outbox.changes),
            diagnostics: self.diagnostics(),
            received_at: self.outbox.received_at.take().unwrap_or(now).into_std(),
            written: self.outbox.written.take(),
        })
    }

    /// When to call [`Tracker::take_batch`] even if no report arrives.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.held_changes.deadline()
    }

    /// Whether the pipeline received the first complete state.
    pub(super) fn is_synced_once(&self) -> bool {
        self.outbox.phase == Phase::Synced
    }

    /// The watches and their stages, if they may have changed since the last call.
    pub(super) fn stages(&mut self) -> Option<impl Iterator<Item = (&Collection, &WatchStage)>> {
        let shown = std::mem::replace(&mut self.outbox.watches.by_condition, true);
        let stages = self.watches.values().map(|progress| (&progress.collection, &progress.stage));
        (!shown).then_some(stages)
    }

    /// Every watch has its first list or will never get one, and nothing is held.
    fn is_complete(&self) -> bool {
        self.scope.gateways != GatewayKinds::Unknown
            && self.held_changes.is_empty()
            && self.watches.values().all(|watch| watch.listed || watch.stage.is_permanent())
    }

    /// The diagnostics about the watches.
    fn diagnostics(&self) -> Vec<Diagnostic> {
        self.watches
            .values()
            .filter_map(|watch| match &watch.stage {
                // An unreachable server is no fault of an object; the condition reports it.
                WatchStage::Failing { fault: Fault::Unreachable(_), .. } => None,
                WatchStage::Failing { fault, .. } => {
                    Some(stage::diagnostic(&watch.collection, fault, watch.listed))
                }
                _ => None,
            })
            .collect()
    }

    fn ensure_watch(&mut self, collection: Collection) -> WatchId {
        if let Some(id) = self.ids.get(&collection) {
            return *id;
        }
        self.last_id += 1;
        let id = WatchId(self.last_id);
        let progress =
            Progress { collection: collection.clone(), stage: WatchStage::Waiting, round: 0, listed: false };
        self.watches.insert(id, progress);
        self.ids.insert(collection, id);
        self.outbox.watches = ReportedStages::default();
        if !self.must_wait(id) {
            self.start_watch(id);
        }
        id
    }

    fn start_watch(&mut self, id: WatchId) {
        let Some(progress) = self.watches.get_mut(&id) else { return };
        progress.stage = WatchStage::Listing;
        self.outbox.actions.push(Action::Watch(id, progress.collection.clone()));
    }

    /// Stops a watch; its objects stay.
    fn stop_watch(&mut self, collection: &Collection) -> Option<(WatchId, Progress)> {
        let id = self.ids.remove(collection)?;
        let progress = self.watches.remove(&id)?;
        self.outbox.actions.push(Action::Stop(id));
        self.outbox.watches = ReportedStages::default();
        Some((id, progress))
    }

    /// Ends a watch and removes its objects.
    fn end_watch(&mut self, collection: &Collection, now: Instant) {
        let Some((id, _)) = self.stop_watch(collection) else { return };
        let names: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.watch == id)
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            self.remove_object(&name, now);
        }
    }

    fn select_namespace(&mut self, namespace: &Arc<str>) {
        for collection in self.namespace_collections(namespace) {
            self.ensure_watch(collection);
        }
    }

    fn deselect_namespace(&mut self, namespace: &Arc<str>, now: Instant) {
        for collection in self.namespace_collections(namespace) {
            self.end_watch(&collection, now);
        }
    }

    /// What is watched in each selected namespace.
    fn namespace_collections(&self, namespace: &Arc<str>) -> Vec<Collection> {
        let of_gateways = self.gateway_collections_in(namespace);
        Selection::namespace_collections(namespace).into_iter().chain(of_gateways).collect()
    }
}

/// The object of a collection that is watched by name.
fn watched_name_of(collection: Collection) -> Option<WatchedName> {
    let namespace = collection.namespace?;
    Some((collection.kind, ObjectKey { namespace, name: collection.name? }))
}
