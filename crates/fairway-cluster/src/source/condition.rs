//! How the source is: what each watch does, whether the API server answers, and whether the first complete state was
//! passed on. Never decides about readiness; it only tells the truth.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fairway_objects::object::Kind;

use super::collection::Collection;
use super::probe::{Reach, ServerVersion};
use super::stage::{Stage, problem};
use super::tracker::Tracker;

/// How the source is.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Whether the API server answers.
    pub reach: Reach,
    /// The API server, once it said what it is.
    pub server: Option<ServerVersion>,
    /// Why nothing can be watched at all.
    pub refusal: Option<String>,
    /// Whether the first complete state was passed on.
    pub synced_once: bool,
    /// What is watched.
    pub stores: Vec<Store>,
}

/// Objects that are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Which ones.
    pub collection: Collection,
    /// How the watch is.
    pub state: StoreState,
}

/// How a watch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// In step.
    Synced,
    /// The first list is not there yet.
    Listing,
    /// It failed and tries again.
    Failing {
        /// Since when.
        since: Instant,
        /// What is wrong and what to do.
        problem: String,
        /// Whether it can only work after somebody changed the cluster: a permission or an API is missing.
        definite: bool,
    },
}

impl Condition {
    /// Whether everything that is watched is in step.
    #[cfg(test)]
    pub(crate) fn is_synced(&self) -> bool {
        self.synced_once
            && self.refusal.is_none()
            && self.stores.iter().all(|store| store.state == StoreState::Synced)
    }

    /// What is wrong, most general first; empty when everything is in step or on the way. While nothing answers, watches
    /// that fail for this alone are not listed one by one.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        let silent = match &self.reach {
            Reach::Silent { problem, .. } => Some(problem.as_str()),
            _ => None,
        };
        let failing = self.stores.iter().filter_map(move |store| match &store.state {
            StoreState::Failing { problem, definite, .. } if *definite || silent.is_none() => {
                Some(problem.as_str())
            }
            _ => None,
        });
        silent.into_iter().chain(self.refusal.as_deref()).chain(failing)
    }
}

impl Condition {
    /// Whether the API answers and how many watches are in which state, in the Prometheus text format.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        let silent = u8::from(matches!(self.reach, Reach::Silent { .. }));
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

impl StoreState {
    fn label(&self) -> &'static str {
        match self {
            Self::Synced => "synced",
            Self::Listing => "listing",
            Self::Failing { .. } => "failing",
        }
    }
}

impl fmt::Display for StoreState {
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

/// The condition as the cluster thread leaves it for others.
#[derive(Clone, Debug)]
pub(super) struct SharedCondition(Arc<Mutex<Condition>>);

impl SharedCondition {
    pub(super) fn new() -> Self {
        let empty = Condition {
            reach: Reach::Unknown,
            server: None,
            refusal: None,
            synced_once: false,
            stores: Vec::new(),
        };
        Self(Arc::new(Mutex::new(empty)))
    }

    pub(super) fn read(&self) -> Condition {
        self.lock().clone()
    }

    pub(super) fn version(&self, kind: Kind) -> Option<&'static str> {
        let condition = self.lock();
        let mut stores = condition.stores.iter();
        stores.find(|store| store.collection.kind.kind() == Some(kind)).map(|store| store.collection.version)
    }

    pub(super) fn reach(&self, reach: Reach) {
        self.lock().reach = reach;
    }

    pub(super) fn refusal(&self, refusal: Option<String>) {
        self.lock().refusal = refusal;
    }

    pub(super) fn server(&self, server: ServerVersion) {
        self.lock().server = Some(server);
    }

    pub(super) fn show(&self, tracker: &mut Tracker) {
        let synced_once = tracker.is_synced_once();
        if let Some(stages) = tracker.stages() {
            let stores = stages.map(|(collection, stage)| store(collection, stage)).collect();
            let mut condition = self.lock();
            condition.stores = stores;
            condition.synced_once = synced_once;
        } else if synced_once {
            self.lock().synced_once = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Condition> {
        // Only whole values are ever put in, so that a panic elsewhere leaves a good one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn store(collection: &Collection, stage: &Stage) -> Store {
    let state = match stage {
        Stage::Waiting | Stage::Listing => StoreState::Listing,
        Stage::Synced => StoreState::Synced,
        Stage::Failing { since, fault, definite } => {
            StoreState::Failing { since: *since, problem: problem(collection, fault), definite: *definite }
        }
    };
    Store { collection: collection.clone(), state }
}
