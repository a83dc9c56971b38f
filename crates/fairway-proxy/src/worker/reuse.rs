//! Memory that a worker reuses: read buffers, exchange frames, buffers and response heads.

use std::cell::RefCell;
use std::rc::Rc;

use fairway_net::frames::FuturePools;
use fairway_net::object_pool::SparePool;
use fairway_net::wire::Workspace;

use crate::buffers::{Buffers, ResponseHead};

/// Reusable memory of a worker.
pub(crate) struct ReusableMemory {
    pub(crate) workspace: Rc<Workspace>,
    /// Frames in which exchanges run.
    pub(crate) frames: FuturePools,
    pub(super) buffers: RefCell<SparePool<Box<Buffers>>>,
    responses: RefCell<SparePool<ResponseHead>>,
}

impl ReusableMemory {
    pub(super) fn new() -> Self {
        Self {
            workspace: Rc::new(Workspace::new()),
            frames: FuturePools::default(),
            buffers: RefCell::new(SparePool::new(Buffers::SPARE_BYTES)),
            responses: RefCell::new(SparePool::new(Buffers::SPARE_BYTES)),
        }
    }

    /// Provides memory for a response head, if it has none.
    #[inline]
    pub(crate) fn lend(&self, response: &mut ResponseHead) {
        if !response.has_room()
            && let Some(spare) = self.responses.borrow_mut().take()
        {
            *response = spare;
        }
    }

    /// Takes the memory back while its exchange waits for a response.
    #[inline]
    pub(crate) fn reclaim(&self, response: &mut ResponseHead) {
        response.trim();
        if response.has_room() {
            self.responses.borrow_mut().keep(std::mem::take(response));
        }
    }

    /// Once a second: frees memory not needed in the last second.
    pub(super) fn trim(&self) {
        self.workspace.trim();
        self.buffers.borrow_mut().trim();
        self.responses.borrow_mut().trim();
        self.frames.trim();
    }

    /// Frees all unused memory.
    pub(super) fn clear(&self) {
        self.workspace.clear();
        self.buffers.borrow_mut().clear();
        self.responses.borrow_mut().clear();
        self.frames.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_exchange_lends_its_response_head_to_the_next_reader() {
        let (reuse, mut first, mut second) =
            (ReusableMemory::new(), ResponseHead::default(), ResponseHead::default());
        first.start_response(404);
        reuse.reclaim(&mut first);
        assert_eq!((first.has_room(), first.status()), (false, 0));
        reuse.lend(&mut second);
        assert_eq!((second.has_room(), second.status()), (true, 0), "it is empty");
        second.start_response(200);
        reuse.lend(&mut second);
        assert_eq!(second.status(), 200, "what has room keeps it");
        reuse.lend(&mut first);
        assert!(!first.has_room(), "there was room for one");
    }
}
