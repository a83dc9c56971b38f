//! Formats ages the way kubectl does.

use std::time::{SystemTime, UNIX_EPOCH};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The current Unix time in seconds.
pub(super) fn unix_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// An age in one unit, or in two if the larger unit has a small count: `90s`, `5m30s`, `4h20m`, `3d4h`, `12d`.
pub(crate) fn age(seconds: i64) -> String {
    let in_unit = |unit: i64, name: char| format!("{}{name}", seconds / unit);
    let two = |unit: i64, name: char, smaller: i64, smaller_name: char| match seconds % unit / smaller {
        0 => in_unit(unit, name),
        rest => format!("{}{rest}{smaller_name}", in_unit(unit, name)),
    };
    match seconds {
        ..0 => "0s".to_owned(),
        0..120 => in_unit(1, 's'),
        120..600 => two(MINUTE, 'm', 1, 's'),
        600..10_800 => in_unit(MINUTE, 'm'),
        10_800..28_800 => two(HOUR, 'h', MINUTE, 'm'),
        28_800..172_800 => in_unit(HOUR, 'h'),
        172_800..691_200 => two(DAY, 'd', HOUR, 'h'),
        691_200..63_072_000 => in_unit(DAY, 'd'),
        63_072_000..252_288_000 => two(YEAR, 'y', DAY, 'd'),
        252_288_000.. => in_unit(YEAR, 'y'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_as_in_kubectl() {
        for (seconds, text) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (700, "11m"),
            (3 * HOUR, "3h"),
            (4 * HOUR + 20 * MINUTE, "4h20m"),
            (9 * HOUR, "9h"),
            (3 * DAY + 4 * HOUR + 5, "3d4h"),
            (12 * DAY, "12d"),
            (2 * YEAR + 3 * DAY, "2y3d"),
            (9 * YEAR, "9y"),
        ] {
            assert_eq!(age(seconds), text);
        }
    }
}
