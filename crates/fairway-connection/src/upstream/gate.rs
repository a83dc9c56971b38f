//! Permits shared by all workers, and a FIFO queue of waiters. Neither holders nor waiters take a lock unless someone
//! waits.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Counts permits and queues waiters. The limit is passed to each call, so that it can change.
#[derive(Default)]
pub(super) struct Gate {
    in_use: AtomicU32,
    /// The length of the queue. A waiter writes it before it checks `in_use` again, and a holder reads it after it
    /// lowered `in_use`: one of the two sees the other.
    waiting: AtomicUsize,
    queue: Mutex<Queue>,
}

/// The waiters, first in front.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// The next ticket.
    next_ticket: u64,
}

/// A waiter in the queue.
struct Waiting {
    ticket: u64,
    worker: usize,
    waker: Waker,
}

/// A place in the queue. Must be passed to [`Gate::leave_queue`] in the end.
#[derive(Default)]
pub(super) struct Ticket {
    /// `None` if it is not in the queue: not yet, or woken.
    queued: Option<u64>,
    was_woken: bool,
}

impl Gate {
    /// Acquires a permit if fewer than `most` are in use.
    pub(super) fn try_acquire(&self, limit: u32) -> bool {
        let increment = |taken: u32| (taken < limit).then(|| taken + 1);
        self.in_use.fetch_update(Ordering::SeqCst, Ordering::SeqCst, increment).is_ok()
    }

    /// Releases a permit and wakes the first waiter.
    pub(super) fn release(&self) {
        self.in_use.fetch_sub(1, Ordering::SeqCst);
        self.wake_first();
    }

    /// Permits in use.
    pub(super) fn in_use(&self) -> u32 {
        self.in_use.load(Ordering::SeqCst)
    }

    /// The worker of the first waiter.
    pub(super) fn first_worker(&self) -> Option<usize> {
        match self.waiting.load(Ordering::SeqCst) {
            0 => None,
            _ => self.lock().waiting.front().map(|first| first.worker),
        }
    }

    /// Wakes the first waiter, if any.
    pub(super) fn wake_first(&self) {
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

    /// Ready when it is worth trying to acquire: once after it was queued, since it may have missed a wake-up, and
    /// whenever it is woken. A waiter that was woken and got nothing goes back to the front.
    pub(super) fn poll_woken(&self, cx: &Context<'_>, worker: usize, ticket: &mut Ticket) -> Poll<()> {
        let mut queue = self.lock();
        if let Some(number) = ticket.queued {
            let Some(waiting) = queue.waiting.iter_mut().find(|waiting| waiting.ticket == number) else {
                *ticket = Ticket { queued: None, was_woken: true };
                return Poll::Ready(());
            };
            waiting.waker.clone_from(cx.waker());
            return Poll::Pending;
        }
        let number = queue.next_ticket;
        queue.next_ticket += 1;
        let waiting = Waiting { ticket: number, worker, waker: cx.waker().clone() };
        match ticket.was_woken {
            true => queue.waiting.push_front(waiting),
            false => queue.waiting.push_back(waiting),
        }
        ticket.queued = Some(number);
        self.waiting.store(queue.waiting.len(), Ordering::SeqCst);
        Poll::Ready(())
    }

    /// Leaves the queue. A wake-up that was not used is passed to the next waiter.
    pub(super) fn leave_queue(&self, ticket: &Ticket) {
        let Some(number) = ticket.queued else { return };
        let mut queue = self.lock();
        let at = queue.waiting.iter().position(|waiting| waiting.ticket == number);
        if let Some(at) = at {
            queue.waiting.remove(at);
        }
        self.waiting.store(queue.waiting.len(), Ordering::SeqCst);
        drop(queue);
        if at.is_none() {
            self.wake_first();
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

    /// Adds a waiter to the queue.
    fn wait(gate: &Gate) -> Ticket {
        let mut ticket = Ticket::default();
        assert!(poll(gate, &mut ticket).is_ready(), "it is to look again before it waits");
        assert!(poll(gate, &mut ticket).is_pending());
        ticket
    }

    fn poll(gate: &Gate, ticket: &mut Ticket) -> Poll<()> {
        gate.poll_woken(&Context::from_waker(Waker::noop()), 0, ticket)
    }

    #[test]
    fn an_ignored_wakeup_goes_to_the_next_waiter_and_a_failed_attempt_keeps_its_place() {
        let gate = Gate::default();
        assert!(gate.try_acquire(1) && !gate.try_acquire(1));
        let [one, mut two, mut three] = [(); 3].map(|()| wait(&gate));
        gate.release();
        gate.leave_queue(&one);
        assert!(poll(&gate, &mut two).is_ready() && poll(&gate, &mut three).is_pending());
        assert!(gate.try_acquire(1), "somebody who did not wait is faster");
        assert!(poll(&gate, &mut two).is_ready() && poll(&gate, &mut two).is_pending());
        gate.release();
        assert!(poll(&gate, &mut two).is_ready() && poll(&gate, &mut three).is_pending());
        gate.leave_queue(&two);
        gate.leave_queue(&three);
        assert_eq!((gate.first_worker(), gate.in_use()), (None, 0));
    }

    #[test]
    fn threads_miss_no_call() {
        const LIMIT: u32 = 2;
        let gate = Gate::default();
        let work = async |worker| {
            for _ in 0..2_000 {
                let mut ticket = Ticket::default();
                while !gate.try_acquire(LIMIT) {
                    poll_fn(|cx| gate.poll_woken(cx, worker, &mut ticket)).await;
                }
                gate.leave_queue(&ticket);
                assert!(gate.in_use() <= LIMIT);
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
        assert_eq!((gate.first_worker(), gate.in_use()), (None, 0));
    }
}
