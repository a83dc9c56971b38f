//! Times on the command line.

use std::time::Duration;

/// Reads seconds, with a fraction or not.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    let seconds = digits.parse::<f64>().map_err(|_| "is no number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
