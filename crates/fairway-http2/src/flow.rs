//! Flow-control windows (RFC 9113 §5.2, §6.9).

/// "A sender MUST NOT allow a flow-control window to exceed 2^31-1 octets" (RFC 9113 §6.9.1).
pub(crate) const MAX_WINDOW: u32 = 0x7fff_ffff;

/// The window of a connection before any WINDOW_UPDATE, and of a stream before any SETTINGS (RFC 9113 §6.9.2).
pub(crate) const INITIAL_WINDOW: u32 = 65_535;

/// The window for received data. Its size is the sum of what was not announced again, is in flight, or waits to be
/// consumed: a bound on the memory that the other side can fill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inbound {
    /// Negative after a setting made it smaller than what was already sent.
    window: i32,
    /// Consumed but not announced yet.
    credit: u32,
    size: u32,
    /// How much larger the window is than it should be: an endpoint cannot take back what it announced, only not
    /// announce it again (RFC 9113 §6.9.2 for SETTINGS; WINDOW_UPDATE has no negative increment at all).
    surplus: u32,
}

impl Inbound {
    /// An open window of this size.
    pub(crate) fn new(size: u32) -> Self {
        Inbound { window: to_signed(size), credit: 0, size, surplus: 0 }
    }

    /// Its size.
    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Counts a received frame; `false` if the window has no room for it.
    #[inline]
    #[must_use]
    pub(crate) fn receive(&mut self, bytes: u32) -> bool {
        // An empty frame needs no window (RFC 9113 §6.9.1).
        let fits = i64::from(bytes) <= i64::from(self.window.max(0));
        self.window -= if fits { to_signed(bytes) } else { 0 };
        fits
    }

    /// The peer acknowledged settings that shrink the window by this: "a receiver ... MUST adjust the size of all
    /// stream flow-control windows" as the sender does (RFC 9113 §6.9.2).
    pub(crate) fn shrink_acknowledged(&mut self, decrease: u32) {
        self.size -= decrease;
        self.window -= to_signed(decrease);
    }

    /// Received data was consumed. Returns the increment to announce once it is half of the window.
    #[inline]
    #[must_use]
    pub(crate) fn consume(&mut self, bytes: u32) -> Option<u32> {
        let swallowed = bytes.min(self.surplus);
        self.surplus -= swallowed;
        self.credit += bytes - swallowed;
        debug_assert!(
            i64::from(self.credit) + i64::from(self.window) <= i64::from(self.size) + i64::from(self.surplus),
            "nothing is consumed that did not come"
        );
        if self.credit == 0 || self.credit < self.size / 2 {
            return None;
        }
        self.window += to_signed(self.credit);
        Some(std::mem::take(&mut self.credit))
    }

    /// Grows the window. Returns the increment to announce.
    #[must_use]
    pub(crate) fn grow(&mut self, increase: u32) -> u32 {
        let absorbed = increase.min(self.surplus);
        self.surplus -= absorbed;
        self.size += increase;
        let increment = increase - absorbed + std::mem::take(&mut self.credit);
        self.window += to_signed(increment);
        increment
    }

    /// Shrinks the window as soon as enough of what was announced has arrived.
    pub(crate) fn shrink(&mut self, decrease: u32) {
        self.size -= decrease;
        let unannounced = decrease.min(self.credit);
        self.credit -= unannounced;
        self.surplus += decrease - unannounced;
    }

    /// How much it is still too large.
    pub(crate) fn surplus(&self) -> u32 {
        self.surplus
    }
}

/// The window for sent data. It "can become negative" when the initial size is reduced, and "a sender MUST track the
/// negative flow-control window" (RFC 9113 §6.9.2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outbound(i32);

/// Windows have at most 31 bits, and are never further below zero.
fn to_signed(bytes: u32) -> i32 {
    debug_assert!(bytes <= MAX_WINDOW);
    bytes as i32
}

impl Outbound {
    pub(crate) fn new(window: u32) -> Self {
        Outbound(to_signed(window))
    }

    /// What may be sent.
    #[inline]
    pub(crate) fn room(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Counts what was sent.
    #[inline]
    pub(crate) fn send(&mut self, bytes: usize) {
        self.0 -= bytes as i32;
    }

    /// Whether the window would stay in range.
    pub(crate) fn can_change(self, change: i64) -> bool {
        i64::from(self.0) + change <= i64::from(MAX_WINDOW)
    }

    /// Changes the window. Returns whether it was closed and is now open; `None` if it would be too large.
    #[inline]
    pub(crate) fn change(&mut self, change: i64) -> Option<bool> {
        if !self.can_change(change) {
            return None;
        }
        let window = (i64::from(self.0) + change) as i32;
        let opened = self.0 <= 0 && window > 0;
        self.0 = window;
        Some(opened)
    }
}

/// How much a connection may grow its windows, and has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WindowBudget {
    /// Granted and unused.
    pub(crate) available: u32,
    /// Growth that was needed but not granted.
    pub(crate) wanted_window: u32,
    /// Growth that is no longer used.
    pub(crate) returned: u32,
}

impl WindowBudget {
    /// Takes this much, or records that it is wanted.
    pub(crate) fn try_take(&mut self, bytes: u32) -> bool {
        let remaining = self.available.checked_sub(bytes);
        self.available = remaining.unwrap_or(self.available);
        self.wanted_window = if remaining.is_some() { 0 } else { bytes };
        remaining.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn received_data_stays_within_the_window_and_credit_is_announced_at_half() {
        let mut inbound = Inbound::new(100);
        assert!(inbound.receive(60) && !inbound.receive(41) && inbound.receive(40) && !inbound.receive(1));
        assert_eq!(inbound.consume(49), None);
        assert!(!inbound.receive(1));
        assert_eq!(inbound.consume(1), Some(50));
        assert!(inbound.receive(50) && !inbound.receive(1));
    }

    #[test]
    fn a_window_grows_at_once_and_shrinks_as_it_is_used() {
        let mut inbound = Inbound::new(100);
        assert!(inbound.receive(100));
        assert_eq!(inbound.consume(30), None);
        assert_eq!(inbound.grow(100), 130);
        assert!(inbound.receive(130) && !inbound.receive(1));
        inbound.shrink(100);
        assert_eq!((inbound.consume(99), inbound.surplus()), (None, 1));
        assert_eq!((inbound.consume(51), inbound.surplus()), (Some(50), 0));
        inbound.shrink(50);
        assert_eq!((inbound.grow(20), inbound.surplus()), (0, 30), "what is too large is used first");
    }

    #[test]
    fn rfc9113_6_9_2_a_setting_can_make_a_window_negative() {
        let mut inbound = Inbound::new(1000);
        assert!(inbound.receive(600));
        inbound.shrink_acknowledged(900);
        assert!(inbound.receive(0) && !inbound.receive(1));
        assert_eq!(inbound.consume(500), Some(500), "the peer has 400 less than nothing");
        assert!(inbound.receive(0) && !inbound.receive(1));
        assert_eq!(inbound.consume(100), Some(100));
        assert!(inbound.receive(100) && !inbound.receive(1));
    }

    #[test]
    fn rfc9113_6_9_1_windows_do_not_exceed_their_largest() {
        let mut outbound = Outbound::new(MAX_WINDOW);
        assert_eq!(outbound.change(1), None);
        outbound.send(1);
        assert_eq!(outbound.change(1), Some(false));
    }

    #[test]
    fn rfc9113_6_9_2_windows_can_be_negative() {
        let mut outbound = Outbound::new(10);
        outbound.send(10);
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
            // What the peer may still send, what was received and not consumed, and the intended size.
            let (mut announced, mut held, mut most) = (100, 0, 100);
            for (step, bytes) in steps {
                match step {
                    0 => {
                        prop_assert_eq!(inbound.receive(bytes), bytes <= announced);
                        if bytes <= announced {
                            announced -= bytes;
                            held += bytes;
                        }
                    }
                    1 => {
                        let bytes = bytes.min(held);
                        held -= bytes;
                        announced += inbound.consume(bytes).unwrap_or(0);
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
                prop_assert_eq!(inbound.size(), most);
                prop_assert!(announced + held <= most + inbound.surplus());
                // Less than half is unannounced: the peer always has a window.
                prop_assert!(held > 0 || announced + most / 2 >= most, "{announced} of {most}");
            }
        }
    }
}
