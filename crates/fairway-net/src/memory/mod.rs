//! Whether this process has memory for more work (docs/design/0014-memory-budget.md).
//!
//! One thread reads what the system says ([`reading`]) and judges it ([`judgement`]); workers look at an atomic. Nothing
//! is freed here: workers that see shedding free what they only keep for speed, refused requests and closed
//! connections free the rest.

mod budget;
mod cgroup;
mod file;
mod judgement;
mod reading;
mod sockets;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use budget::MemoryBudget;
pub(crate) use file::field;
use judgement::{Judge, Verdict};
use reading::{Reader, Reading};

pub use crate::sys::refuse_huge_pages;

/// Which of the memory that nothing uses is returned to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// What has been free for a while; the allocator decides for how long.
    Rested,
    /// All that the calling thread, or no thread, holds.
    All,
}

/// Returns freed memory to the system, which only the allocator of the process can. Every thread may call it at any time.
pub type ReturnMemory = fn(Freed);

/// How often the memory is looked at, by the thread that reads and by the workers.
pub const LOOK: Duration = Duration::from_millis(100);
const LOOKS_PER_SECOND: u64 = 10;

/// No limit, and nothing that would be compared with it.
const NOTHING: Reading = Reading { used: 0, budget: 0, sockets: 0 };

/// The state of the memory, as the whole process sees it.
pub struct Memory {
    verdict: AtomicU8,
    used: AtomicU64,
    budget: AtomicU64,
    /// Of each worker.
    exchanges: Vec<AtomicU64>,
}

/// The name by which filters of `--log-level` know these messages, whichever crate they come from.
const TARGET: &str = "fairway_proxy::memory";

const WELCOMING: u8 = 0;
const SHEDDING: u8 = 1;
const STUCK: u8 = 2;

impl Memory {
    /// Starts the thread that reads, where there is a budget. It ends with the last holder of what this returns. It also
    /// returns freed memory, because an idle process makes no other call that does.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn watch(
        budget: MemoryBudget,
        workers: usize,
        return_memory: ReturnMemory,
    ) -> std::io::Result<Arc<Self>> {
        let memory = Arc::new(Self::unwatched(workers));
        let Some(mut reader) = Reader::open(budget) else { return Ok(memory) };
        let shared = Arc::downgrade(&memory);
        let mut judge = Judge::new();
        let watch = move || {
            let mut looks = 0_u64;
            while let Some(memory) = shared.upgrade() {
                memory.note(reader.read(Instant::now()), &mut judge);
                if memory.is_shedding() {
                    return_memory(Freed::All);
                } else if looks.is_multiple_of(LOOKS_PER_SECOND) {
                    return_memory(Freed::Rested);
                }
                drop(memory);
                looks += 1;
                thread::sleep(LOOK);
            }
        };
        thread::Builder::new().name("fairway-memory".into()).spawn(watch)?;
        Ok(memory)
    }

    /// With nobody who reads: there is always room.
    pub fn unwatched(workers: usize) -> Self {
        Self {
            verdict: AtomicU8::new(WELCOMING),
            used: AtomicU64::new(0),
            budget: AtomicU64::new(0),
            exchanges: (0..workers).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Whether new connections and requests are to be refused.
    #[inline]
    pub fn is_shedding(&self) -> bool {
        self.verdict.load(Ordering::Relaxed) != WELCOMING
    }

    /// Whether that outlasts the load that explains it by more than 10 s.
    #[inline]
    pub fn is_stuck(&self) -> bool {
        self.verdict.load(Ordering::Relaxed) == STUCK
    }

    /// Bytes in use, and bytes that may be; 0 where nothing is read.
    pub fn figures(&self) -> (u64, u64) {
        (self.used.load(Ordering::Relaxed), self.budget.load(Ordering::Relaxed))
    }

    /// How many exchanges a worker has in flight.
    #[inline]
    pub fn note_exchanges(&self, worker: usize, exchanges: u64) {
        self.exchanges[worker].store(exchanges, Ordering::Relaxed);
    }

    /// A limit that is taken away, or can no longer be read, is none.
    fn note(&self, reading: Option<Reading>, judge: &mut Judge) {
        let reading = &reading.unwrap_or(NOTHING);
        let exchanges = self.exchanges.iter().map(|of_worker| of_worker.load(Ordering::Relaxed)).sum();
        let next = match judge.judge(reading, exchanges, Instant::now()) {
            Verdict::Welcoming => WELCOMING,
            Verdict::Shedding => SHEDDING,
            Verdict::Stuck => STUCK,
        };
        self.used.store(reading.used, Ordering::Relaxed);
        self.budget.store(reading.budget, Ordering::Relaxed);
        let before = self.verdict.swap(next, Ordering::Relaxed);
        if before != next {
            tell(next, before, reading, exchanges);
        }
    }
}

fn tell(next: u8, before: u8, reading: &Reading, exchanges: u64) {
    let Reading { used, budget, sockets } = *reading;
    match (before, next) {
        (WELCOMING, _) => tracing::warn!(
            target: TARGET,
            used,
            sockets,
            budget,
            exchanges,
            "above the memory budget (--max-memory): new requests are answered 503 until there is room"
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
            "above the memory budget: the load explains it again"
        ),
    }
}
