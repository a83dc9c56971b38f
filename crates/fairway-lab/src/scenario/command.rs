//! The arguments of `fairway-lab run` and `fairway-lab list`. Never does what they ask for itself.

use std::process::ExitCode;

/// Arguments of `fairway-lab run`.
#[derive(clap::Args)]
pub struct RunArguments {}

impl RunArguments {
    /// Runs the scenarios.
    ///
    /// # Errors
    /// Input that cannot be used.
    pub fn carry_out(self) -> anyhow::Result<ExitCode> {
        anyhow::bail!("run is not there yet")
    }
}

/// Arguments of `fairway-lab list`.
#[derive(clap::Args)]
pub struct ListArguments {}

impl ListArguments {
    /// Prints the list.
    ///
    /// # Errors
    /// Standard output that cannot be written.
    pub fn carry_out(self) -> anyhow::Result<ExitCode> {
        anyhow::bail!("list is not there yet")
    }
}
