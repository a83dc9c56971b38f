//! The timeout of a gRPC call.

use std::time::Duration;

/// Parses `grpc-timeout`: at most eight digits and a unit. `None` for anything else.
#[must_use]
pub fn timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count = digits.iter().fold(0, |count, digit| 10 * count + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(3600 * count),
        b'M' => Duration::from_secs(60 * count),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_units_and_no_other_form() {
        for (value, expected) in [
            ("1H", Duration::from_secs(3600)),
            ("2M", Duration::from_secs(120)),
            ("3S", Duration::from_secs(3)),
            ("4m", Duration::from_millis(4)),
            ("5u", Duration::from_micros(5)),
            ("6n", Duration::from_nanos(6)),
            ("00000007S", Duration::from_secs(7)),
            ("0S", Duration::ZERO),
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
        ] {
            assert_eq!(timeout(value.as_bytes()), Some(expected), "{value}");
        }
        for value in
            ["", "S", "1", "1s", "1h", "123456789S", "-1S", "+1S", "1.5S", " 1S", "1S ", "1 S", "1SS"]
        {
            assert_eq!(timeout(value.as_bytes()), None, "{value}");
        }
    }
}
