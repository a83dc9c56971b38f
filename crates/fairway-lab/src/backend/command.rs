//! The arguments of `fairway-lab backend`. Never does what they ask for itself.

use std::process::ExitCode;

/// Arguments of `fairway-lab backend`.
#[derive(clap::Args)]
pub struct BackendArguments {}

impl BackendArguments {
    /// Does what the arguments ask for.
    ///
    /// # Errors
    /// Input that cannot be used.
    pub fn carry_out(self) -> anyhow::Result<ExitCode> {
        anyhow::bail!("backend is not there yet")
    }
}
