//! Delays that end when they should: a heap of those that wait and one exact timer, for a thread. tokio rounds a sleep up
//! to its next millisecond, and a backend that answers on ticks makes generators that send on ticks look slow.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::timer::Timer;

/// The delays of one thread.
pub(super) struct Alarm {
    timer: AsyncFd<Timer>,
    waiting: RefCell<BinaryHeap<Waiting>>,
}

struct Waiting {
    due: Instant,
    wake: oneshot::Sender<()>,
}

impl Alarm {
    /// Without delays yet; within a runtime.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { timer: AsyncFd::new(Timer::new()?)?, waiting: RefCell::default() })
    }

    /// Sleeps so long.
    ///
    /// # Errors
    /// The timer cannot be set, or nobody runs [`Alarm::run`] any more.
    pub(super) async fn sleep(&self, delay: Duration) -> io::Result<()> {
        let due = Instant::now() + delay;
        let (wake, woken) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting.borrow_mut();
            let is_first = waiting.peek().is_none_or(|first| due < first.due);
            waiting.push(Waiting { due, wake });
            is_first
        };
        if is_first {
            self.timer.get_ref().set(nanos(delay))?;
        }
        woken.await.map_err(|_| io::Error::other("the alarm of the thread has ended"))
    }

    /// Wakes those whose time has come, for ever.
    pub(super) async fn run(&self) -> io::Result<()> {
        loop {
            let mut ready = self.timer.readable().await?;
            ready.clear_ready();
            self.timer.get_ref().clear()?;
            if let Some(left) = self.wake() {
                self.timer.get_ref().set(nanos(left))?;
            }
        }
    }

    /// Wakes what is due; how long until the next.
    fn wake(&self) -> Option<Duration> {
        let mut waiting = self.waiting.borrow_mut();
        loop {
            let left = waiting.peek()?.due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Some(left);
            }
            let one = waiting.pop()?;
            // Whoever asked may be gone with its connection.
            _ = one.wake.send(());
        }
    }
}

fn nanos(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)
}

/// The one that is due first is the greatest.
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        other.due.cmp(&self.due)
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Waiting {}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// Runs with an alarm on a thread of its own, as the backend does.
    fn with_alarm<T>(work: impl AsyncFnOnce(Rc<Alarm>) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let alarm = Rc::new(Alarm::new().unwrap());
            let runner = alarm.clone();
            tokio::task::spawn_local(async move { runner.run().await });
            work(alarm).await
        })
    }

    #[test]
    fn a_delay_is_exact_to_less_than_a_tick() {
        let delay = Duration::from_micros(2_100);
        let best = with_alarm(async |alarm| {
            let mut best = Duration::MAX;
            for _ in 0..100 {
                let begun = Instant::now();
                alarm.sleep(delay).await.unwrap();
                best = best.min(begun.elapsed());
            }
            best
        });
        // A busy machine delays some of a hundred; ticks of a millisecond would delay all of them to three.
        assert!(best >= delay && best < delay + Duration::from_micros(500), "{best:?}");
    }

    #[test]
    fn delays_end_in_the_order_of_their_times_whatever_the_order_of_their_beginnings() {
        let order = with_alarm(async |alarm| {
            let order = Rc::new(RefCell::new(Vec::new()));
            let sleeps = [30_u64, 10, 20].map(|delay| {
                let (alarm, order) = (alarm.clone(), order.clone());
                tokio::task::spawn_local(async move {
                    alarm.sleep(Duration::from_millis(delay)).await.unwrap();
                    order.borrow_mut().push(delay);
                })
            });
            for sleep in sleeps {
                sleep.await.unwrap();
            }
            order.take()
        });
        assert_eq!(order, [10, 20, 30]);
    }

    #[test]
    fn one_that_gave_up_wakes_nobody_and_holds_nobody_up() {
        with_alarm(async |alarm| {
            let given_up = tokio::time::timeout(Duration::ZERO, alarm.sleep(Duration::from_millis(5))).await;
            assert!(given_up.is_err());
            alarm.sleep(Duration::from_millis(10)).await.unwrap();
            assert!(alarm.waiting.borrow().is_empty());
        });
    }
}
