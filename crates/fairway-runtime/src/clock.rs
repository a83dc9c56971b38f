//! Time on the request path: one reading per event, and one timer per connection however often its limit moves.
//!
//! The clock is tokio's, which tests pause and move (docs/design/0002-virtual-time.md).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub use tokio::time::Instant;
use tokio::time::Sleep;

/// A limit in time that moves with every step of a connection.
///
/// Moving it later costs a store: the timer fires at the old time, sees the new limit and sleeps on. Only moving it
/// before the armed time touches the timer wheel, so a busy keep-alive connection touches it about once a minute.
pub struct Deadline {
    at: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// No limit and no timer yet.
    #[inline]
    pub const fn unset() -> Self {
        Self { at: None, timer: None }
    }

    /// Moves the limit to `after` from `now`. What is later than any clock can say is no limit.
    #[inline]
    pub fn set(&mut self, now: Instant, after: Duration) {
        self.at = now.checked_add(after);
    }

    /// Sets the limit to `after` from now, unless there is one.
    pub fn set_once(&mut self, after: Duration) {
        if self.at.is_none() {
            self.set(Instant::now(), after);
        }
    }

    /// Ready when the limit has passed.
    #[inline]
    pub fn poll_passed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if at < timer.deadline() {
            timer.as_mut().reset(at);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if at <= Instant::now() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(at);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_moves_later_is_kept_to_the_later_time() {
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
    async fn a_limit_that_moves_earlier_is_kept_to_the_earlier_time() {
        let start = Instant::now();
        let mut deadline = Deadline::unset();
        deadline.set(start, Duration::from_secs(75));
        let _ = tokio::time::timeout(Duration::from_secs(1), poll_fn(|cx| deadline.poll_passed(cx))).await;
        deadline.set(Instant::now(), Duration::from_secs(5));
        poll_fn(|cx| deadline.poll_passed(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nothing_passes() {
        let mut deadline = Deadline::unset();
        deadline.set(Instant::now(), Duration::from_secs(1));
        deadline.set(Instant::now(), Duration::MAX);
        let waited =
            tokio::time::timeout(Duration::from_secs(100), poll_fn(|cx| deadline.poll_passed(cx))).await;
        assert!(waited.is_err());
    }
}
