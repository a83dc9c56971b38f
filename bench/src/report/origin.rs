//! The origin of a result: command, machine, kernel, revision. Never contains an absolute path of the machine.

use std::time::{SystemTime, UNIX_EPOCH};

use fairway_lab_measure::{environment, revision};

use crate::pinning::Placement;

#[derive(serde::Serialize)]
pub(crate) struct Origin {
    pub(crate) command: String,
    pub(crate) unix_seconds: u64,
    pub(crate) revision: String,
    pub(crate) kernel: String,
    pub(crate) cpu: String,
    pub(crate) cpus: u32,
    /// The origin of a comparison of proxies.
    #[serde(flatten)]
    pub(crate) placement: Option<Placement>,
    /// One-minute load average before the run: other work on the machine makes latency and wake-ups worse.
    pub(crate) load_average: String,
}

impl Origin {
    pub(crate) fn current(placement: Option<Placement>) -> Self {
        let current_machine = environment();
        let load_averages = current_machine.facts.get("load averages at the beginning");
        Self {
            command: command(),
            unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            revision: revision(),
            kernel: current_machine.kernel,
            cpu: current_machine.cpu,
            cpus: current_machine.cpus,
            placement,
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
