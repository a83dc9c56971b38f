//! Pooled memory for futures: an exchange is large, and a connection waiting for its next request should not hold
//! memory for one. Starting a future in pooled memory allocates nothing.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::object_pool::{Spare, SparePool};

/// The bytes kept for each kind of future.
const MAX_SPARE_BYTES: usize = 4 * 1024 * 1024;

/// Memory for one future.
pub type FutureBox<F> = Pin<Box<Option<F>>>;

/// A pool of memory for one kind of future.
pub struct FuturePool<F> {
    spare: RefCell<SparePool<FutureBox<F>>>,
}

impl<F> Spare for FutureBox<F> {
    fn kept_bytes(&self) -> usize {
        size_of::<Option<F>>()
    }
}

impl<F: Future> FuturePool<F> {
    fn new() -> Self {
        Self { spare: RefCell::new(SparePool::new(MAX_SPARE_BYTES)) }
    }

    /// Runs the future that `begin` makes in pooled memory. It is dropped with the returned value.
    pub fn run(&self, begin: impl FnOnce() -> F) -> PooledFuture<'_, F> {
        PooledFuture { frames: self, frame: Some(self.lay(begin)) }
    }

    /// Places the future that `begin` makes into pooled memory; pass it to [`FuturePool::recycle`] when it is over. A
    /// future made by the caller would be copied at its full size; one made here copies only its arguments.
    pub fn lay(&self, begin: impl FnOnce() -> F) -> FutureBox<F> {
        let spare = self.spare.borrow_mut().take();
        match spare {
            Some(mut frame) => {
                frame.set(Some(begin()));
                frame
            }
            None => Box::pin(Some(begin())),
        }
    }

    /// Drops the future and keeps its memory.
    pub fn recycle(&self, mut frame: FutureBox<F>) {
        frame.set(None);
        self.spare.borrow_mut().keep(frame);
    }
}

/// A future in pooled memory.
pub struct PooledFuture<'f, F: Future> {
    frames: &'f FuturePool<F>,
    /// `None` once the future has ended.
    frame: Option<FutureBox<F>>,
}

impl<F: Future> Future for PooledFuture<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let running = self.frame.as_mut().and_then(|frame| frame.as_mut().as_pin_mut());
        let output = ready!(running.expect("a future is not polled once it has ended").poll(cx));
        self.end();
        Poll::Ready(output)
    }
}

impl<F: Future> PooledFuture<'_, F> {
    fn end(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.frames.recycle(frame);
        }
    }
}

impl<F: Future> Drop for PooledFuture<'_, F> {
    fn drop(&mut self) {
        self.end();
    }
}

/// The pools of a worker, by the type of future.
#[derive(Default)]
pub struct FuturePools {
    kinds: RefCell<Vec<(TypeId, Rc<dyn AnyPool>)>>,
}

/// A pool, for any type of future.
trait AnyPool {
    fn trim(&self);
    fn clear(&self);
    fn as_any(self: Rc<Self>) -> Rc<dyn Any>;
}

impl<F: Future + 'static> AnyPool for FuturePool<F> {
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

impl FuturePools {
    /// The pool for the futures that `_begin` makes.
    pub fn pool_for<A, F: Future + 'static>(&self, _begin: impl Fn(A) -> F) -> Rc<FuturePool<F>> {
        let mut kinds = self.kinds.borrow_mut();
        let type_id = TypeId::of::<F>();
        let known = kinds.iter().find(|(kind, _)| *kind == type_id).map(|(_, frames)| Rc::clone(frames));
        known.and_then(|frames| frames.as_any().downcast().ok()).unwrap_or_else(|| {
            let frames = Rc::new(FuturePool::new());
            kinds.push((type_id, Rc::clone(&frames) as Rc<dyn AnyPool>));
            frames
        })
    }

    /// Call once a second: frees what the last second did not need.
    pub fn trim(&self) {
        self.kinds.borrow().iter().for_each(|(_, frames)| frames.trim());
    }

    /// Frees all spare memory.
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
        let kinds = FuturePools::default();
        let frames = kinds.pool_for(doubled);
        for number in 0..3 {
            assert_eq!(frames.run(|| doubled(number)).await, 2 * number);
            assert_eq!(
                Rc::as_ptr(&kinds.pool_for(doubled)),
                Rc::as_ptr(&frames),
                "one set of frames for one kind"
            );
        }
        let first = frames.spare.borrow_mut().take().expect("the frame that all of them ran in");
        assert!(frames.spare.borrow_mut().take().is_none());
        frames.recycle(first);
        kinds.clear();
        assert!(frames.spare.borrow_mut().take().is_none());
    }

    #[tokio::test]
    async fn a_future_dropped_while_running_is_dropped_at_once() {
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
        let (kinds, dropped) = (FuturePools::default(), Rc::new(Cell::new(0)));
        let frames = kinds.pool_for(waits);
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
