//! The `fairway-lab backend` command: serves until stopped.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use super::options::{Faults, Options};
use super::server::Server;

impl Options {
    /// Serves according to the options until stopped.
    ///
    /// # Errors
    /// Input that cannot be used.
    pub fn run(mut self) -> anyhow::Result<ExitCode> {
        let Faults { reset, truncate, statuses } = &self.faults;
        let sum = reset + truncate + statuses.iter().map(|(_, rate)| rate).sum::<f64>();
        anyhow::ensure!(sum <= 1.0, "--reset, --truncate and --status are more than all requests together");
        self.pod = std::env::var("POD_NAME").unwrap_or_default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("listen to signals")?;
        runtime.block_on(async {
            // Before the first connection: as a pod's first process it has no default signal action.
            let mut terminate = signal(SignalKind::terminate()).context("listen to SIGTERM")?;
            let mut interrupt = signal(SignalKind::interrupt()).context("listen to Ctrl-C")?;
            let server = Server::start(self)?;
            for address in server.addresses() {
                writeln!(io::stderr(), "listening on {address}").context("say where the backend listens")?;
            }
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            server.end();
            Ok(ExitCode::SUCCESS)
        })
    }
}
