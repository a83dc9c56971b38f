//! The arguments of `fairway-lab report`. Never does what they ask for itself.

use std::process::ExitCode;

/// Arguments of `fairway-lab report`.
#[derive(clap::Args)]
pub struct ReportArguments {}

impl ReportArguments {
    /// Does what the arguments ask for.
    ///
    /// # Errors
    /// Input that cannot be used.
    pub fn carry_out(self) -> anyhow::Result<ExitCode> {
        anyhow::bail!("report is not there yet")
    }
}
