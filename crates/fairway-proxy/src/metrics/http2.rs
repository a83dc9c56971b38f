//! Counters of HTTP/2 connections, downstream and upstream.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use fairway_http2::PeerEvent;

/// Event and reason.
pub(crate) type Event = (&'static str, &'static str);

/// Events on connections by reason. Clones share the counts.
#[derive(Clone, Default)]
pub struct EventCounts(Rc<RefCell<BTreeMap<Event, u64>>>);

impl EventCounts {
    /// Counts an event of a codec.
    pub fn record(&self, note: PeerEvent) {
        self.add((note.kind.label(), note.reason), note.count);
    }

    /// Counts an event by its labels.
    pub(crate) fn add(&self, event: Event, count: u32) {
        *self.0.borrow_mut().entry(event).or_default() += u64::from(count);
    }

    /// A copy of the counts.
    pub(crate) fn by_event(&self) -> BTreeMap<Event, u64> {
        self.0.borrow().clone()
    }
}

/// Counters of one worker.
#[derive(Default)]
pub struct Http2 {
    streams: Rc<Cell<u64>>,
    /// Requests held before they started because clients cancelled too many.
    pub held_requests: Cell<u64>,
    /// Events of downstream connections.
    pub clients: EventCounts,
    /// Events of upstream connections.
    pub endpoints: EventCounts,
}

impl Http2 {
    /// The live gauge of open downstream streams.
    pub fn streams(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.streams)
    }
}
