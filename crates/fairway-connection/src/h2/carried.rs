//! What a connection to an endpoint keeps of each exchange that has a stream of it. Never waits, and never knows who reads or
//! writes.

use std::task::{Context, Waker};

use fairway_http::Head;
use fairway_http2::{Asks, Client};

use super::stream::{Arrival, Stream, Tools};
use super::wear::Wear;

/// Heads that may wait in a stream: interim answers and the final one. The codec allows no more of them.
const HEADS: usize = 16;

/// The rest of a body that nobody wants any more, where it is known to be so small, is read rather than cancelled.
const WORTH_DRAINING: u64 = 64 * 1024;

/// What our PING carries that asks whether the endpoint has seen a reset.
pub(super) const RESET_PING: [u8; 8] = *b"a reset?";

/// What is lent of a connection, by slots. An exchange has its slot before the codec knows its stream.
#[derive(Default)]
pub(super) struct Lent {
    slots: Vec<Carried>,
    vacant: Vec<usize>,
    /// By the codec's slots, ours.
    of_streams: Vec<usize>,
    /// Streams that nobody has and whose end is awaited.
    drained: usize,
}

/// One exchange's stream.
#[derive(Default)]
pub(super) struct Carried {
    pub(super) stream: Stream,
    /// Whether an exchange has the slot.
    is_taken: bool,
    /// Heads that came and were not read yet, the oldest first, each with what followed it.
    heads: Vec<(Head, HeadFacts)>,
    /// Of a head that was read. Boxed: a stream that waits has none.
    spare: Option<Box<Head>>,
    pub(super) fate: Fate,
    /// Bytes that came on it.
    pub(super) received: u64,
    /// Of the answer's body, where its head says how long it is.
    pub(super) left: Option<u64>,
    /// Nobody wants what is left of it, which is awaited since then.
    pub(super) drained_since: Option<u64>,
    waker: Option<Waker>,
}

/// What the codec says of a head.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadFacts {
    /// Nothing follows.
    pub(super) end: bool,
    /// The length that it announces.
    pub(super) length: Option<u64>,
}

/// What became of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    #[default]
    Unsent,
    UnderWay,
    /// The endpoint has not acted on it and says so (RFC 9113 §8.7).
    Refused,
    /// It was reset, or its connection broke.
    Broken,
}

impl Lent {
    /// How many slots there are that an exchange has, or whose end is awaited.
    pub(super) fn taken(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Whether the end of a stream is awaited that nobody has.
    pub(super) fn has_drained(&self) -> bool {
        self.drained > 0
    }

    /// A slot for an exchange.
    pub(super) fn take(&mut self) -> usize {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            // By a quarter, not to twice as many: each that is vacant costs as much as one that waits.
            if self.slots.len() == self.slots.capacity() {
                self.slots.reserve_exact(4.max(self.slots.len() / 4));
            }
            self.slots.push(Carried::default());
            self.slots.len() - 1
        });
        let carried = &mut self.slots[slot];
        carried.is_taken = true;
        (carried.fate, carried.received, carried.left) = (Fate::Unsent, 0, None);
        slot
    }

    /// The stream of a slot was opened.
    pub(super) fn begin(&mut self, slot: usize, id: u32, codec: &Client) -> &mut Carried {
        if let Some(of_stream) = codec.slot(id) {
            if self.of_streams.len() <= of_stream {
                self.of_streams.resize(of_stream + 1, 0);
            }
            self.of_streams[of_stream] = slot;
        }
        let carried = &mut self.slots[slot];
        carried.fate = Fate::UnderWay;
        carried.stream.begin(id, Arrival::Coming);
        carried
    }

    /// The slot of a stream.
    pub(super) fn find(&self, id: u32, codec: &Client) -> Option<usize> {
        let slot = *self.of_streams.get(codec.slot(id)?)?;
        (self.slots[slot].stream.id == id).then_some(slot)
    }

    pub(super) fn at(&mut self, slot: usize) -> &mut Carried {
        &mut self.slots[slot]
    }

    /// Each of those that are taken.
    pub(super) fn all_taken(&mut self) -> impl Iterator<Item = &mut Carried> {
        self.slots.iter_mut().filter(|one| one.is_taken)
    }

    /// Nobody serves it any more. A known rest of an answer that is small is awaited, so that it need not be cancelled.
    pub(super) fn leave(
        &mut self,
        slot: usize,
        tools: &mut Tools<'_, Asks>,
        wear: &mut Wear,
        may_drain: bool,
    ) {
        let one = &mut self.slots[slot];
        one.heads.clear();
        one.waker = None;
        let is_worth_it = one.left.is_some_and(|left| left <= WORTH_DRAINING);
        if may_drain && is_worth_it && one.stream.begin_drain(tools) {
            one.drained_since = Some(tools.now.micros());
            self.drained += 1;
            return;
        }
        let asks = one.stream.is_under_way() && wear.reset(tools.now.micros());
        self.close(slot, tools);
        if asks {
            tools.codec.ping(RESET_PING);
        }
    }

    /// It is over; another exchange can have its slot.
    pub(super) fn close(&mut self, slot: usize, tools: &mut Tools<'_, Asks>) {
        let one = &mut self.slots[slot];
        one.stream.close(tools);
        one.is_taken = false;
        self.drained -= usize::from(one.drained_since.take().is_some());
        self.vacant.push(slot);
    }

    /// What is not there after so many microseconds is cancelled after all.
    pub(super) fn drain_no_more(&mut self, within: u64, tools: &mut Tools<'_, Asks>, wear: &mut Wear) {
        let now = tools.now.micros();
        for slot in 0..self.slots.len() {
            if self.slots[slot].drained_since.is_some_and(|since| since + within <= now) {
                self.leave(slot, tools, wear, false);
            }
        }
    }
}

impl Carried {
    pub(super) fn head_came(&mut self, head: &mut Head, facts: HeadFacts, bytes: usize) {
        self.received += bytes as u64;
        if self.heads.len() >= HEADS {
            return self.broke(Fate::Broken);
        }
        self.left = facts.length.filter(|_| head.status() >= 200);
        let mut kept = self.spare.as_deref_mut().map(std::mem::take).unwrap_or_default();
        std::mem::swap(&mut kept, head);
        self.heads.push((kept, facts));
        if facts.end {
            self.stream.ended(true);
        }
    }

    /// The next head, in exchange for one that is used again.
    pub(super) fn read_head(&mut self, into: &mut Head) -> Option<HeadFacts> {
        if self.heads.is_empty() {
            return None;
        }
        let (mut head, facts) = self.heads.remove(0);
        std::mem::swap(into, &mut head);
        **self.spare.get_or_insert_default() = head;
        Some(facts)
    }

    pub(super) fn broke(&mut self, fate: Fate) {
        self.fate = fate;
        self.stream.arrival = Arrival::Broken;
    }

    /// The exchange wants to be polled when something changes.
    pub(super) fn waits(&mut self, cx: &Context<'_>) {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}
