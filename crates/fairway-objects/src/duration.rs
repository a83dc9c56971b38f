//! Durations of the Gateway API (GEP-2257): up to four parts, each with up to five digits and a unit.

use std::time::Duration;

/// Parses a duration; `None` if it is invalid.
#[must_use]
pub fn read(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    for _ in 0..4 {
        if rest.is_empty() {
            break;
        }
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest.get(..digits).filter(|it| (1..=5).contains(&it.len()))?.parse().ok()?;
        let (unit, after) = unit(&rest[digits..])?;
        total += unit * u32::try_from(number).ok()?;
        rest = after;
    }
    (rest.is_empty() && !text.is_empty()).then_some(total)
}

fn unit(text: &str) -> Option<(Duration, &str)> {
    let units = [
        ("ms", Duration::from_millis(1)),
        ("h", Duration::from_secs(3600)),
        ("m", Duration::from_secs(60)),
        ("s", Duration::from_secs(1)),
    ];
    units.into_iter().find_map(|(name, unit)| Some((unit, text.strip_prefix(name)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_examples_of_gep_2257() {
        for (text, milliseconds) in
            [("1h", 3_600_000), ("1m30s", 90_000), ("10s500ms", 10_500), ("0s", 0), ("99999ms", 99_999)]
        {
            assert_eq!(read(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "1", "s", "1.5s", "-1s", "100000s", "1s1s1s1s1s", "1d", "1s "] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
