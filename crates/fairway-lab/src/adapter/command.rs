//! The arguments of `fairway-lab adapter`. Never does what they ask for itself.

use std::process::ExitCode;

/// Arguments of `fairway-lab adapter`.
#[derive(clap::Args)]
pub struct AdapterArguments {}

impl AdapterArguments {
    /// Does what the arguments ask for.
    ///
    /// # Errors
    /// Input that cannot be used.
    pub fn carry_out(self) -> anyhow::Result<ExitCode> {
        anyhow::bail!("adapter is not there yet")
    }
}
