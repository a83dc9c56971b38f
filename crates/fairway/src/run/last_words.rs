//! What a process says of the requests that its drain has cut. Nobody can scrape a process that is gone: it stays for a moment.

use std::thread;
use std::time::Duration;

use fairway_proxy::metrics::GenerationCounts;
use fairway_proxy::{Attribution, ProxyHandle, RequestOutcome};

/// How long the admin server still answers when something was cut: a fraction of what the chart leaves between the end of a drain and the
/// kill.
const LAST_SCRAPE: Duration = Duration::from_secs(5);

/// Logs how many requests the drain has cut, and gives whoever scrapes the time to see it. Returns at once where nothing was cut.
pub(super) fn tell_what_was_cut(handle: &ProxyHandle, drain_timeout: Duration) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let generations = runtime.block_on(handle.generations());
    let cut_with = |counts: &GenerationCounts| counts.costs.count(Attribution::Roll, RequestOutcome::Failed);
    let requests: u64 = generations.iter().map(cut_with).sum();
    if requests > 0 {
        tracing::warn!(
            requests,
            "cut: these requests took longer than --drain-timeout, {drain_timeout:?}; /metrics and /generations tell of them for \
             {LAST_SCRAPE:?} more"
        );
        thread::sleep(LAST_SCRAPE);
    }
    Ok(())
}
