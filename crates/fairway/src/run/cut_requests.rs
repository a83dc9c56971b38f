//! Reports the requests that were cut at the end of a drain. The process stays for a few seconds, so that they can be scraped.

use std::thread;
use std::time::Duration;

use fairway_proxy::metrics::GenerationCounts;
use fairway_proxy::{Attribution, ProxyHandle, RequestOutcome};

/// How long the admin server stays available after requests were cut. The chart leaves several times as long between the end of a
/// drain and the kill.
const SCRAPE_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Logs how many requests the drain has cut and waits for a last scrape. Returns at once if none was cut.
pub(super) fn report_cut_requests(handle: &ProxyHandle, drain_timeout: Duration) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let generations = runtime.block_on(handle.generation_counts());
    let cut_with = |counts: &GenerationCounts| counts.costs.count(Attribution::Roll, RequestOutcome::Failed);
    let requests: u64 = generations.iter().map(cut_with).sum();
    if requests > 0 {
        tracing::warn!(
            requests,
            "requests took longer than --drain-timeout ({drain_timeout:?}) and were cut; /metrics and /generations show them for \
             {SCRAPE_GRACE_PERIOD:?} more"
        );
        thread::sleep(SCRAPE_GRACE_PERIOD);
    }
    Ok(())
}
