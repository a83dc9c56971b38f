//! oha is a crate and in no package of Debian: it is built once, into the cache of the user.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;

/// The version that is built. A newer one may need a newer compiler.
const VERSION: &str = "1.16.0";

/// The program, built if it is not there.
///
/// # Errors
/// It cannot be built: why.
pub(super) fn program() -> anyhow::Result<PathBuf> {
    let root = cache()?.join(format!("fairway/lab/oha-{VERSION}"));
    let program = root.join("bin/oha");
    if program.is_file() {
        return Ok(program);
    }
    // A person who waits for minutes wants to know what for; when nobody listens it is built all the same.
    _ = writeln!(io::stderr(), "building oha {VERSION} once, which takes some minutes");
    let output = Command::new("nice")
        .args(["-n", "10", "cargo", "install", "oha", "--locked", "--version", VERSION])
        .args(["--no-default-features", "--features", "rustls", "--root"])
        .arg(&root)
        .stdin(Stdio::null())
        .output()
        .context("not in PATH, and it cannot be built: start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("cargo did not say why");
    anyhow::ensure!(output.status.success(), "not in PATH, and it cannot be built: {why}");
    Ok(program)
}

fn cache() -> anyhow::Result<PathBuf> {
    if let Some(cache) = std::env::var_os("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()) {
        return Ok(PathBuf::from(cache));
    }
    let home =
        std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME says where oha could be built")?;
    Ok(PathBuf::from(home).join(".cache"))
}
