//! The CPUs of threads, and the time that the hypervisor took from them (sched_setaffinity(2), proc(5)).

use std::fs;
use std::ops::Range;

use anyhow::Context;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps the calling thread, and the threads and processes that it starts from now on, on these CPUs.
///
/// # Errors
/// A CPU that this process may not use.
pub fn pin_thread(cpus: Range<usize>) -> anyhow::Result<()> {
    anyhow::ensure!(cpus.end <= CpuSet::MAX_CPU, "there is no CPU {}", cpus.end - 1);
    let mut set = CpuSet::new();
    cpus.clone().for_each(|cpu| set.set(cpu));
    sched_setaffinity(None, &set).with_context(|| format!("keep a thread on the CPUs {cpus:?}"))
}

/// The machine's time so far, in clock ticks of all CPUs.
#[derive(Clone, Copy, Debug)]
pub struct MachineTime {
    total: u64,
    stolen: u64,
}

impl MachineTime {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).take(8).filter_map(|ticks| ticks.parse().ok()).collect();
        Self { total: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or(0) }
    }

    /// The part of the time since then that the hypervisor gave to others, 0 to 1.
    #[must_use]
    pub fn stolen_since(self, earlier: Self) -> f64 {
        let all = self.total.saturating_sub(earlier.total);
        if all == 0 { 0.0 } else { self.stolen.saturating_sub(earlier.stolen) as f64 / all as f64 }
    }
}
