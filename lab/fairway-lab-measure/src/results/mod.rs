//! `results.json`: what a run found, in a form that other programs may read. The schema is these types; every field says
//! its unit. `docs/lab.md` describes them for readers.
//!
//! A [`Results`] has one [`Run`] of each scenario and round; a run has [`Measure`]s, one for each stream of load of a peer in a
//! phase, and what was derived from them: [`Ratio`]s of pairs of blocks, [`Spike`]s after events, [`Propagation`] times, and other
//! [`Finding`]s.
//! Raw latencies are in `histograms.tar` next to the file: HDR histograms (V2, deflated) that measures name.
//!
//! Owns the words and reading and writing the file. Never measures and never draws.

mod condense;
mod delivery;
mod environment;
mod figure;
mod file;
mod measure;
mod plan;
mod run;
mod whole;

pub use condense::condensed;
pub use delivery::{Backstage, Delivered, Deliveries, Distance};
pub use environment::{Absent, Completeness, Environment, NamedText, PeerKind, PeerRecord, Settings};
pub use file::{HISTOGRAMS, RESULTS, read, read_kept, write, write_kept};
pub use measure::{
    Bucket, Class, Cost, Counts, Example, Latency, Lateness, Load, Measure, Offered, OverTime, Percentile,
    Sample, Tls,
};
pub use plan::{PlannedScenario, RunPlan};
pub use run::{
    ENOUGH_PAIRS, Event, Finding, Grounds, Parameter, Propagation, Question, Ratio, Run, Spike, Supplement,
};
pub use whole::{Results, SCHEMA};
