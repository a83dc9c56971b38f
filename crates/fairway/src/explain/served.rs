//! What requests are explained by, wherever it was read.

use std::sync::Arc;

use fairway_model::Origin;
use fairway_routing::Snapshot;

use crate::check;
use crate::offline::Offline;

/// What requests are explained by.
pub(super) struct Served {
    pub(super) snapshot: Arc<Snapshot>,
    /// Each with the object it is about.
    pub(super) diagnostics: Vec<(Origin, String)>,
}

impl Served {
    pub(super) fn of(found: Offline) -> Self {
        let lines = found.diagnostics.iter().map(|it| (it.origin.clone(), check::line(it)));
        Self { diagnostics: lines.collect(), snapshot: found.outcome.snapshot }
    }
}
