//! Delays that end when they should: a thread with a heap of those that wait. tokio rounds a sleep up to its next
//! millisecond, and a backend that answers on ticks makes generators that send on ticks look slow.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Where delays are asked for. The thread behind it ends with the last of its clones.
#[derive(Clone)]
pub(super) struct Alarm(Sender<Waiting>);

struct Waiting {
    due: Instant,
    wake: oneshot::Sender<()>,
}

impl Alarm {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let (ask, asked) = mpsc::channel();
        std::thread::Builder::new().name("alarm".to_owned()).spawn(move || run(&asked))?;
        Ok(Self(ask))
    }

    /// Sleeps so long; not at all when the thread has ended, which it does not while it can be asked.
    pub(super) async fn sleep(&self, delay: Duration) {
        let (wake, woken) = oneshot::channel();
        if self.0.send(Waiting { due: Instant::now() + delay, wake }).is_ok() {
            // An error is the end of the thread.
            _ = woken.await;
        }
    }
}

/// Wakes those whose time has come, until nobody can ask any more.
fn run(asked: &Receiver<Waiting>) {
    let mut waiting = BinaryHeap::new();
    loop {
        let next = match wake(&mut waiting) {
            Some(left) => asked.recv_timeout(left),
            None => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(one) => waiting.push(one),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Wakes what is due; how long until the next.
fn wake(waiting: &mut BinaryHeap<Waiting>) -> Option<Duration> {
    loop {
        let left = waiting.peek()?.due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Some(left);
        }
        // Whoever asked may be gone with its connection.
        _ = waiting.pop()?.wake.send(());
    }
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
    use std::cell::RefCell;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn a_delay_is_exact_to_less_than_a_tick() {
        let (alarm, delay) = (Alarm::start().unwrap(), Duration::from_micros(2_100));
        let mut best = Duration::MAX;
        for _ in 0..100 {
            let begun = Instant::now();
            alarm.sleep(delay).await;
            best = best.min(begun.elapsed());
        }
        // A busy machine delays some of a hundred; ticks of a millisecond would delay all of them to three.
        assert!(best >= delay && best < delay + Duration::from_micros(500), "{best:?}");
    }

    #[tokio::test]
    async fn delays_end_in_the_order_of_their_times_whatever_the_order_of_their_beginnings() {
        let (alarm, order) = (Alarm::start().unwrap(), Rc::new(RefCell::new(Vec::new())));
        let sleep = async |delay| {
            alarm.sleep(Duration::from_millis(delay)).await;
            order.borrow_mut().push(delay);
        };
        tokio::join!(sleep(60), sleep(20), sleep(40));
        assert_eq!(*order.borrow(), [20, 40, 60]);
    }

    #[tokio::test]
    async fn one_that_gave_up_wakes_nobody_and_holds_nobody_up() {
        let alarm = Alarm::start().unwrap();
        {
            let mut given_up = pin!(alarm.sleep(Duration::from_millis(5)));
            // On a busy machine its time may be over already.
            let _ = given_up.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        let begun = Instant::now();
        alarm.sleep(Duration::from_millis(10)).await;
        assert!(begun.elapsed() >= Duration::from_millis(10));
    }
}
