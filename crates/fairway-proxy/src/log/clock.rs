//! Formatted wall-clock time.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A formatted time, updated once a second.
#[derive(Debug)]
pub struct WallClock {
    second: i64,
    millisecond: i32,
    local: String,
    iso: String,
}

impl Default for WallClock {
    fn default() -> Self {
        Self { second: i64::MIN, millisecond: 0, local: String::new(), iso: String::new() }
    }
}

impl WallClock {
    /// Sets the time.
    pub fn set(&mut self, now: SystemTime) {
        let now = Timestamp::try_from(now).unwrap_or(Timestamp::UNIX_EPOCH);
        self.millisecond = now.subsec_millisecond();
        if now.as_second() == self.second {
            return;
        }
        self.second = now.as_second();
        let utc = now.to_zoned(TimeZone::UTC);
        self.local = utc.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string();
        self.iso = utc.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    }

    /// RFC 3339 in UTC, to the second.
    #[must_use]
    pub(crate) fn iso(&self) -> &str {
        &self.iso
    }

    /// In the format of nginx's `$time_local`, in UTC.
    pub(crate) fn common_log(&self) -> &str {
        &self.local
    }

    /// Seconds since 1970, and milliseconds.
    pub(crate) fn unix(&self) -> (i64, i32) {
        (self.second, self.millisecond)
    }
}
