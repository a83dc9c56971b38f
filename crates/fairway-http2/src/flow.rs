//! Windows of flow control (RFC 9113 §5.2, §6.9). Never knows whose they are.

/// "A sender MUST NOT allow a flow-control window to exceed 2^31-1 octets" (RFC 9113 §6.9.1).
pub(crate) const LARGEST: u32 = 0x7fff_ffff;

/// The window of a connection before any WINDOW_UPDATE, and of a stream before any SETTINGS (RFC 9113 §6.9.2).
pub(crate) const INITIAL: u32 = 65_535;

/// What the other side may send to us. Its size is what has not been announced back, is on the way or waits for its
/// consumer: a bound on the memory that the other side can fill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inbound {
    /// Below zero when a setting made it smaller than what had been sent by then.
    window: i32,
    /// What was consumed and not yet announced.
    credit: u32,
    most: u32,
    /// What the window is larger than it should be: an endpoint cannot take back what it announced, only not announce it
    /// again (RFC 9113 §6.9.2 for SETTINGS; WINDOW_UPDATE has no negative increment at all).
    surplus: u32,
}

impl Inbound {
    /// A full window of this size.
    pub(crate) fn new(most: u32) -> Self {
        Inbound { window: signed(most), credit: 0, most, surplus: 0 }
    }

    /// Its size.
    #[inline]
    pub(crate) fn most(&self) -> u32 {
        self.most
    }

    /// Counts a frame that came; `false` if the window has no room for it.
    #[inline]
    #[must_use]
    pub(crate) fn take(&mut self, bytes: u32) -> bool {
        // An empty frame needs no window (RFC 9113 §6.9.1).
        let fits = i64::from(bytes) <= i64::from(self.window.max(0));
        self.window -= if fits { signed(bytes) } else { 0 };
        fits
    }

    /// The peer acknowledged settings that make the window smaller by this: "a receiver ... MUST adjust the size of all
    /// stream flow-control windows" as the sender does (RFC 9113 §6.9.2).
    pub(crate) fn adjust(&mut self, by: u32) {
        self.most -= by;
        self.window -= signed(by);
    }

    /// What came was consumed. Gives the increment to announce as soon as it is half of the window.
    #[inline]
    #[must_use]
    pub(crate) fn give(&mut self, bytes: u32) -> Option<u32> {
        let swallowed = bytes.min(self.surplus);
        self.surplus -= swallowed;
        self.credit += bytes - swallowed;
        debug_assert!(
            i64::from(self.credit) + i64::from(self.window) <= i64::from(self.most) + i64::from(self.surplus),
            "nothing is consumed that did not come"
        );
        if self.credit == 0 || self.credit < self.most / 2 {
            return None;
        }
        self.window += signed(self.credit);
        Some(std::mem::take(&mut self.credit))
    }

    /// Becomes larger: gives the increment to announce.
    #[must_use]
    pub(crate) fn grow(&mut self, by: u32) -> u32 {
        let kept = by.min(self.surplus);
        self.surplus -= kept;
        self.most += by;
        let increment = by - kept + std::mem::take(&mut self.credit);
        self.window += signed(increment);
        increment
    }

    /// Becomes smaller as soon as enough of what was announced has come.
    pub(crate) fn shrink(&mut self, by: u32) {
        self.most -= by;
        let unannounced = by.min(self.credit);
        self.credit -= unannounced;
        self.surplus += by - unannounced;
    }

    /// By how much it is still too large.
    pub(crate) fn surplus(&self) -> u32 {
        self.surplus
    }
}

/// What we may send to the other side. A window "can become negative" when the initial size is reduced, and "a sender MUST
/// track the negative flow-control window" (RFC 9113 §6.9.2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outbound(i32);

/// No window is larger than what 31 bits can say, and none is below zero by more.
fn signed(bytes: u32) -> i32 {
    debug_assert!(bytes <= LARGEST);
    bytes as i32
}

impl Outbound {
    pub(crate) fn new(window: u32) -> Self {
        Outbound(signed(window))
    }

    /// What may be sent.
    #[inline]
    pub(crate) fn room(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Counts what was sent.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) {
        self.0 -= bytes as i32;
    }

    /// Whether the window would not be too large after that.
    pub(crate) fn can_change(self, by: i64) -> bool {
        i64::from(self.0) + by <= i64::from(LARGEST)
    }

    /// Changes the window; says whether it was closed and is open now, or `None` when it would be too large.
    #[inline]
    pub(crate) fn change(&mut self, by: i64) -> Option<bool> {
        if !self.can_change(by) {
            return None;
        }
        let window = (i64::from(self.0) + by) as i32;
        let opened = self.0 <= 0 && window > 0;
        self.0 = window;
        Some(opened)
    }
}

/// What a connection may grow its windows by, and has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Budget {
    /// Granted and not used.
    pub(crate) free: u32,
    /// What could have been used and was not there.
    pub(crate) wanted: u32,
    /// In use no more.
    pub(crate) returned: u32,
}

impl Budget {
    /// Takes this much, or notes that it is wanted.
    pub(crate) fn take(&mut self, bytes: u32) -> bool {
        let left = self.free.checked_sub(bytes);
        self.free = left.unwrap_or(self.free);
        self.wanted = if left.is_some() { 0 } else { bytes };
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn a_window_grows_at_once_and_shrinks_as_it_is_used() {
        let mut inbound = Inbound::new(100);
        assert!(inbound.take(100));
        assert_eq!(inbound.give(30), None);
        assert_eq!(inbound.grow(100), 130);
        assert!(inbound.take(130) && !inbound.take(1));
        inbound.shrink(100);
        assert_eq!((inbound.give(99), inbound.surplus()), (None, 1));
        assert_eq!((inbound.give(51), inbound.surplus()), (Some(50), 0));
        inbound.shrink(50);
        assert_eq!((inbound.grow(20), inbound.surplus()), (0, 30), "what is too large is used first");
    }

    #[test]
    fn rfc9113_6_9_2_a_setting_can_leave_less_than_nothing() {
        let mut inbound = Inbound::new(1000);
        assert!(inbound.take(600));
        inbound.adjust(900);
        assert!(inbound.take(0) && !inbound.take(1));
        assert_eq!(inbound.give(500), Some(500), "the peer has 400 less than nothing");
        assert!(inbound.take(0) && !inbound.take(1));
        assert_eq!(inbound.give(100), Some(100));
        assert!(inbound.take(100) && !inbound.take(1));
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

    proptest! {
        #[test]
        fn what_was_announced_and_not_consumed_is_the_window_and_its_surplus(
            steps in prop::collection::vec((0..4u8, 0..60u32), 0..200),
        ) {
            let mut inbound = Inbound::new(100);
            // What the peer may still send, what came and was not consumed, and what the size should be.
            let (mut announced, mut held, mut most) = (100, 0, 100);
            for (step, bytes) in steps {
                match step {
                    0 => {
                        prop_assert_eq!(inbound.take(bytes), bytes <= announced);
                        if bytes <= announced {
                            announced -= bytes;
                            held += bytes;
                        }
                    }
                    1 => {
                        let bytes = bytes.min(held);
                        held -= bytes;
                        announced += inbound.give(bytes).unwrap_or(0);
                    }
                    2 => {
                        announced += inbound.grow(bytes);
                        most += bytes;
                    }
                    _ => {
                        let bytes = bytes.min(most - 100);
                        inbound.shrink(bytes);
                        most -= bytes;
                    }
                }
                prop_assert_eq!(inbound.most(), most);
                prop_assert!(announced + held <= most + inbound.surplus());
                // What is not announced is less than half: the peer is never left without a window.
                prop_assert!(held > 0 || announced + most / 2 >= most, "{announced} of {most}");
            }
        }
    }
}
