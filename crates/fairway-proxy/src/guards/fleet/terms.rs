//! How long shares are lent. Lender and borrower compute it from the same numbers, each by its own clock.

use std::time::Duration;

use fairway_net::counts::RequestRate;

const MIN_LENT_TIME: Duration = Duration::from_secs(3);
/// A lease costs the time of two requests, so it must be long enough for a few more.
const REQUESTS_PER_LEASE: u32 = 4;
/// Shares with longer intervals are not lent: a client that moves to another replica would wait too long.
const MAX_INTERVAL: Duration = Duration::from_secs(15);
/// Shares with larger bursts are not lent: the lender would be without them for too long.
const MAX_BURST: Duration = Duration::from_secs(60);
/// The borrower leaves this fraction of the lender's time unused, because clocks run at different speeds.
const MARGIN_PARTS: u32 = 12;

/// Whether shares of this rate are lent.
pub(super) fn is_leased(share: RequestRate) -> bool {
    share.interval <= MAX_INTERVAL && share.burst <= MAX_BURST
}

/// How long a share is lent, by the lender's clock from when it lends.
pub(super) fn lent_time(share: RequestRate) -> Duration {
    MIN_LENT_TIME.max(share.interval.saturating_mul(REQUESTS_PER_LEASE))
}

/// How long a share is borrowed, by the borrower's clock from when it asked, which is earlier.
pub(super) fn borrowed_time(share: RequestRate) -> Duration {
    lent_time(share) / MARGIN_PARTS * (MARGIN_PARTS - 1)
}
