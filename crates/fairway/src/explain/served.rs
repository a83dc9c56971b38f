//! The configuration that requests are explained with, whether read from objects or from a running process.

use std::sync::Arc;

use fairway_model::Origin;
use fairway_routing::Snapshot;

use crate::check;
use crate::offline::OfflineTranslation;

/// The configuration that requests are explained with.
pub(super) struct ServedConfig {
    pub(super) snapshot: Arc<Snapshot>,
    /// Diagnostics with the objects that they concern.
    pub(super) diagnostics: Vec<(Origin, String)>,
}

impl ServedConfig {
    pub(super) fn from_offline(found: OfflineTranslation) -> Self {
        let lines = found.diagnostics.iter().map(|it| (it.origin.clone(), check::line(it)));
        Self { diagnostics: lines.collect(), snapshot: found.outcome.snapshot }
    }
}
