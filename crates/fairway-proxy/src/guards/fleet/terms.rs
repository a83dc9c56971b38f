//! For how long shares are lent. Lender and borrower compute it from the same numbers, each by its own clock.

use std::time::Duration;

use fairway_net::counts::Rate;

const MIN_LENT_TIME: Duration = Duration::from_secs(3);
/// A lease is worth its price, which has the time of two requests, if some more fit into it.
const REQUESTS_PER_LEASE: u32 = 4;
/// Where the requests of a share are further apart, a client that changes to another replica would wait for too long.
const MAX_INTERVAL: Duration = Duration::from_secs(15);
/// Where more may come early, in time, a lender would be without them for too long.
const MAX_BURST: Duration = Duration::from_secs(60);
/// This part of the lender's time the borrower does not use: clocks run at different speeds.
const MARGIN_PARTS: u32 = 12;

/// Whether shares of this rate are lent.
pub(super) fn is_leased(share: Rate) -> bool {
    share.interval <= MAX_INTERVAL && share.burst <= MAX_BURST
}

/// How long a share is lent, by the lender's clock from when it lends.
pub(super) fn lent_time(share: Rate) -> Duration {
    MIN_LENT_TIME.max(share.interval.saturating_mul(REQUESTS_PER_LEASE))
}

/// How long a share is borrowed, by the borrower's clock from when it asked, which is earlier.
pub(super) fn borrowed_time(share: Rate) -> Duration {
    lent_time(share) / MARGIN_PARTS * (MARGIN_PARTS - 1)
}
