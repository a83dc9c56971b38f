//! The arguments of `fairway-lab load`. Never does what they ask for itself.

use std::process::ExitCode;

/// Arguments of `fairway-lab load`.
#[derive(clap::Args)]
pub struct LoadArguments {}

impl LoadArguments {
    /// Does what the arguments ask for.
    ///
    /// # Errors
    /// Input that cannot be used.
    pub fn carry_out(self) -> anyhow::Result<ExitCode> {
        anyhow::bail!("load is not there yet")
    }
}
