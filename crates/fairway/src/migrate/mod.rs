//! `fairway migrate`: what another controller has as what Fairway has. A file for each thing that is turned.

mod gateway;
mod output;
mod proof;
mod values;

use std::process::ExitCode;

use anyhow::Result;

use crate::args::MigrateWhat;

/// 0 when nothing is lost, 1 when something is.
pub(crate) fn migrate(what: &MigrateWhat) -> Result<ExitCode> {
    match what {
        MigrateWhat::Values(args) => values::migrate(args),
        MigrateWhat::GatewayApi(args) => gateway::migrate(args),
    }
}
