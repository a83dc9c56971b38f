//! Where and of what a result was made: command, machine, kernel, revision. Never an absolute path of the machine.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use fairway_lab_measure::environment;

use crate::pinning::{Conditions, Idle, Pin};

#[derive(serde::Serialize)]
pub(crate) struct Origin {
    pub(crate) command: String,
    pub(crate) unix_seconds: u64,
    pub(crate) revision: String,
    pub(crate) kernel: String,
    pub(crate) cpu: String,
    pub(crate) cpus: u32,
    pub(crate) pin: Pin,
    pub(crate) idle: Idle,
    /// One-minute load average before the run: other work on the machine makes latency and wake-ups worse.
    pub(crate) load_average: String,
}

impl Origin {
    pub(crate) fn here(Conditions { pin, idle }: Conditions) -> Self {
        let here = environment();
        let load_averages = here.facts.get("load averages at the beginning");
        Self {
            command: command(),
            unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            revision: revision(),
            kernel: here.kernel,
            cpu: here.cpu,
            cpus: here.cpus,
            pin,
            idle,
            load_average: load_averages
                .and_then(|text| text.split_whitespace().next())
                .unwrap_or_default()
                .to_owned(),
        }
    }
}

/// The command line with the folders of absolute paths left out.
fn command() -> String {
    let shorten = |argument: String| match argument.rsplit_once('/') {
        Some((folder, name)) if folder.is_empty() || folder.starts_with('/') => name.to_owned(),
        _ => argument,
    };
    std::env::args().map(shorten).collect::<Vec<_>>().join(" ")
}

fn revision() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(revision) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".to_owned() };
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|list| !list.is_empty());
    if changed { format!("{revision} with changes") } else { revision }
}
