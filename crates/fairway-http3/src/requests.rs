//! The records of a connection's request streams, found by stream id. A record keeps its place, so its number serves the owner as
//! well. Never reads or sends.

use fairway_http2::Priority;
use quinn_proto::StreamId;

use crate::incoming::{Incoming, Reading};
use crate::outgoing::Outgoing;

/// Who a stream belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Its head is not complete.
    Opening,
    /// It was reported to the owner.
    Live,
    /// It was reported, and was reset since.
    Over,
    /// The owner released it, and the end of its response waits for QUIC.
    Draining,
}

/// One request stream.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) id: StreamId,
    pub(crate) life: Life,
    /// When it arrived, in microseconds since the connection was polled first.
    pub(crate) arrived: u64,
    pub(crate) incoming: Incoming,
    pub(crate) outgoing: Outgoing,
    pub(crate) priority: Priority,
    /// Whether PRIORITY_UPDATE set the priority: it has precedence over the field (RFC 9218 §7).
    pub(crate) priority_updated: bool,
}

impl Record {
    fn new(id: StreamId, now: u64) -> Self {
        Record {
            id,
            life: Life::Opening,
            arrived: now,
            incoming: Incoming::new(),
            outgoing: Outgoing::new(),
            priority: Priority::UNSAID,
            priority_updated: false,
        }
    }
}

/// No stream: ids have at most 62 bits.
const VACANT: u64 = u64::MAX;

/// The records. There are few, so they are found by a scan of their ids.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The number of each record's stream, or [`VACANT`].
    numbers: Vec<u64>,
    records: Vec<Option<Record>>,
    count: usize,
}

impl Requests {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds the record of a stream that arrived `now` in the lowest vacant place.
    pub(crate) fn insert(&mut self, id: StreamId, now: u64) -> usize {
        let record = Some(Record::new(id, now));
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

    /// Takes a record out.
    pub(crate) fn remove(&mut self, slot: usize) {
        if self.records[slot].take().is_some() {
            self.numbers[slot] = VACANT;
            self.count -= 1;
        }
    }

    /// Gives memory back, if there is no record.
    pub(crate) fn rest(&mut self) {
        if self.count == 0 {
            *self = Requests::default();
        }
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        self.records.capacity() * (size_of::<Option<Record>>() + size_of::<u64>())
    }

    pub(crate) fn slot(&self, id: StreamId) -> Option<usize> {
        self.numbers.iter().position(|number| *number == id.index())
    }

    pub(crate) fn at(&mut self, slot: usize) -> Option<&mut Record> {
        self.records.get_mut(slot)?.as_mut()
    }

    pub(crate) fn get(&self, id: StreamId) -> Option<&Record> {
        self.records[self.slot(id)?].as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Record> {
        let slot = self.slot(id)?;
        self.at(slot)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Record> {
        let taken = self.numbers.iter().zip(&self.records).filter(|(number, _)| **number != VACANT);
        taken.filter_map(|(_, record)| record.as_ref())
    }

    /// A stream that waited for no more than this many insertions into the dynamic table.
    pub(crate) fn unblocked(&self, inserted: u64) -> Option<StreamId> {
        let ready = |record: &&Record| matches!(record.incoming.reading, Reading::Blocked(required) if required <= inserted);
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
        requests.rest();
        assert_eq!((requests.len(), requests.kept_bytes()), (0, 0));
    }
}
