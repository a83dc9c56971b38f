//! CPU time and resident memory from `/proc`. A process or thread that has ended counts as nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The length of a clock tick of `/proc`, the same on every Linux (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// CPU time of all threads of a process.
pub(super) fn cpu_of_process(process: u32) -> Duration {
    threads_of(process).iter().map(|thread| cpu_of_thread(thread)).sum()
}

/// CPU time of the threads of a process whose names `is_counted` accepts.
pub(super) fn cpu_of_threads(process: u32, is_counted: impl Fn(&str) -> bool) -> Duration {
    let is_wanted =
        |thread: &Path| fs::read_to_string(thread.join("comm")).is_ok_and(|name| is_counted(name.trim_end()));
    let threads = threads_of(process);
    threads.iter().filter(|thread| is_wanted(thread)).map(|thread| cpu_of_thread(thread)).sum()
}

/// The folders of the threads of a process.
fn threads_of(process: u32) -> Vec<PathBuf> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    threads.flatten().map(|thread| thread.path()).collect()
}

/// CPU time of a thread by its folder in `/proc`.
pub(in crate::proof) fn cpu_of_thread(thread: &Path) -> Duration {
    // The first number: nanoseconds on a CPU (Documentation/scheduler/sched-stats.rst). Not every kernel counts them.
    let first = |text: String| text.split_whitespace().next()?.parse().ok();
    match fs::read_to_string(thread.join("schedstat")).ok().and_then(first) {
        Some(nanoseconds) if nanoseconds > 0 => Duration::from_nanos(nanoseconds),
        _ => ticks(thread).unwrap_or_default(),
    }
}

/// User and system time, fields 14 and 15 of `stat` (proc(5)); the name in field 2 may contain spaces.
fn ticks(thread: &Path) -> Option<Duration> {
    let text = fs::read_to_string(thread.join("stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u32>().ok();
    Some(TICK * (next()? + next()?))
}

/// The folder in `/proc` of the thread that calls.
pub(super) fn this_thread() -> PathBuf {
    let link = fs::read_link("/proc/thread-self").expect("Linux has /proc/thread-self since 3.17");
    Path::new("/proc").join(link)
}

/// Resident memory now, in bytes.
pub(in crate::proof) fn resident(process: u32) -> u64 {
    kibibytes(process, "VmRSS:") * 1024
}

/// The most resident memory since [`forget_peak`], in bytes.
pub(in crate::proof) fn peak(process: u32) -> u64 {
    kibibytes(process, "VmHWM:") * 1024
}

/// Resets the peak. If the kernel refuses, the peak is that since the start of the process.
pub(super) fn forget_peak(process: u32) {
    let _ = fs::write(format!("/proc/{process}/clear_refs"), "5");
}

fn kibibytes(process: u32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(field));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn threads_are_distinguished_by_name() {
        let work = || {
            let (thread, began) = (this_thread(), Instant::now());
            while cpu_of_thread(&thread) < Duration::from_millis(30) {
                assert!(began.elapsed() < Duration::from_secs(20), "no CPU time is counted");
            }
            // The name disappears with the thread.
            cpu_of_threads(std::process::id(), |name| name == "hard worker")
        };
        let worker = std::thread::Builder::new().name("hard worker".to_owned()).spawn(work).unwrap();
        assert!(worker.join().unwrap() >= Duration::from_millis(30));
        assert_eq!(cpu_of_threads(std::process::id(), |name| name == "nobody"), Duration::ZERO);
    }
}
