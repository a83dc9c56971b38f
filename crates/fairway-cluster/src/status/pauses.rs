//! Namespaces in which the API server refuses a write: each is left alone for a while, and for longer each time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(300);

/// All such namespaces.
#[derive(Debug, Default)]
pub(crate) struct Pauses(BTreeMap<Arc<str>, Pause>);

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Instant,
    times: u32,
}

impl Pauses {
    /// When something may be tried in this namespace again, unless that is now.
    pub(crate) fn until(&self, namespace: &str, now: Instant) -> Option<Instant> {
        self.0.get(namespace).map(|pause| pause.until).filter(|until| now < *until)
    }

    /// It was refused. What was asked before the last refusal came does not count again.
    pub(crate) fn refused(&mut self, namespace: &Arc<str>, now: Instant) {
        if self.until(namespace, now).is_some() {
            return;
        }
        let times = self.0.get(namespace).map_or(0, |pause| pause.times.saturating_add(1));
        let until = now + growing(FIRST, times, LONGEST);
        self.0.insert(namespace.clone(), Pause { until, times });
    }

    /// It was allowed.
    pub(crate) fn allowed(&mut self, namespace: &str) {
        self.0.remove(namespace);
    }

    /// Everything may be tried again.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

/// A pause that doubles each time.
pub(crate) fn growing(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(longest)
}
