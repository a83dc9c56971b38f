//! What the process and its threads have spent, as the system counts it. Reads only when asked, and judges nothing.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::memory::field;

/// What the process has spent until now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Time on CPUs, of all threads together.
    pub cpu: Duration,
    /// `None` where the system does not say.
    pub memory: Option<MemoryUse>,
    /// `None` where the system does not say.
    pub storage: Option<StorageUse>,
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryUse {
    /// In use now.
    pub resident: u64,
    /// Addresses that are taken.
    pub reserved: u64,
}

/// Bytes that went to and came from storage; sockets do not count.
#[derive(Clone, Copy, Debug)]
pub struct StorageUse {
    /// That were fetched.
    pub read: u64,
    /// That were caused to be written.
    pub written: u64,
}

impl Spent {
    /// What this process has spent.
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

/// Time that the calling thread has spent on CPUs.
#[must_use]
pub fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

fn clock(clock: ClockId) -> Duration {
    // These clocks begin at zero and never go back.
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
        let (thread, process) = (thread_cpu(), Spent::by_process().cpu);
        thread::spawn(|| work_for(WORK)).join().unwrap();
        assert!(thread_cpu() - thread < WORK, "another thread did the work");
        assert!(Spent::by_process().cpu - process >= WORK);
    }

    #[test]
    fn memory_that_is_used_is_resident() {
        let spent = Spent::by_process();
        let memory = spent.memory.unwrap();
        assert!(memory.resident > 1 << 20 && memory.reserved > memory.resident, "{memory:?}");
        assert!(spent.storage.is_some());
    }
}
