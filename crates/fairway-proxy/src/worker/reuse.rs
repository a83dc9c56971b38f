//! What a worker keeps only for speed: memory for bytes on their way, for exchanges and for what they write on.

use std::cell::RefCell;
use std::rc::Rc;

use fairway_net::frames::FramesByKind;
use fairway_net::spares::Spares;
use fairway_net::wire::Workspace;

use crate::buffers::{Answer, Buffers};

/// Memory that is used again.
pub(crate) struct Reuse {
    pub(crate) workspace: Rc<Workspace>,
    /// Where exchanges run.
    pub(crate) frames: FramesByKind,
    pub(super) buffers: RefCell<Spares<Box<Buffers>>>,
    answers: RefCell<Spares<Answer>>,
}

impl Reuse {
    pub(super) fn new() -> Self {
        Self {
            workspace: Rc::new(Workspace::new()),
            frames: FramesByKind::default(),
            buffers: RefCell::new(Spares::new(Buffers::SPARE_BYTES)),
            answers: RefCell::new(Spares::new(Buffers::SPARE_BYTES)),
        }
    }

    /// Room for an answer's head, where there is none.
    #[inline]
    pub(crate) fn lend(&self, answer: &mut Answer) {
        if !answer.has_room()
            && let Some(spare) = self.answers.borrow_mut().take()
        {
            *answer = spare;
        }
    }

    /// Takes it for others while the answer is waited for.
    #[inline]
    pub(crate) fn take_back(&self, answer: &mut Answer) {
        answer.trim();
        if answer.has_room() {
            self.answers.borrow_mut().keep(std::mem::take(answer));
        }
    }

    /// Once a second: frees what the last second did not need.
    pub(super) fn trim(&self) {
        self.workspace.trim();
        self.buffers.borrow_mut().trim();
        self.answers.borrow_mut().trim();
        self.frames.trim();
    }

    /// Frees all that nobody uses.
    pub(super) fn clear(&self) {
        self.workspace.clear();
        self.buffers.borrow_mut().clear();
        self.answers.borrow_mut().clear();
        self.frames.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_an_answer_goes_from_one_that_waits_to_the_next_that_looks() {
        let (reuse, mut first, mut second) = (Reuse::new(), Answer::default(), Answer::default());
        first.start_response(404);
        reuse.take_back(&mut first);
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
