//! How a client's HTTP/2 connection has behaved, and what it may ask for while many requests are taken back: few at a time until
//! some were answered. The rest is held, which means that its exchanges have not begun and no endpoint has heard of them
//! (docs/design/0034-requests-that-are-held.md).

use std::collections::VecDeque;
use std::time::Duration;

use fairway_runtime::clock::Instant;
use fairway_runtime::slots::{MOST, Slots};
use fairway_sides::h2::Departed;

/// Requests that a new connection may have waiting.
const FIRST: u16 = 4;
/// More than it can have streams, so that one with a long past can lose some.
const MOST_TRUST: u16 = 2 * MOST as u16;
/// What an answered request adds, and one that was taken back costs.
const EARNED: u16 = 2;
const LOST: u16 = 4;
/// The oldest that is held begins after this, whatever waits: requests may wait for hours by nature.
const PATIENCE: Duration = Duration::from_millis(50);

/// Of one connection.
pub(super) struct Conduct {
    /// Requests until now.
    pub(super) served: u64,
    /// How many may wait for their answers, where requests are held.
    trust: u16,
    /// Slots whose exchanges have not begun, the oldest first.
    held: VecDeque<u8>,
    /// When the oldest begins in any case.
    due: Instant,
}

impl Conduct {
    /// Of a connection that begins.
    pub(super) fn new(now: Instant) -> Self {
        Self { served: 0, trust: FIRST, held: VecDeque::new(), due: now }
    }

    /// A request is over, or its client has left.
    pub(super) fn departed(&mut self, departed: Departed) {
        self.trust = match departed {
            Departed::Answered => (self.trust + EARNED).min(MOST_TRUST),
            Departed::TakenBack => self.trust.saturating_sub(LOST).max(1),
            Departed::GivenUp => self.trust,
        };
    }

    /// Whether one more has to wait, where `waiting` are there with it.
    pub(super) fn is_exceeded_by(&self, waiting: usize) -> bool {
        !self.held.is_empty() || waiting > usize::from(self.trust)
    }

    /// This one waits.
    pub(super) fn hold<F: Future>(&mut self, slot: usize, slots: &mut Slots<F>) {
        if self.held.is_empty() {
            self.due = Instant::now() + PATIENCE;
        }
        self.held.push_back(slot as u8);
        slots.hold(slot);
    }

    /// When there is something to do for those that are held.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.held.is_empty()).then_some(self.due)
    }

    /// Lets begin what may, of `waiting` requests in all; everything where requests are not held any more.
    pub(super) fn release<F: Future>(&mut self, waiting: usize, holds: bool, slots: &mut Slots<F>) {
        if self.held.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(&slot) = self.held.front() {
            let begun = waiting.saturating_sub(self.held.len());
            let is_due = self.due <= now;
            if holds && !is_due && begun >= usize::from(self.trust) {
                break;
            }
            if is_due {
                self.due = now + PATIENCE;
            }
            self.held.pop_front();
            slots.release(usize::from(slot));
        }
    }

    /// The client does not want this one any more, which is to be seen at once.
    pub(super) fn let_go<F: Future>(&mut self, slot: usize, slots: &mut Slots<F>) {
        if let Some(at) = self.held.iter().position(|&held| usize::from(held) == slot) {
            self.held.remove(at);
            slots.release(slot);
        }
    }

    /// The same of all.
    pub(super) fn let_all_go<F: Future>(&mut self, slots: &mut Slots<F>) {
        for slot in self.held.drain(..) {
            slots.release(usize::from(slot));
        }
    }

    /// Nothing is asked for now: memory goes back.
    pub(super) fn rest(&mut self) {
        self.held = VecDeque::new();
    }
}
