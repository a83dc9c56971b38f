//! Timeouts for a peer, and how long it has kept a window closed.

/// The peer's timeouts in microseconds, at most an hour each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To acknowledge our SETTINGS (RFC 9113 §6.5.3).
    pub settings: u32,
    /// For a client to send a complete field block, from its first byte: an incomplete one blocks the connection and
    /// occupies memory. How long an endpoint may take to respond is the exchange's decision.
    pub head: u32,
    /// To open a window that a body waits for, by at least 4 KiB in total (CVE-2019-9517).
    pub window: u32,
    /// To send anything while streams are open, before it gets a PING.
    pub silence: u32,
    /// To send anything after that PING.
    pub response: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            settings: 10_000_000,
            head: 10_000_000,
            window: 30_000_000,
            silence: 60_000_000,
            response: 15_000_000,
        }
    }
}

/// A deadline or never: half the size of an `Option`, and every connection has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due(u64);

impl Due {
    pub(crate) const NEVER: Due = Due(u64::MAX);

    /// This many microseconds from now.
    pub(crate) fn after(now: u64, micros: u32) -> Due {
        Due(now.saturating_add(u64::from(micros)))
    }

    pub(crate) fn time(self) -> Option<u64> {
        (self != Due::NEVER).then_some(self.0)
    }
}

/// Bytes that count as progress: a peer that opens its window by less must not occupy memory for ever (CVE-2019-9511).
const MIN_PROGRESS_BYTES: u32 = 4096;

/// How long something has waited for a window since it last made progress. Time with an open window is not the peer's
/// fault and does not count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowStall {
    /// [`NOT_WAITING`] while nothing waits.
    since: u64,
    /// Time waited before, in microseconds.
    waited: u32,
    /// Bytes sent in between.
    sent_bytes: u32,
}

/// No time.
const NOT_WAITING: u64 = u64::MAX;

impl Default for WindowStall {
    fn default() -> Self {
        WindowStall { since: NOT_WAITING, waited: 0, sent_bytes: 0 }
    }
}

impl WindowStall {
    /// Starts waiting: the window is closed.
    pub(crate) fn start(&mut self, now: u64) {
        self.since = self.since.min(now);
    }

    /// Stops waiting: the window is open, or nothing waits for it any more.
    pub(crate) fn pause(&mut self, now: u64) {
        if self.since != NOT_WAITING {
            let since = std::mem::replace(&mut self.since, NOT_WAITING);
            let waited = u32::try_from(now.saturating_sub(since)).unwrap_or(u32::MAX);
            self.waited = self.waited.saturating_add(waited);
        }
    }

    /// Records sent bytes: enough of them are progress.
    pub(crate) fn record_sent(&mut self, bytes: u32) {
        self.sent_bytes = self.sent_bytes.saturating_add(bytes);
        if self.sent_bytes >= MIN_PROGRESS_BYTES {
            (self.waited, self.sent_bytes) = (0, 0);
        }
    }

    /// When the timeout expires, if nothing happens before.
    pub(crate) fn expires_at(&self, micros: u32) -> Option<u64> {
        let waits = self.since != NOT_WAITING;
        waits.then(|| self.since.saturating_add(u64::from(micros.saturating_sub(self.waited))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_windows_are_no_progress_and_open_ones_cost_no_time() {
        let mut patience = WindowStall::default();
        assert_eq!(patience.expires_at(30), None);
        patience.start(5);
        patience.start(9);
        assert_eq!(patience.expires_at(30), Some(35));
        patience.pause(15);
        patience.record_sent(MIN_PROGRESS_BYTES - 1);
        assert_eq!(patience.expires_at(30), None);
        patience.start(100);
        assert_eq!(patience.expires_at(30), Some(120), "ten were spent before");
        patience.pause(105);
        patience.record_sent(1);
        patience.start(200);
        assert_eq!(patience.expires_at(30), Some(230));
    }
}
