//! The state of the source: each watch, whether the API server answers, and whether a first complete state was sent. Only
//! reports; readiness is decided elsewhere.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fairway_objects::object::Kind;

use super::collection::Collection;
use super::probe::{Reachability, ServerVersion};
use super::stage::{WatchStage, problem};
use super::tracker::Tracker;

/// The state of the source.
#[derive(Clone, Debug)]
pub struct SourceCondition {
    /// Whether the API server answers.
    pub reach: Reachability,
    /// The version of the API server, once known.
    pub server: Option<ServerVersion>,
    /// Why nothing can be watched at all.
    pub refusal: Option<String>,
    /// Whether a first complete state was sent to the pipeline.
    pub synced_once: bool,
    /// The watches.
    pub stores: Vec<WatchStatus>,
}

/// A watch and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchStatus {
    /// What is watched.
    pub collection: Collection,
    /// The state of the watch.
    pub state: WatchState,
}

/// The state of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// Up to date.
    Synced,
    /// The first list has not arrived yet.
    Listing,
    /// It failed and is retried.
    Failing {
        /// Since when.
        since: Instant,
        /// What is wrong and what to do.
        problem: String,
        /// Whether a retry can only succeed after the cluster is changed: a permission or an API is missing.
        definite: bool,
    },
}

impl SourceCondition {
    /// Whether every watch is up to date.
    #[cfg(test)]
    pub(crate) fn is_synced(&self) -> bool {
        self.synced_once
            && self.refusal.is_none()
            && self.stores.iter().all(|store| store.state == WatchState::Synced)
    }

    /// What is wrong, most general first; empty if every watch is synced or listing. While the API server is unreachable, watches
    /// that fail only for that reason are not listed.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        let silent = match &self.reach {
            Reachability::Unreachable { problem, .. } => Some(problem.as_str()),
            _ => None,
        };
        let failing = self.stores.iter().filter_map(move |store| match &store.state {
            WatchState::Failing { problem, definite, .. } if *definite || silent.is_none() => {
                Some(problem.as_str())
            }
            _ => None,
        });
        silent.into_iter().chain(self.refusal.as_deref()).chain(failing)
    }
}

impl SourceCondition {
    /// Whether the API server answers, and the number of watches per state, in the Prometheus text format.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        let silent = u8::from(matches!(self.reach, Reachability::Unreachable { .. }));
        let mut out = format!(
            "# HELP fairway_cluster_silent 1 while the API server does not answer.\n# TYPE fairway_cluster_silent gauge\n\
             fairway_cluster_silent {silent}\n\
             # HELP fairway_cluster_watches What is watched, by state.\n# TYPE fairway_cluster_watches gauge\n"
        );
        for name in ["synced", "listing", "failing"] {
            let count = self.stores.iter().filter(|store| store.state.label() == name).count();
            out += &format!("fairway_cluster_watches{{state=\"{name}\"}} {count}\n");
        }
        out
    }
}

impl WatchState {
    fn label(&self) -> &'static str {
        match self {
            Self::Synced => "synced",
            Self::Listing => "listing",
            Self::Failing { .. } => "failing",
        }
    }
}

impl fmt::Display for WatchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Synced => f.write_str("in step"),
            Self::Listing => f.write_str("being listed"),
            Self::Failing { since, problem, .. } => {
                write!(f, "failing for {} s: {problem}", since.elapsed().as_secs())
            }
        }
    }
}

/// The condition, shared between the source thread and its readers.
#[derive(Clone, Debug)]
pub(super) struct SharedCondition(Arc<Mutex<SourceCondition>>);

impl SharedCondition {
    pub(super) fn new() -> Self {
        let empty = SourceCondition {
            reach: Reachability::Unknown,
            server: None,
            refusal: None,
            synced_once: false,
            stores: Vec::new(),
        };
        Self(Arc::new(Mutex::new(empty)))
    }

    pub(super) fn read(&self) -> SourceCondition {
        self.lock().clone()
    }

    pub(super) fn version(&self, kind: Kind) -> Option<&'static str> {
        let condition = self.lock();
        let mut stores = condition.stores.iter();
        stores.find(|store| store.collection.kind.kind() == Some(kind)).map(|store| store.collection.version)
    }

    pub(super) fn set_reachability(&self, reach: Reachability) {
        self.lock().reach = reach;
    }

    pub(super) fn set_refusal(&self, refusal: Option<String>) {
        self.lock().refusal = refusal;
    }

    pub(super) fn set_server_version(&self, server: ServerVersion) {
        self.lock().server = Some(server);
    }

    pub(super) fn update_watches(&self, tracker: &mut Tracker) {
        let synced_once = tracker.is_synced_once();
        if let Some(stages) = tracker.stages() {
            let stores = stages.map(|(collection, stage)| watch_status(collection, stage)).collect();
            let mut condition = self.lock();
            condition.stores = stores;
            condition.synced_once = synced_once;
        } else if synced_once {
            self.lock().synced_once = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, SourceCondition> {
        // Only complete values are stored, so a panic elsewhere leaves a valid one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn watch_status(collection: &Collection, stage: &WatchStage) -> WatchStatus {
    let state = match stage {
        WatchStage::Waiting | WatchStage::Listing => WatchState::Listing,
        WatchStage::Synced => WatchState::Synced,
        WatchStage::Failing { since, fault, definite } => {
            WatchState::Failing { since: *since, problem: problem(collection, fault), definite: *definite }
        }
    };
    WatchStatus { collection: collection.clone(), state }
}
