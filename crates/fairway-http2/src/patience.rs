//! How long a peer may leave a window closed. Never decides what happens then.

/// Bytes that count as progress: a peer that opens its window for less must not hold memory for ever (CVE-2019-9511).
pub(crate) const PROGRESS: u32 = 4096;

/// Since when something waits for a window, and what was sent since.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Patience {
    since: Option<u64>,
    sent: u32,
}

impl Patience {
    /// Something waits from now on, if it did not before. Gives since when it does.
    pub(crate) fn wait(&mut self, now: u64) -> u64 {
        if self.since.is_none() {
            *self = Patience { since: Some(now), sent: 0 };
        }
        self.since.unwrap_or(now)
    }

    /// So much was sent: enough of it is progress.
    pub(crate) fn sent(&mut self, bytes: u32) {
        self.sent = self.sent.saturating_add(bytes);
        if self.sent >= PROGRESS {
            self.end();
        }
    }

    /// Nothing waits any more.
    pub(crate) fn end(&mut self) {
        *self = Patience::default();
    }

    /// When it is over.
    pub(crate) fn until(&self, micros: u32) -> Option<u64> {
        self.since.map(|since| since.saturating_add(u64::from(micros)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_windows_are_no_progress() {
        let mut patience = Patience::default();
        assert_eq!(patience.until(30), None);
        assert_eq!((patience.wait(5), patience.wait(9)), (5, 5));
        patience.sent(PROGRESS - 1);
        assert_eq!((patience.until(30), patience.wait(10)), (Some(35), 5));
        patience.sent(1);
        assert_eq!((patience.until(30), patience.wait(11)), (None, 11));
        patience.end();
        assert_eq!(patience.until(30), None);
    }
}
