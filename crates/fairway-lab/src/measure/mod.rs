//! What a proxy costs: CPU, memory and context switches of its containers or processes, the machine it ran on, and
//! ratios of figures in pairs of blocks. Never sends a request and never decides what is run.

mod cgroup;
mod machine;
mod meter;
mod pairs;
mod pinning;
mod process;
mod samples;

pub use machine::environment;
pub use meter::{Meter, Spent, Subject};
pub use pairs::{Block, Paired, ratio};
pub use pinning::{MachineTime, pin};
pub use samples::{Reading, Sample, Sampled, Samples};
