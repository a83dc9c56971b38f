//! What a group of processes has used, from /proc (proc(5), Documentation/scheduler/sched-stats.rst).

use std::collections::BTreeMap;
use std::fs;

use super::meter::Usage;

/// Clock ticks in a second that `/proc/PID/stat` counts in: `USER_HZ`, 100 on every Linux that Rust runs on.
const TICK_NS: u64 = 10_000_000;

/// What a process and all its descendants have used so far. Those that have ended count as nothing.
pub(super) fn usage(root: u32) -> Option<Usage> {
    let family = family(root);
    let user_ticks: u64 =
        family.iter().filter_map(|process| fields(*process)?.get(11)?.parse::<u64>().ok()).sum();
    let cpu_ns = family.iter().flat_map(|process| threads(*process)).map(|thread| run_time(&thread)).sum();
    if cpu_ns == 0 {
        return None;
    }
    Some(Usage {
        cpu_ns,
        user_ns: Some(user_ticks * TICK_NS),
        memory_bytes: Some(family.iter().filter_map(|process| resident(*process)).sum()),
        switches: switches(&family),
    })
}

/// Context switches of all threads of these processes.
pub(super) fn switches(processes: &[u32]) -> u64 {
    let of = |thread: String| {
        let text = fs::read_to_string(format!("{thread}/status")).unwrap_or_default();
        text.lines()
            .filter(|line| line.contains("ctxt_switches"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .sum::<u64>()
    };
    processes.iter().flat_map(|process| threads(*process)).map(of).sum()
}

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

/// `VmRSS`, in units of 1,024 bytes.
fn resident(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

fn family(root: u32) -> Vec<u32> {
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
