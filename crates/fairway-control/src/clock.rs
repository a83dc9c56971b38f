//! The time of day, for certificates that expire. The only place of this crate that asks for it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; a clock that stands before counts as 1970.
#[must_use]
pub fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
