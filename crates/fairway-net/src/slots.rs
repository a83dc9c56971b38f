//! The exchanges of one connection, polled by the connection itself: each has a bit that says whether to poll it, and
//! its waker sets that bit. Exchanges are no tasks, so the connection chooses their order and writes once for all of
//! them.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use crate::frames::{FutureBox, FuturePool};

/// Maximum exchanges of a connection.
pub const MAX_SLOTS: usize = 128;

const WORDS: usize = MAX_SLOTS / 64;

/// The exchanges of a connection, by slot.
pub struct ExchangeSlots<F> {
    frames: Rc<FuturePool<F>>,
    bell: Arc<Readiness>,
    slots: Vec<Slot<F>>,
    /// Those that are not polled before they are released.
    occupied: [u64; WORDS],
}

struct Slot<F> {
    /// `None` without an exchange.
    frame: Option<FutureBox<F>>,
    waker: Waker,
}

/// Which exchanges to poll, and the task that polls them.
#[derive(Default)]
struct Readiness {
    ready: [AtomicU64; WORDS],
    /// Whether the connection will check the bits anyway.
    is_heard: AtomicBool,
    /// The connection's task, which never changes.
    task: OnceLock<Waker>,
}

/// The waker of one exchange.
struct SlotWaker {
    bell: Arc<Readiness>,
    slot: usize,
}

impl Readiness {
    fn ring(&self, slot: usize) {
        self.ready[slot / 64].fetch_or(1 << (slot % 64), Ordering::SeqCst);
        if !self.is_heard.load(Ordering::SeqCst)
            && let Some(task) = self.task.get()
        {
            task.wake_by_ref();
        }
    }

    /// Whether there is nothing to poll, apart from held exchanges.
    fn is_silent(&self, occupied: &[u64; WORDS]) -> bool {
        self.ready.iter().zip(occupied).all(|(word, held)| word.load(Ordering::SeqCst) & !held == 0)
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.bell.ring(self.slot);
    }
}

impl<F: Future> ExchangeSlots<F> {
    /// No exchanges yet; they will run in these frames.
    pub fn new(frames: Rc<FuturePool<F>>) -> Self {
        Self { frames, bell: Arc::default(), slots: Vec::new(), occupied: [0; WORDS] }
    }

    /// Starts the exchange that `begin` makes. The next round polls it.
    pub fn start(&mut self, slot: usize, begin: impl FnOnce() -> F) {
        while self.slots.len() <= slot {
            let pull = SlotWaker { bell: Arc::clone(&self.bell), slot: self.slots.len() };
            self.slots.push(Slot { frame: None, waker: Arc::new(pull).into() });
        }
        self.slots[slot].frame = Some(self.frames.lay(begin));
        self.ring(slot);
    }

    /// Marks an exchange to be polled, because something it waits for has happened.
    pub fn ring(&self, slot: usize) {
        self.bell.ready[slot / 64].fetch_or(1 << (slot % 64), Ordering::SeqCst);
    }

    /// Marks all of them.
    pub fn ring_all(&self) {
        (0..self.slots.len()).for_each(|slot| self.ring(slot));
    }

    /// Holds the exchange that just began in this slot: it is not polled before it is released.
    pub fn hold(&mut self, slot: usize) {
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Releases an exchange; the next round polls it.
    pub fn release(&mut self, slot: usize) {
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        self.ring(slot);
    }

    /// From now on wakers only set bits: the connection checks them before it waits.
    pub fn listen(&self, cx: &Context<'_>) {
        let task = self.bell.task.get_or_init(|| cx.waker().clone());
        debug_assert!(task.will_wake(cx.waker()), "a connection stays in its task");
        self.bell.is_heard.store(true, Ordering::SeqCst);
    }

    /// The connection is about to wait. Returns whether it may: nothing is to be polled.
    pub fn is_idle(&self) -> bool {
        self.bell.is_heard.store(false, Ordering::SeqCst);
        self.bell.is_silent(&self.occupied)
    }

    /// Polls each marked exchange once, and calls `over` with the slot and output of each that ended. Returns how many
    /// were polled.
    pub fn poll_round(&mut self, mut over: impl FnMut(usize, F::Output)) -> usize {
        let mut polled = 0;
        for (index, word) in self.bell.ready.iter().enumerate() {
            let occupied_word = self.occupied[index];
            let mut bits = match occupied_word {
                0 => word.swap(0, Ordering::SeqCst),
                _ => word.fetch_and(occupied_word, Ordering::SeqCst) & !occupied_word,
            };
            while bits != 0 {
                let slot = index * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if let Some(output) = poll(&mut self.slots, slot, &self.frames) {
                    over(slot, output);
                }
                polled += 1;
            }
        }
        polled
    }

    /// Releases memory; there are no exchanges.
    pub fn clear(&mut self) {
        self.slots = Vec::new();
    }
}

fn poll<F: Future>(slots: &mut [Slot<F>], slot: usize, frames: &FuturePool<F>) -> Option<F::Output> {
    let Slot { frame, waker } = slots.get_mut(slot)?;
    let exchange = frame.as_mut().map(Pin::as_mut).and_then(Option::as_pin_mut)?;
    let Poll::Ready(output) = exchange.poll(&mut Context::from_waker(waker)) else { return None };
    if let Some(frame) = frame.take() {
        frames.recycle(frame);
    }
    Some(output)
}

impl<F> Drop for ExchangeSlots<F> {
    fn drop(&mut self) {
        // Running exchanges end here, whatever their wakers do later.
        self.slots.clear();
    }
}
