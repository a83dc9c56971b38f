//! What was heard of the cluster, and what of it the pipeline must be sent. Owns the memory of every object's version and
//! of each watch's progress; keeps no object except while it is held. No I/O and no clock: the time is passed in, and
//! what must be done comes out as [`Action`]s.
//!
//! * A list removes what it lacks only once it is complete; a list that fails removes nothing.
//! * What did not change since it was passed on is not passed on again, however often it is listed.
//! * An Ingress that names a Secret which is not known yet is held until it is, so that no host shows another certificate
//!   for the moment between the two ([`super::held`]).

mod events;
mod offered;
mod pods;
mod references;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fairway_control::inlet::Batch;
use fairway_ingress::References;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::resources::Change;
use tokio::time::Instant;

use super::collection::{Collection, Watched};
use super::fault::Fault;
use super::held::Held;
use super::selection::{Selection, ServeGateways};
use super::stage::{self, Stage};
use super::trimmed::Version;
use super::watch::WatchId;

/// An Ingress waits so long for a Secret that nobody answers for.
const HOLD: Duration = Duration::from_secs(2);
/// Before anything is served there is more to lose by haste.
const HOLD_AT_START: Duration = Duration::from_secs(10);

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Watch this from now on.
    Watch(WatchId, Collection),
    /// Watch it no longer, and drop what was asked for it.
    Stop(WatchId),
    /// Ask for one object on behalf of a watch.
    Fetch(WatchId, Collection, ObjectRef),
}

/// The names of objects, including the kinds that are not passed on.
type Name = (Watched, ObjectKey);

/// The memory.
pub(super) struct Tracker {
    scope: Scope,
    /// Watched by name, so that no other watch tells of them.
    named: BTreeSet<Name>,
    watches: BTreeMap<WatchId, Progress>,
    ids: BTreeMap<Collection, WatchId>,
    last_id: u64,
    entries: HashMap<Name, Entry>,
    references: References,
    fetching: BTreeSet<ObjectRef>,
    /// Named while a first list was on its way.
    passed_over: BTreeSet<ObjectRef>,
    held: Held,
    /// No longer named, to be removed once nothing is held.
    unnamed: BTreeSet<ObjectRef>,
    outbox: Outbox,
}

/// What is to be watched.
struct Scope {
    selection: Selection,
    gateways: Gateways,
}

/// The kinds of the Gateway API that are watched, each in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Gateways {
    /// It was not said yet what there is.
    Unknown,
    Known(BTreeMap<Kind, &'static str>),
}

/// A watch.
#[derive(Debug)]
struct Progress {
    collection: Collection,
    stage: Stage,
    /// Counts its lists.
    round: u32,
    /// Whether a list was complete, ever.
    listed: bool,
}

/// An object that was passed on or is held.
#[derive(Clone, Copy, Debug)]
struct Entry {
    version: Version,
    watch: WatchId,
    round: u32,
    heard: Heard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    FromWatch,
    /// Its watch may be behind the answer.
    ByFetch,
}

/// What is to be done and passed on.
#[derive(Debug, Default)]
struct Outbox {
    actions: Vec<Action>,
    changes: Vec<Change>,
    heard: Option<Instant>,
    written: Option<SystemTime>,
    phase: Phase,
    watches: Shown,
}

/// Whether the state of the watches differs from what was said of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shown {
    by_diagnostics: bool,
    by_condition: bool,
}

/// Whether the pipeline was sent anything yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Gathering,
    Synced,
}

impl Outbox {
    fn say(&mut self, change: Change, heard: Instant) {
        self.changes.push(change);
        self.heard = Some(self.heard.map_or(heard, |before| before.min(heard)));
    }

    fn date(&mut self, written: Option<SystemTime>) {
        self.written = match (self.written, written) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

impl Tracker {
    /// With actions for what is watched from the start.
    pub(super) fn new(selection: Selection) -> Self {
        let named = selection.named().into_iter().filter_map(name_of).collect();
        let references = References::new(&selection.options);
        let gateways = match selection.gateways {
            ServeGateways::Yes => Gateways::Unknown,
            ServeGateways::No => Gateways::Known(BTreeMap::new()),
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
            held: Held::default(),
            unnamed: BTreeSet::new(),
            outbox: Outbox::default(),
            scope: Scope { selection, gateways },
        };
        for collection in tracker.scope.selection.collections() {
            tracker.begin(collection);
        }
        tracker
    }

    /// What to do.
    pub(super) fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.outbox.actions)
    }

    /// What to pass on after all reports were taken; `None` when there is nothing, or when the first complete state is
    /// not there yet.
    pub(super) fn batch(&mut self, now: Instant) -> Option<Batch> {
        self.release(now);
        self.forget_unnamed(now);
        if self.outbox.phase == Phase::Gathering {
            if !self.is_complete() {
                return None;
            }
            self.outbox.phase = Phase::Synced;
        } else if self.outbox.changes.is_empty() && self.outbox.watches.by_diagnostics {
            return None;
        }
        self.outbox.watches.by_diagnostics = true;
        Some(Batch {
            changes: std::mem::take(&mut self.outbox.changes),
            diagnostics: self.diagnostics(),
            heard: self.outbox.heard.take().unwrap_or(now).into_std(),
            written: self.outbox.written.take(),
        })
    }

    /// When [`Tracker::batch`] must be asked even if nothing comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.held.deadline()
    }

    /// Whether the pipeline was sent the first complete state.
    pub(super) fn is_synced_once(&self) -> bool {
        self.outbox.phase == Phase::Synced
    }

    /// The watches and how far they are, if that may differ from what this said before.
    pub(super) fn stages(&mut self) -> Option<impl Iterator<Item = (&Collection, &Stage)>> {
        let shown = std::mem::replace(&mut self.outbox.watches.by_condition, true);
        let stages = self.watches.values().map(|progress| (&progress.collection, &progress.stage));
        (!shown).then_some(stages)
    }

    /// Every watch has its first list or never gets one, and nothing is held.
    fn is_complete(&self) -> bool {
        self.scope.gateways != Gateways::Unknown
            && self.held.is_empty()
            && self.watches.values().all(|watch| watch.listed || watch.stage.is_definite())
    }

    /// What there is to say about the watches.
    fn diagnostics(&self) -> Vec<Diagnostic> {
        self.watches
            .values()
            .filter_map(|watch| match &watch.stage {
                // That nothing answers is no fault of an object; the condition says it.
                Stage::Failing { fault: Fault::Unreachable(_), .. } => None,
                Stage::Failing { fault, .. } => {
                    Some(stage::diagnostic(&watch.collection, fault, watch.listed))
                }
                _ => None,
            })
            .collect()
    }

    fn begin(&mut self, collection: Collection) -> WatchId {
        if let Some(id) = self.ids.get(&collection) {
            return *id;
        }
        self.last_id += 1;
        let id = WatchId(self.last_id);
        let progress =
            Progress { collection: collection.clone(), stage: Stage::Waiting, round: 0, listed: false };
        self.watches.insert(id, progress);
        self.ids.insert(collection, id);
        self.outbox.watches = Shown::default();
        if !self.must_wait(id) {
            self.start_watch(id);
        }
        id
    }

    fn start_watch(&mut self, id: WatchId) {
        let Some(progress) = self.watches.get_mut(&id) else { return };
        progress.stage = Stage::Listing;
        self.outbox.actions.push(Action::Watch(id, progress.collection.clone()));
    }

    /// Ends a watch; its objects stay.
    fn stop(&mut self, collection: &Collection) -> Option<(WatchId, Progress)> {
        let id = self.ids.remove(collection)?;
        let progress = self.watches.remove(&id)?;
        self.outbox.actions.push(Action::Stop(id));
        self.outbox.watches = Shown::default();
        Some((id, progress))
    }

    /// Ends a watch, and removes its objects.
    fn end(&mut self, collection: &Collection, now: Instant) {
        let Some((id, _)) = self.stop(collection) else { return };
        let names: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.watch == id)
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            self.remove(&name, now);
        }
    }

    fn select(&mut self, namespace: &Arc<str>) {
        for collection in self.in_namespace(namespace) {
            self.begin(collection);
        }
    }

    fn deselect(&mut self, namespace: &Arc<str>, now: Instant) {
        for collection in self.in_namespace(namespace) {
            self.end(&collection, now);
        }
    }

    /// What is watched in each selected namespace.
    fn in_namespace(&self, namespace: &Arc<str>) -> Vec<Collection> {
        let of_gateways = self.gateways_in(namespace);
        Selection::in_namespace(namespace).into_iter().chain(of_gateways).collect()
    }
}

/// The one object of a collection that is watched by name.
fn name_of(collection: Collection) -> Option<Name> {
    let namespace = collection.namespace?;
    Some((collection.kind, ObjectKey { namespace, name: collection.name? }))
}
