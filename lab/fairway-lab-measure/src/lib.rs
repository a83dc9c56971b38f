//! Measures the costs of a proxy: CPU, memory and context switches of its containers or processes, the machine it ran on,
//! and ratios of figures in pairs of blocks. Used by the laboratory's scenarios and the benchmark.
//!
//! ```text
//! program ─► process | cgroup | samples ─► meter ─► Spent ─► pairs
//!    ▲                               machine, pinning, distance: where it ran
//! executable: which release of it
//! ```
//!
//! [`results`] is what everybody of the laboratory writes and reads.
//!
//! All measurements from /proc are read here. Sends no requests, does not decide what runs, and knows nothing of
//! Kubernetes.

mod cgroup;
mod distance;
mod executable;
mod machine;
mod measured_usage;
mod meter;
mod pairs;
mod pinning;
mod process;
mod program;
pub mod results;
mod samples;

pub use distance::{distance, during, round_trip_ns};
pub use executable::{Executable, MAKE_CURRENT, Release, number};
pub use machine::{environment, revision};
pub use measured_usage::Spent;
pub use meter::{Meter, Subject};
pub use pairs::{Block, PairedRatio, Spread, ratios};
pub use pinning::{MachineTime, pin_thread};
pub use process::{CpuTime, family, resident_bytes};
pub use program::{ExitWait, Program};
pub use samples::{Sample, SampledUsage};

pub use crate::results::Distance;
