//! Streams (RFC 9113 §5.1): their records in a slab, found by id, and a memory of closed ones.
//!
//! A record lives from the first HEADERS until the owner releases the stream, or until it has lingered, whatever the
//! peer does: so resets cannot open more streams than there are records.

use std::ops::Range;

use crate::abuse::SmallFrames;
use crate::flow::{Inbound, Outbound};
use crate::patience::WindowStall;
use crate::priority::Priority;
use crate::schedule::Schedule;

/// One direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HalfState {
    /// The head was not received or sent yet.
    Waiting,
    /// The head was; body and trailers can follow.
    Open,
    /// It has ended.
    Ended,
}

/// Whether a stream is still wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamLife {
    Live,
    /// The response is complete and the stream released, but the request still arrives and is dropped.
    Lingering,
    /// The peer sent RST_STREAM.
    ResetByPeer,
    /// We sent RST_STREAM.
    ResetByUs,
}

/// The received body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InboundBody {
    pub(crate) window: Inbound,
    /// By how much the window has grown.
    pub(crate) grown: u32,
    /// Bytes delivered to the reader and not consumed yet.
    pub(crate) unconsumed: u32,
    pub(crate) small_frames: SmallFrames,
    /// When the window was last announced, or since when the stream lingers.
    pub(crate) window_announced_at: u64,
}

/// The sent body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutboundBody {
    pub(crate) window: Outbound,
    /// How long the peer has kept the window closed.
    pub(crate) stall: WindowStall,
    /// Whether bytes are waiting to be sent.
    pub(crate) is_queued: bool,
    /// Whether some were sent.
    pub(crate) has_sent: bool,
}

impl OutboundBody {
    pub(crate) fn can_send(&self) -> bool {
        self.is_queued && self.window.room() > 0
    }
}

/// What is remembered of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestFacts {
    /// Interim responses received.
    pub(crate) interim_responses: u8,
    /// Whether it was HEAD.
    pub(crate) is_head: bool,
    /// Whether it was an extended CONNECT, from either end, that was not refused.
    pub(crate) is_tunnel: bool,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) life: StreamLife,
    pub(crate) received: HalfState,
    pub(crate) sent: HalfState,
    pub(crate) priority: Priority,
    pub(crate) incoming: InboundBody,
    pub(crate) outgoing: OutboundBody,
    /// Body bytes still expected by `content-length`.
    pub(crate) body_left: Option<u64>,
    pub(crate) request: RequestFacts,
}

impl Stream {
    /// A stream whose head was not received yet.
    pub(crate) fn new(id: u32, inbound: u32, outbound: u32) -> Self {
        let (incoming, outgoing) = (Inbound::new(inbound), Outbound::new(outbound));
        Stream {
            id,
            life: StreamLife::Live,
            received: HalfState::Waiting,
            sent: HalfState::Waiting,
            priority: Priority::UNSPECIFIED,
            incoming: InboundBody {
                window: incoming,
                grown: 0,
                unconsumed: 0,
                small_frames: SmallFrames::default(),
                window_announced_at: 0,
            },
            outgoing: OutboundBody {
                window: outgoing,
                stall: WindowStall::default(),
                is_queued: false,
                has_sent: false,
            },
            body_left: None,
            request: RequestFacts::default(),
        }
    }

    /// Whether a response with this status has no body, whatever its `content-length` (RFC 9110 §6.4.1).
    pub(crate) fn has_no_body(&self, status: u16) -> bool {
        self.request.is_head || matches!(status, 204 | 304)
    }

    /// Whether the peer counts it as open (RFC 9113 §5.1.2).
    pub(crate) fn counts_as_open(&self) -> bool {
        matches!(self.life, StreamLife::Live | StreamLife::Lingering)
            && (self.received != HalfState::Ended || self.sent != HalfState::Ended)
    }
}

/// No record.
const NONE: u16 = u16::MAX;

/// The records of a connection.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Records keep their slot; a free one has the id 0.
    slots: Vec<Stream>,
    /// A bit for each used slot.
    occupied: Vec<u64>,
    /// Open addressing by id: slots, or [`NONE`].
    index: Vec<u16>,
    /// Those with something to send and an open window.
    schedule: Schedule,
    /// The number of lingering streams.
    pub(crate) lingering: usize,
}

impl Streams {
    /// The number of records.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.occupied.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Releases memory that no stream needs.
    pub(crate) fn release_memory(&mut self) {
        if self.len() == 0 {
            *self = Streams::default();
        }
        self.schedule.release_memory();
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        let slots = self.slots.capacity() * size_of::<Stream>();
        let numbers = self.index.capacity() * size_of::<u16>() + self.occupied.capacity() * size_of::<u64>();
        slots + numbers + self.schedule.kept_bytes()
    }

    /// How many of them the peer counts as open.
    pub(crate) fn open_count(&self) -> usize {
        self.iter().filter(|stream| stream.counts_as_open()).count()
    }

    /// The stream that has lingered longest, and since when.
    pub(crate) fn lingering_longest(&self) -> Option<(u64, u32)> {
        let lingering = self.iter().filter(|stream| stream.life == StreamLife::Lingering);
        lingering.map(|stream| (stream.incoming.window_announced_at, stream.id)).min()
    }

    /// The ideal position of an id in the index. Ids increase by two; multiplied by the golden ratio, neighbours are
    /// far apart. Otherwise they would form one long run, which [`Self::index_remove`] walks.
    #[inline]
    fn home_index(&self, id: u32) -> usize {
        let bits = self.index.len().trailing_zeros();
        ((id >> 1).wrapping_mul(0x9e37_79b1) >> (u32::BITS - bits)) as usize
    }

    /// The position of a stream in the index.
    #[inline]
    fn index_position(&self, id: u32) -> Option<usize> {
        if self.index.is_empty() {
            return None;
        }
        let mut at = self.home_index(id);
        loop {
            match self.index[at] {
                NONE => return None,
                slot if self.slots[usize::from(slot)].id == id => return Some(at),
                _ => at = (at + 1) & (self.index.len() - 1),
            }
        }
    }

    /// The slot of a stream, which stays until it is removed.
    #[inline]
    pub(crate) fn slot(&self, id: u32) -> Option<usize> {
        self.index_position(id).map(|at| usize::from(self.index[at]))
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Stream> {
        self.index_position(id).map(|at| &self.slots[usize::from(self.index[at])])
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.index_position(id).map(|at| &mut self.slots[usize::from(self.index[at])])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.slots.iter().filter(|stream| stream.id != 0)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slots.iter_mut().filter(|stream| stream.id != 0)
    }

    /// Adds a stream to the schedule or removes it, by its current state.
    pub(crate) fn update_schedule(&mut self, id: u32) {
        let Some(at) = self.index_position(id) else { return };
        let slot = self.index[at];
        let stream = &self.slots[usize::from(slot)];
        if stream.life == StreamLife::Live && stream.outgoing.can_send() {
            self.schedule.enqueue(slot, stream.priority, stream.outgoing.has_sent);
        } else {
            self.schedule.dequeue(slot);
        }
    }

    /// The same for all streams.
    pub(crate) fn update_schedule_all(&mut self) {
        for slot in 0..self.slots.len() {
            match self.slots[slot].id {
                0 => {}
                id => self.update_schedule(id),
            }
        }
    }

    /// Whether no stream may send.
    pub(crate) fn has_no_sender(&self) -> bool {
        self.schedule.is_empty()
    }

    /// The next stream to send, and whether it is the only one.
    pub(crate) fn next_sender(&mut self) -> Option<(u32, bool)> {
        let slot = self.schedule.next_slot()?;
        Some((self.slots[usize::from(slot)].id, self.schedule.is_single()))
    }

    /// Adds a stream, of which there are far fewer than 2^15.
    pub(crate) fn insert(&mut self, stream: Stream) {
        if (self.len() + 1) * 2 > self.index.len() {
            self.grow_index();
        }
        let id = stream.id;
        let slot = self.reserve_slot();
        match self.slots.get_mut(slot) {
            Some(vacant) => *vacant = stream,
            None => {
                // Grows by a quarter instead of doubling: an unused slot costs as much as a used one.
                if self.slots.len() == self.slots.capacity() {
                    self.slots.reserve_exact(4.max(self.slots.len() / 4));
                }
                self.slots.push(stream);
            }
        }
        self.index_insert(id, slot as u16);
    }

    /// The lowest free slot: streams that begin together are served in order.
    fn reserve_slot(&mut self) -> usize {
        let full = self.occupied.iter().take_while(|word| **word == u64::MAX).count();
        if full == self.occupied.len() {
            self.occupied.push(0);
        }
        let bit = self.occupied[full].trailing_ones();
        self.occupied[full] |= 1 << bit;
        full * 64 + bit as usize
    }

    fn grow_index(&mut self) {
        let size = (self.index.len() * 2).max(16);
        self.index.clear();
        self.index.resize(size, NONE);
        for slot in 0..self.slots.len() {
            if self.slots[slot].id != 0 {
                self.index_insert(self.slots[slot].id, slot as u16);
            }
        }
    }

    fn index_insert(&mut self, id: u32, slot: u16) {
        let mut at = self.home_index(id);
        while self.index[at] != NONE {
            at = (at + 1) & (self.index.len() - 1);
        }
        self.index[at] = slot;
    }

    /// Removes a stream.
    pub(crate) fn remove(&mut self, id: u32) -> Option<Stream> {
        let at = self.index_position(id)?;
        let slot = self.index[at];
        self.index_remove(at);
        self.schedule.dequeue(slot);
        self.occupied[usize::from(slot) / 64] &= !(1 << (slot % 64));
        Some(std::mem::replace(&mut self.slots[usize::from(slot)], Stream::new(0, 0, 0)))
    }

    /// Frees a position, and moves back entries that probing had displaced.
    fn index_remove(&mut self, mut hole: usize) {
        let mask = self.index.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.index[at];
            if slot == NONE {
                break;
            }
            let home = self.home_index(self.slots[usize::from(slot)].id);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.index[hole] = slot;
                hole = at;
            }
        }
        self.index[hole] = NONE;
    }
}

/// How a stream without a record ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PastStream {
    /// The peer ended its side.
    Ended,
    /// The peer reset it.
    ResetByPeer,
    /// We reset it, or it is too long ago: frames may have been in flight.
    Unknown,
    /// It was never opened: the peer opened a higher one first (RFC 9113 §5.1.1).
    Skipped,
}

/// What is remembered of closed streams: enough to report common errors precisely, with bounded memory.
#[derive(Debug)]
pub(crate) struct ClosedStreams {
    ids: [u32; MAX_REMEMBERED],
    ends: [PastStream; MAX_REMEMBERED],
    next: u8,
    /// The ids that were last skipped.
    skipped: Range<u32>,
}

/// The number of remembered streams.
const MAX_REMEMBERED: usize = 16;

impl ClosedStreams {
    pub(crate) fn new() -> Self {
        ClosedStreams {
            ids: [0; MAX_REMEMBERED],
            ends: [PastStream::Unknown; MAX_REMEMBERED],
            next: 0,
            skipped: 0..0,
        }
    }

    fn position(&self, id: u32) -> Option<usize> {
        self.ids.iter().position(|recent| *recent == id)
    }

    /// Records that a stream is over.
    pub(crate) fn record(&mut self, id: u32, past: PastStream) {
        let at = self.position(id).unwrap_or_else(|| {
            let oldest = usize::from(self.next);
            self.next = (self.next + 1) % MAX_REMEMBERED as u8;
            oldest
        });
        (self.ids[at], self.ends[at]) = (id, past);
    }

    /// Records the ids that were skipped when a stream was opened.
    pub(crate) fn record_skipped(&mut self, from: u32, to: u32) {
        self.skipped = from..to;
    }

    /// How a stream without a record, whose id is not idle, ended.
    pub(crate) fn past(&self, id: u32) -> PastStream {
        if self.skipped.contains(&id) {
            return PastStream::Skipped;
        }
        self.position(id).map_or(PastStream::Unknown, |at| self.ends[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_record_is_small() {
        assert!(size_of::<Stream>() <= 96, "{}", size_of::<Stream>());
    }

    #[test]
    fn the_past_is_remembered_for_a_while() {
        let mut memory = ClosedStreams::new();
        memory.record(1, PastStream::Ended);
        memory.record(3, PastStream::Unknown);
        memory.record(3, PastStream::ResetByPeer);
        memory.record_skipped(5, 9);
        assert_eq!(
            [1, 3, 5, 7, 9].map(|id| memory.past(id)),
            [
                PastStream::Ended,
                PastStream::ResetByPeer,
                PastStream::Skipped,
                PastStream::Skipped,
                PastStream::Unknown
            ]
        );
        for id in 0..16 {
            memory.record(101 + 2 * id, PastStream::Ended);
        }
        assert_eq!(memory.past(1), PastStream::Unknown);
    }

    #[test]
    fn the_lowest_vacant_slot_is_taken_and_kept() {
        let mut streams = Streams::default();
        (0..130).for_each(|number| streams.insert(Stream::new(2 * number + 1, 1, 1)));
        assert_eq!([1, 129, 259].map(|id| streams.slot(id)), [Some(0), Some(64), Some(129)]);
        for id in [201, 5, 129] {
            streams.remove(id);
        }
        for id in [301, 303, 305, 307] {
            streams.insert(Stream::new(id, 1, 1));
        }
        assert_eq!(
            [301, 303, 305, 307].map(|id| streams.slot(id)),
            [Some(2), Some(64), Some(100), Some(130)]
        );
        assert_eq!((streams.slot(5), streams.len()), (None, 131));
    }

    #[test]
    fn streams_in_a_row_do_not_stand_in_each_others_way() {
        let mut streams = Streams::default();
        (0..128).for_each(|number| streams.insert(Stream::new(2 * number + 1001, 1, 1)));
        let run = |from: usize| streams.index.iter().cycle().skip(from).take_while(|at| **at != NONE).count();
        let longest = (0..streams.index.len()).map(run).max();
        assert!(longest < Some(8), "{longest:?}");
    }

    proptest! {
        #[test]
        fn streams_are_found_as_in_a_map(steps in prop::collection::vec((any::<bool>(), 0..200u32), 0..400)) {
            let mut streams = Streams::default();
            let mut map = std::collections::BTreeSet::new();
            for (add, number) in steps {
                // Some ids share their position.
                let id = (number % 50) * 2 + 1 + (number / 50) * 512;
                if add && map.insert(id) {
                    streams.insert(Stream::new(id, 1, 1));
                } else if !add {
                    prop_assert_eq!(streams.remove(id).map(|stream| stream.id), map.take(&id));
                }
                prop_assert_eq!(streams.len(), map.len());
                prop_assert_eq!(streams.get(id).map(|stream| stream.id), map.get(&id).copied());
                let slots: std::collections::BTreeSet<_> =
                    map.iter().filter_map(|id| streams.slot(*id)).collect();
                prop_assert_eq!(slots.len(), map.len());
            }
            for number in 0..200u32 {
                let id = (number % 50) * 2 + 1 + (number / 50) * 512;
                prop_assert_eq!(streams.get(id).map(|stream| stream.id), map.get(&id).copied());
            }
        }
    }
}
