//! What is counted of clients' connections of HTTP/2.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use fairway_http2::Note;

/// What happened, and why.
pub(crate) type Event = (&'static str, &'static str);

/// Of one worker.
#[derive(Default)]
pub(crate) struct Http2 {
    streams: Rc<Cell<u64>>,
    events: RefCell<BTreeMap<Event, u64>>,
}

impl Http2 {
    /// Open streams, as their number changes.
    pub(crate) fn streams(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.streams)
    }

    /// Something happened on a connection.
    pub(crate) fn note(&self, note: Note) {
        let mut events = self.events.borrow_mut();
        *events.entry((note.what.label(), note.reason)).or_default() += u64::from(note.count);
    }

    /// What was counted, copied.
    pub(super) fn events(&self) -> BTreeMap<Event, u64> {
        self.events.borrow().clone()
    }
}
