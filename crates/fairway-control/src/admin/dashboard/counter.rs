//! Asks the data plane for its numbers, at most once a second whoever else asks.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::numbers::Numbers;

/// For how long numbers are good enough.
const KEPT: Duration = Duration::from_secs(1);

/// Asks for the numbers of the data plane; `None` while it has not started.
pub type CountRequests = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Option<Numbers>> + Send>> + Send + Sync>;

/// Numbers, and when they were asked for.
#[derive(Clone)]
pub(super) struct Counted {
    pub(super) at: Instant,
    pub(super) numbers: Option<Numbers>,
}

/// Asks, and keeps what it was told for a moment.
pub(super) struct Counter {
    count: CountRequests,
    last: Mutex<Option<Counted>>,
}

impl Counter {
    /// Asks with `count`.
    pub(super) fn new(count: CountRequests) -> Self {
        Self { count, last: Mutex::new(None) }
    }

    /// The numbers of now, or of a moment ago.
    pub(super) async fn now(&self) -> Counted {
        let mut last = self.last.lock().await;
        if let Some(counted) = &*last
            && counted.at.elapsed() < KEPT
        {
            return counted.clone();
        }
        let counted = Counted { at: Instant::now(), numbers: (self.count)().await };
        *last = Some(counted.clone());
        counted
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_data_plane_is_asked_once_a_second_however_many_ask() {
        let asked = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&asked);
        let counter = Counter::new(Box::new(move || {
            let requests = counting.fetch_add(1, Ordering::Relaxed) + 1;
            Box::pin(async move { Some(Numbers { requests, ..Numbers::default() }) })
        }));
        for _ in 0..10 {
            assert_eq!(counter.now().await.numbers.unwrap().requests, 1);
        }
        tokio::time::advance(KEPT).await;
        assert_eq!(counter.now().await.numbers.unwrap().requests, 2);
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
