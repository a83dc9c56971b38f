//! The usage of a group of processes, from /proc (proc(5), Documentation/scheduler/sched-stats.rst). A process that has
//! ended counts as zero.

use std::collections::BTreeMap;
use std::fs;

use serde::Serialize;

/// Clock ticks per second in `/proc/PID/stat`: `USER_HZ`, 100 on every Linux that Rust supports.
const TICK_NS: u64 = 10_000_000;

/// The usage of one subject since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_ns: u64,
    pub(crate) user_ns: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) switches: u64,
}

/// CPU time used so far. The total is the scheduler's own, in nanoseconds; user and system are clock ticks, which the
/// kernel shares out by sampling, so their ratio needs many ticks to mean something.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CpuTime {
    /// On a CPU, nanoseconds.
    pub total_ns: u64,
    /// Time in user space, in clock ticks.
    pub user_ticks: u64,
    /// Time in the kernel, in clock ticks.
    pub system_ticks: u64,
}

impl CpuTime {
    /// The CPU time of all threads of these processes.
    #[must_use]
    pub fn for_processes(processes: &[u32]) -> Self {
        let ticks_at = |column: usize| {
            processes.iter().filter_map(|process| fields(*process)?.get(column)?.parse::<u64>().ok()).sum()
        };
        Self {
            total_ns: processes
                .iter()
                .flat_map(|process| threads(*process))
                .map(|thread| run_time(&thread))
                .sum(),
            user_ticks: ticks_at(11),
            system_ticks: ticks_at(12),
        }
    }

    /// The usage since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            user_ticks: self.user_ticks.saturating_sub(earlier.user_ticks),
            system_ticks: self.system_ticks.saturating_sub(earlier.system_ticks),
        }
    }
}

/// The usage of a process and all its descendants so far.
pub(crate) fn usage(root: u32) -> Option<Usage> {
    let family = family(root);
    let cpu = CpuTime::for_processes(&family);
    (cpu.total_ns > 0).then(|| Usage {
        cpu_ns: cpu.total_ns,
        user_ns: Some(cpu.user_ticks * TICK_NS),
        memory_bytes: Some(resident_bytes(&family)),
        switches: switches(&family),
    })
}

/// Context switches of all threads of these processes.
pub(crate) fn switches(processes: &[u32]) -> u64 {
    let cpu_of_thread = |thread: String| {
        let text = fs::read_to_string(format!("{thread}/status")).unwrap_or_default();
        text.lines()
            .filter(|line| line.contains("ctxt_switches"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .sum::<u64>()
    };
    processes.iter().flat_map(|process| threads(*process)).map(cpu_of_thread).sum()
}

/// Resident memory of these processes together, in bytes (`VmRSS`, in units of 1,024 bytes).
#[must_use]
pub fn resident_bytes(processes: &[u32]) -> u64 {
    let cpu_of_process = |process: &u32| {
        let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    processes.iter().filter_map(cpu_of_process).sum::<u64>() * 1024
}

/// A process, first, and its descendants.
#[must_use]
pub fn family(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
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

/// When a process began, in ticks since the machine did: with its number, what no other process has.
pub(crate) fn born(process: u32) -> Option<u64> {
    fields(process)?.get(19)?.parse().ok()
}

/// The folders of a process's threads in /proc.
fn threads(process: u32) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path().to_string_lossy().into_owned()).collect()
}

/// The first number of `schedstat`: nanoseconds on a CPU.
fn run_time(thread: &str) -> u64 {
    let text = fs::read_to_string(format!("{thread}/schedstat")).unwrap_or_default();
    text.split_whitespace().next().and_then(|time| time.parse().ok()).unwrap_or(0)
}

/// The fields of `/proc/PID/stat` after the parenthesised name: index 0 is field 3, the state.
fn fields(process: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after) = text.rsplit_once(')')?;
    Some(after.split_whitespace().map(str::to_owned).collect())
}
