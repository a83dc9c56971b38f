//! What a group of processes has used, from /proc: CPU time, resident memory, and what the hypervisor took away.
//!
//! Owns the reading of those files and nothing else; a process that has ended counts as nothing.

use std::collections::BTreeMap;
use std::fs;

/// CPU time used so far. The total is the scheduler's own, in nanoseconds; user and system are clock ticks, which the
/// kernel shares out by sampling, so their ratio needs many ticks to mean something.
#[derive(Clone, Copy, Default, Debug, serde::Serialize)]
pub(crate) struct CpuTime {
    pub(crate) total_ns: u64,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
}

impl CpuTime {
    /// Of these processes, all threads included.
    pub(crate) fn of(processes: &[u32]) -> Self {
        let mut sum = Self::default();
        for process in processes {
            sum.total_ns += threads(*process).iter().map(|path| run_time(path)).sum::<u64>();
            let (user, system) = ticks(*process).unwrap_or_default();
            sum.user_ticks += user;
            sum.system_ticks += system;
        }
        sum
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            total_ns: self.total_ns - earlier.total_ns,
            user_ticks: self.user_ticks - earlier.user_ticks,
            system_ticks: self.system_ticks - earlier.system_ticks,
        }
    }
}

fn threads(process: u32) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path().to_string_lossy().into_owned()).collect()
}

/// The first number of `schedstat`: nanoseconds on a CPU (Documentation/scheduler/sched-stats.rst).
fn run_time(thread: &str) -> u64 {
    let text = fs::read_to_string(format!("{thread}/schedstat")).unwrap_or_default();
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The fields of `/proc/PID/stat` after the parenthesised name, so that index 0 is field 3, the state (proc(5)).
fn fields(process: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after) = text.rsplit_once(')')?;
    Some(after.split_whitespace().map(str::to_owned).collect())
}

fn ticks(process: u32) -> Option<(u64, u64)> {
    let fields = fields(process)?;
    Some((fields.get(11)?.parse().ok()?, fields.get(12)?.parse().ok()?))
}

/// A process and its descendants.
pub(crate) fn family(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let Ok(entries) = fs::read_dir("/proc") else { return vec![root] };
    for process in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Some(parent) = fields(process).and_then(|fields| fields.get(1)?.parse().ok()) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut family = vec![root];
    let mut next = 0;
    while let Some(parent) = family.get(next) {
        family.extend(children.remove(parent).unwrap_or_default());
        next += 1;
    }
    family
}

/// Resident memory of these processes together, in bytes (`VmRSS`, in units of 1,024 bytes).
pub(crate) fn resident_bytes(processes: &[u32]) -> u64 {
    let of = |process: &u32| {
        let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    processes.iter().filter_map(of).sum::<u64>() * 1024
}

/// The machine's clock ticks so far: (all, stolen by the hypervisor).
pub(crate) fn machine_ticks() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> = text
        .lines()
        .next()
        .unwrap_or("")
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|n| n.parse().ok())
        .collect();
    (ticks.iter().sum(), ticks.get(7).copied().unwrap_or(0))
}
