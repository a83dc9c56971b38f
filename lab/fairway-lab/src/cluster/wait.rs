//! Waits for a condition, with a timeout.

use std::time::{Duration, Instant};

/// Timeout of a scenario's waits.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

/// How often a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Polls until the condition returns a value; the error after the timeout names what was awaited.
pub(super) async fn until<T>(
    what: &str,
    mut condition: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        // A single failure is ignored: the API server may be restarting.
        let outcome = condition().await;
        match outcome {
            Ok(Some(value)) => return Ok(value),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context(format!("waited {} s until {what}", WAIT_TIMEOUT.as_secs())));
            }
            Ok(None) if Instant::now() > deadline => {
                anyhow::bail!("waited {} s in vain until {what}", WAIT_TIMEOUT.as_secs())
            }
            _ => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}
