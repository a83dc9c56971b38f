//! The records of a connection's request streams, found by stream id. A record keeps its slot, which the owner uses as
//! well.

use fairway_http2::Priority;
use quinn_proto::StreamId;

use crate::incoming::{Incoming, ReadState};
use crate::outgoing::Outgoing;

/// The state of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestState {
    /// Its head is incomplete.
    Opening,
    /// It was reported to the owner.
    Live,
    /// It was reported, and was reset since.
    Over,
    /// The owner released it, and QUIC has not accepted the end of its response.
    Draining,
}

/// One request stream.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    pub(crate) id: StreamId,
    pub(crate) life: RequestState,
    /// When it arrived, in microseconds since the first poll.
    pub(crate) arrived: u64,
    pub(crate) incoming: Incoming,
    pub(crate) outgoing: Outgoing,
    pub(crate) priority: Priority,
    /// Whether PRIORITY_UPDATE set the priority: it takes precedence over the field (RFC 9218 §7).
    pub(crate) priority_updated: bool,
}

impl RequestRecord {
    fn new(id: StreamId, now: u64) -> Self {
        RequestRecord {
            id,
            life: RequestState::Opening,
            arrived: now,
            incoming: Incoming::new(),
            outgoing: Outgoing::new(),
            priority: Priority::UNSPECIFIED,
            priority_updated: false,
        }
    }
}

/// Marks a free slot: ids have at most 62 bits.
const VACANT: u64 = u64::MAX;

/// The records. There are few, so they are found by scanning their ids.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The id of each record's stream, or [`VACANT`].
    numbers: Vec<u64>,
    records: Vec<Option<RequestRecord>>,
    count: usize,
}

impl Requests {
    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds the record of a stream that arrived `now`, in the lowest free slot.
    pub(crate) fn insert(&mut self, id: StreamId, now: u64) -> usize {
        let record = Some(RequestRecord::new(id, now));
        self.count += 1;
        match self.numbers.iter().position(|number| *number == VACANT) {
            Some(slot) => {
                self.numbers[slot] = id.index();
                self.records[slot] = record;
                slot
            }
            None => {
                self.numbers.push(id.index());
                self.records.push(record);
                self.numbers.len() - 1
            }
        }
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, slot: usize) {
        if self.records[slot].take().is_some() {
            self.numbers[slot] = VACANT;
            self.count -= 1;
        }
    }

    /// Releases memory if there are no records.
    pub(crate) fn release_memory(&mut self) {
        if self.count == 0 {
            *self = Requests::default();
        }
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        self.records.capacity() * (size_of::<Option<RequestRecord>>() + size_of::<u64>())
    }

    pub(crate) fn slot(&self, id: StreamId) -> Option<usize> {
        self.numbers.iter().position(|number| *number == id.index())
    }

    pub(crate) fn at(&mut self, slot: usize) -> Option<&mut RequestRecord> {
        self.records.get_mut(slot)?.as_mut()
    }

    pub(crate) fn get(&self, id: StreamId) -> Option<&RequestRecord> {
        self.records[self.slot(id)?].as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut RequestRecord> {
        let slot = self.slot(id)?;
        self.at(slot)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RequestRecord> {
        let occupied = self.numbers.iter().zip(&self.records).filter(|(number, _)| **number != VACANT);
        occupied.filter_map(|(_, record)| record.as_ref())
    }

    /// A stream that waited for no more than this many insertions into the dynamic table.
    pub(crate) fn unblocked(&self, inserted: u64) -> Option<StreamId> {
        let ready = |record: &&RequestRecord| matches!(record.incoming.reading, ReadState::AwaitsQpack(required) if required <= inserted);
        self.iter().find(ready).map(|record| record.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quinn_proto::{Dir, Side};

    fn id(index: u64) -> StreamId {
        StreamId::new(Side::Client, Dir::Bi, index)
    }

    #[test]
    fn places_are_dense_and_stay() {
        let mut requests = Requests::default();
        assert_eq!([0, 1, 2].map(|index| requests.insert(id(index), 0)), [0, 1, 2]);
        requests.remove(1);
        requests.remove(1);
        assert_eq!((requests.len(), requests.slot(id(1)), requests.slot(id(2))), (2, None, Some(2)));
        assert_eq!(requests.insert(id(7), 0), 1);
        for slot in 0..3 {
            requests.remove(slot);
        }
        requests.release_memory();
        assert_eq!((requests.len(), requests.kept_bytes()), (0, 0));
    }
}
