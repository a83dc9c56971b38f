//! What the process says about itself. Counts nothing.

use std::sync::Arc;

use super::problem::Problem;
use crate::admin::readiness::Readiness;
use crate::pipeline::{View, Viewer};

/// Where pages look. A clone costs nothing.
#[derive(Clone)]
pub(in crate::admin) struct Process {
    /// The control side.
    pub(in crate::admin) viewer: Viewer,
    /// Whether traffic is welcome.
    pub(in crate::admin) readiness: Arc<dyn Fn() -> Readiness + Send + Sync>,
}

impl Process {
    /// What is served, or that nothing is yet.
    pub(super) fn view(&self) -> Result<View, Problem> {
        self.viewer.view().ok_or_else(|| Problem::unavailable((self.readiness)().to_string()))
    }
}
