//! How a client's connection of HTTP/2 or HTTP/3 has behaved, and what it may ask for while many requests are taken back: few at a time until
//! some were answered. The rest is held, which means that its exchanges have not begun and no endpoint has heard of them
//! (docs/design/0034-requests-that-are-held.md).

use std::collections::VecDeque;
use std::time::Duration;

use fairway_connection::sides::Departed;
use fairway_net::clock::Instant;
use fairway_net::slots::{MOST, Slots};

/// Requests that a new connection may have waiting, once it has left them alone for a moment.
const FIRST: u16 = 4;
const MOMENT: Duration = Duration::from_millis(10);
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
    /// How many may wait for their answers, where requests are held; 0 where nothing is known of it.
    trust: u16,
    /// Those that are held. Boxed: few connections ever have one.
    line: Option<Box<Line>>,
}

/// Requests that have not begun; at least one.
struct Line {
    /// Their slots, the oldest first.
    held: VecDeque<u8>,
    /// When the oldest begins in any case.
    due: Instant,
}

impl Conduct {
    /// Of a connection that begins.
    pub(super) fn new() -> Self {
        Self { served: 0, trust: 0, line: None }
    }

    /// A request is over, or its client has left.
    pub(super) fn departed(&mut self, departed: Departed) {
        self.trust = match departed {
            Departed::Answered => (self.trust + EARNED).min(MOST_TRUST),
            Departed::TakenBack => self.trust.saturating_sub(LOST).max(self.trust.min(1)),
            Departed::GivenUp => self.trust,
        };
    }

    /// Whether one more has to wait, where `waiting` are there with it.
    pub(super) fn is_exceeded_by(&self, waiting: usize) -> bool {
        self.line.is_some() || waiting > usize::from(self.trust)
    }

    /// This one waits.
    pub(super) fn hold<F: Future>(&mut self, slot: usize, slots: &mut Slots<F>) {
        let patience = if self.trust == 0 { MOMENT } else { PATIENCE };
        let due = || Instant::now() + patience;
        let line = self.line.get_or_insert_with(|| Box::new(Line { held: VecDeque::new(), due: due() }));
        line.held.push_back(slot as u8);
        slots.hold(slot);
    }

    /// When there is something to do for those that are held.
    pub(super) fn due(&self) -> Option<Instant> {
        self.line.as_ref().map(|line| line.due)
    }

    /// Lets begin what may, of `waiting` requests in all; everything where requests are not `held` any more.
    pub(super) fn release<F: Future>(&mut self, waiting: usize, held: bool, slots: &mut Slots<F>) {
        let Some(line) = &mut self.line else { return };
        let now = Instant::now();
        let mut begun = waiting.saturating_sub(line.held.len());
        if self.trust == 0 && line.due <= now {
            (self.trust, line.due) = (FIRST, now + PATIENCE);
        }
        while let Some(&slot) = line.held.front() {
            let is_due = line.due <= now;
            if held && !is_due && begun >= usize::from(self.trust) {
                return;
            }
            if is_due {
                line.due = now + PATIENCE;
            }
            line.held.pop_front();
            begun += 1;
            slots.release(usize::from(slot));
        }
        self.line = None;
    }

    /// The client does not want this one any more, which is to be seen at once.
    pub(super) fn let_go<F: Future>(&mut self, slot: usize, slots: &mut Slots<F>) {
        let Some(line) = &mut self.line else { return };
        if let Some(at) = line.held.iter().position(|&held| usize::from(held) == slot) {
            line.held.remove(at);
            slots.release(slot);
        }
        if line.held.is_empty() {
            self.line = None;
        }
    }

    /// The same of all.
    pub(super) fn let_all_go<F: Future>(&mut self, slots: &mut Slots<F>) {
        for slot in self.line.take().into_iter().flat_map(|line| line.held) {
            slots.release(usize::from(slot));
        }
    }
}
