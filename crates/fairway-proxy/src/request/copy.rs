//! A copy of a request's body for a mirror: written as the body passes, read by another exchange, never waited for.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use fairway_connection::sides::{BodyStep, Failure};

/// Bytes that wait for a reader that is slower than the request: beyond it the copy is broken off.
const HELD: usize = 64 * 1024;

/// Where a body is copied to. Dropped before its end, it breaks the copy off.
pub(crate) struct CopyWriter(Rc<RefCell<Copied>>);

/// Where a copy is read.
pub(crate) struct CopyReader(Rc<RefCell<Copied>>);

struct Copied {
    waiting: Vec<u8>,
    /// Bytes that may still come.
    room: u64,
    state: State,
    reader: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Coming,
    Whole,
    Broken,
}

/// Both ends of a copy of at most `most` bytes.
pub(crate) fn copy(most: u64) -> (CopyWriter, CopyReader) {
    let copy = Copied { waiting: Vec::new(), room: most, state: State::Coming, reader: None };
    let copy = Rc::new(RefCell::new(copy));
    (CopyWriter(Rc::clone(&copy)), CopyReader(copy))
}

impl CopyWriter {
    /// A piece of the body.
    pub(crate) fn write(&self, data: &[u8]) {
        let mut copy = self.0.borrow_mut();
        if copy.state != State::Coming {
            return;
        }
        match copy.room.checked_sub(data.len() as u64) {
            Some(room) if copy.waiting.len() + data.len() <= HELD => {
                copy.room = room;
                copy.waiting.extend_from_slice(data);
                copy.reader.take().into_iter().for_each(Waker::wake);
            }
            _ => copy.end(State::Broken),
        }
    }

    /// The body is whole.
    pub(crate) fn finish(self) {
        self.0.borrow_mut().end(State::Whole);
    }
}

impl Drop for CopyWriter {
    fn drop(&mut self) {
        self.0.borrow_mut().end(State::Broken);
    }
}

impl CopyReader {
    /// Hands what waits to `sink`.
    pub(crate) fn poll_read<F>(
        &mut self,
        cx: &mut Context<'_>,
        mut sink: F,
    ) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        let mut copy = self.0.borrow_mut();
        if copy.state == State::Broken {
            return Poll::Ready(Err(Failure::Closed));
        }
        if !copy.waiting.is_empty() {
            let taken = sink(cx, &copy.waiting);
            copy.waiting.clear();
            return Poll::Ready(taken.map(|()| BodyStep::More));
        }
        if copy.state == State::Whole {
            return Poll::Ready(Ok(BodyStep::End));
        }
        copy.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ready when it was broken off.
    pub(crate) fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut copy = self.0.borrow_mut();
        if copy.state == State::Broken {
            return Poll::Ready(());
        }
        copy.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether all of it was read.
    pub(crate) fn is_whole(&self) -> bool {
        let copy = self.0.borrow();
        copy.state == State::Whole && copy.waiting.is_empty()
    }
}

impl Copied {
    fn end(&mut self, state: State) {
        if self.state == State::Coming {
            self.state = state;
            self.reader.take().into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reader: &mut CopyReader) -> Option<Result<Vec<u8>, Failure>> {
        let mut read = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        match reader.poll_read(&mut cx, |_, data| {
            read.extend_from_slice(data);
            Ok(())
        }) {
            Poll::Pending => None,
            Poll::Ready(step) => Some(step.map(|_| read)),
        }
    }

    #[test]
    fn what_was_written_is_read_once_and_then_the_end() {
        let (writer, mut reader) = copy(100);
        writer.write(b"ab");
        writer.write(b"c");
        assert_eq!(read(&mut reader), Some(Ok(b"abc".to_vec())));
        assert_eq!(read(&mut reader), None);
        writer.write(b"d");
        writer.finish();
        assert!(!reader.is_whole());
        assert_eq!(read(&mut reader), Some(Ok(b"d".to_vec())));
        assert!(reader.is_whole());
        assert_eq!(read(&mut reader), Some(Ok(Vec::new())));
    }

    #[test]
    fn a_copy_is_broken_off_where_it_grows_too_large_its_reader_too_slow_or_its_body_ends_early() {
        let (writer, mut reader) = copy(2);
        writer.write(b"abc");
        assert_eq!(read(&mut reader), Some(Err(Failure::Closed)));
        let (writer, mut reader) = copy(u64::MAX);
        writer.write(&vec![0; HELD]);
        writer.write(b"x");
        assert_eq!(read(&mut reader), Some(Err(Failure::Closed)));
        let (writer, mut reader) = copy(u64::MAX);
        drop(writer);
        assert_eq!(read(&mut reader), Some(Err(Failure::Closed)));
    }
}
