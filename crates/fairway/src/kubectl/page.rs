//! The page `/config` of a replica.

use anyhow::{Context, Result};
use fairway_model::{Config, Origin};
use serde::{Deserialize, Serialize};

use super::fleet::{Fleet, ReplicaPage};

/// The running configuration of a replica and the diagnostics of its objects.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigPage {
    /// Name of the replica.
    #[serde(skip)]
    pub(super) replica: String,
    pub(super) config: Config,
    pub(super) diagnostics: Vec<PageDiagnostic>,
}

/// A diagnostic of that page.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct PageDiagnostic {
    pub(super) severity: String,
    pub(super) origin: Origin,
    pub(super) code: String,
    pub(super) problem: String,
    pub(super) consequence: String,
}

impl ConfigPage {
    /// Requests the page from the first replica that responds.
    ///
    /// # Errors
    /// No replica responds, or its page is from another version of Fairway.
    pub(super) async fn fetch(fleet: &Fleet) -> Result<Self> {
        let ReplicaPage { replica, body } = fleet.first_page("/config").await?;
        let page = serde_json::from_slice(&body);
        let page: Self = page.with_context(|| {
            let version = env!("CARGO_PKG_VERSION");
            format!("{replica} serves a configuration that version {version} cannot read; use the version of the replica")
        })?;
        Ok(Self { replica, ..page })
    }
}
