//! Disables transparent huge pages for this process: they make unused memory resident.

use std::io;

/// Stops the kernel from backing memory of this process with huge pages, unless they are requested explicitly
/// (`PR_SET_THP_DISABLE`, prctl(2)). With huge pages, memory becomes resident 2 MiB at a time for each size class of
/// the allocator, and a bound on used memory says little about resident memory.
///
/// # Errors
/// The kernel does not support the request: memory grows by huge pages if the system's setting is `always`.
pub fn refuse_huge_pages() -> io::Result<()> {
    const ON: libc::c_ulong = 1;
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: this request takes only numbers and touches no memory of the process.
    let result = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, ON, UNUSED, UNUSED, UNUSED) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state that the kernel reports for this process (proc(5)).
    fn has_huge_pages() -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("THP_enabled:")).unwrap();
        line.ends_with('1')
    }

    #[test]
    fn huge_pages_are_refused_for_the_whole_process() {
        refuse_huge_pages().unwrap();
        assert!(!has_huge_pages());
    }
}
