//! `fairway migrate`: converts the installation of another controller to Fairway. One file per input.

mod gateway;
mod output;
mod proof;
mod values;

use std::process::ExitCode;

use anyhow::Result;

use crate::args::MigrateWhat;

/// Exits with 0 if nothing is lost, with 1 if something is.
pub(crate) fn migrate(command: &MigrateWhat) -> Result<ExitCode> {
    match command {
        MigrateWhat::Values(args) => values::migrate(args),
        MigrateWhat::GatewayApi(args) => gateway::migrate(args),
    }
}
