//! Times as OTLP writes them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970; 0 for what was before.
pub(crate) fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
