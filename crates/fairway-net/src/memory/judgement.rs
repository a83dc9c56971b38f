//! When work is refused for want of memory, and when that has lasted too long to be explained by work.

use std::time::{Duration, Instant};

use super::reading::Reading;

/// Shedding ends when the process is below this share of its budget, so that it does not begin and end all the time.
const ENOUGH: (u64, u64) = (95, 100);

/// What one exchange may hold in this process: both heads, what waits to be written to either side, and the body that is
/// held for another attempt (docs/limits.md).
const EXCHANGE: u64 = 640 * 1024;

/// How long shedding may outlast the load that explains it.
const OUTLASTS: Duration = Duration::from_secs(10);

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is room.
    Welcoming,
    /// New work is refused.
    Shedding,
    /// New work has been refused for 10 s although what is in flight does not explain it.
    Stuck,
}

/// The judge, who remembers.
pub(super) struct Judge {
    verdict: Verdict,
    /// Since when what is in flight does not explain the shedding.
    unexplained: Option<Instant>,
}

impl Judge {
    pub(super) const fn new() -> Self {
        Self { verdict: Verdict::Welcoming, unexplained: None }
    }

    /// Judges what was read while so many exchanges were in flight.
    pub(super) fn judge(&mut self, reading: &Reading, exchanges: u64, now: Instant) -> Verdict {
        let enough = reading.budget / ENOUGH.1 * ENOUGH.0;
        let bound = if self.verdict == Verdict::Welcoming { reading.budget } else { enough };
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
        self.verdict = if stuck { Verdict::Stuck } else { Verdict::Shedding };
        self.verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn reading(used: u64) -> Reading {
        Reading { used, budget: 1_000 * MIB, sockets: 0 }
    }

    #[test]
    fn sheds_above_the_budget_until_there_is_clearly_room() {
        let (mut judge, now) = (Judge::new(), Instant::now());
        for (used, expected) in [
            (1_000, Verdict::Welcoming),
            (1_001, Verdict::Shedding),
            (960, Verdict::Shedding),
            (950, Verdict::Welcoming),
            (1_000, Verdict::Welcoming),
        ] {
            assert_eq!(judge.judge(&reading(used * MIB), 0, now), expected, "{used}");
        }
    }

    #[test]
    fn shedding_that_the_load_explains_may_last_and_what_outlasts_it_by_ten_seconds_is_told() {
        let (mut judge, began) = (Judge::new(), Instant::now());
        let mut at = |seconds, exchanges| {
            judge.judge(&reading(1_050 * MIB), exchanges, began + Duration::from_secs(seconds))
        };
        // 100 MiB must go: 160 exchanges may hold that much.
        assert_eq!(at(0, 160), Verdict::Shedding);
        assert_eq!(at(600, 160), Verdict::Shedding);
        assert_eq!(at(601, 159), Verdict::Shedding, "the load is over");
        assert_eq!(at(610, 0), Verdict::Shedding);
        assert_eq!(at(611, 0), Verdict::Stuck);
        assert_eq!(at(612, 160), Verdict::Shedding, "it is explained again");
        assert_eq!(at(621, 0), Verdict::Shedding);
    }

    #[test]
    fn what_sockets_hold_is_load() {
        let (mut judge, began) = (Judge::new(), Instant::now());
        let full = Reading { sockets: 150 * MIB, ..reading(1_100 * MIB) };
        judge.judge(&full, 0, began);
        assert_eq!(judge.judge(&full, 0, began + OUTLASTS), Verdict::Shedding);
    }

    #[test]
    fn room_ends_all_of_it() {
        let (mut judge, began) = (Judge::new(), Instant::now());
        judge.judge(&reading(1_100 * MIB), 0, began);
        assert_eq!(judge.judge(&reading(1_100 * MIB), 0, began + OUTLASTS), Verdict::Stuck);
        assert_eq!(judge.judge(&reading(900 * MIB), 0, began + OUTLASTS), Verdict::Welcoming);
        assert_eq!(judge.judge(&reading(1_100 * MIB), 0, began + 2 * OUTLASTS), Verdict::Shedding);
    }
}
