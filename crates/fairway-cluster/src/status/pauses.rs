//! Namespaces in which the API server refuses writes: each is paused, longer each time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// All paused namespaces.
#[derive(Debug, Default)]
pub(crate) struct NamespacePauses(BTreeMap<Arc<str>, Pause>);

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Instant,
    times: u32,
}

impl NamespacePauses {
    /// When writes in this namespace may be tried again; `None` means now.
    pub(crate) fn paused_until(&self, namespace: &str, now: Instant) -> Option<Instant> {
        self.0.get(namespace).map(|pause| pause.until).filter(|until| now < *until)
    }

    /// A write was refused. A refusal during a pause does not count again.
    pub(crate) fn record_refusal(&mut self, namespace: &Arc<str>, now: Instant) {
        if self.paused_until(namespace, now).is_some() {
            return;
        }
        let times = self.0.get(namespace).map_or(0, |pause| pause.times.saturating_add(1));
        let until = now + doubled_pause(FIRST_PAUSE, times, MAX_PAUSE);
        self.0.insert(namespace.clone(), Pause { until, times });
    }

    /// A write succeeded.
    pub(crate) fn record_success(&mut self, namespace: &str) {
        self.0.remove(namespace);
    }

    /// Ends all pauses.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A pause that doubles each time.
pub(crate) fn doubled_pause(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(longest)
}
