//! `kubectl fairway`: inspects the Fairway pods of a cluster, or a single process by its admin address. Changes nothing in the
//! cluster.
//!
//! [`cluster`] finds the pods, [`fleet`] requests pages of their admin servers ([`page`], [`exposition`]), and one file per command
//! turns them into rows, which [`listing`] prints.

pub(crate) mod age;
mod certificates;
mod check;
mod cluster;
mod dashboard;
mod endpoints;
mod explain;
mod exposition;
pub(crate) mod fleet;
mod host;
mod listing;
mod log_line;
mod logs;
mod page;
mod relay;
mod routes;
mod scope;
mod status;
pub(crate) mod table;
mod top;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::args::KubectlCommand;

/// The file name that kubectl looks up for `kubectl fairway`.
const PLUGIN: &str = "kubectl-fairway";

/// Whether the program was called by the name of the plugin.
pub(crate) fn is_plugin(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(PLUGIN))
}

/// Runs a command.
pub(crate) fn kubectl(command: &KubectlCommand) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(run(command));
    // A pending name lookup by the system cannot be cancelled.
    runtime.shutdown_background();
    ended
}

async fn run(command: &KubectlCommand) -> Result<ExitCode> {
    match command {
        KubectlCommand::Status(args) => status::status(args).await,
        KubectlCommand::Routes(args) => routes::routes(args).await,
        KubectlCommand::Certs(args) => certificates::certificates(args).await,
        KubectlCommand::Endpoints(args) => endpoints::endpoints(args).await,
        KubectlCommand::Explain(args) => explain::explain(args).await,
        KubectlCommand::Check(args) => check::check(args).await,
        KubectlCommand::Logs(args) => logs::logs(args).await,
        KubectlCommand::Dashboard(args) => dashboard::dashboard(args).await,
        KubectlCommand::Top(args) => top::top(args).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_name_makes_the_program_a_plugin() {
        for (program, expected) in [
            ("kubectl-fairway", true),
            ("/home/me/.krew/bin/kubectl-fairway", true),
            ("fairway", false),
            ("/opt/kubectl-fairway/fairway", false),
        ] {
            assert_eq!(is_plugin(OsStr::new(program)), expected, "{program}");
        }
    }
}
