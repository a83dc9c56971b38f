//! What is counted of connections of HTTP/2, with clients and with endpoints.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use fairway_http2::Note;

/// What happened, and why.
pub(crate) type Event = (&'static str, &'static str);

/// What happened on connections, counted by reason; copies count together.
#[derive(Clone, Default)]
pub struct Events(Rc<RefCell<BTreeMap<Event, u64>>>);

impl Events {
    /// Something happened on a connection.
    pub fn note(&self, note: Note) {
        self.add((note.what.label(), note.reason), note.count);
    }

    /// The same, by its labels.
    pub(crate) fn add(&self, event: Event, count: u32) {
        *self.0.borrow_mut().entry(event).or_default() += u64::from(count);
    }

    /// What was counted, copied.
    pub(crate) fn counted(&self) -> BTreeMap<Event, u64> {
        self.0.borrow().clone()
    }
}

/// Of one worker.
#[derive(Default)]
pub struct Http2 {
    streams: Rc<Cell<u64>>,
    /// Requests that waited before they began, because clients took back too many.
    pub held: Cell<u64>,
    /// Of clients.
    pub clients: Events,
    /// Of endpoints.
    pub endpoints: Events,
}

impl Http2 {
    /// Open streams of clients, as their number changes.
    pub fn streams(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.streams)
    }
}
