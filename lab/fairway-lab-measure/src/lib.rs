//! What a proxy costs: CPU, memory and context switches of its containers or processes, the machine it ran on, and
//! ratios of figures in pairs of blocks. The laboratory's scenarios and the benchmark measure with it.
//!
//! ```text
//! program ─► process | cgroup | samples ─► meter ─► Spent ─► pairs
//!    ▲                               machine, pinning, distance: where it ran
//! executable: which release of it
//! ```
//!
//! [`results`] is what everybody of the laboratory writes and reads.
//!
//! Everything that is read from /proc to measure is read here. Never sends a request, never decides what is run, and
//! knows no Kubernetes.

mod cgroup;
mod distance;
mod executable;
mod machine;
mod meter;
mod pairs;
mod pinning;
mod process;
mod program;
pub mod results;
mod samples;
mod spent;

pub use distance::{distance, during, round_trip_ns};
pub use executable::{Executable, MAKE_CURRENT, Release, number};
pub use machine::{environment, revision};
pub use meter::{Meter, Subject};
pub use pairs::{Block, Paired, Spread, ratios};
pub use pinning::{MachineTime, pin_thread};
pub use process::{CpuTime, family, resident_bytes};
pub use program::{Program, Waited};
pub use samples::{Sample, Sampled};
pub use spent::Spent;

pub use crate::results::Distance;
