//! Timestamps of OTLP.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970; 0 for earlier times.
pub(crate) fn unix_nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
