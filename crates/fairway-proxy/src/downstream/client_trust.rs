//! Trust in an HTTP/2 or HTTP/3 connection, and how many requests it may have unanswered while clients cancel
//! many: few at a time until some were answered. Further requests are held: their exchanges have not started
//! and no endpoint knows of them (docs/design/0034-requests-that-are-held.md).

use std::collections::VecDeque;
use std::time::Duration;

use fairway_connection::sides::RequestEnd;
use fairway_net::clock::Instant;
use fairway_net::slots::{ExchangeSlots, MAX_SLOTS};

/// Unanswered requests allowed to a new connection, after its first hold.
const INITIAL_TRUST: u16 = 4;
const INITIAL_HOLD: Duration = Duration::from_millis(10);
/// Higher than the stream limit, so that a connection with a long history can lose some.
const MOST_TRUST: u16 = 2 * MAX_SLOTS as u16;
/// Trust gained by an answered request, and lost by a cancelled one.
const TRUST_PER_RESPONSE: u16 = 2;
const TRUST_LOST_PER_RESET: u16 = 4;
/// The oldest held request starts after this time regardless of trust: requests may legitimately take hours.
const MAX_HOLD: Duration = Duration::from_millis(50);

/// Trust in one connection.
pub(super) struct ClientTrustLevel {
    /// Requests so far.
    pub(super) requests_served: u64,
    /// Requests that may be unanswered while requests are held; 0 before anything is known.
    trust: u16,
    /// Held requests. Boxed: few connections ever have one.
    held_requests: Option<Box<HeldRequests>>,
}

/// Requests that have not started; at least one.
struct HeldRequests {
    /// Slots, oldest first.
    slots: VecDeque<u8>,
    /// When the oldest request starts in any case.
    oldest_due: Instant,
}

impl ClientTrustLevel {
    /// For a new connection.
    pub(super) fn new() -> Self {
        Self { requests_served: 0, trust: 0, held_requests: None }
    }

    /// Adjusts trust when a request ends or its client cancels it.
    pub(super) fn record_departure(&mut self, departed: RequestEnd) {
        self.trust = match departed {
            RequestEnd::Responded => (self.trust + TRUST_PER_RESPONSE).min(MOST_TRUST),
            RequestEnd::Canceled => self.trust.saturating_sub(TRUST_LOST_PER_RESET).max(self.trust.min(1)),
            RequestEnd::Abandoned => self.trust,
        };
    }

    /// Whether a request must be held, being one of `waiting` unanswered ones.
    pub(super) fn must_hold(&self, waiting: usize) -> bool {
        self.held_requests.is_some() || waiting > usize::from(self.trust)
    }

    /// Holds the request.
    pub(super) fn hold<F: Future>(&mut self, slot: usize, slots: &mut ExchangeSlots<F>) {
        let delay = if self.trust == 0 { INITIAL_HOLD } else { MAX_HOLD };
        let due = || Instant::now() + delay;
        let released = self
            .held_requests
            .get_or_insert_with(|| Box::new(HeldRequests { slots: VecDeque::new(), oldest_due: due() }));
        released.slots.push_back(slot as u8);
        slots.hold(slot);
    }

    /// When held requests need attention.
    pub(super) fn due(&self) -> Option<Instant> {
        self.held_requests.as_ref().map(|line| line.oldest_due)
    }

    /// Starts held requests that trust allows, of `waiting` unanswered ones; all of them if requests are no
    /// longer held.
    pub(super) fn release<F: Future>(
        &mut self,
        waiting: usize,
        is_holding: bool,
        slots: &mut ExchangeSlots<F>,
    ) {
        let Some(queue) = &mut self.held_requests else { return };
        let now = Instant::now();
        let mut started = waiting.saturating_sub(queue.slots.len());
        if self.trust == 0 && queue.oldest_due <= now {
            (self.trust, queue.oldest_due) = (INITIAL_TRUST, now + MAX_HOLD);
        }
        while let Some(&slot) = queue.slots.front() {
            let is_due = queue.oldest_due <= now;
            if is_holding && !is_due && started >= usize::from(self.trust) {
                return;
            }
            if is_due {
                queue.oldest_due = now + MAX_HOLD;
            }
            queue.slots.pop_front();
            started += 1;
            slots.release(usize::from(slot));
        }
        self.held_requests = None;
    }

    /// The client cancelled this request: its exchange must see that at once.
    pub(super) fn release_cancelled<F: Future>(&mut self, slot: usize, slots: &mut ExchangeSlots<F>) {
        let Some(queue) = &mut self.held_requests else { return };
        if let Some(at) = queue.slots.iter().position(|&held| usize::from(held) == slot) {
            queue.slots.remove(at);
            slots.release(slot);
        }
        if queue.slots.is_empty() {
            self.held_requests = None;
        }
    }

    /// Releases all held requests.
    pub(super) fn release_all<F: Future>(&mut self, slots: &mut ExchangeSlots<F>) {
        for slot in self.held_requests.take().into_iter().flat_map(|queue| queue.slots) {
            slots.release(usize::from(slot));
        }
    }
}
