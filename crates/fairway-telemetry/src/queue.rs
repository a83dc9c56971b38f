//! Queues the items of one signal in order, limited by number and bytes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::counts::{Counts, DropReason};
use crate::message::{Item, MAX_ITEM_BYTES};

/// The maximum number of queued bytes, whatever the number of items.
const MAX_QUEUE_BYTES: usize = 16 * 1024 * 1024;

/// The queue limits of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    /// Queued items.
    pub(crate) max_queue: usize,
    /// How long an item waits for others at most.
    pub(crate) max_delay: Duration,
    /// Items per message.
    pub(crate) max_batch: usize,
}

/// The queued items. One task takes them, on the same thread as the tasks that add them.
pub(crate) struct Queue<T> {
    state: RefCell<QueueState<T>>,
    /// Notified when an item is added or the queue is closed.
    changed: Notify,
    counts: Arc<Counts>,
}

struct QueueState<T> {
    waiting: VecDeque<QueuedItem<T>>,
    bytes: usize,
    is_closed: bool,
}

struct QueuedItem<T> {
    since: Instant,
    bytes: usize,
    item: T,
}

impl<T: Item> Queue<T> {
    pub(crate) fn new(counts: Arc<Counts>) -> Self {
        let state = QueueState { waiting: VecDeque::new(), bytes: 0, is_closed: false };
        Self { state: RefCell::new(state), changed: Notify::new(), counts }
    }

    /// Adds items that belong together: all of them, or none if there is no room for all. Without a collector there are no
    /// limits, and the items are dropped.
    pub(crate) fn push(&self, items: Vec<T>, bounds: Option<QueueLimits>) {
        let count = items.len();
        let Some(bounds) = bounds else {
            self.counts.record_dropped(T::SIGNAL, DropReason::NoCollector, count as u64);
            return;
        };
        let items: Vec<_> = items.into_iter().map(|item| (item.encoded_len(), item)).collect();
        let bytes: usize = items.iter().map(|(bytes, _)| bytes).sum();
        let mut state = self.state.borrow_mut();
        let has_room =
            state.waiting.len() + count <= bounds.max_queue && state.bytes + bytes <= MAX_QUEUE_BYTES;
        if !has_room {
            self.counts.record_dropped(T::SIGNAL, DropReason::QueueFull, count as u64);
            return;
        }
        let since = Instant::now();
        state.bytes += bytes;
        state.waiting.extend(items.into_iter().map(|(bytes, item)| QueuedItem { since, bytes, item }));
        self.counts.set_queued(T::SIGNAL, state.waiting.len());
        self.changed.notify_one();
    }

    /// No further items will be added: the queued ones are sent without waiting.
    pub(crate) fn close(&self) {
        self.state.borrow_mut().is_closed = true;
        self.changed.notify_one();
    }

    /// The number of queued items.
    pub(crate) fn len(&self) -> usize {
        self.state.borrow().waiting.len()
    }

    /// The items of the next message, once there are enough or one has waited long enough; `None` after the last one.
    pub(crate) async fn next_batch(&self, bounds: impl Fn() -> QueueLimits) -> Option<Vec<T>> {
        loop {
            let bounds = bounds();
            let due = {
                let mut state = self.state.borrow_mut();
                let due = state.waiting.front().map(|first| first.since + bounds.max_delay);
                let is_enough = state.waiting.len() >= bounds.max_batch || state.bytes >= MAX_ITEM_BYTES;
                let is_due = due.is_some_and(|due| due <= Instant::now());
                if is_due || (due.is_some() && (is_enough || state.is_closed)) {
                    let items = state.take_batch(bounds.max_batch);
                    self.counts.set_queued(T::SIGNAL, state.waiting.len());
                    return Some(items);
                }
                if state.is_closed {
                    return None;
                }
                due
            };
            match due {
                None => self.changed.notified().await,
                Some(due) => tokio::select! {
                    () = self.changed.notified() => {}
                    () = sleep_until(due) => {}
                },
            }
        }
    }
}

impl<T> QueueState<T> {
    /// As many items as fit in a message, at least one.
    fn take_batch(&mut self, max_batch: usize) -> Vec<T> {
        let mut items = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.waiting.front() {
            let fits = items.len() < max_batch && bytes + next.bytes <= MAX_ITEM_BYTES;
            if !items.is_empty() && !fits {
                break;
            }
            bytes += next.bytes;
            items.extend(self.waiting.pop_front().map(|it| it.item));
        }
        self.bytes -= bytes;
        items
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::trace::v1::Span;

    use super::*;
    use crate::signal::Signal;

    const LIMITS: QueueLimits =
        QueueLimits { max_queue: 10, max_delay: Duration::from_secs(5), max_batch: 4 };

    fn spans(count: usize) -> Vec<Span> {
        vec![Span { name: "GET".to_owned(), ..Span::default() }; count]
    }

    fn queue() -> (Queue<Span>, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        (Queue::new(Arc::clone(&counts)), counts)
    }

    fn has_line(counts: &Counts, line: &str) -> bool {
        counts.metrics_text().lines().any(|text_line| text_line == line)
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_sent_when_full_or_when_its_first_item_has_waited() {
        let (queue, _) = queue();
        queue.push(spans(5), Some(LIMITS));
        let began = Instant::now();
        assert_eq!(queue.next_batch(|| LIMITS).await.unwrap().len(), 4);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(queue.next_batch(|| LIMITS).await.unwrap().len(), 1);
        assert_eq!(began.elapsed().as_secs(), 5);
        queue.push(spans(2), Some(LIMITS));
        queue.close();
        assert_eq!(queue.next_batch(|| LIMITS).await.unwrap().len(), 2);
        assert!(queue.next_batch(|| LIMITS).await.is_none());
        assert_eq!(began.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_wakes_up_the_waiting_task() {
        let (queue, _) = queue();
        let (items, ()) = tokio::join!(queue.next_batch(|| LIMITS), async {
            queue.push(spans(4), Some(LIMITS));
        });
        assert_eq!(items.unwrap().len(), 4);
    }

    #[test]
    fn items_that_belong_together_are_dropped_together_and_counted() {
        let (queue, counts) = queue();
        for _ in 0..5 {
            queue.push(spans(3), Some(LIMITS));
        }
        queue.push(spans(1), Some(LIMITS));
        queue.push(spans(7), None);
        assert_eq!(queue.len(), 10);
        for line in [
            "fairway_otlp_queue_items{signal=\"traces\"} 10",
            "fairway_otlp_items_dropped_total{signal=\"traces\",reason=\"queue_full\"} 6",
            "fairway_otlp_items_dropped_total{signal=\"traces\",reason=\"no_collector\"} 7",
        ] {
            assert!(has_line(&counts, line), "{line} in\n{}", counts.metrics_text());
        }
        assert_eq!(counts.dropped_items(Signal::Traces), 13);
    }

    #[test]
    fn a_queue_is_bounded_by_bytes_and_so_is_a_message() {
        let (queue, counts) = queue();
        let large = || vec![Span { name: "x".repeat(2 * 1024 * 1024), ..Span::default() }];
        let bounds = QueueLimits { max_queue: 1_000, max_batch: 1_000, ..LIMITS };
        for _ in 0..20 {
            queue.push(large(), Some(bounds));
        }
        assert_eq!(queue.len(), 7);
        assert_eq!(counts.dropped_items(Signal::Traces), 13);
        let mut state = queue.state.borrow_mut();
        assert_eq!(state.take_batch(1_000).len(), 1);
        state.waiting.clear();
        assert_eq!(state.take_batch(1_000).len(), 0);
    }
}
