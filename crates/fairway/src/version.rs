//! `fairway version`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use fairway_proxy::cryptography;

/// The revision of the source code.
pub(crate) const REVISION: &str = match option_env!("FAIRWAY_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// Prints version, revision, target and cryptography module.
pub(crate) fn print() -> Result<ExitCode> {
    let (architecture, system) = (std::env::consts::ARCH, std::env::consts::OS);
    let version = env!("CARGO_PKG_VERSION");
    writeln!(
        std::io::stdout(),
        "fairway {version}\nrevision {REVISION}\ntarget {architecture}-{system}\ncryptography {}",
        cryptography::MODULE
    )?;
    Ok(ExitCode::SUCCESS)
}
