//! Detects clients that are too slow on average, in either direction.

use std::time::Duration;

/// The lead of a new client, in seconds at its rate.
const GRACE: u64 = 5;

/// The maximum lead, in seconds: a client that was fast must not be slow for hours.
const MOST_AHEAD: u64 = 60;

/// A client's lead over its minimum rate. Only the time spent waiting for the client counts, and only bytes moved then:
/// what network buffers absorb or deliver at once says nothing about the client.
pub struct MinimumRate {
    /// Bytes per second; 0 for no minimum.
    rate: u64,
    /// In millionths of a byte; negative if the client is too slow.
    ahead: i64,
}

impl MinimumRate {
    /// For a client that must keep `rate`, in bytes per second.
    #[inline]
    pub fn new(rate: u64) -> Self {
        Self { rate, ahead: in_millionths(rate, GRACE) }
    }

    /// The client was waited for and moved this many bytes. Returns whether it is too slow.
    #[inline]
    pub fn note(&mut self, wait: Duration, moved: u64) -> bool {
        let due = i64::try_from(u128::from(self.rate) * wait.as_micros()).unwrap_or(i64::MAX);
        let ahead = self.ahead.saturating_sub(due).saturating_add(in_millionths(moved, 1));
        self.ahead = ahead.min(in_millionths(self.rate, MOST_AHEAD));
        self.ahead < 0
    }
}

#[inline]
fn in_millionths(bytes: u64, times: u64) -> i64 {
    i64::try_from(bytes.saturating_mul(times).saturating_mul(1_000_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How many seconds without a byte it takes until the client is too slow.
    fn patience(pace: &mut MinimumRate) -> usize {
        (0..1_000).take_while(|_| !pace.note(SECOND, 0)).count()
    }

    #[test]
    fn a_client_begins_five_seconds_ahead_and_is_never_more_than_a_minute_ahead() {
        assert_eq!(patience(&mut MinimumRate::new(240)), 5);
        let mut fast = MinimumRate::new(240);
        assert!(!fast.note(SECOND, 1 << 40));
        assert_eq!(patience(&mut fast), 60);
    }

    #[test]
    fn a_client_at_the_minimum_rate_continues_forever_and_one_just_below_does_not() {
        let mut pace = MinimumRate::new(240);
        assert!((0..100_000).all(|_| !pace.note(SECOND, 240)));
        assert!((0..100_000).any(|_| pace.note(SECOND, 239)));
    }

    #[test]
    fn without_a_rate_no_progress_is_required() {
        assert_eq!(patience(&mut MinimumRate::new(0)), 1_000);
    }
}
