//! A copy of a request body for a mirror: written while the body passes, read by another exchange. The body never waits for it.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use fairway_connection::sides::{BodyStep, Failure};

/// Bytes that may wait for a slow reader; beyond that the copy is aborted.
const MAX_BUFFERED_BYTES: usize = 64 * 1024;

/// The writing end. Dropping it before the end aborts the copy.
pub(crate) struct CopyWriter(Rc<RefCell<CopyState>>);

/// The reading end.
pub(crate) struct CopyReader(Rc<RefCell<CopyState>>);

struct CopyState {
    waiting: Vec<u8>,
    /// Bytes that may still be written.
    room: u64,
    state: CopyProgress,
    reader: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyProgress {
    Coming,
    Whole,
    Broken,
}

/// Both ends of a copy of at most `max_bytes`.
pub(crate) fn copy_channel(max_bytes: u64) -> (CopyWriter, CopyReader) {
    let copy = CopyState { waiting: Vec::new(), room: max_bytes, state: CopyProgress::Coming, reader: None };
    let copy = Rc::new(RefCell::new(copy));
    (CopyWriter(Rc::clone(&copy)), CopyReader(copy))
}

impl CopyWriter {
    /// Writes a piece of the body.
    pub(crate) fn write(&self, data: &[u8]) {
        let mut copy = self.0.borrow_mut();
        if copy.state != CopyProgress::Coming {
            return;
        }
        match copy.room.checked_sub(data.len() as u64) {
            Some(room) if copy.waiting.len() + data.len() <= MAX_BUFFERED_BYTES => {
                copy.room = room;
                copy.waiting.extend_from_slice(data);
                copy.reader.take().into_iter().for_each(Waker::wake);
            }
            _ => copy.end(CopyProgress::Broken),
        }
    }

    /// Marks the body as complete.
    pub(crate) fn finish(self) {
        self.0.borrow_mut().end(CopyProgress::Whole);
    }
}

impl Drop for CopyWriter {
    fn drop(&mut self) {
        self.0.borrow_mut().end(CopyProgress::Broken);
    }
}

impl CopyReader {
    /// Passes the waiting bytes to `sink`.
    pub(crate) fn poll_read<F>(
        &mut self,
        cx: &mut Context<'_>,
        mut sink: F,
    ) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        let mut copy = self.0.borrow_mut();
        if copy.state == CopyProgress::Broken {
            return Poll::Ready(Err(Failure::Closed));
        }
        if !copy.waiting.is_empty() {
            let accepted = sink(cx, &copy.waiting);
            copy.waiting.clear();
            return Poll::Ready(accepted.map(|()| BodyStep::More));
        }
        if copy.state == CopyProgress::Whole {
            return Poll::Ready(Ok(BodyStep::End));
        }
        copy.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ready when the copy was aborted.
    pub(crate) fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut copy = self.0.borrow_mut();
        if copy.state == CopyProgress::Broken {
            return Poll::Ready(());
        }
        copy.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether the whole copy was read.
    pub(crate) fn is_complete(&self) -> bool {
        let copy = self.0.borrow();
        copy.state == CopyProgress::Whole && copy.waiting.is_empty()
    }
}

impl CopyState {
    fn end(&mut self, state: CopyProgress) {
        if self.state == CopyProgress::Coming {
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
    fn written_data_is_read_once_and_then_ends() {
        let (writer, mut reader) = copy_channel(100);
        writer.write(b"ab");
        writer.write(b"c");
        assert_eq!(read(&mut reader), Some(Ok(b"abc".to_vec())));
        assert_eq!(read(&mut reader), None);
        writer.write(b"d");
        writer.finish();
        assert!(!reader.is_complete());
        assert_eq!(read(&mut reader), Some(Ok(b"d".to_vec())));
        assert!(reader.is_complete());
        assert_eq!(read(&mut reader), Some(Ok(Vec::new())));
    }

    #[test]
    fn a_copy_is_broken_off_where_it_grows_too_large_its_reader_too_slow_or_its_body_ends_early() {
        let (writer, mut reader) = copy_channel(2);
        writer.write(b"abc");
        assert_eq!(read(&mut reader), Some(Err(Failure::Closed)));
        let (writer, mut reader) = copy_channel(u64::MAX);
        writer.write(&vec![0; MAX_BUFFERED_BYTES]);
        writer.write(b"x");
        assert_eq!(read(&mut reader), Some(Err(Failure::Closed)));
        let (writer, mut reader) = copy_channel(u64::MAX);
        drop(writer);
        assert_eq!(read(&mut reader), Some(Err(Failure::Closed)));
    }
}
