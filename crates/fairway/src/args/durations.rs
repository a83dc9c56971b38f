//! Parsing of durations on the command line.

use std::time::Duration;

/// Parses a number of seconds, such as `5`, `0.5` or `5s`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    let seconds = digits.parse::<f64>().map_err(|_| "is not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
