//! How much memory there is and how much is in use: of the cgroup that the system would end, and of this process.

use std::path::Path;
use std::time::Instant;

use super::budget::MemoryBudget;
use super::cgroup::{Cgroup, Version};
use super::file::{Kept, field};
use super::sockets::Sockets;

/// The share of a cgroup's limit that may be used.
const SHARE: u64 = 85;
/// The same where `--max-memory` says more.
const LARGEST_SHARE: u64 = 95;

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Bytes in use.
    pub(super) used: u64,
    /// Bytes that may be in use.
    pub(super) budget: u64,
    /// What of `used` is in the buffers of sockets.
    pub(super) sockets: u64,
}

/// Reads both.
pub(super) struct Reader {
    budget: MemoryBudget,
    status: Kept,
    cgroup: Option<Cgroup>,
    sockets: Option<Sockets>,
}

impl Reader {
    /// `None` where there is nothing to hold to, or nothing to read.
    pub(super) fn open(budget: MemoryBudget) -> Option<Self> {
        if budget == MemoryBudget::Unlimited {
            return None;
        }
        let cgroup = Cgroup::own();
        if budget == MemoryBudget::Cgroup && cgroup.is_none() {
            return None;
        }
        let status = Kept::open(Path::new("/proc/self/status"))?;
        Some(Self { budget, status, cgroup, sockets: Sockets::open() })
    }

    /// The one that is closer to its bound; `None` when there is no bound, or nothing can be read.
    pub(super) fn read(&mut self, now: Instant) -> Option<Reading> {
        let (process, cgroup) = (self.process(now), self.cgroup(now));
        [process, cgroup].into_iter().flatten().max_by_key(Reading::fullness)
    }

    /// What is resident, and what its sockets hold.
    fn process(&mut self, now: Instant) -> Option<Reading> {
        let MemoryBudget::Bytes(budget) = self.budget else { return None };
        let resident = field(&self.status.read()?, "VmRSS:")? * 1024;
        Some(self.with_sockets(Reading { used: resident, budget, sockets: 0 }, now))
    }

    /// What is charged to the cgroup. The kernel charges it for sockets in version 2 only.
    fn cgroup(&mut self, now: Instant) -> Option<Reading> {
        let cgroup = self.cgroup.as_ref()?;
        let limit = cgroup.limit()?;
        let share = limit / 100 * SHARE;
        let budget = match self.budget {
            MemoryBudget::Bytes(wanted) => wanted.clamp(share, limit / 100 * LARGEST_SHARE),
            MemoryBudget::Cgroup | MemoryBudget::Unlimited => share,
        };
        let charged = cgroup.charged()?;
        // The statistics are costly to the kernel; without them the figure is at most too large.
        let usage = if charged > near(budget) {
            cgroup.usage()?
        } else {
            super::cgroup::Usage { bytes: charged, sockets: 0 }
        };
        let reading = Reading { used: usage.bytes, budget, sockets: usage.sockets };
        Some(match cgroup.version() {
            Version::One => self.with_sockets(reading, now),
            Version::Two => reading,
        })
    }

    /// Adds what the sockets hold, exactly where it matters.
    fn with_sockets(&mut self, reading: Reading, now: Instant) -> Reading {
        let Some(sockets) = &mut self.sockets else { return reading };
        let at_most = sockets.at_most();
        if reading.used + at_most <= near(reading.budget) {
            return reading;
        }
        let held = sockets.own(now).min(at_most);
        Reading { used: reading.used + held, sockets: held, ..reading }
    }
}

/// Below this, a figure need not be exact.
fn near(budget: u64) -> u64 {
    budget / 100 * 90
}

impl Reading {
    /// In thousandths.
    fn fullness(&self) -> u64 {
        self.used.saturating_mul(1000) / self.budget.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_measured_with_what_it_holds() {
        let mut reader = Reader::open(MemoryBudget::Bytes(1 << 50)).unwrap();
        let before = reader.process(Instant::now()).unwrap();
        let ballast = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = reader.process(Instant::now()).unwrap();
        assert!(before.used > 1 << 20 && after.used > before.used + (32 << 20), "{before:?} {after:?}");
        drop(ballast);
    }

    #[test]
    fn without_a_budget_nothing_is_read() {
        assert!(Reader::open(MemoryBudget::Unlimited).is_none());
    }
}
