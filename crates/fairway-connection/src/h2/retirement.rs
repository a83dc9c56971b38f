//! When to retire a connection to an endpoint: counts its streams and resets, and which resets the endpoint may not
//! have seen yet. Sends nothing itself.

/// Streams of a connection: nginx sends GOAWAY with the 1,000th (`keepalive_requests`), which could race with open
/// requests.
const MAX_STREAMS: u32 = 900;

/// The maximum age, in microseconds: nginx sends GOAWAY after an hour (`keepalive_time`).
const MAX_AGE_MICROS: u64 = 50 * 60 * 1_000_000;

/// Resets in the life of a connection. Servers count them against rapid reset: nghttp2 allows 1,000 and 33 a second,
/// Envoy checks the first 500 streams.
const MAX_RESETS: u32 = 500;

/// Resets in any second.
const MAX_RESETS_PER_SECOND: u32 = 20;

const SECOND_MICROS: u64 = 1_000_000;

/// The use of one connection.
#[derive(Default)]
pub(super) struct Wear {
    /// Streams opened so far.
    streams: u32,
    resets: u32,
    /// The start of the current second.
    second_started: u64,
    resets_in_second: u32,
    /// Resets that the endpoint may not have seen; a PING follows them.
    unacknowledged_resets: u32,
    /// Whether such a PING was sent since a head or body data came. gRPC servers count PINGs without anything of their
    /// own in between, and close the connection at the third.
    is_ping_sent: bool,
    /// Whether the connection must not be used for new exchanges.
    is_worn: bool,
}

impl Wear {
    /// Counts a new stream.
    pub(super) fn count_stream(&mut self) {
        self.streams += 1;
        self.is_worn |= self.streams >= MAX_STREAMS;
    }

    /// Counts a reset. Returns whether a PING should follow it.
    pub(super) fn count_reset(&mut self, now: u64) -> bool {
        self.resets += 1;
        if now.saturating_sub(self.second_started) >= SECOND_MICROS {
            (self.second_started, self.resets_in_second) = (now, 0);
        }
        self.resets_in_second += 1;
        self.is_worn |= self.resets >= MAX_RESETS || self.resets_in_second >= MAX_RESETS_PER_SECOND;
        let asks = self.unacknowledged_resets == 0 && !std::mem::replace(&mut self.is_ping_sent, true);
        if asks || self.unacknowledged_resets > 0 {
            self.unacknowledged_resets += 1;
        }
        asks
    }

    /// The endpoint answered the PING: it has seen the resets.
    pub(super) fn reset_ping_acknowledged(&mut self) {
        self.unacknowledged_resets = 0;
    }

    /// A head or body data came.
    pub(super) fn count_received(&mut self) {
        self.is_ping_sent = false;
    }

    /// The endpoint does not answer PINGs.
    pub(super) fn mark_worn(&mut self) {
        self.is_worn = true;
    }

    /// Streams that the endpoint may count in addition to ours.
    pub(super) fn unacknowledged_resets(&self) -> usize {
        self.unacknowledged_resets as usize
    }

    /// Whether new exchanges should use another connection.
    pub(super) fn is_worn(&self, now: u64) -> bool {
        self.is_worn || now >= MAX_AGE_MICROS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_age_and_resets_wear_it() {
        let mut wear = Wear::default();
        (0..899).for_each(|_| wear.count_stream());
        assert!(!wear.is_worn(MAX_AGE_MICROS - 1) && wear.is_worn(MAX_AGE_MICROS));
        wear.count_stream();
        assert!(wear.is_worn(0));
        let mut wear = Wear::default();
        (0..19).for_each(|_| _ = wear.count_reset(5));
        wear.count_reset(5 + SECOND_MICROS);
        assert!(!wear.is_worn(0), "nineteen and one in two seconds");
        (0..19).for_each(|_| _ = wear.count_reset(6 + SECOND_MICROS));
        assert!(wear.is_worn(0));
        let mut wear = Wear::default();
        (0..499).for_each(|at| _ = wear.count_reset(at * SECOND_MICROS));
        assert!(!wear.is_worn(0));
        wear.count_reset(499 * SECOND_MICROS);
        assert!(wear.is_worn(0));
    }

    #[test]
    fn one_ping_stands_for_all_resets_and_none_follows_before_something_came() {
        let mut wear = Wear::default();
        assert!(wear.count_reset(0) && !wear.count_reset(0));
        assert_eq!(wear.unacknowledged_resets(), 2);
        wear.reset_ping_acknowledged();
        assert!(!wear.count_reset(0), "nothing came in between");
        assert_eq!(wear.unacknowledged_resets(), 0, "and so no place is kept");
        wear.count_received();
        assert!(wear.count_reset(0));
        assert_eq!(wear.unacknowledged_resets(), 1);
    }
}
