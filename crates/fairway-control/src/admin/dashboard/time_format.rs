//! Formats points in time.

use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::jiff::Timestamp;

/// RFC 3339, in UTC; `seconds` are since 1970.
pub(super) fn utc(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

/// The same for a `SystemTime`, to the millisecond.
pub(super) fn utc_to_the_millisecond(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// The same for a `SystemTime`.
pub(super) fn utc_of(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    utc(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
