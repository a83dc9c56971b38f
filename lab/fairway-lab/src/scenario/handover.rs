//! The data passed from the preparing part of a run, outside the testbed, to the measuring part inside it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fairway_lab_measure::results::{Absent, PeerRecord, Settings};
use serde::{Deserialize, Serialize};

use crate::peers::Artifacts;

/// Everything that the measuring part needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Handover {
    /// The command line as it was given.
    pub(super) command: Vec<String>,
    /// The folder of the results.
    pub(super) folder: PathBuf,
    pub(super) artifacts: Artifacts,
    /// Peers whose programs are available.
    pub(super) peers: Vec<PeerRecord>,
    pub(super) absent: Vec<Absent>,
    /// The settings to run with, in this order.
    pub(super) settings: Vec<Settings>,
    /// `testbed`, or the user's context.
    pub(super) place: String,
    /// The image of backends.
    pub(super) image: String,
    /// Where backends of a cluster of the user's reach this machine, if the user says so.
    pub(super) collector: Option<SocketAddr>,
    pub(super) rounds: u32,
    pub(super) preparation: Preparation,
}

/// The work done before measuring.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Preparation {
    /// Its duration, seconds.
    pub(super) seconds: f64,
    /// Its number of steps.
    pub(super) steps: usize,
}

/// [`Handover::place`] of a testbed.
pub(super) const TESTBED: &str = "testbed";

impl Handover {
    /// Whether the run is on the node of a testbed.
    pub(super) fn is_in_testbed(&self) -> bool {
        self.place == TESTBED
    }

    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_vec(self).context("write what was prepared")?;
        fs::write(path, text).with_context(|| format!("write {}", path.display()))
    }

    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("read {}", path.display()))
    }
}
