//! The exchanges of one connection, which polls them itself: a bit for each says whether it is to be polled, and its waker
//! sets that bit. No exchange is a task of its own, so the connection decides on the order, and writes once for all.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use crate::frames::{Frame, Frames};

/// Exchanges that one connection can have.
pub const MOST: usize = 128;

const WORDS: usize = MOST / 64;

/// The exchanges of a connection, by slot.
pub struct Slots<F> {
    frames: Rc<Frames<F>>,
    bell: Arc<Bell>,
    slots: Vec<Slot<F>>,
    /// Those that are not polled before they are released.
    held: [u64; WORDS],
}

struct Slot<F> {
    /// None while there is no exchange.
    frame: Option<Frame<F>>,
    waker: Waker,
}

/// Which exchanges are to be polled, and by whom.
#[derive(Default)]
struct Bell {
    ready: [AtomicU64; WORDS],
    /// Whether the connection is about to look anyway.
    is_heard: AtomicBool,
    /// The connection's task, which stays the same.
    task: OnceLock<Waker>,
}

/// What an exchange is polled with.
struct Pull {
    bell: Arc<Bell>,
    slot: usize,
}

impl Bell {
    fn ring(&self, slot: usize) {
        self.ready[slot / 64].fetch_or(1 << (slot % 64), Ordering::SeqCst);
        if !self.is_heard.load(Ordering::SeqCst)
            && let Some(task) = self.task.get()
        {
            task.wake_by_ref();
        }
    }

    /// Whether nobody is to be polled but for those that are held.
    fn is_silent(&self, held: &[u64; WORDS]) -> bool {
        self.ready.iter().zip(held).all(|(word, held)| word.load(Ordering::SeqCst) & !held == 0)
    }
}

impl Wake for Pull {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.bell.ring(self.slot);
    }
}

impl<F: Future> Slots<F> {
    /// None yet; they will run in these frames.
    pub fn new(frames: Rc<Frames<F>>) -> Self {
        Self { frames, bell: Arc::default(), slots: Vec::new(), held: [0; WORDS] }
    }

    /// Begins the exchange that `begin` makes. It is polled with the next round.
    pub fn begin(&mut self, slot: usize, begin: impl FnOnce() -> F) {
        while self.slots.len() <= slot {
            let pull = Pull { bell: Arc::clone(&self.bell), slot: self.slots.len() };
            self.slots.push(Slot { frame: None, waker: Arc::new(pull).into() });
        }
        self.slots[slot].frame = Some(self.frames.lay(begin));
        self.ring(slot);
    }

    /// Something happened that this exchange waits for.
    pub fn ring(&self, slot: usize) {
        self.bell.ready[slot / 64].fetch_or(1 << (slot % 64), Ordering::SeqCst);
    }

    /// The same for all of them.
    pub fn ring_all(&self) {
        (0..self.slots.len()).for_each(|slot| self.ring(slot));
    }

    /// The exchange that just began in this slot is not polled before it is released.
    pub fn hold(&mut self, slot: usize) {
        self.held[slot / 64] |= 1 << (slot % 64);
    }

    /// It is polled with the next round.
    pub fn release(&mut self, slot: usize) {
        self.held[slot / 64] &= !(1 << (slot % 64));
        self.ring(slot);
    }

    /// From now on wakers only set their bits: the connection looks at them before it waits.
    pub fn listen(&self, cx: &Context<'_>) {
        let task = self.bell.task.get_or_init(|| cx.waker().clone());
        debug_assert!(task.will_wake(cx.waker()), "a connection stays in its task");
        self.bell.is_heard.store(true, Ordering::SeqCst);
    }

    /// The connection is about to wait. Says whether it may: no exchange is to be polled.
    pub fn rest(&self) -> bool {
        self.bell.is_heard.store(false, Ordering::SeqCst);
        self.bell.is_silent(&self.held)
    }

    /// Polls each exchange that is to be polled once, and hands the slots of those that are over to `over` with what came
    /// of them. Says how many were polled.
    pub fn poll_round(&mut self, mut over: impl FnMut(usize, F::Output)) -> usize {
        let mut polled = 0;
        for (index, word) in self.bell.ready.iter().enumerate() {
            let held = self.held[index];
            let mut bits = match held {
                0 => word.swap(0, Ordering::SeqCst),
                _ => word.fetch_and(held, Ordering::SeqCst) & !held,
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

    /// No exchange is there: memory goes back.
    pub fn clear(&mut self) {
        self.slots = Vec::new();
    }
}

fn poll<F: Future>(slots: &mut [Slot<F>], slot: usize, frames: &Frames<F>) -> Option<F::Output> {
    let Slot { frame, waker } = slots.get_mut(slot)?;
    let exchange = frame.as_mut().map(Pin::as_mut).and_then(Option::as_pin_mut)?;
    let Poll::Ready(output) = exchange.poll(&mut Context::from_waker(waker)) else { return None };
    if let Some(frame) = frame.take() {
        frames.take_back(frame);
    }
    Some(output)
}

impl<F> Drop for Slots<F> {
    fn drop(&mut self) {
        // What still runs ends here, whatever its wakers do later.
        self.slots.clear();
    }
}
