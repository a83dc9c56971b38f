//! Decides when to refuse work for lack of memory, and when that has lasted too long to be explained by load.

use std::time::{Duration, Instant};

use super::reading::MemoryReading;

/// Shedding ends below this share of the budget, so that it does not flap.
const RECOVERY_RATIO: (u64, u64) = (95, 100);

/// What one exchange may hold in this process: both heads, pending output to either side, and a body buffered for
/// retries (docs/limits.md).
const EXCHANGE: u64 = 640 * 1024;

/// How long shedding may last without load that explains it.
const OUTLASTS: Duration = Duration::from_secs(10);

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryState {
    /// There is room.
    Welcoming,
    /// New work is refused.
    Shedding,
    /// New work has been refused for 10 s although the exchanges in flight do not explain it.
    Stuck,
}

/// Decides from consecutive readings.
pub(super) struct SheddingPolicy {
    verdict: MemoryState,
    /// Since when the exchanges in flight do not explain the shedding.
    unexplained: Option<Instant>,
}

impl SheddingPolicy {
    pub(super) const fn new() -> Self {
        Self { verdict: MemoryState::Welcoming, unexplained: None }
    }

    /// Updates the decision with a reading and the number of exchanges in flight.
    pub(super) fn judge(&mut self, reading: &MemoryReading, exchanges: u64, now: Instant) -> MemoryState {
        let enough = reading.budget / RECOVERY_RATIO.1 * RECOVERY_RATIO.0;
        let bound = if self.verdict == MemoryState::Welcoming { reading.budget } else { enough };
        if reading.used <= bound {
            *self = Self::new();
            return self.verdict;
        }
        let explained = exchanges.saturating_mul(EXCHANGE).saturating_add(reading.sockets);
        self.unexplained = match explained >= reading.used - enough {
            true => None,
            false => self.unexplained.or(Some(now)),
        };
        let since = self.unexplained;
        let stuck = since.is_some_and(|since| now.saturating_duration_since(since) >= OUTLASTS);
        self.verdict = if stuck { MemoryState::Stuck } else { MemoryState::Shedding };
        self.verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn reading(used: u64) -> MemoryReading {
        MemoryReading { used, budget: 1_000 * MIB, sockets: 0 }
    }

    #[test]
    fn sheds_above_the_budget_until_there_is_clearly_room() {
        let (mut judge, now) = (SheddingPolicy::new(), Instant::now());
        for (used, expected) in [
            (1_000, MemoryState::Welcoming),
            (1_001, MemoryState::Shedding),
            (960, MemoryState::Shedding),
            (950, MemoryState::Welcoming),
            (1_000, MemoryState::Welcoming),
        ] {
            assert_eq!(judge.judge(&reading(used * MIB), 0, now), expected, "{used}");
        }
    }

    #[test]
    fn shedding_explained_by_the_load_may_last_and_other_shedding_is_reported_after_ten_seconds() {
        let (mut judge, began) = (SheddingPolicy::new(), Instant::now());
        let mut at = |seconds, exchanges| {
            judge.judge(&reading(1_050 * MIB), exchanges, began + Duration::from_secs(seconds))
        };
        // 100 MiB must be freed: 160 exchanges may hold that much.
        assert_eq!(at(0, 160), MemoryState::Shedding);
        assert_eq!(at(600, 160), MemoryState::Shedding);
        assert_eq!(at(601, 159), MemoryState::Shedding, "the load is over");
        assert_eq!(at(610, 0), MemoryState::Shedding);
        assert_eq!(at(611, 0), MemoryState::Stuck);
        assert_eq!(at(612, 160), MemoryState::Shedding, "it is explained again");
        assert_eq!(at(621, 0), MemoryState::Shedding);
    }

    #[test]
    fn memory_of_sockets_counts_as_load() {
        let (mut judge, began) = (SheddingPolicy::new(), Instant::now());
        let full = MemoryReading { sockets: 150 * MIB, ..reading(1_100 * MIB) };
        judge.judge(&full, 0, began);
        assert_eq!(judge.judge(&full, 0, began + OUTLASTS), MemoryState::Shedding);
    }

    #[test]
    fn room_ends_all_of_it() {
        let (mut judge, began) = (SheddingPolicy::new(), Instant::now());
        judge.judge(&reading(1_100 * MIB), 0, began);
        assert_eq!(judge.judge(&reading(1_100 * MIB), 0, began + OUTLASTS), MemoryState::Stuck);
        assert_eq!(judge.judge(&reading(900 * MIB), 0, began + OUTLASTS), MemoryState::Welcoming);
        assert_eq!(judge.judge(&reading(1_100 * MIB), 0, began + 2 * OUTLASTS), MemoryState::Shedding);
    }
}
