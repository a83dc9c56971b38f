//! Parses values as Go and nginx do. Has no defaults.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

/// A boolean, as parsed by Go's `strconv.ParseBool`.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A size, as parsed by nginx (`ngx_parse_offset`): digits and at most one of `k`, `m`, `g`.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    let number: u64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    number.checked_mul(unit)
}

/// A time, as parsed by nginx: a whole number of seconds, or with one of `ms`, `s`, `m`, `h`, `d`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    let unit = match &text[digits.len()..] {
        "ms" => return Some(Duration::from_millis(number)),
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.checked_mul(unit).map(Duration::from_secs)
}

/// Comma-separated addresses and ranges, sorted; the error is the first invalid one.
pub fn parse_ranges(text: &str) -> Result<Vec<IpNet>, &str> {
    let mut ranges = text.split(',').map(str::trim).map(parse_range).collect::<Result<Vec<_>, _>>()?;
    ranges.sort();
    ranges.dedup();
    Ok(ranges)
}

/// An address or a range.
pub fn parse_range(text: &str) -> Result<IpNet, &str> {
    let net = text.parse::<IpNet>().map(|net| net.trunc());
    net.or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).map_err(|_| text)
}

/// Comma-separated error statuses, sorted and without duplicates.
pub fn parse_statuses(text: &str) -> Option<Vec<u16>> {
    let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    let read = |text: &str| text.parse().ok().filter(|status| (400..=599).contains(status));
    let mut statuses = texts.map(read).collect::<Option<Vec<u16>>>()?;
    statuses.sort_unstable();
    statuses.dedup();
    Some(statuses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses_and_ranges_of_both_families() {
        let expected: Vec<IpNet> =
            ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32"].map(|net| net.parse().unwrap()).into();
        assert_eq!(parse_ranges("2001:db8::/32, 10.1.2.3/8,192.0.2.1").unwrap(), expected);
    }

    #[test]
    fn one_invalid_range_invalidates_the_list() {
        assert_eq!(parse_ranges("10.0.0.0/8,x"), Err("x"));
        assert_eq!(parse_ranges(""), Err(""));
        assert_eq!(parse_ranges("10.0.0.0/33"), Err("10.0.0.0/33"));
    }

    #[test]
    fn sizes_are_parsed_like_nginx() {
        assert_eq!(parse_size("8"), Some(8));
        assert_eq!(parse_size("1k"), Some(1024));
        assert_eq!(parse_size("2M"), Some(2 << 20));
        assert_eq!(parse_size("1g"), Some(1 << 30));
        for bad in ["", "k", "lots", "1kb", "-1", "+1", "1.5m", "1 m", "99999999999999999999"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn booleans_are_parsed_like_go() {
        assert_eq!((parse_bool("True"), parse_bool("f"), parse_bool("yes")), (Some(true), Some(false), None));
    }
}
