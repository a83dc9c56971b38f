//! `fairway version`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

/// What was built, from what, for what.
pub(crate) fn print() -> Result<ExitCode> {
    let revision = option_env!("FAIRWAY_REVISION").unwrap_or("unknown");
    let (architecture, system) = (std::env::consts::ARCH, std::env::consts::OS);
    let version = env!("CARGO_PKG_VERSION");
    writeln!(std::io::stdout(), "fairway {version}\nrevision {revision}\ntarget {architecture}-{system}")?;
    Ok(ExitCode::SUCCESS)
}
