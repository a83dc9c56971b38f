//! How long a peer may take, and how long it kept a window closed. Never decides what happens then.

/// How long a peer may take for each thing, in microseconds: an hour at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To acknowledge our settings (RFC 9113 §6.5.3).
    pub settings: u32,
    /// As a client to send a whole field block, from its first byte: one that has no end holds up its connection, and what
    /// came of it is kept. How long an endpoint may take for an answer is for whoever waits for it to say.
    pub head: u32,
    /// To open a window that a body waits for, for at least 4 KiB in all (CVE-2019-9517).
    pub window: u32,
    /// To say anything while streams are open, before it gets a PING.
    pub silence: u32,
    /// To say anything after that PING.
    pub answer: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            settings: 10_000_000,
            head: 10_000_000,
            window: 30_000_000,
            silence: 60_000_000,
            answer: 15_000_000,
        }
    }
}

/// When something must have happened, or never: half as large as an `Option`, of which every connection has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due(u64);

impl Due {
    pub(crate) const NEVER: Due = Due(u64::MAX);

    /// So many microseconds from now.
    pub(crate) fn after(now: u64, micros: u32) -> Due {
        Due(now.saturating_add(u64::from(micros)))
    }

    pub(crate) fn time(self) -> Option<u64> {
        (self != Due::NEVER).then_some(self.0)
    }
}

/// Bytes that count as progress: a peer that opens its window for less must not hold memory for ever (CVE-2019-9511).
const PROGRESS: u32 = 4096;

/// How long something waited for a window since it last made progress. Time in which the window was open is not the peer's
/// doing and does not count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// [`NEVER`] while nothing waits.
    since: u64,
    /// What was waited before, in microseconds.
    spent: u32,
    /// What was sent in between.
    sent: u32,
}

/// No time.
const NEVER: u64 = u64::MAX;

impl Default for Patience {
    fn default() -> Self {
        Patience { since: NEVER, spent: 0, sent: 0 }
    }
}

impl Patience {
    /// The window is closed from now on, if it was not before.
    pub(crate) fn wait(&mut self, now: u64) {
        self.since = self.since.min(now);
    }

    /// The window is open, or nothing waits for it any more.
    pub(crate) fn pause(&mut self, now: u64) {
        if self.since != NEVER {
            let since = std::mem::replace(&mut self.since, NEVER);
            let waited = u32::try_from(now.saturating_sub(since)).unwrap_or(u32::MAX);
            self.spent = self.spent.saturating_add(waited);
        }
    }

    /// So much was sent: enough of it is progress.
    pub(crate) fn sent(&mut self, bytes: u32) {
        self.sent = self.sent.saturating_add(bytes);
        if self.sent >= PROGRESS {
            (self.spent, self.sent) = (0, 0);
        }
    }

    /// When it is over, if nothing happens before.
    pub(crate) fn until(&self, micros: u32) -> Option<u64> {
        let waits = self.since != NEVER;
        waits.then(|| self.since.saturating_add(u64::from(micros.saturating_sub(self.spent))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_windows_are_no_progress_and_open_ones_cost_no_time() {
        let mut patience = Patience::default();
        assert_eq!(patience.until(30), None);
        patience.wait(5);
        patience.wait(9);
        assert_eq!(patience.until(30), Some(35));
        patience.pause(15);
        patience.sent(PROGRESS - 1);
        assert_eq!(patience.until(30), None);
        patience.wait(100);
        assert_eq!(patience.until(30), Some(120), "ten were spent before");
        patience.pause(105);
        patience.sent(1);
        patience.wait(200);
        assert_eq!(patience.until(30), Some(230));
    }
}
