//! Reads the data plane's numbers at most once a second, however many pages ask.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::numbers::Numbers;

/// How long numbers are reused.
const CACHE_TTL: Duration = Duration::from_secs(1);

/// Reads the numbers of the data plane; `None` before it has started.
pub type ReadNumbers = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Option<Numbers>> + Send>> + Send + Sync>;

/// The numbers, and when they were read.
#[derive(Clone)]
pub(super) struct NumbersSample {
    pub(super) at: Instant,
    pub(super) numbers: Option<Numbers>,
}

/// Reads the numbers and caches them briefly.
pub(super) struct NumbersCache {
    count: ReadNumbers,
    last: Mutex<Option<NumbersSample>>,
}

impl NumbersCache {
    /// Reads with `count`.
    pub(super) fn new(count: ReadNumbers) -> Self {
        Self { count, last: Mutex::new(None) }
    }

    /// The numbers, at most [`CACHE_TTL`] old.
    pub(super) async fn current(&self) -> NumbersSample {
        let mut last = self.last.lock().await;
        if let Some(counted) = &*last
            && counted.at.elapsed() < CACHE_TTL
        {
            return counted.clone();
        }
        let counted = NumbersSample { at: Instant::now(), numbers: (self.count)().await };
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
    async fn the_data_plane_is_read_at_most_once_a_second() {
        let queries = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&queries);
        let counter = NumbersCache::new(Box::new(move || {
            let requests = counting.fetch_add(1, Ordering::Relaxed) + 1;
            Box::pin(async move { Some(Numbers { requests, ..Numbers::default() }) })
        }));
        for _ in 0..10 {
            assert_eq!(counter.current().await.numbers.unwrap().requests, 1);
        }
        tokio::time::advance(CACHE_TTL).await;
        assert_eq!(counter.current().await.numbers.unwrap().requests, 2);
        assert_eq!(queries.load(Ordering::Relaxed), 2);
    }
}
