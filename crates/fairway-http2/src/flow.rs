//! Windows of flow control (RFC 9113 §5.2, §6.9). Never knows whose they are.

/// "A sender MUST NOT allow a flow-control window to exceed 2^31-1 octets" (RFC 9113 §6.9.1).
pub(crate) const LARGEST: u32 = 0x7fff_ffff;

/// The window of a connection before any WINDOW_UPDATE, and of a stream before any SETTINGS (RFC 9113 §6.9.2).
pub(crate) const INITIAL: u32 = 65_535;

/// What the other side may send to us.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inbound {
    window: u32,
    /// What was consumed and not yet announced.
    credit: u32,
    most: u32,
}

impl Inbound {
    /// A full window of this size.
    pub(crate) fn new(most: u32) -> Self {
        Inbound { window: most, credit: 0, most }
    }

    /// Counts a frame that came; `false` if the window has no room for it.
    #[inline]
    #[must_use]
    pub(crate) fn take(&mut self, bytes: u32) -> bool {
        let left = self.window.checked_sub(bytes);
        self.window = left.unwrap_or(self.window);
        left.is_some()
    }

    /// What came was consumed. Gives the increment to announce as soon as it is half of the window.
    #[inline]
    #[must_use]
    pub(crate) fn give(&mut self, bytes: u32) -> Option<u32> {
        self.credit += bytes;
        debug_assert!(self.credit + self.window <= self.most, "nothing is consumed that did not come");
        if self.credit == 0 || self.credit < self.most / 2 {
            return None;
        }
        self.window += self.credit;
        Some(std::mem::take(&mut self.credit))
    }
}

/// What we may send to the other side. A window "can become negative" when the initial size is reduced, and "a sender MUST
/// track the negative flow-control window" (RFC 9113 §6.9.2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outbound(i64);

impl Outbound {
    pub(crate) fn new(window: u32) -> Self {
        Outbound(i64::from(window))
    }

    /// What may be sent.
    #[inline]
    pub(crate) fn room(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Counts what was sent.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) {
        self.0 -= bytes as i64;
    }

    /// Changes the window; says whether it was closed and is open now, or `None` when it would be too large.
    #[inline]
    pub(crate) fn change(&mut self, by: i64) -> Option<bool> {
        let window = self.0 + by;
        if window > i64::from(LARGEST) {
            return None;
        }
        let opened = self.0 <= 0 && window > 0;
        self.0 = window;
        Some(opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_stays_within_the_window_and_credit_is_announced_at_half() {
        let mut inbound = Inbound::new(100);
        assert!(inbound.take(60) && !inbound.take(41) && inbound.take(40) && !inbound.take(1));
        assert_eq!(inbound.give(49), None);
        assert!(!inbound.take(1));
        assert_eq!(inbound.give(1), Some(50));
        assert!(inbound.take(50) && !inbound.take(1));
    }

    #[test]
    fn rfc9113_6_9_1_windows_do_not_exceed_their_largest() {
        let mut outbound = Outbound::new(LARGEST);
        assert_eq!(outbound.change(1), None);
        outbound.take(1);
        assert_eq!(outbound.change(1), Some(false));
    }

    #[test]
    fn rfc9113_6_9_2_windows_can_be_negative() {
        let mut outbound = Outbound::new(10);
        outbound.take(10);
        assert_eq!(outbound.change(-5), Some(false));
        assert_eq!(outbound.room(), 0);
        assert_eq!(outbound.change(5), Some(false));
        assert_eq!((outbound.change(7), outbound.room()), (Some(true), 7));
    }
}
