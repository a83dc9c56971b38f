//! What waits to be sent: items of one kind, in their order, bounded by number and bytes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::counts::{Counts, Dropped};
use crate::message::{Item, MAX_ITEM_BYTES};

/// Bytes that may wait, whatever the number of items.
const MAX_QUEUE_BYTES: usize = 16 * 1024 * 1024;

/// Bounds as a collector has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Items that may wait.
    pub(crate) max_queue: usize,
    /// The longest time that one waits for others.
    pub(crate) max_delay: Duration,
    /// Items of a message.
    pub(crate) max_batch: usize,
}

/// The items that wait. One task takes them, on the thread of those that bring them.
pub(crate) struct Queue<T> {
    state: RefCell<State<T>>,
    /// Something has come, or nothing will come any more.
    changed: Notify,
    counts: Arc<Counts>,
}

struct State<T> {
    waiting: VecDeque<Waiting<T>>,
    bytes: usize,
    is_closed: bool,
}

struct Waiting<T> {
    since: Instant,
    bytes: usize,
    item: T,
}

impl<T: Item> Queue<T> {
    pub(crate) fn new(counts: Arc<Counts>) -> Self {
        let state = State { waiting: VecDeque::new(), bytes: 0, is_closed: false };
        Self { state: RefCell::new(state), changed: Notify::new(), counts }
    }

    /// Adds items that belong together: all of them, or where there is no room for all, none. There are no bounds where there is no
    /// collector, and no room either.
    pub(crate) fn push(&self, items: Vec<T>, bounds: Option<Bounds>) {
        let count = items.len();
        let Some(bounds) = bounds else {
            self.counts.dropped(T::SIGNAL, Dropped::NoCollector, count as u64);
            return;
        };
        let items: Vec<_> = items.into_iter().map(|item| (item.encoded_len(), item)).collect();
        let bytes: usize = items.iter().map(|(bytes, _)| bytes).sum();
        let mut state = self.state.borrow_mut();
        let has_room =
            state.waiting.len() + count <= bounds.max_queue && state.bytes + bytes <= MAX_QUEUE_BYTES;
        if !has_room {
            self.counts.dropped(T::SIGNAL, Dropped::QueueFull, count as u64);
            return;
        }
        let since = Instant::now();
        state.bytes += bytes;
        state.waiting.extend(items.into_iter().map(|(bytes, item)| Waiting { since, bytes, item }));
        self.counts.queued(T::SIGNAL, state.waiting.len());
        self.changed.notify_one();
    }

    /// Nothing will come any more: what waits is sent without waiting for others.
    pub(crate) fn close(&self) {
        self.state.borrow_mut().is_closed = true;
        self.changed.notify_one();
    }

    /// How many items wait.
    pub(crate) fn len(&self) -> usize {
        self.state.borrow().waiting.len()
    }

    /// The items of the next message, once there are enough of them or one has waited long enough; `None` after the last one.
    pub(crate) async fn next(&self, bounds: impl Fn() -> Bounds) -> Option<Vec<T>> {
        loop {
            let bounds = bounds();
            let due = {
                let mut state = self.state.borrow_mut();
                let due = state.waiting.front().map(|first| first.since + bounds.max_delay);
                let is_enough = state.waiting.len() >= bounds.max_batch || state.bytes >= MAX_ITEM_BYTES;
                let is_due = due.is_some_and(|due| due <= Instant::now());
                if is_due || (due.is_some() && (is_enough || state.is_closed)) {
                    let items = state.take(bounds.max_batch);
                    self.counts.queued(T::SIGNAL, state.waiting.len());
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

impl<T> State<T> {
    /// As many items as fit in a message, at least one.
    fn take(&mut self, max_batch: usize) -> Vec<T> {
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

    const BOUNDS: Bounds = Bounds { max_queue: 10, max_delay: Duration::from_secs(5), max_batch: 4 };

    fn spans(count: usize) -> Vec<Span> {
        vec![Span { name: "GET".to_owned(), ..Span::default() }; count]
    }

    fn queue() -> (Queue<Span>, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        (Queue::new(Arc::clone(&counts)), counts)
    }

    fn has(counts: &Counts, line: &str) -> bool {
        counts.text().lines().any(|one| one == line)
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_goes_when_it_is_full_or_its_first_item_has_waited() {
        let (queue, _) = queue();
        queue.push(spans(5), Some(BOUNDS));
        let began = Instant::now();
        assert_eq!(queue.next(|| BOUNDS).await.unwrap().len(), 4);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(queue.next(|| BOUNDS).await.unwrap().len(), 1);
        assert_eq!(began.elapsed().as_secs(), 5);
        queue.push(spans(2), Some(BOUNDS));
        queue.close();
        assert_eq!(queue.next(|| BOUNDS).await.unwrap().len(), 2);
        assert!(queue.next(|| BOUNDS).await.is_none());
        assert_eq!(began.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_while_the_queue_is_waited_for_is_noticed() {
        let (queue, _) = queue();
        let (items, ()) = tokio::join!(queue.next(|| BOUNDS), async {
            queue.push(spans(4), Some(BOUNDS));
        });
        assert_eq!(items.unwrap().len(), 4);
    }

    #[test]
    fn what_belongs_together_is_dropped_together_and_counted() {
        let (queue, counts) = queue();
        for _ in 0..5 {
            queue.push(spans(3), Some(BOUNDS));
        }
        queue.push(spans(1), Some(BOUNDS));
        queue.push(spans(7), None);
        assert_eq!(queue.len(), 10);
        for line in [
            "fairway_otlp_queue_items{signal=\"traces\"} 10",
            "fairway_otlp_items_dropped_total{signal=\"traces\",reason=\"queue_full\"} 6",
            "fairway_otlp_items_dropped_total{signal=\"traces\",reason=\"no_collector\"} 7",
        ] {
            assert!(has(&counts, line), "{line} in\n{}", counts.text());
        }
        assert_eq!(counts.dropped_so_far(Signal::Traces), 13);
    }

    #[test]
    fn a_queue_is_bounded_by_bytes_and_so_is_a_message() {
        let (queue, counts) = queue();
        let large = || vec![Span { name: "x".repeat(2 * 1024 * 1024), ..Span::default() }];
        let bounds = Bounds { max_queue: 1_000, max_batch: 1_000, ..BOUNDS };
        for _ in 0..20 {
            queue.push(large(), Some(bounds));
        }
        assert_eq!(queue.len(), 7);
        assert_eq!(counts.dropped_so_far(Signal::Traces), 13);
        let mut state = queue.state.borrow_mut();
        assert_eq!(state.take(1_000).len(), 1);
        state.waiting.clear();
        assert_eq!(state.take(1_000).len(), 0);
    }
}
