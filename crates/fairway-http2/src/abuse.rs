//! The abuse account of a connection, for HTTP/2 and HTTP/3: what a peer does that costs more than it is worth. It is a
//! leaky bucket that completed requests refill, because lifetime counters would end honest connections. Does not
//! interpret errors.

/// Points at which the connection ends.
const MAX_POINTS: u64 = 1_000;
/// From here on, the connection accepts no new streams.
const WARNING_POINTS: u64 = 750;
/// The time in which one point drains: 50 a second.
const MICROS_PER_POINT: u64 = 20_000;
/// Points credited for a completed request.
const POINTS_PER_COMPLETED_REQUEST: u64 = 4;
/// The smallest useful message: gRPC puts five bytes in front of each, and a WebSocket client six.
const MIN_MESSAGE_BYTES: u32 = 8;

/// The cost of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Weight {
    /// PRIORITY, GOAWAY, an unknown or control frame, an answer to PING, a small DATA frame too many, a reset after our
    /// head, a frame on a closed stream, a needless WINDOW_UPDATE, a QPACK instruction too many, a rejected request.
    Light = 1,
    /// PING while nothing is sent; in HTTP/3 an empty DATA frame or a stream of an unknown type.
    Medium = 2,
    /// A reset before our head, a stream that we reset because of the peer, an empty HTTP/2 frame, repeated SETTINGS.
    Heavy = 4,
}

/// The result of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// No action needed.
    Good,
    /// The connection should end once its streams have ended.
    Warned,
    /// The connection ends now.
    Overdrawn,
}

/// The account of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Account {
    /// The points, as the time they take to drain in microseconds.
    drain_micros: u64,
    /// When `level` was last updated.
    updated_at: u64,
    /// WINDOW_UPDATE frames that sent data and opened streams justify, minus those received.
    window_update_allowance: i64,
    /// Whether DATA was sent since the last PING.
    has_sent_data: bool,
}

impl Account {
    /// Charges `weight` `count` times; `now` is in microseconds.
    pub fn charge(&mut self, now: u64, weight: Weight, count: u32) -> Standing {
        self.drain_micros = self.drain_micros.saturating_sub(now.saturating_sub(self.updated_at))
            + u64::from(count) * weight as u64 * MICROS_PER_POINT;
        self.updated_at = self.updated_at.max(now);
        match self.drain_micros {
            level if level >= MAX_POINTS * MICROS_PER_POINT => Standing::Overdrawn,
            level if level >= WARNING_POINTS * MICROS_PER_POINT => Standing::Warned,
            _ => Standing::Good,
        }
    }

    /// Refunds this many light charges.
    pub(crate) fn refund(&mut self, count: u32) {
        self.drain_micros = self.drain_micros.saturating_sub(u64::from(count) * MICROS_PER_POINT);
    }

    /// Credits a completed request.
    pub fn completed(&mut self) {
        self.drain_micros = self.drain_micros.saturating_sub(POINTS_PER_COMPLETED_REQUEST * MICROS_PER_POINT);
    }

    /// A stream was opened: its windows may be announced.
    pub(crate) fn opened(&mut self) {
        self.window_update_allowance += 2;
    }

    /// A DATA frame was sent.
    #[inline]
    pub(crate) fn sent_data(&mut self) {
        self.window_update_allowance += 20;
        self.has_sent_data = true;
    }

    /// Counts a PING. Returns whether no DATA was sent since the last one.
    pub(crate) fn is_idle_ping(&mut self) -> bool {
        !std::mem::take(&mut self.has_sent_data)
    }

    /// Counts a WINDOW_UPDATE. Returns whether it is in excess of what sent data justifies: one for the connection and
    /// one for the stream after each tenth of a DATA frame.
    pub(crate) fn is_needless_update(&mut self) -> bool {
        self.window_update_allowance -= 1;
        self.window_update_allowance < -1
    }
}

/// The unread small DATA frames of a stream. A window may be full of small messages, however slow their reader is; only
/// frames beyond that number are charged, until they are read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SmallFrames {
    unread: u32,
    charged: u32,
}

impl SmallFrames {
    /// Counts a small frame on a stream with this window. Returns whether it is charged.
    pub(crate) fn charge_frame(&mut self, window: u32) -> bool {
        self.unread = self.unread.saturating_add(1);
        let is_charged = self.unread > window / MIN_MESSAGE_BYTES;
        self.charged += u32::from(is_charged);
        is_charged
    }

    /// `bytes` of the `held_bytes` bytes were read. Returns how many charges to refund. All frames count as equally long, so
    /// reading the last byte reads all of them.
    pub(crate) fn read(&mut self, bytes: u32, held_bytes: u32, window: u32) -> u32 {
        if self.unread == 0 || bytes == 0 {
            return 0;
        }
        let read = (u64::from(self.unread) * u64::from(bytes)).div_ceil(u64::from(held_bytes.max(bytes)));
        self.unread -= read as u32;
        let refunded = self.charged.saturating_sub(self.unread.saturating_sub(window / MIN_MESSAGE_BYTES));
        self.charged -= refunded;
        refunded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_warned_at_750_and_ended_at_1000() {
        let mut account = Account::default();
        let standings: Vec<_> = (0..250).map(|_| account.charge(5, Weight::Heavy, 1)).collect();
        let first = |standing| standings.iter().position(|&it| it == standing).map(|at| at + 1);
        // The first 5 microseconds drained nothing.
        assert_eq!((first(Standing::Warned), first(Standing::Overdrawn)), (Some(188), Some(250)));
    }

    #[test]
    fn fifty_points_drain_in_a_second() {
        let mut account = Account::default();
        for second in 0..1_000 {
            assert_eq!(account.charge(second * 1_000_000, Weight::Medium, 25), Standing::Good);
        }
        for second in 1_000..1_020 {
            account.charge(second * 1_000_000, Weight::Light, 100);
        }
        assert_eq!(account.charge(1_019_000_000, Weight::Light, 1), Standing::Overdrawn);
        assert_eq!(account.charge(1_040_000_000, Weight::Light, 1), Standing::Good);
    }

    #[test]
    fn completed_requests_and_read_frames_pay() {
        let mut account = Account::default();
        for _ in 0..10_000 {
            assert_eq!(account.charge(0, Weight::Heavy, 1), Standing::Good);
            account.completed();
            assert_eq!(account.charge(0, Weight::Light, 1), Standing::Good);
            account.refund(1);
        }
    }

    #[test]
    fn small_frames_beyond_a_window_of_messages_are_charged_until_they_are_read() {
        let window = 100 * MIN_MESSAGE_BYTES;
        let mut small = SmallFrames::default();
        assert_eq!((0..150).filter(|_| small.charge_frame(window)).count(), 50);
        // A queue of two-byte frames that is read as fast as it fills.
        for _ in 0..1_000 {
            assert_eq!(small.read(2, 300, window), 1);
            assert!(small.charge_frame(window));
        }
        let refunded: u32 = (0..100).map(|at| small.read(3, 300 - 3 * at, window)).sum();
        assert_eq!((refunded, small.unread, small.charged), (50, 0, 0));
    }

    #[test]
    fn charges_come_back_as_a_whole_whatever_became_of_the_window() {
        let mut small = SmallFrames::default();
        assert_eq!((0..150).filter(|_| small.charge_frame(100 * MIN_MESSAGE_BYTES)).count(), 50);
        assert_eq!(small.read(0, 300, 10 * MIN_MESSAGE_BYTES), 0);
        assert_eq!(small.read(2, 300, 120 * MIN_MESSAGE_BYTES), 21, "149 are left, and 29 charged");
        assert_eq!(small.read(298, 298, 10 * MIN_MESSAGE_BYTES), 29);
        assert_eq!(small.read(2, 2, 10 * MIN_MESSAGE_BYTES), 0);
    }

    #[test]
    fn window_updates_must_follow_sent_data() {
        let mut account = Account::default();
        account.opened();
        let needless: Vec<_> = (0..5).map(|_| account.is_needless_update()).collect();
        assert_eq!(needless, [false, false, false, true, true]);
        account.sent_data();
        assert!((0..18).all(|_| !account.is_needless_update()));
        assert!(account.is_needless_update());
    }

    #[test]
    fn a_ping_is_idle_if_nothing_was_sent_since_the_last_one() {
        let mut account = Account::default();
        assert!(account.is_idle_ping());
        account.sent_data();
        assert!(!account.is_idle_ping());
        assert!(account.is_idle_ping());
    }
}
