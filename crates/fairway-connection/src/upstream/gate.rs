//! Places of which all workers together may take so many, and a queue of those that wait for one. Nobody who has a place or waits takes a lock
//! unless somebody waits.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// How many places are taken, and who waits. How many there may be is asked each time, so that it can change.
#[derive(Default)]
pub(super) struct Gate {
    taken: AtomicU32,
    /// How long the queue is. Whoever begins to wait writes it before looking at `taken` again, and whoever leaves reads it after `taken` is
    /// lower: one of the two sees the other.
    waiting: AtomicUsize,
    queue: Mutex<Queue>,
}

/// Those that wait, the first in front.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// The next ticket.
    next: u64,
}

/// Somebody in the queue.
struct Waiting {
    ticket: u64,
    worker: usize,
    waker: Waker,
}

/// A place in the queue, while it is in use. It is to be given to [`Gate::leave`] in the end.
#[derive(Default)]
pub(super) struct Ticket {
    /// None where it is not in the queue: before it was, or after it was called.
    queued: Option<u64>,
    was_called: bool,
}

impl Gate {
    /// One more, where fewer than `most` are taken.
    pub(super) fn take(&self, most: u32) -> bool {
        let one_more = |taken: u32| (taken < most).then(|| taken + 1);
        self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
    }

    /// One is given back: whoever has waited longest is called.
    pub(super) fn release(&self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
        self.call();
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> u32 {
        self.taken.load(Ordering::SeqCst)
    }

    /// The worker of whoever has waited longest.
    pub(super) fn first(&self) -> Option<usize> {
        match self.waiting.load(Ordering::SeqCst) {
            0 => None,
            _ => self.lock().waiting.front().map(|first| first.worker),
        }
    }

    /// Whoever has waited longest looks again, if anybody waits.
    pub(super) fn call(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut queue = self.lock();
        let first = queue.waiting.pop_front();
        self.waiting.store(queue.waiting.len(), Ordering::SeqCst);
        drop(queue);
        if let Some(first) = first {
            first.waker.wake();
        }
    }

    /// Ready when there is a reason to look for a place: once it is in the queue, as it may have missed a call, and when it is called. One that
    /// was called and found nothing is the first of the queue again.
    pub(super) fn poll_call(&self, cx: &Context<'_>, worker: usize, ticket: &mut Ticket) -> Poll<()> {
        let mut queue = self.lock();
        if let Some(number) = ticket.queued {
            let Some(waiting) = queue.waiting.iter_mut().find(|waiting| waiting.ticket == number) else {
                *ticket = Ticket { queued: None, was_called: true };
                return Poll::Ready(());
            };
            waiting.waker.clone_from(cx.waker());
            return Poll::Pending;
        }
        let number = queue.next;
        queue.next += 1;
        let waiting = Waiting { ticket: number, worker, waker: cx.waker().clone() };
        match ticket.was_called {
            true => queue.waiting.push_front(waiting),
            false => queue.waiting.push_back(waiting),
        }
        ticket.queued = Some(number);
        self.waiting.store(queue.waiting.len(), Ordering::SeqCst);
        Poll::Ready(())
    }

    /// Waits no more. A call that was not heard goes to the next.
    pub(super) fn leave(&self, ticket: &Ticket) {
        let Some(number) = ticket.queued else { return };
        let mut queue = self.lock();
        let at = queue.waiting.iter().position(|waiting| waiting.ticket == number);
        if let Some(at) = at {
            queue.waiting.remove(at);
        }
        self.waiting.store(queue.waiting.len(), Ordering::SeqCst);
        drop(queue);
        if at.is_none() {
            self.call();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// One more in the queue.
    fn wait(gate: &Gate) -> Ticket {
        let mut ticket = Ticket::default();
        assert!(poll(gate, &mut ticket).is_ready(), "it is to look again before it waits");
        assert!(poll(gate, &mut ticket).is_pending());
        ticket
    }

    fn poll(gate: &Gate, ticket: &mut Ticket) -> Poll<()> {
        gate.poll_call(&Context::from_waker(Waker::noop()), 0, ticket)
    }

    #[test]
    fn a_call_that_is_not_heard_goes_to_the_next_and_one_that_finds_nothing_stays_first() {
        let gate = Gate::default();
        assert!(gate.take(1) && !gate.take(1));
        let [one, mut two, mut three] = [(); 3].map(|()| wait(&gate));
        gate.release();
        gate.leave(&one);
        assert!(poll(&gate, &mut two).is_ready() && poll(&gate, &mut three).is_pending());
        assert!(gate.take(1), "somebody who did not wait is faster");
        assert!(poll(&gate, &mut two).is_ready() && poll(&gate, &mut two).is_pending());
        gate.release();
        assert!(poll(&gate, &mut two).is_ready() && poll(&gate, &mut three).is_pending());
        gate.leave(&two);
        gate.leave(&three);
        assert_eq!((gate.first(), gate.taken()), (None, 0));
    }

    #[test]
    fn threads_miss_no_call() {
        const MOST: u32 = 2;
        let gate = Gate::default();
        let work = async |worker| {
            for _ in 0..2_000 {
                let mut ticket = Ticket::default();
                while !gate.take(MOST) {
                    poll_fn(|cx| gate.poll_call(cx, worker, &mut ticket)).await;
                }
                gate.leave(&ticket);
                assert!(gate.taken() <= MOST);
                tokio::task::yield_now().await;
                gate.release();
            }
        };
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
                let work = &work;
                scope.spawn(move || runtime.block_on(work(worker)));
            }
        });
        assert_eq!((gate.first(), gate.taken()), (None, 0));
    }
}
