//! Streams (RFC 9113 §5.1): their records in a slab, found by id, and what is remembered of those that are over. Never
//! sees frames.
//!
//! A record lives from the first HEADERS until whoever serves the stream releases it, or until it has lingered, whatever the
//! peer does: so resets cannot open more streams than there are records.

use std::ops::Range;

use crate::abuse::SmallFrames;
use crate::flow::{Inbound, Outbound};
use crate::patience::Patience;
use crate::priority::Priority;
use crate::schedule::Schedule;

/// One direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// Its head has not come, or is not sent.
    Waiting,
    /// Its head has; body and trailers can follow.
    Open,
    /// It has ended.
    Ended,
}

/// Whether a stream is still wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Live,
    /// Its answer is complete and nobody serves it, but its request still comes, which is dropped.
    Lingering,
    /// The peer sent RST_STREAM.
    ResetByPeer,
    /// We did.
    ResetByUs,
}

/// The body that comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming {
    pub(crate) window: Inbound,
    /// By how much the window has grown.
    pub(crate) grown: u32,
    /// Bytes that were given to the reader and not yet consumed.
    pub(crate) held: u32,
    pub(crate) small: SmallFrames,
    /// When the window was last announced, or since when the stream lingers.
    pub(crate) since: u64,
}

/// The body that is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing {
    pub(crate) window: Outbound,
    /// How long the peer may leave the window closed.
    pub(crate) patience: Patience,
    /// Whether bytes wait to be sent.
    pub(crate) wanted: bool,
    /// Whether some were sent.
    pub(crate) begun: bool,
}

impl Outgoing {
    pub(crate) fn can_send(&self) -> bool {
        self.wanted && self.window.room() > 0
    }
}

/// What is remembered of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    /// Interim answers that came.
    pub(crate) interim: u8,
    /// Whether it was HEAD.
    pub(crate) for_head: bool,
    /// Whether it was CONNECT with `:protocol`, which either end may have sent and nobody refused.
    pub(crate) for_tunnel: bool,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) life: Life,
    pub(crate) received: Half,
    pub(crate) sent: Half,
    pub(crate) priority: Priority,
    pub(crate) incoming: Incoming,
    pub(crate) outgoing: Outgoing,
    /// Bytes that `content-length` still announces.
    pub(crate) announced: Option<u64>,
    pub(crate) asked: Asked,
}

impl Stream {
    /// A stream whose head has not come.
    pub(crate) fn new(id: u32, inbound: u32, outbound: u32) -> Self {
        let (incoming, outgoing) = (Inbound::new(inbound), Outbound::new(outbound));
        Stream {
            id,
            life: Life::Live,
            received: Half::Waiting,
            sent: Half::Waiting,
            priority: Priority::UNSAID,
            incoming: Incoming {
                window: incoming,
                grown: 0,
                held: 0,
                small: SmallFrames::default(),
                since: 0,
            },
            outgoing: Outgoing {
                window: outgoing,
                patience: Patience::default(),
                wanted: false,
                begun: false,
            },
            announced: None,
            asked: Asked::default(),
        }
    }

    /// Whether an answer of this status has no body, whatever its `content-length` (RFC 9110 §6.4.1).
    pub(crate) fn is_bodiless(&self, status: u16) -> bool {
        self.asked.for_head || matches!(status, 204 | 304)
    }

    /// Whether the peer counts it as open (RFC 9113 §5.1.2).
    pub(crate) fn counts(&self) -> bool {
        matches!(self.life, Life::Live | Life::Lingering)
            && (self.received != Half::Ended || self.sent != Half::Ended)
    }
}

/// No record.
const NONE: u16 = u16::MAX;

/// The records of a connection.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Records keep their place; one that is over has the id 0.
    slots: Vec<Stream>,
    /// A bit for each slot that has a stream.
    taken: Vec<u64>,
    /// Open addressing by id: slots, or [`NONE`].
    index: Vec<u16>,
    /// Those that have something to send and a window.
    schedule: Schedule,
    /// How many of them linger.
    pub(crate) lingering: usize,
}

impl Streams {
    /// How many records there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.taken.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Gives back memory that no stream needs.
    pub(crate) fn rest(&mut self) {
        if self.len() == 0 {
            *self = Streams::default();
        }
        self.schedule.rest();
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        let slots = self.slots.capacity() * size_of::<Stream>();
        let numbers = self.index.capacity() * size_of::<u16>() + self.taken.capacity() * size_of::<u64>();
        slots + numbers + self.schedule.kept_bytes()
    }

    /// How many of them the peer counts as open.
    pub(crate) fn counted(&self) -> usize {
        self.iter().filter(|stream| stream.counts()).count()
    }

    /// The stream that lingers for the longest time, and since when.
    pub(crate) fn lingering_longest(&self) -> Option<(u64, u32)> {
        let lingering = self.iter().filter(|stream| stream.life == Life::Lingering);
        lingering.map(|stream| (stream.incoming.since, stream.id)).min()
    }

    /// Where in the index a stream would be if it were the only one. Ids rise by two; times the golden ratio, neighbours lie
    /// far apart. Next to each other they would be one long run, which [`Streams::unlink`] goes through.
    #[inline]
    fn home(&self, id: u32) -> usize {
        let bits = self.index.len().trailing_zeros();
        ((id >> 1).wrapping_mul(0x9e37_79b1) >> (u32::BITS - bits)) as usize
    }

    /// Where in the index a stream is.
    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        if self.index.is_empty() {
            return None;
        }
        let mut at = self.home(id);
        loop {
            match self.index[at] {
                NONE => return None,
                slot if self.slots[usize::from(slot)].id == id => return Some(at),
                _ => at = (at + 1) & (self.index.len() - 1),
            }
        }
    }

    /// The slot of a stream: no other has it before this one is removed.
    #[inline]
    pub(crate) fn slot(&self, id: u32) -> Option<usize> {
        self.place(id).map(|at| usize::from(self.index[at]))
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Stream> {
        self.place(id).map(|at| &self.slots[usize::from(self.index[at])])
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.place(id).map(|at| &mut self.slots[usize::from(self.index[at])])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.slots.iter().filter(|stream| stream.id != 0)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slots.iter_mut().filter(|stream| stream.id != 0)
    }

    /// Puts a stream among those that may send, or takes it out, as it is now.
    pub(crate) fn arrange(&mut self, id: u32) {
        let Some(at) = self.place(id) else { return };
        let slot = self.index[at];
        let stream = &self.slots[usize::from(slot)];
        if stream.life == Life::Live && stream.outgoing.can_send() {
            self.schedule.join(slot, stream.priority, stream.outgoing.begun);
        } else {
            self.schedule.leave(slot);
        }
    }

    /// The same for all streams.
    pub(crate) fn arrange_all(&mut self) {
        for slot in 0..self.slots.len() {
            match self.slots[slot].id {
                0 => {}
                id => self.arrange(id),
            }
        }
    }

    /// Whether none may send.
    pub(crate) fn is_quiet(&self) -> bool {
        self.schedule.is_empty()
    }

    /// The stream whose turn it is, and whether it is the only one that may send.
    pub(crate) fn choose(&mut self) -> Option<(u32, bool)> {
        let slot = self.schedule.choose()?;
        Some((self.slots[usize::from(slot)].id, self.schedule.is_single()))
    }

    /// Adds a stream, of which there are far fewer than 2^15.
    pub(crate) fn insert(&mut self, stream: Stream) {
        if (self.len() + 1) * 2 > self.index.len() {
            self.grow();
        }
        let id = stream.id;
        let slot = self.take_slot();
        match self.slots.get_mut(slot) {
            Some(vacant) => *vacant = stream,
            None => {
                // By a quarter, not to twice as many: each that is vacant costs as much as one that waits.
                if self.slots.len() == self.slots.capacity() {
                    self.slots.reserve_exact(4.max(self.slots.len() / 4));
                }
                self.slots.push(stream);
            }
        }
        self.link(id, slot as u16);
    }

    /// The lowest vacant slot: streams that begin together are served in their order.
    fn take_slot(&mut self) -> usize {
        let full = self.taken.iter().take_while(|word| **word == u64::MAX).count();
        if full == self.taken.len() {
            self.taken.push(0);
        }
        let bit = self.taken[full].trailing_ones();
        self.taken[full] |= 1 << bit;
        full * 64 + bit as usize
    }

    fn grow(&mut self) {
        let size = (self.index.len() * 2).max(16);
        self.index.clear();
        self.index.resize(size, NONE);
        for slot in 0..self.slots.len() {
            if self.slots[slot].id != 0 {
                self.link(self.slots[slot].id, slot as u16);
            }
        }
    }

    fn link(&mut self, id: u32, slot: u16) {
        let mut at = self.home(id);
        while self.index[at] != NONE {
            at = (at + 1) & (self.index.len() - 1);
        }
        self.index[at] = slot;
    }

    /// Takes a stream out.
    pub(crate) fn remove(&mut self, id: u32) -> Option<Stream> {
        let at = self.place(id)?;
        let slot = self.index[at];
        self.unlink(at);
        self.schedule.leave(slot);
        self.taken[usize::from(slot) / 64] &= !(1 << (slot % 64));
        Some(std::mem::replace(&mut self.slots[usize::from(slot)], Stream::new(0, 0, 0)))
    }

    /// Empties a place, and moves back what probing had put behind it.
    fn unlink(&mut self, mut hole: usize) {
        let mask = self.index.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.index[at];
            if slot == NONE {
                break;
            }
            let home = self.home(self.slots[usize::from(slot)].id);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.index[hole] = slot;
                hole = at;
            }
        }
        self.index[hole] = NONE;
    }
}

/// How a stream ended that has no record any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past {
    /// The peer ended its side.
    Ended,
    /// The peer reset it.
    ResetByPeer,
    /// We reset it, or it is too long ago: what the peer sends may have been under way.
    Unknown,
    /// It was never opened, because the peer opened a higher one first (RFC 9113 §5.1.1).
    Skipped,
}

/// What is remembered of streams that are over: enough to name the usual errors, whatever a peer does.
#[derive(Debug)]
pub(crate) struct Memory {
    ids: [u32; RECENT],
    pasts: [Past; RECENT],
    next: u8,
    /// The ids that were left out last.
    skipped: Range<u32>,
}

/// How many streams are remembered.
const RECENT: usize = 16;

impl Memory {
    pub(crate) fn new() -> Self {
        Memory { ids: [0; RECENT], pasts: [Past::Unknown; RECENT], next: 0, skipped: 0..0 }
    }

    fn place(&self, id: u32) -> Option<usize> {
        self.ids.iter().position(|recent| *recent == id)
    }

    /// A stream is over.
    pub(crate) fn note(&mut self, id: u32, past: Past) {
        let at = self.place(id).unwrap_or_else(|| {
            let oldest = usize::from(self.next);
            self.next = (self.next + 1) % RECENT as u8;
            oldest
        });
        (self.ids[at], self.pasts[at]) = (id, past);
    }

    /// A stream was opened that is not the next one.
    pub(crate) fn skip(&mut self, from: u32, to: u32) {
        self.skipped = from..to;
    }

    /// How a stream without a record ended, whose id is not idle.
    pub(crate) fn of(&self, id: u32) -> Past {
        if self.skipped.contains(&id) {
            return Past::Skipped;
        }
        self.place(id).map_or(Past::Unknown, |at| self.pasts[at])
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
        let mut memory = Memory::new();
        memory.note(1, Past::Ended);
        memory.note(3, Past::Unknown);
        memory.note(3, Past::ResetByPeer);
        memory.skip(5, 9);
        assert_eq!(
            [1, 3, 5, 7, 9].map(|id| memory.of(id)),
            [Past::Ended, Past::ResetByPeer, Past::Skipped, Past::Skipped, Past::Unknown]
        );
        for id in 0..16 {
            memory.note(101 + 2 * id, Past::Ended);
        }
        assert_eq!(memory.of(1), Past::Unknown);
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
                // Some ids share their place.
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
