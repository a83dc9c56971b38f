//! Formats figures for people: three significant digits, thousands separators, a dash for unknown values. Never rounds
//! drawn values.

/// The text for a missing figure.
pub(super) const UNKNOWN: &str = "–";
/// The text for a percentile with fewer than ten values above it.
pub(super) const TOO_FEW: &str = "too few";

/// Three significant digits; whole above 100.
pub(super) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    let size = value.abs();
    if size == 0.0 {
        "0".to_owned()
    } else if size >= 99.95 {
        grouped(value)
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.9995 {
        format!("{value:.2}")
    } else if size >= 0.0005 {
        format!("{value:.3}")
    } else {
        "< 0.001".to_owned()
    }
}

/// As [`figure`], for an optional value.
pub(super) fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), figure)
}

/// `1.35`, or with the range of rounds `1.35 (1.20 – 1.61)`.
pub(super) fn with_range(value: f64, range: Option<(f64, f64)>) -> String {
    match range {
        Some((low, high)) => format!("{} ({} – {})", figure(value), figure(low), figure(high)),
        None => figure(value),
    }
}

/// An integer with thousands separators.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn grouped(value: f64) -> String {
    let rounded = value.abs().round();
    let sign = if value < 0.0 { "-" } else { "" };
    if rounded < 9e15 { format!("{sign}{}", count(rounded as u64)) } else { format!("{value:.2e}") }
}

/// A ratio: two decimals while they are significant.
pub(super) fn ratio(value: f64) -> String {
    if !value.is_finite() {
        UNKNOWN.to_owned()
    } else if value.abs() < 0.1 {
        format!("{value:.3}")
    } else if value.abs() < 10.0 {
        format!("{value:.2}")
    } else {
        figure(value)
    }
}

/// Bytes with a binary unit.
pub(super) fn bytes(value: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = value as f64;
    let mut unit = "B";
    for next in UNITS {
        if size < 1024.0 {
            break;
        }
        size /= 1024.0;
        unit = next;
    }
    format!("{} {unit}", figure(size))
}

/// A length of time in seconds, for people.
pub(super) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return UNKNOWN.to_owned();
    }
    let whole_seconds = seconds.max(0.0).round() as u64;
    match (whole_seconds / 3600, whole_seconds / 60 % 60, whole_seconds % 60) {
        (0, 0, _) => format!("{} s", figure(seconds)),
        (0, minutes, rest) => format!("{minutes} min {rest} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// The median of the rounds with their range.
fn of_rounds(mut values: Vec<f64>, unit: &str) -> String {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (values.first(), values.last()) else { return UNKNOWN.to_owned() };
    let Some(median) = middle(&values) else { return UNKNOWN.to_owned() };
    if unit != "bytes" {
        return with_range(median, (values.len() > 1).then_some((*low, *high)));
    }
    let bytes = |value: f64| bytes(value.max(0.0) as u64);
    match values.len() {
        1 => bytes(median),
        _ => format!("{} ({} – {})", bytes(median), bytes(*low), bytes(*high)),
    }
}

/// An environment of templates that has these.
pub(super) fn environment() -> minijinja::Environment<'static> {
    let mut environment = minijinja::Environment::new();
    environment.add_filter("figure", maybe);
    environment.add_filter("thousands", count);
    environment.add_filter("quotient", ratio);
    environment.add_filter("bytes", bytes);
    environment.add_filter("duration", duration);
    environment.add_filter("of_rounds", of_rounds);
    environment
}

/// The median of ascending values.
pub(super) fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[half - 1], upper) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_significant_digits() {
        let values =
            [0.0, 0.0001, 0.1234, 1.234, 12.34, 123.4, 1234.5, 99.96, f64::NAN, f64::INFINITY, -1234.0];
        let text = values.map(figure);
        assert_eq!(
            text,
            ["0", "< 0.001", "0.123", "1.23", "12.3", "123", "1,235", "100", "–", "–", "-1,234"]
        );
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([ratio(1.0), ratio(0.054), ratio(23.4)], ["1.00", "0.054", "23.4"]);
        assert_eq!([bytes(12), bytes(3 << 20)], ["12.0 B", "3.00 MiB"]);
        assert_eq!(of_rounds(vec![3.0], ""), "3.00");
        assert_eq!(of_rounds(vec![3.0, 1.0, 2.0], "s"), "2.00 (1.00 – 3.00)");
        assert_eq!(of_rounds(vec![2_000_000.0], "bytes"), bytes(2_000_000));
        assert_eq!(of_rounds(vec![f64::NAN], "s"), UNKNOWN);
        assert_eq!([duration(2.5), duration(125.0), duration(7_300.0)], ["2.50 s", "2 min 5 s", "2 h 1 min"]);
    }
}
