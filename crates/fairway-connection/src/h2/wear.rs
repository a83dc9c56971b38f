//! How worn a connection to an endpoint is: what it has carried, how often a stream of it was reset by us, and which of those
//! resets the endpoint may not have seen yet. Says when the pool should let it go. Never sends anything.

/// Streams that a connection carries: nginx sends GOAWAY with the 1,000th (`keepalive_requests`), and what is under way then
/// need not be met.
const STREAMS: u32 = 900;

/// How old it becomes, in microseconds: nginx sends GOAWAY after an hour (`keepalive_time`).
const AGE: u64 = 50 * 60 * 1_000_000;

/// Streams that we reset in its life. Servers count them against rapid reset: nghttp2 takes 1,000 and 33 a second, Envoy
/// looks at the first 500 streams.
const RESETS: u32 = 500;

/// The same in any second.
const RESETS_A_SECOND: u32 = 20;

const SECOND: u64 = 1_000_000;

/// What is remembered of a connection's use.
#[derive(Default)]
pub(super) struct Wear {
    /// Streams that were lent.
    lent: u32,
    resets: u32,
    /// The beginning of the second that is counted in.
    second_begun: u64,
    resets_in_second: u32,
    /// Streams that we reset and the endpoint may still count: a PING is on its way behind them.
    unseen: u32,
    /// Whether such a PING went out since a head or a body came. Servers of gRPC count PINGs that nothing of theirs came
    /// between, and end the connection at the third.
    has_asked: bool,
    /// Whether it is not to be used any more.
    is_worn: bool,
}

impl Wear {
    /// A stream of it is lent.
    pub(super) fn lent(&mut self) {
        self.lent += 1;
        self.is_worn |= self.lent >= STREAMS;
    }

    /// We reset a stream; says whether a PING should follow it.
    pub(super) fn reset(&mut self, now: u64) -> bool {
        self.resets += 1;
        if now.saturating_sub(self.second_begun) >= SECOND {
            (self.second_begun, self.resets_in_second) = (now, 0);
        }
        self.resets_in_second += 1;
        self.is_worn |= self.resets >= RESETS || self.resets_in_second >= RESETS_A_SECOND;
        let asks = self.unseen == 0 && !std::mem::replace(&mut self.has_asked, true);
        if asks || self.unseen > 0 {
            self.unseen += 1;
        }
        asks
    }

    /// The endpoint answered the PING: it has seen the resets.
    pub(super) fn seen(&mut self) {
        self.unseen = 0;
    }

    /// A head or a piece of a body came.
    pub(super) fn heard(&mut self) {
        self.has_asked = false;
    }

    /// The endpoint does not say that it is there.
    pub(super) fn distrust(&mut self) {
        self.is_worn = true;
    }

    /// Streams that the endpoint may count beside those that we do.
    pub(super) fn unseen(&self) -> usize {
        self.unseen as usize
    }

    /// Whether new exchanges should go elsewhere.
    pub(super) fn is_worn(&self, now: u64) -> bool {
        self.is_worn || now >= AGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_age_and_resets_wear_it() {
        let mut wear = Wear::default();
        (0..899).for_each(|_| wear.lent());
        assert!(!wear.is_worn(AGE - 1) && wear.is_worn(AGE));
        wear.lent();
        assert!(wear.is_worn(0));
        let mut wear = Wear::default();
        (0..19).for_each(|_| _ = wear.reset(5));
        wear.reset(5 + SECOND);
        assert!(!wear.is_worn(0), "nineteen and one in two seconds");
        (0..19).for_each(|_| _ = wear.reset(6 + SECOND));
        assert!(wear.is_worn(0));
        let mut wear = Wear::default();
        (0..499).for_each(|at| _ = wear.reset(at * SECOND));
        assert!(!wear.is_worn(0));
        wear.reset(499 * SECOND);
        assert!(wear.is_worn(0));
    }

    #[test]
    fn one_ping_stands_for_all_resets_and_none_follows_before_something_came() {
        let mut wear = Wear::default();
        assert!(wear.reset(0) && !wear.reset(0));
        assert_eq!(wear.unseen(), 2);
        wear.seen();
        assert!(!wear.reset(0), "nothing came in between");
        assert_eq!(wear.unseen(), 0, "and so no place is kept");
        wear.heard();
        assert!(wear.reset(0));
        assert_eq!(wear.unseen(), 1);
    }
}
