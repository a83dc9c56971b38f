//! Parses field values: GEP-2257 durations, numbers, enumerations, addresses and ranges.

use std::ops::RangeInclusive;
use std::time::Duration;

use fairway_objects::annotations::text;
use fairway_objects::duration;
use fairway_objects::policies::Size;
use ipnet::IpNet;

use crate::policies::reading::PolicyError;

/// An optional duration.
pub(crate) fn time(field: &str, value: Option<&str>) -> Result<Option<Duration>, PolicyError> {
    let read = |text: &str| {
        duration::read(text)
            .ok_or_else(|| PolicyError::new(field, format!("\"{text}\" is no duration such as 1m30s")))
    };
    value.map(read).transpose()
}

/// An optional duration above zero.
pub(crate) fn positive_time(field: &str, value: Option<&str>) -> Result<Option<Duration>, PolicyError> {
    match time(field, value)? {
        Some(Duration::ZERO) => Err(PolicyError::new(field, "0s is too short")),
        time => Ok(time),
    }
}

/// An optional number, at least `least`, in the range of the type.
pub(crate) fn number<T: TryFrom<i64>>(
    field: &str,
    value: Option<i64>,
    least: i64,
) -> Result<Option<T>, PolicyError> {
    let read = |number: i64| {
        let read = T::try_from(number).ok().filter(|_| number >= least);
        read.ok_or_else(|| PolicyError::new(field, format!("{number} is out of range")))
    };
    value.map(read).transpose()
}

/// An optional number of bytes.
pub(crate) fn bytes(field: &str, value: Option<&Size>) -> Result<Option<u64>, PolicyError> {
    let read = |size: &Size| {
        size.bytes().ok_or_else(|| PolicyError::new(field, format!("\"{}\" is no size such as 8Mi", size.0)))
    };
    value.map(read).transpose()
}

/// An optional limit in bytes.
pub(crate) fn positive_bytes(field: &str, value: Option<&Size>) -> Result<Option<u64>, PolicyError> {
    match bytes(field, value)? {
        Some(0) => Err(PolicyError::new(field, "0 is too small; without the field there is no limit")),
        bytes => Ok(bytes),
    }
}

/// A number of bytes within bounds, or `default`.
pub(crate) fn bounded_bytes(
    field: &str,
    value: Option<&Size>,
    default: u32,
    bounds: RangeInclusive<u64>,
) -> Result<u32, PolicyError> {
    let Some(size) = bytes(field, value)? else { return Ok(default) };
    let within = u32::try_from(size).ok().filter(|_| bounds.contains(&size));
    within.ok_or_else(|| {
        let problem = format!("{size} is not within {} and {} bytes", bounds.start(), bounds.end());
        PolicyError::new(field, problem)
    })
}

/// An optional enumeration value.
pub(crate) fn enum_value<T: Copy>(
    field: &str,
    value: Option<&str>,
    known: &[(&str, T)],
) -> Result<Option<T>, PolicyError> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    let found = known.iter().find(|(name, _)| *name == value).map(|(_, meant)| *meant);
    let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.map(Some).ok_or_else(|| PolicyError::new(field, format!("\"{value}\" is none of {}", names())))
}

/// Addresses and ranges, sorted.
pub(crate) fn ranges(field: &str, values: &[String]) -> Result<Vec<IpNet>, PolicyError> {
    let read = |text: &String| {
        text::parse_range(text).map_err(|wrong| {
            PolicyError::new(field, format!("\"{wrong}\" is neither an address nor a range of addresses"))
        })
    };
    let mut ranges = values.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    ranges.sort();
    ranges.dedup();
    Ok(ranges)
}

/// Whether the ranges cover a whole address family.
pub(crate) fn covers_everyone(ranges: &[IpNet]) -> bool {
    ranges.iter().any(|range| range.prefix_len() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_value_names_its_field() {
        assert_eq!(time("spec.a", Some("1m30s")), Ok(Some(Duration::from_secs(90))));
        assert_eq!(time("spec.a", Some("90")).unwrap_err().field, "spec.a");
        assert_eq!(positive_time("spec.a", Some("0s")).unwrap_err().problem, "0s is too short");
        assert_eq!(number::<u32>("n", Some(7), 1), Ok(Some(7)));
        assert_eq!(number::<u8>("n", Some(256), 1).unwrap_err().problem, "256 is out of range");
        assert!(number::<u32>("n", Some(0), 1).is_err() && number::<u32>("n", Some(-1), 0).is_err());
        assert_eq!(bytes("b", Some(&Size("0".to_owned()))), Ok(Some(0)));
        let bytes = |text: &str| positive_bytes("b", Some(&Size(text.to_owned())));
        assert_eq!(bytes("2Ki"), Ok(Some(2048)));
        assert_eq!(bytes("2KB").unwrap_err().problem, "\"2KB\" is no size such as 8Mi");
        assert!(bytes("0").unwrap_err().problem.starts_with("0 is too small"));
        let within = |text: &str| bounded_bytes("b", Some(&Size(text.to_owned())), 7, 1..=1024);
        assert_eq!((within("1Ki"), bounded_bytes("b", None, 7, 1..=2)), (Ok(1024), Ok(7)));
        assert_eq!(within("2Ki").unwrap_err().problem, "2048 is not within 1 and 1024 bytes");
        assert!(within("0").is_err() && within("8Gi").is_err());
        let known = [("On", true), ("Off", false)];
        assert_eq!(enum_value("w", Some("Off"), &known), Ok(Some(false)));
        assert_eq!(enum_value("w", Some("off"), &known).unwrap_err().problem, "\"off\" is none of On, Off");
        let wrong = ranges("r", &["10.0.0.0/8".to_owned(), "ten".to_owned()]).unwrap_err();
        assert_eq!(wrong.problem, "\"ten\" is neither an address nor a range of addresses");
    }
}
