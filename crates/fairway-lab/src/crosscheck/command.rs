//! The arguments of `fairway-lab crosscheck`. Never does what they ask for itself.

use std::process::ExitCode;

/// Arguments of `fairway-lab crosscheck`.
#[derive(clap::Args)]
pub struct CrosscheckArguments {}

impl CrosscheckArguments {
    /// Does what the arguments ask for.
    ///
    /// # Errors
    /// Input that cannot be used.
    pub fn carry_out(self) -> anyhow::Result<ExitCode> {
        anyhow::bail!("crosscheck is not there yet")
    }
}
