//! `results.json`: what a run found, in a form that other programs may read. The schema is these types; every field says
//! its unit. `docs/lab.md` describes them for readers.
//!
//! A [`Results`] has one [`Run`] of each scenario; a run has [`Measure`]s, one for each stream of load of a peer in a
//! phase, and what was derived from them: [`Ratio`]s of pairs of blocks, [`Spike`]s after events, [`Propagation`] times.
//! Raw latencies are beside the file as HDR histograms (V2, deflated) that measures name.
//!
//! Owns the words and reading and writing the file. Never measures and never draws.

mod delivery;
mod environment;
mod figure;
mod file;
mod measure;
mod run;

pub use delivery::{Backstage, Delivered, Deliveries, Distance};
pub use environment::{Absent, Completeness, Environment, NamedText, PeerKind, PeerRecord, Settings};
pub use file::{HISTOGRAMS, RESULTS, read, write};
pub use measure::{
    Bucket, Class, Cost, Counts, Example, Latency, Lateness, Load, Measure, Offered, OverTime, Percentile,
    Sample, Tls,
};
pub use run::{Event, Parameter, Propagation, Ratio, Run, Spike};

use serde::{Deserialize, Serialize};

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
    /// How long it took, seconds.
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
    /// One for each scenario.
    pub runs: Vec<Run>,
    /// What a reader must know before believing a figure, one sentence each.
    pub limitations: Vec<String>,
}
