//! The resources used by the process and its threads, as the system reports them.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::memory::field;

/// The resources used by the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUsage {
    /// CPU time of all threads.
    pub cpu: Duration,
    /// `None` if the system does not report it.
    pub memory: Option<MemoryUse>,
    /// `None` if the system does not report it.
    pub storage: Option<StorageUse>,
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug)]
pub struct MemoryUse {
    /// Resident memory.
    pub resident: u64,
    /// Virtual memory.
    pub reserved: u64,
}

/// Bytes read from and written to storage, without sockets.
#[derive(Clone, Copy, Debug)]
pub struct StorageUse {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl ProcessUsage {
    /// The current usage of this process.
    #[must_use]
    pub fn by_process() -> Self {
        Self { cpu: clock(ClockId::ProcessCPUTime), memory: MemoryUse::now(), storage: StorageUse::now() }
    }
}

impl MemoryUse {
    fn now() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let bytes = |name| field(&status, name).map(|kibibytes| kibibytes * 1024);
        Some(Self { resident: bytes("VmRSS:")?, reserved: bytes("VmSize:")? })
    }
}

impl StorageUse {
    fn now() -> Option<Self> {
        let counts = fs::read_to_string("/proc/self/io").ok()?;
        Some(Self { read: field(&counts, "read_bytes:")?, written: field(&counts, "write_bytes:")? })
    }
}

/// CPU time of the calling thread.
#[must_use]
pub fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

fn clock(clock: ClockId) -> Duration {
    // These clocks start at zero and never go back.
    clock_gettime(clock).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn work_for(time: Duration) {
        let until = thread_cpu() + time;
        while thread_cpu() < until {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_thread_is_charged_for_its_own_work_and_the_process_for_all() {
        const WORK: Duration = Duration::from_millis(30);
        let (thread, process) = (thread_cpu(), ProcessUsage::by_process().cpu);
        thread::spawn(|| work_for(WORK)).join().unwrap();
        assert!(thread_cpu() - thread < WORK, "another thread did the work");
        assert!(ProcessUsage::by_process().cpu - process >= WORK);
    }

    #[test]
    fn used_memory_is_resident() {
        let spent = ProcessUsage::by_process();
        let memory = spent.memory.unwrap();
        assert!(memory.resident > 1 << 20 && memory.reserved > memory.resident, "{memory:?}");
        assert!(spent.storage.is_some());
    }
}
