//! The process state that pages show.

use std::sync::Arc;

use super::problem::Problem;
use crate::admin::readiness::Readiness;
use crate::pipeline::{View, Viewer};

/// What pages read. Clones are cheap.
#[derive(Clone)]
pub(in crate::admin) struct Process {
    /// The control side.
    pub(in crate::admin) viewer: Viewer,
    /// Whether the process is ready for traffic.
    pub(in crate::admin) readiness: Arc<dyn Fn() -> Readiness + Send + Sync>,
}

impl Process {
    /// The current view, or the problem that there is none yet.
    pub(super) fn view(&self) -> Result<View, Problem> {
        self.viewer.view().ok_or_else(|| Problem::unavailable((self.readiness)().to_string()))
    }
}
