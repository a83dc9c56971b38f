//! Time on the request path: one clock reading per event, and one timer per connection however often its deadline
//! moves.
//!
//! The clock is tokio's, which tests can pause and advance (docs/design/0002-virtual-time.md).

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::coop::unconstrained;
pub use tokio::time::Instant;
use tokio::time::Sleep;

/// A deadline that moves with every step of a connection.
///
/// Moving it later costs a store: the timer fires at the old time, sees the new deadline and sleeps again. Only moving
/// it before the armed time touches the timer wheel, so a busy keep-alive connection touches it about once a minute.
/// Polling does not touch the timer if that will wake the same task in time.
pub struct Deadline {
    at: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    /// The address behind the waker of the timer's last poll, if that poll was pending; otherwise 0. Half the size of a
    /// waker: each waiting stream has several deadlines.
    armed_waker: usize,
}

impl Deadline {
    /// No deadline and no timer yet.
    #[inline]
    pub const fn unset() -> Self {
        Self { at: None, timer: None, armed_waker: 0 }
    }

    /// Sets the deadline to `after` from `now`. A time that the clock cannot represent is no deadline.
    #[inline]
    pub fn set(&mut self, now: Instant, after: Duration) {
        self.at = now.checked_add(after);
    }

    /// Sets the deadline to `after` from now, unless there is one.
    pub fn set_once(&mut self, after: Duration) {
        if self.at.is_none() {
            self.set(Instant::now(), after);
        }
    }

    /// Ready when the deadline has passed.
    #[inline]
    pub fn poll_passed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.at {
            Some(at) if !self.is_armed(at, cx.waker()) => self.poll_timer(at, cx),
            _ => Poll::Pending,
        }
    }

    /// Whether the timer will wake this task at `at` or earlier.
    ///
    /// No wake-up is lost: a timer keeps a clone of its last waker until it fires, so no other task can have the same
    /// address until then, and a timer that has fired is polled again.
    #[inline]
    fn is_armed(&self, at: Instant, waker: &Waker) -> bool {
        let Some(timer) = &self.timer else { return false };
        self.armed_waker != 0
            && self.armed_waker == waker_address(waker)
            && timer.deadline() <= at
            && !timer.is_elapsed()
    }

    fn poll_timer(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if at < timer.deadline() {
            timer.as_mut().reset(at);
        }
        // If the task has used up its budget, tokio would not even register the waker.
        while pin!(unconstrained(timer.as_mut())).poll(cx).is_ready() {
            if at <= Instant::now() {
                self.armed_waker = 0;
                return Poll::Ready(());
            }
            timer.as_mut().reset(at);
        }
        self.armed_waker = waker_address(cx.waker());
        Poll::Pending
    }
}

fn waker_address(waker: &Waker) -> usize {
    waker.data().addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use tokio::task::coop::{consume_budget, has_budget_remaining};
    use tokio::time::{advance, sleep};

    const SECOND: Duration = Duration::from_secs(1);

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Task {
        woken: AtomicUsize,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Task {
        fn poll(self: &Arc<Self>, deadline: &mut Deadline) -> Poll<()> {
            let waker = Waker::from(Arc::clone(self));
            deadline.poll_passed(&mut Context::from_waker(&waker))
        }

        fn woken(&self) -> usize {
            self.woken.load(Ordering::Relaxed)
        }
    }

    fn in_a_second() -> Deadline {
        let mut deadline = Deadline::unset();
        deadline.set(Instant::now(), SECOND);
        deadline
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_polls_again_and_again_is_woken_when_the_limit_has_passed() {
        let (task, mut deadline) = (Arc::new(Task::default()), in_a_second());
        for _ in 0..9 {
            assert!(task.poll(&mut deadline).is_pending());
            advance(SECOND / 10).await;
            assert_eq!(task.woken(), 0);
        }
        assert!(task.poll(&mut deadline).is_pending());
        advance(SECOND).await;
        assert_eq!(task.woken(), 1);
        assert!(task.poll(&mut deadline).is_ready());
        assert!(task.poll(&mut deadline).is_ready(), "it has passed for good");
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_that_polled_last_is_woken() {
        let (first, second) = (Arc::new(Task::default()), Arc::new(Task::default()));
        let (mut for_second, mut for_first) = (in_a_second(), in_a_second());
        for task in [&first, &second] {
            assert!(task.poll(&mut for_second).is_pending());
        }
        sleep(2 * SECOND).await;
        assert_eq!((first.woken(), second.woken()), (0, 1));
        for_first.set(Instant::now(), SECOND);
        for task in [&first, &second, &first] {
            assert!(task.poll(&mut for_first).is_pending());
        }
        sleep(2 * SECOND).await;
        assert_eq!((first.woken(), second.woken()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_polled_is_woken_at_an_earlier_limit() {
        let (task, mut deadline) = (Arc::new(Task::default()), Deadline::unset());
        deadline.set(Instant::now(), 75 * SECOND);
        assert!(task.poll(&mut deadline).is_pending());
        deadline.set(Instant::now(), SECOND);
        assert!(task.poll(&mut deadline).is_pending());
        sleep(2 * SECOND).await;
        assert_eq!(task.woken(), 1);
        assert!(task.poll(&mut deadline).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_fired_before_a_later_limit_is_armed_again() {
        let (task, mut deadline) = (Arc::new(Task::default()), in_a_second());
        assert!(task.poll(&mut deadline).is_pending());
        deadline.set(Instant::now(), 3 * SECOND);
        assert!(task.poll(&mut deadline).is_pending());
        sleep(2 * SECOND).await;
        assert_eq!(task.woken(), 1, "at the old limit");
        assert!(task.poll(&mut deadline).is_pending());
        sleep(2 * SECOND).await;
        assert_eq!(task.woken(), 2);
        assert!(task.poll(&mut deadline).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_can_be_set_again_after_its_timer_has_fired() {
        let (task, mut deadline) = (Arc::new(Task::default()), in_a_second());
        assert!(task.poll(&mut deadline).is_pending());
        sleep(2 * SECOND).await;
        deadline.set(Instant::now(), SECOND);
        assert!(task.poll(&mut deadline).is_pending(), "nothing saw that the timer fired");
        sleep(2 * SECOND).await;
        assert!(task.poll(&mut deadline).is_ready());
        deadline.set(Instant::now(), SECOND);
        assert!(task.poll(&mut deadline).is_pending(), "the limit was seen to have passed");
        sleep(2 * SECOND).await;
        assert_eq!(task.woken(), 3);
        assert!(task.poll(&mut deadline).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_has_used_up_its_budget_is_woken_too() {
        let (task, mut deadline) = (Arc::new(Task::default()), in_a_second());
        while has_budget_remaining() {
            consume_budget().await;
        }
        assert!(task.poll(&mut deadline).is_pending());
        sleep(2 * SECOND).await;
        assert_eq!(task.woken(), 1);
        assert!(task.poll(&mut deadline).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_moves_later_expires_at_the_later_time() {
        let start = Instant::now();
        let mut deadline = Deadline::unset();
        deadline.set(start, Duration::from_secs(1));
        let early =
            tokio::time::timeout(Duration::from_millis(500), poll_fn(|cx| deadline.poll_passed(cx))).await;
        assert!(early.is_err());
        deadline.set(start, Duration::from_secs(3));
        poll_fn(|cx| deadline.poll_passed(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_moves_earlier_expires_at_the_earlier_time() {
        let start = Instant::now();
        let mut deadline = Deadline::unset();
        deadline.set(start, Duration::from_secs(75));
        let _ = tokio::time::timeout(Duration::from_secs(1), poll_fn(|cx| deadline.poll_passed(cx))).await;
        deadline.set(Instant::now(), Duration::from_secs(5));
        poll_fn(|cx| deadline.poll_passed(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unset_deadline_never_expires() {
        let mut deadline = Deadline::unset();
        deadline.set(Instant::now(), Duration::from_secs(1));
        deadline.set(Instant::now(), Duration::MAX);
        let waited =
            tokio::time::timeout(Duration::from_secs(100), poll_fn(|cx| deadline.poll_passed(cx))).await;
        assert!(waited.is_err());
    }
}
