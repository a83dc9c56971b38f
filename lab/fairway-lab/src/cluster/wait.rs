//! Waiting for a condition, with an end.

use std::time::{Duration, Instant};

/// How long a thing that a scenario waits for may take.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// How often a condition is looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// Looks until the condition gives something, and says what was waited for when it never does.
pub(super) async fn until<T>(
    what: &str,
    mut condition: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        // One failed look is no verdict: an API server may be restarting.
        let seen = condition().await;
        match seen {
            Ok(Some(found)) => return Ok(found),
            Err(error) if Instant::now() > end => {
                return Err(error.context(format!("waited {} s until {what}", PATIENCE.as_secs())));
            }
            Ok(None) if Instant::now() > end => {
                anyhow::bail!("waited {} s in vain until {what}", PATIENCE.as_secs())
            }
            _ => tokio::time::sleep(GLANCE).await,
        }
    }
}
