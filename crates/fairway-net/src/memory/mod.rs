//! Whether this process has memory for more work (docs/design/0014-memory-budget.md).
//!
//! One thread reads the usage ([`reading`]) and decides ([`pressure`]); workers read an atomic. Nothing is freed here:
//! workers that see shedding free their caches, and refused requests and closed connections free the rest.

mod budget;
mod cgroup;
mod file;
mod pressure;
mod reading;
mod sockets;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use budget::MemoryBudget;
pub(crate) use file::field;
use pressure::{MemoryState, SheddingPolicy};
use reading::{MemoryReader, MemoryReading};

pub use crate::sys::refuse_huge_pages;

/// Which unused memory to return to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnScope {
    /// What has been free for a while, as the allocator decides.
    Rested,
    /// All that the calling thread, or no thread, holds.
    All,
}

/// Returns freed memory to the system, which only the allocator can do. Any thread may call it at any time.
pub type ReturnMemory = fn(ReturnScope);

/// How often the memory is checked, by the reading thread and by the workers.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(100);
const LOOKS_PER_SECOND: u64 = 10;

/// No limit and no usage.
const NOTHING: MemoryReading = MemoryReading { used: 0, budget: 0, sockets: 0 };

/// The memory state of the process.
pub struct Memory {
    verdict: AtomicU8,
    used: AtomicU64,
    budget: AtomicU64,
    /// Per worker.
    exchanges: Vec<AtomicU64>,
}

/// The target of these log messages for `--log-level`, whichever crate they come from.
const TARGET: &str = "fairway_proxy::memory";

const WELCOMING: u8 = 0;
const SHEDDING: u8 = 1;
const STUCK: u8 = 2;

impl Memory {
    /// Starts the reading thread if there is a budget. It ends when the returned value is dropped. It also returns
    /// freed memory, because an idle process makes no other call that does.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn watch(
        budget: MemoryBudget,
        workers: usize,
        return_memory: ReturnMemory,
    ) -> std::io::Result<Arc<Self>> {
        let memory = Arc::new(Self::unwatched(workers));
        let Some(mut reader) = MemoryReader::open(budget) else { return Ok(memory) };
        let shared = Arc::downgrade(&memory);
        let mut judge = SheddingPolicy::new();
        let watch = move || {
            let mut looks = 0_u64;
            while let Some(memory) = shared.upgrade() {
                memory.note(reader.read(Instant::now()), &mut judge);
                if memory.is_shedding() {
                    return_memory(ReturnScope::All);
                } else if looks.is_multiple_of(LOOKS_PER_SECOND) {
                    return_memory(ReturnScope::Rested);
                }
                drop(memory);
                looks += 1;
                thread::sleep(CHECK_INTERVAL);
            }
        };
        thread::Builder::new().name("fairway-memory".into()).spawn(watch)?;
        Ok(memory)
    }

    /// Without a reading thread: there is always room.
    pub fn unwatched(workers: usize) -> Self {
        Self {
            verdict: AtomicU8::new(WELCOMING),
            used: AtomicU64::new(0),
            budget: AtomicU64::new(0),
            exchanges: (0..workers).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Whether to refuse new connections and requests.
    #[inline]
    pub fn is_shedding(&self) -> bool {
        self.verdict.load(Ordering::Relaxed) != WELCOMING
    }

    /// Whether shedding has lasted more than 10 s longer than the load explains.
    #[inline]
    pub fn is_stuck(&self) -> bool {
        self.verdict.load(Ordering::Relaxed) == STUCK
    }

    /// Bytes in use and the budget; 0 if nothing is read.
    pub fn figures(&self) -> (u64, u64) {
        (self.used.load(Ordering::Relaxed), self.budget.load(Ordering::Relaxed))
    }

    /// Sets the number of exchanges in flight of a worker.
    #[inline]
    pub fn note_exchanges(&self, worker: usize, exchanges: u64) {
        self.exchanges[worker].store(exchanges, Ordering::Relaxed);
    }

    /// A limit that was removed or cannot be read any more is no limit.
    fn note(&self, reading: Option<MemoryReading>, judge: &mut SheddingPolicy) {
        let reading = &reading.unwrap_or(NOTHING);
        let exchanges = self.exchanges.iter().map(|of_worker| of_worker.load(Ordering::Relaxed)).sum();
        let next = match judge.judge(reading, exchanges, Instant::now()) {
            MemoryState::Welcoming => WELCOMING,
            MemoryState::Shedding => SHEDDING,
            MemoryState::Stuck => STUCK,
        };
        self.used.store(reading.used, Ordering::Relaxed);
        self.budget.store(reading.budget, Ordering::Relaxed);
        let before = self.verdict.swap(next, Ordering::Relaxed);
        if before != next {
            log_level_change(next, before, reading, exchanges);
        }
    }
}

fn log_level_change(next: u8, before: u8, reading: &MemoryReading, exchanges: u64) {
    let MemoryReading { used, budget, sockets } = *reading;
    match (before, next) {
        (WELCOMING, _) => tracing::warn!(
            target: TARGET,
            used,
            sockets,
            budget,
            exchanges,
            "above the memory budget (--max-memory): new requests get 503 until there is room"
        ),
        (_, WELCOMING) => tracing::info!(
            target: TARGET,
            used,
            budget,
            "below the memory budget again: requests are served"
        ),
        (_, STUCK) => tracing::error!(
            target: TARGET,
            used,
            sockets,
            budget,
            exchanges,
            "above the memory budget for 10 s without a load that explains it: not ready until there is room"
        ),
        _ => tracing::warn!(
            target: TARGET,
            used,
            budget,
            exchanges,
            "still above the memory budget, but the load explains it again"
        ),
    }
}
