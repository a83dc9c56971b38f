//! The page `/config` of a replica.

use anyhow::{Context, Result};
use fairway_model::{Config, Origin};
use serde::{Deserialize, Serialize};

use super::fleet::{Answer, Fleet};

/// What a replica serves, and what is wrong with the objects that it has read.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigPage {
    /// Whose it is.
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
    /// That of any replica.
    ///
    /// # Errors
    /// No replica answers, or with a page of another version of Fairway.
    pub(super) async fn ask(fleet: &Fleet) -> Result<Self> {
        let Answer { replica, body } = fleet.any("/config").await?;
        let page = serde_json::from_slice(&body);
        let page: Self = page.with_context(|| {
            let version = env!("CARGO_PKG_VERSION");
            format!("{replica} serves a configuration that version {version} cannot read; use its version")
        })?;
        Ok(Self { replica, ..page })
    }
}
