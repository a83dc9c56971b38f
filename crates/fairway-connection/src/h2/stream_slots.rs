//! The streams of a connection to an endpoint, one slot per exchange. Does no I/O.

use std::task::{Context, Waker};

use fairway_http::Head;
use fairway_http2::{Client, ClientRole};

use super::retirement::Wear;
use super::stream::{ReceiveState, Stream, StreamContext};

/// Heads that may be queued on a stream: interim responses and the final one. The codec allows no more.
const MAX_QUEUED_HEADS: usize = 16;

/// A remaining body of at most this size is read and dropped rather than cancelled, if its length is known.
const MAX_DRAINED_BODY_BYTES: u64 = 64 * 1024;

/// The payload of the PING that finds out whether the endpoint has seen a reset.
pub(super) const RESET_PING: [u8; 8] = *b"a reset?";

/// The slots of a connection. An exchange has one before the codec opens its stream.
#[derive(Default)]
pub(super) struct StreamSlots {
    slots: Vec<SlotStream>,
    vacant: Vec<usize>,
    /// The slot of each codec slot.
    slot_by_codec_slot: Vec<usize>,
    /// Streams without an exchange whose end is awaited.
    draining: usize,
}

/// The stream of one exchange.
#[derive(Default)]
pub(super) struct SlotStream {
    pub(super) stream: Stream,
    /// Whether an exchange owns the slot.
    is_in_use: bool,
    /// Received heads that were not read yet, oldest first.
    queued_heads: Vec<(Head, HeadFacts)>,
    /// A head for reuse. Boxed, because a waiting stream has none.
    spare_head: Option<Box<Head>>,
    pub(super) state: StreamState,
    /// Bytes received on this stream.
    pub(super) received: u64,
    /// Bytes of the response body still to come, if its length is known.
    pub(super) body_left: Option<u64>,
    /// Since when the rest of an abandoned response is awaited.
    pub(super) draining_since: Option<u64>,
    waker: Option<Waker>,
}

/// What the codec reports with a head.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadFacts {
    /// Whether the stream ends with it.
    pub(super) end: bool,
    /// The announced body length.
    pub(super) length: Option<u64>,
}

/// The state of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StreamState {
    #[default]
    Unsent,
    UnderWay,
    /// The endpoint refused it without acting on it (RFC 9113 §8.7).
    Refused,
    /// It was reset, or its connection failed.
    Broken,
}

impl StreamSlots {
    /// Slots that an exchange owns, or whose stream is being drained.
    pub(super) fn len_in_use(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Whether a stream without an exchange is being drained.
    pub(super) fn has_draining(&self) -> bool {
        self.draining > 0
    }

    /// Reserves a slot for an exchange.
    pub(super) fn reserve(&mut self) -> usize {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            // Grows by a quarter instead of doubling: an unused slot costs as much as a used one.
            if self.slots.len() == self.slots.capacity() {
                self.slots.reserve_exact(4.max(self.slots.len() / 4));
            }
            self.slots.push(SlotStream::default());
            self.slots.len() - 1
        });
        let carried = &mut self.slots[slot];
        carried.is_in_use = true;
        (carried.state, carried.received, carried.body_left) = (StreamState::Unsent, 0, None);
        slot
    }

    /// Assigns the stream `id`, which was just opened, to a slot.
    pub(super) fn open(&mut self, slot: usize, id: u32, codec: &Client) -> &mut SlotStream {
        if let Some(of_stream) = codec.slot(id) {
            if self.slot_by_codec_slot.len() <= of_stream {
                self.slot_by_codec_slot.resize(of_stream + 1, 0);
            }
            self.slot_by_codec_slot[of_stream] = slot;
        }
        let carried = &mut self.slots[slot];
        carried.state = StreamState::UnderWay;
        carried.stream.open(id, ReceiveState::Receiving);
        carried
    }

    /// The slot of a stream.
    pub(super) fn find(&self, id: u32, codec: &Client) -> Option<usize> {
        let slot = *self.slot_by_codec_slot.get(codec.slot(id)?)?;
        (self.slots[slot].stream.id == id).then_some(slot)
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> &mut SlotStream {
        &mut self.slots[slot]
    }

    /// All slots in use.
    pub(super) fn iter_in_use(&mut self) -> impl Iterator<Item = &mut SlotStream> {
        self.slots.iter_mut().filter(|one| one.is_in_use)
    }

    /// The exchange is over. A small remaining body of known length is drained, to avoid a reset; any other stream is
    /// reset.
    pub(super) fn release(
        &mut self,
        slot: usize,
        tools: &mut StreamContext<'_, ClientRole>,
        wear: &mut Wear,
        may_drain: bool,
    ) {
        let entry = &mut self.slots[slot];
        entry.queued_heads.clear();
        entry.waker = None;
        let is_worth_it = entry.body_left.is_some_and(|left| left <= MAX_DRAINED_BODY_BYTES);
        if may_drain && is_worth_it && entry.stream.begin_drain(tools) {
            entry.draining_since = Some(tools.now.micros());
            self.draining += 1;
            return;
        }
        let asks = entry.stream.is_under_way() && wear.count_reset(tools.now.micros());
        self.close(slot, tools);
        if asks {
            tools.codec.ping(RESET_PING);
        }
    }

    /// Closes the stream and frees its slot.
    pub(super) fn close(&mut self, slot: usize, tools: &mut StreamContext<'_, ClientRole>) {
        let entry = &mut self.slots[slot];
        entry.stream.close(tools);
        entry.is_in_use = false;
        self.draining -= usize::from(entry.draining_since.take().is_some());
        self.vacant.push(slot);
    }

    /// Cancels the streams that have been draining for `within` microseconds.
    pub(super) fn cancel_expired_drains(
        &mut self,
        within: u64,
        tools: &mut StreamContext<'_, ClientRole>,
        wear: &mut Wear,
    ) {
        let now = tools.now.micros();
        for slot in 0..self.slots.len() {
            if self.slots[slot].draining_since.is_some_and(|since| since + within <= now) {
                self.release(slot, tools, wear, false);
            }
        }
    }
}

impl SlotStream {
    pub(super) fn queue_head(&mut self, head: &mut Head, facts: HeadFacts, bytes: usize) {
        self.received += bytes as u64;
        if self.queued_heads.len() >= MAX_QUEUED_HEADS {
            return self.fail(StreamState::Broken);
        }
        self.body_left = facts.length.filter(|_| head.status() >= 200);
        let mut spare = self.spare_head.as_deref_mut().map(std::mem::take).unwrap_or_default();
        std::mem::swap(&mut spare, head);
        self.queued_heads.push((spare, facts));
        if facts.end {
            self.stream.note_end(true);
        }
    }

    /// Takes the next head, in exchange for one to reuse.
    pub(super) fn take_head(&mut self, into: &mut Head) -> Option<HeadFacts> {
        if self.queued_heads.is_empty() {
            return None;
        }
        let (mut head, facts) = self.queued_heads.remove(0);
        std::mem::swap(into, &mut head);
        **self.spare_head.get_or_insert_default() = head;
        Some(facts)
    }

    pub(super) fn fail(&mut self, fate: StreamState) {
        self.state = fate;
        self.stream.arrival = ReceiveState::Reset;
    }

    /// Registers the exchange to be polled when something changes.
    pub(super) fn register_waker(&mut self, cx: &Context<'_>) {
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
