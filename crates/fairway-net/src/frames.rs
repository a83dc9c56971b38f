//! Memory in which futures run, kept from one to the next: an exchange is large, and a connection that waits for its next
//! request has no room for one. Starting another in memory that is kept allocates nothing.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::spares::{Spare, Spares};

/// The bytes that are kept of each kind.
const MOST: usize = 4 * 1024 * 1024;

/// Memory for one future.
pub type Frame<F> = Pin<Box<Option<F>>>;

/// Frames for futures of one kind.
pub struct Frames<F> {
    spare: RefCell<Spares<Frame<F>>>,
}

impl<F> Spare for Frame<F> {
    fn kept_bytes(&self) -> usize {
        size_of::<Option<F>>()
    }
}

impl<F: Future> Frames<F> {
    fn new() -> Self {
        Self { spare: RefCell::new(Spares::new(MOST)) }
    }

    /// Runs the future that `begin` makes in a frame. It is dropped with what is returned.
    pub fn run(&self, begin: impl FnOnce() -> F) -> Running<'_, F> {
        Running { frames: self, frame: Some(self.lay(begin)) }
    }

    /// Lays the future that `begin` makes into a frame, for [`Frames::take_back`] when it is over. A future that the caller
    /// had made would be copied with the room for all its steps; of one that is made here, the arguments are.
    pub fn lay(&self, begin: impl FnOnce() -> F) -> Frame<F> {
        let spare = self.spare.borrow_mut().take();
        match spare {
            Some(mut frame) => {
                frame.set(Some(begin()));
                frame
            }
            None => Box::pin(Some(begin())),
        }
    }

    /// Drops what is in a frame, and keeps its memory.
    pub fn take_back(&self, mut frame: Frame<F>) {
        frame.set(None);
        self.spare.borrow_mut().keep(frame);
    }
}

/// A future in its frame.
pub struct Running<'f, F: Future> {
    frames: &'f Frames<F>,
    /// None once the future has ended.
    frame: Option<Frame<F>>,
}

impl<F: Future> Future for Running<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let running = self.frame.as_mut().and_then(|frame| frame.as_mut().as_pin_mut());
        let output = ready!(running.expect("a future is not polled once it has ended").poll(cx));
        self.end();
        Poll::Ready(output)
    }
}

impl<F: Future> Running<'_, F> {
    fn end(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.frames.take_back(frame);
        }
    }
}

impl<F: Future> Drop for Running<'_, F> {
    fn drop(&mut self) {
        self.end();
    }
}

/// The frames of a worker, by the kind of their futures.
#[derive(Default)]
pub struct FramesByKind {
    kinds: RefCell<Vec<(TypeId, Rc<dyn Kept>)>>,
}

/// Frames, whatever runs in them.
trait Kept {
    fn trim(&self);
    fn clear(&self);
    fn as_any(self: Rc<Self>) -> Rc<dyn Any>;
}

impl<F: Future + 'static> Kept for Frames<F> {
    fn trim(&self) {
        self.spare.borrow_mut().trim();
    }

    fn clear(&self) {
        self.spare.borrow_mut().clear();
    }

    fn as_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }
}

impl FramesByKind {
    /// The frames for what `_begin` makes.
    pub fn of<A, F: Future + 'static>(&self, _begin: impl Fn(A) -> F) -> Rc<Frames<F>> {
        let mut kinds = self.kinds.borrow_mut();
        let wanted = TypeId::of::<F>();
        let known = kinds.iter().find(|(kind, _)| *kind == wanted).map(|(_, frames)| Rc::clone(frames));
        known.and_then(|frames| frames.as_any().downcast().ok()).unwrap_or_else(|| {
            let frames = Rc::new(Frames::new());
            kinds.push((wanted, Rc::clone(&frames) as Rc<dyn Kept>));
            frames
        })
    }

    /// Once a second: frees what the last second did not need.
    pub fn trim(&self) {
        self.kinds.borrow().iter().for_each(|(_, frames)| frames.trim());
    }

    /// Frees all that is kept.
    pub fn clear(&self) {
        self.kinds.borrow().iter().for_each(|(_, frames)| frames.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::pending;

    async fn doubled(number: usize) -> usize {
        tokio::task::yield_now().await;
        2 * number
    }

    #[tokio::test]
    async fn a_frame_is_used_again_by_the_next_future_of_its_kind() {
        let kinds = FramesByKind::default();
        let frames = kinds.of(doubled);
        for number in 0..3 {
            assert_eq!(frames.run(|| doubled(number)).await, 2 * number);
            assert_eq!(Rc::as_ptr(&kinds.of(doubled)), Rc::as_ptr(&frames), "one set of frames for one kind");
        }
        let first = frames.spare.borrow_mut().take().expect("the frame that all of them ran in");
        assert!(frames.spare.borrow_mut().take().is_none());
        frames.take_back(first);
        kinds.clear();
        assert!(frames.spare.borrow_mut().take().is_none());
    }

    #[tokio::test]
    async fn what_is_dropped_while_it_runs_is_dropped_at_once() {
        struct Guard(Rc<Cell<u32>>);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        async fn waits(guard: Guard) {
            pending::<()>().await;
            drop(guard);
        }
        let (kinds, dropped) = (FramesByKind::default(), Rc::new(Cell::new(0)));
        let frames = kinds.of(waits);
        let mut running = Box::pin(frames.run(|| waits(Guard(Rc::clone(&dropped)))));
        assert!(futures_poll(&mut running).is_pending());
        drop(running);
        assert_eq!(dropped.get(), 1);
        assert!(frames.spare.borrow_mut().take().is_some(), "the frame is kept");
    }

    fn futures_poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()))
    }
}
