//! A stream with what was read too early and what could not be sent yet.
//!
//! Reading goes through one scratch buffer per worker: bytes that are consumed at once are never stored, so an idle
//! connection owns no buffer and a busy one owns only its residue.

use std::cell::{RefCell, RefMut};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use crate::spares::Spares;
use crate::transport::{ANSWER_READ, Transport};

/// Room for the largest read.
const SCRATCH: usize = ANSWER_READ;

/// How much one read of a head may bring: what follows the head is copied to the residue.
const HEAD_READ: usize = 16 * 1024;

/// How much of what a peer sends too early is kept while nothing is read from it.
const AHEAD: usize = 16 * 1024;

/// Smaller pieces are gathered behind what already waits; larger ones go to the socket from where they are.
pub const GATHER: usize = 16 * 1024;

/// Vectors that an idle connection gives back above this size are freed instead of kept.
const SPARE_CAPACITY: usize = 64 * 1024;

/// The bytes of all vectors that a worker keeps.
const SPARE_BYTES: usize = 8 * 1024 * 1024;

/// What all connections of one worker share: the scratch buffer and vectors that are out of use.
pub struct Workspace {
    scratch: RefCell<Box<[u8]>>,
    spares: RefCell<Spares<Vec<u8>>>,
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

impl Workspace {
    /// A worker's own.
    pub fn new() -> Self {
        Self {
            scratch: RefCell::new(vec![0; SCRATCH].into_boxed_slice()),
            spares: RefCell::new(Spares::new(SPARE_BYTES)),
        }
    }

    /// Room for what is handed on before anything else is read: one read of 256 KiB.
    #[inline]
    pub fn room(&self) -> RefMut<'_, [u8]> {
        RefMut::map(self.scratch.borrow_mut(), |scratch| &mut **scratch)
    }

    /// Once a second: frees the vectors that nothing needed.
    pub fn trim(&self) {
        self.spares.borrow_mut().trim();
    }

    /// Frees the vectors that are out of use.
    pub fn clear(&self) {
        self.spares.borrow_mut().clear();
    }

    /// Memory for a vector that has none.
    #[inline]
    pub fn lend(&self, bytes: &mut Vec<u8>) {
        if bytes.capacity() == 0 {
            *bytes = self.spare();
        }
    }

    /// Takes the memory of a vector that nothing needs for now.
    #[inline]
    pub fn take_back(&self, bytes: &mut Vec<u8>) {
        if bytes.capacity() > 0 {
            self.give_back(std::mem::take(bytes));
        }
    }

    #[inline]
    fn spare(&self) -> Vec<u8> {
        self.spares.borrow_mut().take().unwrap_or_default()
    }

    #[inline]
    fn give_back(&self, mut bytes: Vec<u8>) {
        if (1..=SPARE_CAPACITY).contains(&bytes.capacity()) {
            bytes.clear();
            self.spares.borrow_mut().keep(bytes);
        }
    }
}

/// Bytes in order, consumed from the front.
#[derive(Default)]
pub struct Backlog {
    bytes: Vec<u8>,
    start: usize,
}

impl Backlog {
    /// Whether all of them were consumed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Those that are left.
    #[inline]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Takes `count` of them away.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Adds `data` behind them, in a vector of the worker where there is none yet.
    #[inline]
    pub fn extend(&mut self, data: &[u8], workspace: &Workspace) {
        if data.is_empty() {
            return;
        }
        self.reserve_from(workspace);
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(data);
    }

    #[inline]
    fn reserve_from(&mut self, workspace: &Workspace) {
        workspace.lend(&mut self.bytes);
    }

    /// Gives the vector back if nothing is left in it.
    #[inline]
    pub fn release(&mut self, workspace: &Workspace) {
        if self.is_empty() {
            self.start = 0;
            workspace.take_back(&mut self.bytes);
        }
    }
}

/// A stream, its residue and its outbox.
pub struct Wire<S> {
    stream: S,
    inbox: Backlog,
    outbox: Backlog,
    sent: u64,
    received: u64,
}

/// What [`Wire::poll_input`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Input<T> {
    /// The consumer took something and is content.
    Taken(T),
    /// The peer sends no more.
    Eof,
}

/// What [`Wire::poll_ahead`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// The peer may send more.
    Open,
    /// It closed its direction.
    Ended,
    /// The connection broke.
    Broken,
}

impl<S: Transport> Wire<S> {
    /// Nothing read, nothing to send.
    pub fn new(stream: S) -> Self {
        Self { stream, inbox: Backlog::default(), outbox: Backlog::default(), sent: 0, received: 0 }
    }

    /// As [`Wire::new`], with bytes that were read before.
    pub fn with_input(stream: S, input: Vec<u8>) -> Self {
        Self {
            stream,
            inbox: Backlog { bytes: input, start: 0 },
            outbox: Backlog::default(),
            sent: 0,
            received: 0,
        }
    }

    /// The address at the other end, while the system knows it.
    pub fn peer(&self) -> Option<IpAddr> {
        self.stream.peer()
    }

    /// The address at this end, while the system knows it.
    pub fn local(&self) -> Option<SocketAddr> {
        self.stream.local()
    }

    /// From now on this thread's runtime waits for the stream.
    ///
    /// # Errors
    /// As [`Transport::settle`].
    pub fn settle(&mut self) -> io::Result<()> {
        self.stream.settle()
    }

    /// Offers bytes to `take` until it is content: all that is there at first, then again with more each time.
    ///
    /// `take` returns how many bytes it is done with, and something when it is content; `None` asks for more and must
    /// come with 0 bytes.
    pub fn poll_whole<T>(
        &mut self,
        cx: &mut Context<'_>,
        workspace: &Workspace,
        mut take: impl FnMut(&[u8]) -> (usize, Option<T>),
    ) -> Poll<io::Result<Input<T>>> {
        if !self.inbox.is_empty()
            && let (used, Some(taken)) = take(self.inbox.pending())
        {
            self.inbox.consume(used);
            return Poll::Ready(Ok(Input::Taken(taken)));
        }
        let mut scratch = workspace.scratch.borrow_mut();
        loop {
            let count = ready!(read(&mut self.stream, cx, &mut scratch[..HEAD_READ]))?;
            if count == 0 {
                return Poll::Ready(Ok(Input::Eof));
            }
            self.received += count as u64;
            let fresh = &scratch[..count];
            if self.inbox.is_empty() {
                let (used, taken) = take(fresh);
                self.inbox.extend(&fresh[used..], workspace);
                if let Some(taken) = taken {
                    return Poll::Ready(Ok(Input::Taken(taken)));
                }
            } else {
                self.inbox.extend(fresh, workspace);
                if let (used, Some(taken)) = take(self.inbox.pending()) {
                    self.inbox.consume(used);
                    return Poll::Ready(Ok(Input::Taken(taken)));
                }
            }
        }
    }

    /// Hands the bytes that are there, or those of one read, but not more than `most`, to `take`, which returns how many it
    /// used; the rest stays.
    pub fn poll_input<T, E>(
        &mut self,
        cx: &mut Context<'_>,
        workspace: &Workspace,
        most: usize,
        take: impl FnOnce(&mut Context<'_>, &[u8]) -> (usize, Result<T, E>),
    ) -> Poll<io::Result<Input<Result<T, E>>>> {
        if !self.inbox.is_empty() {
            let pending = self.inbox.pending();
            let (used, taken) = take(cx, &pending[..pending.len().min(most)]);
            self.inbox.consume(used);
            return Poll::Ready(Ok(Input::Taken(taken)));
        }
        let mut scratch = workspace.scratch.borrow_mut();
        let count = ready!(read(&mut self.stream, cx, &mut scratch[..S::READ.min(most)]))?;
        if count == 0 {
            return Poll::Ready(Ok(Input::Eof));
        }
        self.received += count as u64;
        let (used, taken) = take(cx, &scratch[..count]);
        self.inbox.extend(&scratch[used..count], workspace);
        Poll::Ready(Ok(Input::Taken(taken)))
    }

    /// Hands what was read and not used, with the bytes of one more read of at most `most`, to `take`, which returns how many
    /// it used; the rest stays. Ready with the number of new bytes: 0 at the end of the stream.
    pub fn poll_more(
        &mut self,
        cx: &mut Context<'_>,
        workspace: &Workspace,
        most: usize,
        take: impl FnOnce(&[u8]) -> usize,
    ) -> Poll<io::Result<usize>> {
        let mut scratch = workspace.scratch.borrow_mut();
        let count = ready!(read(&mut self.stream, cx, &mut scratch[..most.min(SCRATCH)]))?;
        self.received += count as u64;
        if self.inbox.is_empty() {
            let used = take(&scratch[..count]);
            self.inbox.extend(&scratch[used..count], workspace);
        } else {
            self.inbox.extend(&scratch[..count], workspace);
            self.take_residue(take);
        }
        Poll::Ready(Ok(count))
    }

    /// Hands what was read and not used to `take`, which returns how many bytes of it it used.
    pub fn take_residue(&mut self, take: impl FnOnce(&[u8]) -> usize) {
        let used = take(self.inbox.pending());
        self.inbox.consume(used);
    }

    /// Writes past the outbox, which is empty. Ready with how many bytes the stream took, at least 1.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.sent += count as u64;
        Poll::Ready(Ok(count))
    }

    /// While nothing else is read: keeps what comes, so that the end behind it is seen. Of a peer that has sent more than
    /// [`AHEAD`] bytes too early nothing more is read, and its end not seen.
    pub fn poll_ahead(&mut self, cx: &mut Context<'_>, workspace: &Workspace) -> Ahead {
        while self.inbox.pending().len() < AHEAD {
            let mut scratch = workspace.scratch.borrow_mut();
            match read(&mut self.stream, cx, &mut scratch[..HEAD_READ]) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Ahead::Ended,
                Poll::Ready(Err(_)) => return Ahead::Broken,
                Poll::Ready(Ok(count)) => {
                    self.received += count as u64;
                    self.inbox.extend(&scratch[..count], workspace);
                }
            }
        }
        Ahead::Open
    }

    /// Bytes that were read and not consumed.
    pub fn residue(&self) -> usize {
        self.inbox.pending().len()
    }

    /// They themselves.
    pub fn pending(&self) -> &[u8] {
        self.inbox.pending()
    }

    /// The end of the outbox, to write heads and small pieces to.
    pub fn outbox(&mut self, workspace: &Workspace) -> &mut Vec<u8> {
        self.outbox.reserve_from(workspace);
        &mut self.outbox.bytes
    }

    /// Sends `data` after what waits: small pieces wait with it for the next flush, large ones go straight out as far
    /// as the socket takes them.
    pub fn send(&mut self, cx: &mut Context<'_>, workspace: &Workspace, data: &[u8]) -> io::Result<()> {
        if data.len() < GATHER {
            self.outbox.extend(data, workspace);
            return Ok(());
        }
        let waiting = self.outbox.pending();
        let sent = match if waiting.is_empty() {
            Pin::new(&mut self.stream).poll_write(cx, data)
        } else {
            let both = [io::IoSlice::new(waiting), io::IoSlice::new(data)];
            Pin::new(&mut self.stream).poll_write_vectored(cx, &both)
        } {
            Poll::Ready(sent) => sent?,
            Poll::Pending => 0,
        };
        self.sent += sent as u64;
        let from_outbox = sent.min(self.outbox.pending().len());
        self.outbox.consume(from_outbox);
        self.outbox.extend(&data[sent - from_outbox..], workspace);
        Ok(())
    }

    /// Ready when nothing waits any more.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outbox.is_empty() {
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, self.outbox.pending()))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += count as u64;
            self.outbox.consume(count);
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Gives the memory of the outbox back if nothing waits in it: what comes next is the peer's.
    pub fn rest_outbox(&mut self, workspace: &Workspace) {
        self.outbox.release(workspace);
    }

    /// Bytes that wait to be sent. More than any bound while TLS has encrypted some that the socket has not taken: they are as
    /// many as one read brought, and no more shall join them.
    pub fn queued(&self) -> usize {
        if self.stream.holds_back() { usize::MAX } else { self.outbox.pending().len() }
    }

    /// Grows with every byte that the socket takes, and says nothing else.
    pub fn progress(&self) -> u64 {
        self.stream.passed_on().unwrap_or(self.sent)
    }

    /// Bytes that the stream has taken since it was made. What it did not take, the peer cannot have.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that were read from the stream since it was made.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// What the bytes go through.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The peer shall see a failure when this is dropped.
    pub fn abort(&mut self) {
        self.stream.abort();
    }

    /// Tells the peer that nothing more comes.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    /// Gives the buffers back that hold nothing: the connection is idle.
    pub fn rest(&mut self, workspace: &Workspace) {
        self.inbox.release(workspace);
        self.outbox.release(workspace);
    }

    /// Whether an idle stream is still usable: nothing arrived and the peer did not close. Costs no system call unless
    /// the readiness of the socket says that something happened.
    pub fn is_quiet(&mut self) -> bool {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut byte = [0; 1];
        self.inbox.is_empty() && read(&mut self.stream, &mut cx, &mut byte).is_pending()
    }
}

fn read<S: Transport>(stream: &mut S, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(into);
    ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
    Poll::Ready(Ok(buffer.filled().len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, duplex};

    /// Takes everything up to and including the first `;`.
    fn word(bytes: &[u8]) -> (usize, Option<Vec<u8>>) {
        match bytes.iter().position(|b| *b == b';') {
            Some(end) => (end + 1, Some(bytes[..end].to_vec())),
            None => (0, None),
        }
    }

    #[tokio::test]
    async fn what_follows_a_word_is_kept_for_the_next() {
        let workspace = Workspace::new();
        let (ours, mut theirs) = duplex(64);
        let mut wire = Wire::new(ours);
        theirs.write_all(b"on").await.unwrap();
        theirs.write_all(b"e;two;th").await.unwrap();
        for expected in [&b"one"[..], b"two"] {
            let input = poll_fn(|cx| wire.poll_whole(cx, &workspace, word)).await.unwrap();
            assert_eq!(input, Input::Taken(expected.to_vec()));
        }
        assert_eq!(wire.residue(), 2);
        drop(theirs);
        assert_eq!(poll_fn(|cx| wire.poll_whole(cx, &workspace, word)).await.unwrap(), Input::Eof);
    }

    #[tokio::test]
    async fn large_pieces_keep_their_order_behind_small_ones() {
        let workspace = Workspace::new();
        let (ours, mut theirs) = duplex(1000);
        let mut wire = Wire::new(ours);
        let large = vec![b'x'; GATHER + 7];
        let reader = async {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).await.unwrap();
            all
        };
        let writer = async {
            poll_fn(|cx| Poll::Ready(wire.send(cx, &workspace, b"head"))).await.unwrap();
            poll_fn(|cx| Poll::Ready(wire.send(cx, &workspace, &large))).await.unwrap();
            poll_fn(|cx| wire.poll_flush(cx)).await.unwrap();
            drop(wire);
        };
        let (all, ()) = tokio::join!(reader, writer);
        assert_eq!(all.len(), 4 + large.len());
        assert!(all.starts_with(b"headxxx"));
    }

    #[tokio::test]
    async fn a_closed_or_talking_peer_is_not_quiet() {
        let (ours, mut theirs) = duplex(64);
        let mut wire = Wire::new(ours);
        assert!(wire.is_quiet());
        theirs.write_all(b"x").await.unwrap();
        assert!(!wire.is_quiet());
        let (ours, theirs) = duplex(64);
        drop(theirs);
        assert!(!Wire::new(ours).is_quiet());
    }

    #[tokio::test]
    async fn what_tls_holds_counts_as_waiting_and_each_byte_of_it_that_leaves_as_progress() {
        let config = fairway_testkit::Authority::new("test").leaf(&["a.test"]).server_config(&["http/1.1"]);
        let trusting = fairway_testkit::certificates::trusting_anything();
        let (ours, theirs) = duplex(4096);
        let name = rustls_pki_types::ServerName::try_from("a.test").unwrap();
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(trusting));
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        let below = crate::transport::Prefixed::new(Vec::new(), ours);
        let (server, client) = tokio::join!(acceptor.accept(below), connector.connect(name, theirs));
        let (workspace, mut wire, mut client) =
            (Workspace::new(), Wire::new(server.unwrap()), client.unwrap());
        poll_fn(|cx| Poll::Ready(wire.send(cx, &workspace, &[b'x'; GATHER]))).await.unwrap();
        let (sent, progress) = (wire.sent(), wire.progress());
        assert_eq!(sent, GATHER as u64, "TLS took all of it");
        assert!(wire.queued() > GATHER, "and the socket did not");
        let mut byte = [0; 1];
        let mut into = ReadBuf::new(&mut byte);
        let read = poll_fn(|cx| Poll::Ready(Pin::new(&mut client).poll_read(cx, &mut into))).await;
        assert!(read.is_pending(), "the client took a part of a record");
        assert!(poll_fn(|cx| Poll::Ready(wire.poll_flush(cx))).await.is_pending());
        assert_eq!(wire.sent(), sent);
        assert!(wire.progress() > progress);
    }
}
