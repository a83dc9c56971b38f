//! Whether this process has memory for more work. Frees nothing itself: refused requests and closed connections do.
//!
//! The budget is of the process, because that is what the system kills; every worker looks for itself, so that none
//! waits for another.

use std::cell::Cell;
use std::fs;

/// Shedding ends when the process is below this share of its budget, so that it does not begin and end all the time.
const ENOUGH: (u64, u64) = (95, 100);

/// Whether work is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Welcoming,
    Shedding,
}

/// What one worker knows of the memory of its process.
pub(super) struct Shedding {
    /// Bytes that may be resident; `None` for no such limit.
    budget: Option<u64>,
    state: Cell<State>,
}

impl Shedding {
    pub(super) fn new(budget: Option<u64>) -> Self {
        Self { budget, state: Cell::new(State::Welcoming) }
    }

    /// Whether new connections and requests are to be refused.
    pub(super) fn is_on(&self) -> bool {
        self.state.get() == State::Shedding
    }

    /// Whether there is anything to look at.
    pub(super) fn has_budget(&self) -> bool {
        self.budget.is_some()
    }

    /// Looks at the process. What cannot be read changes nothing.
    pub(super) fn look(&self) {
        if let Some(resident) = resident_bytes() {
            self.judge(resident);
        }
    }

    fn judge(&self, resident: u64) {
        let Some(budget) = self.budget else { return };
        let bound = if self.is_on() { budget / ENOUGH.1 * ENOUGH.0 } else { budget };
        let next = if resident > bound { State::Shedding } else { State::Welcoming };
        let before = self.state.replace(next);
        match (before, next) {
            (State::Welcoming, State::Shedding) => tracing::warn!(
                resident,
                budget,
                "above the memory budget (--max-memory): new requests are answered 503 until there is room"
            ),
            (State::Shedding, State::Welcoming) => {
                tracing::info!(resident, budget, "below the memory budget again: requests are served");
            }
            _ => {}
        }
    }
}

/// What of the process is in memory (proc(5), `VmRSS`).
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheds_above_the_budget_until_there_is_clearly_room() {
        let shedding = Shedding::new(Some(1_000));
        for (resident, on) in [(1_000, false), (1_001, true), (960, true), (950, false), (1_000, false)] {
            shedding.judge(resident);
            assert_eq!(shedding.is_on(), on, "{resident}");
        }
    }

    #[test]
    fn without_a_budget_nothing_is_shed() {
        let shedding = Shedding::new(None);
        shedding.judge(u64::MAX);
        assert!(!shedding.is_on());
    }

    #[test]
    fn the_process_has_memory() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
