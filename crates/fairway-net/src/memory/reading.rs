//! Reads the memory budget and usage: of the cgroup, whose limit the OOM killer enforces, and of this process.

use std::path::Path;
use std::time::Instant;

use super::budget::MemoryBudget;
use super::cgroup::{Cgroup, CgroupVersion};
use super::file::{KernelFile, field};
use super::sockets::SocketMemory;

/// The share of a cgroup's limit that may be used, in percent.
const SHARE: u64 = 85;
/// The maximum share if `--max-memory` asks for more.
const LARGEST_SHARE: u64 = 95;

/// A reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryReading {
    /// Bytes in use.
    pub(super) used: u64,
    /// Bytes that may be used.
    pub(super) budget: u64,
    /// The part of `used` in socket buffers.
    pub(super) sockets: u64,
}

/// Reads the usage of the process and its cgroup.
pub(super) struct MemoryReader {
    budget: MemoryBudget,
    status: KernelFile,
    cgroup: Option<Cgroup>,
    sockets: Option<SocketMemory>,
}

impl MemoryReader {
    /// `None` if there is no budget, or nothing can be read.
    pub(super) fn open(budget: MemoryBudget) -> Option<Self> {
        if budget == MemoryBudget::Unlimited {
            return None;
        }
        let cgroup = Cgroup::of_this_process();
        if budget == MemoryBudget::Cgroup && cgroup.is_none() {
            return None;
        }
        let status = KernelFile::open(Path::new("/proc/self/status"))?;
        Some(Self { budget, status, cgroup, sockets: SocketMemory::open() })
    }

    /// The reading that is closer to its budget; `None` without a budget or if nothing can be read.
    pub(super) fn read(&mut self, now: Instant) -> Option<MemoryReading> {
        let (process, cgroup) = (self.process(now), self.cgroup(now));
        [process, cgroup].into_iter().flatten().max_by_key(MemoryReading::fullness)
    }

    /// Resident memory and socket buffers of this process.
    fn process(&mut self, now: Instant) -> Option<MemoryReading> {
        let MemoryBudget::Bytes(budget) = self.budget else { return None };
        let resident = field(&self.status.read()?, "VmRSS:")? * 1024;
        Some(self.with_sockets(MemoryReading { used: resident, budget, sockets: 0 }, now))
    }

    /// What is charged to the cgroup. Version 2 includes sockets.
    fn cgroup(&mut self, now: Instant) -> Option<MemoryReading> {
        let cgroup = self.cgroup.as_ref()?;
        let limit = cgroup.limit()?;
        let share = limit / 100 * SHARE;
        let budget = match self.budget {
            MemoryBudget::Bytes(wanted) => wanted.clamp(share, limit / 100 * LARGEST_SHARE),
            MemoryBudget::Cgroup | MemoryBudget::Unlimited => share,
        };
        let charged = cgroup.charged()?;
        // The statistics are expensive for the kernel; without them the value is at most too high.
        let usage = if charged > near(budget) {
            cgroup.usage()?
        } else {
            super::cgroup::CgroupUsage { bytes: charged, sockets: 0 }
        };
        let reading = MemoryReading { used: usage.bytes, budget, sockets: usage.sockets };
        Some(match cgroup.version() {
            CgroupVersion::One => self.with_sockets(reading, now),
            CgroupVersion::Two => reading,
        })
    }

    /// Adds the memory of sockets, exactly if it matters.
    fn with_sockets(&mut self, reading: MemoryReading, now: Instant) -> MemoryReading {
        let Some(sockets) = &mut self.sockets else { return reading };
        let at_most = sockets.at_most();
        if reading.used + at_most <= near(reading.budget) {
            return reading;
        }
        let usage = sockets.own_usage(now).min(at_most);
        MemoryReading { used: reading.used + usage, sockets: usage, ..reading }
    }
}

/// Below this, a value need not be exact.
fn near(budget: u64) -> u64 {
    budget / 100 * 90
}

impl MemoryReading {
    /// In thousandths.
    fn fullness(&self) -> u64 {
        self.used.saturating_mul(1000) / self.budget.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_a_process_includes_its_sockets() {
        let mut reader = MemoryReader::open(MemoryBudget::Bytes(1 << 50)).unwrap();
        let before = reader.process(Instant::now()).unwrap();
        let ballast = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = reader.process(Instant::now()).unwrap();
        assert!(before.used > 1 << 20 && after.used > before.used + (32 << 20), "{before:?} {after:?}");
        drop(ballast);
    }

    #[test]
    fn without_a_budget_usage_is_not_read() {
        assert!(MemoryReader::open(MemoryBudget::Unlimited).is_none());
    }
}
