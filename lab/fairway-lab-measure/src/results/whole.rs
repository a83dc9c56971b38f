//! The whole of `results.json`.

use serde::{Deserialize, Serialize};

use crate::results::environment::{Absent, Completeness, Environment, PeerRecord};
use crate::results::figure;
use crate::results::plan::RunPlan;
use crate::results::run::Run;

/// The number of the schema. It grows when a reader of the one before would misread a file.
pub const SCHEMA: u32 = 1;

/// Everything that one `fairway-lab run` found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// Whether every scenario ended as planned.
    pub completeness: Completeness,
    /// When the run began, RFC 3339 in UTC.
    pub begun: String,
    /// How long it took, seconds; with all of its parts where it was continued.
    #[serde(deserialize_with = "figure::one")]
    pub seconds: f64,
    /// The command line as it was given.
    pub command: Vec<String>,
    /// The machine and the programs.
    pub environment: Environment,
    /// What was measured.
    pub peers: Vec<PeerRecord>,
    /// What should have been measured and could not be.
    pub absent: Vec<Absent>,
    /// One for each scenario, or for each scenario and round.
    pub runs: Vec<Run>,
    /// What a reader must know before believing a figure, one sentence each.
    pub limitations: Vec<String>,
    /// What was to be measured, so that a partial run can be continued; older files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<RunPlan>,
}
