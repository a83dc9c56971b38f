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
    anyhow::ensure!(
        output.status.success() && program.is_file(),
        "not in PATH, and it cannot be built: {}; once `cargo install oha --locked --version {VERSION}` works here, or oha is \
         in PATH, it takes part",
        reason(&said)
    );
    Ok(program)
}

/// What failed and why, of the many lines that cargo says: its first error, and the innermost cause, which it says last.
fn reason(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find_map(|line| line.strip_prefix("error: "));
    match (error, lines().next_back()) {
        (Some(error), Some(last)) if last.trim_start_matches("error: ") != error => {
            format!("{error}: {last}")
        }
        (Some(error), _) => error.to_owned(),
        (None, Some(last)) => last.to_owned(),
        (None, None) => "cargo did not say why".to_owned(),
    }
}

fn cache() -> anyhow::Result<PathBuf> {
    if let Some(cache) = std::env::var_os("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()) {
        return Ok(PathBuf::from(cache));
    }
    let home =
        std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME says where oha could be built")?;
    Ok(PathBuf::from(home).join(".cache"))
}
