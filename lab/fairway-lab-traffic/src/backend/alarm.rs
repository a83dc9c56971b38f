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
        let next = match wake(&mut waiting, Instant::now()) {
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

/// Wakes what is due at `now`; how long until the next, to the nanosecond: not a tick more.
fn wake(waiting: &mut BinaryHeap<Waiting>, now: Instant) -> Option<Duration> {
    loop {
        let left = waiting.peek()?.due.saturating_duration_since(now);
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
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// Delays that were asked for at `begun`, in microseconds, and who waits for them.
    fn asked(begun: Instant, delays: &[u64]) -> (BinaryHeap<Waiting>, Vec<oneshot::Receiver<()>>) {
        let ask = |delay: &u64| {
            let (wake, woken) = oneshot::channel();
            (Waiting { due: begun + Duration::from_micros(*delay), wake }, woken)
        };
        delays.iter().map(ask).unzip()
    }

    #[test]
    fn a_delay_ends_at_its_nanosecond_and_not_at_a_tick() {
        let begun = Instant::now();
        let (mut waiting, mut woken) = asked(begun, &[2_100]);
        let delay = Duration::from_micros(2_100);
        assert_eq!(wake(&mut waiting, begun), Some(delay));
        let just_before = begun + delay - Duration::from_nanos(1);
        assert_eq!(wake(&mut waiting, just_before), Some(Duration::from_nanos(1)));
        assert!(woken[0].try_recv().is_err());
        assert_eq!(wake(&mut waiting, begun + delay), None);
        assert_eq!(woken[0].try_recv(), Ok(()));
    }

    #[test]
    fn delays_end_in_the_order_of_their_times_whatever_the_order_of_their_beginnings() {
        let begun = Instant::now();
        let (mut waiting, mut woken) = asked(begun, &[60, 20, 40]);
        for (now, next, ended) in [(20, Some(20), 1), (40, Some(20), 2), (60, None, 0)] {
            let left = wake(&mut waiting, begun + Duration::from_micros(now));
            assert_eq!(left, next.map(Duration::from_micros));
            let mut states: Vec<bool> = woken.iter_mut().map(|one| one.try_recv().is_ok()).collect();
            assert!(std::mem::take(&mut states[ended]), "{now}");
            assert_eq!(states, [false; 3], "{now}: only one ends");
        }
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
