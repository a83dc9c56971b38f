//! Databases shared by the reading thread and the workers, replaced as a whole.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairway_model::GeoKind;

use super::database::Database;

/// The databases in use.
#[derive(Debug, Default)]
pub(super) struct SharedDatabases {
    /// Incremented after each replacement.
    version: AtomicU64,
    current: Mutex<Arc<Databases>>,
    figures: Mutex<Vec<FileFigures>>,
    /// By kind: whether a missing database was logged.
    reported: [AtomicBool; 2],
}

/// One of each kind.
#[derive(Debug, Default)]
pub(super) struct Databases {
    pub(super) places: Option<Arc<Database>>,
    pub(super) networks: Option<Arc<Database>>,
}

/// Numbers of a file for metrics.
#[derive(Clone, Debug)]
pub(crate) struct FileFigures {
    pub(crate) path: Box<str>,
    /// How often it was refused.
    pub(crate) refused: u64,
    /// The database in use.
    pub(crate) database: Option<DatabaseFigures>,
}

/// Numbers of a database for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseFigures {
    pub(crate) type_name: Box<str>,
    /// In seconds since 1970.
    pub(crate) built: u64,
    pub(crate) bytes: u64,
}

impl Databases {
    pub(super) fn of_kind(&self, kind: GeoKind) -> Option<&Database> {
        match kind {
            GeoKind::Places => self.places.as_deref(),
            GeoKind::Networks => self.networks.as_deref(),
        }
    }
}

impl SharedDatabases {
    /// Replaces the databases; returns the previous ones. Metrics come last: whoever sees a database there has its
    /// next request decided by it.
    pub(super) fn replace(&self, databases: Databases, figures: Vec<FileFigures>) -> Arc<Databases> {
        let before = std::mem::replace(&mut *lock(&self.current), Arc::new(databases));
        self.version.fetch_add(1, Ordering::Release);
        *lock(&self.figures) = figures;
        before
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn current(&self) -> Arc<Databases> {
        Arc::clone(&lock(&self.current))
    }

    /// Logs, once, that a database is used but missing.
    pub(super) fn report_missing(&self, kind: GeoKind) {
        let (index, what) = match kind {
            GeoKind::Places => (0, "countries"),
            GeoKind::Networks => (1, "autonomous systems"),
        };
        let reported = &self.reported[index];
        if !reported.load(Ordering::Relaxed) && !reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "there is no GeoIP database of {what} (--geoip), and a rule, header or the access log asks for one: rules that \
                 allow by it allow nobody, and rules that deny by it deny everybody"
            );
        }
    }

    pub(super) fn figures(&self) -> Vec<FileFigures> {
        lock(&self.figures).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
