//! `results.json`: the findings of a run, for other programs to read. These types are the schema; every field gives its
//! unit. `docs/lab.md` describes them for readers.
//!
//! A [`Results`] has one [`Run`] of each scenario and round; a run has [`Measure`]s, one for each stream of load of a peer in a
//! phase, and what was derived from them: [`Spike`]s after events, [`Propagation`] times, and other [`Finding`]s.
//! Raw latencies are in `histograms.hlog` next to the file: HDR histograms (V2, deflated) that measures name.
//!
//! Owns the words and reading and writing the file. Never measures and never draws.

mod condense;
mod figure;
mod file;
mod measure;
mod results_file;
mod run;

pub use condense::condense_results;
pub use file::{HISTOGRAMS, RESULTS, read, read_kept, write, write_kept};
pub use measure::{
    Backstage, Bucket, Class, Cost, Counts, Delivered, Deliveries, Distance, Example, Latency, Lateness,
    Load, Measure, Offered, OverTime, Percentile, Settings, Tls,
};
pub use results_file::{Absent, Completeness, Environment, NamedText, PeerKind, PeerRecord, Results, SCHEMA};
pub use run::{ENOUGH_PAIRS, Event, Finding, Parameter, Propagation, Question, Run, Spike, Supplement};
