//! The wall clock, for certificate expiry. The only place in this crate that reads it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; earlier times count as 1970.
#[must_use]
pub fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
