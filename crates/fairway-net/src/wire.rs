//! A stream with buffers for early input and pending output.
//!
//! Reads use one scratch buffer per worker: bytes consumed at once are never stored, so an idle connection owns no
//! buffer and a busy one only its residue.

use std::cell::{RefCell, RefMut};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use crate::object_pool::SparePool;
use crate::transport::{ANSWER_READ, Transport};

/// Room for the largest read.
const SCRATCH: usize = ANSWER_READ;

/// Maximum bytes per read of a head: what follows the head is copied to the residue.
const HEAD_READ: usize = 16 * 1024;

/// Maximum early input that is kept while nothing is read from the peer.
const AHEAD: usize = 16 * 1024;

/// Smaller writes are gathered behind pending output; larger ones go directly to the socket.
pub const GATHER: usize = 16 * 1024;

/// Vectors above this size are freed instead of kept when a connection becomes idle.
const SPARE_CAPACITY: usize = 64 * 1024;

/// Bytes of all spare vectors of a worker.
const SPARE_BYTES: usize = 8 * 1024 * 1024;

/// Shared by all connections of one worker: the scratch buffer and spare vectors.
pub struct Workspace {
    scratch: RefCell<Box<[u8]>>,
    spares: RefCell<SparePool<Vec<u8>>>,
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

impl Workspace {
    /// A worker's workspace.
    pub fn new() -> Self {
        Self {
            scratch: RefCell::new(vec![0; SCRATCH].into_boxed_slice()),
            spares: RefCell::new(SparePool::new(SPARE_BYTES)),
        }
    }

    /// The scratch buffer, for data that is passed on before anything else is read: one read of 256 KiB.
    #[inline]
    pub fn room(&self) -> RefMut<'_, [u8]> {
        RefMut::map(self.scratch.borrow_mut(), |scratch| &mut **scratch)
    }

    /// Call once a second: frees vectors that were not needed.
    pub fn trim(&self) {
        self.spares.borrow_mut().trim();
    }

    /// Frees the spare vectors.
    pub fn clear(&self) {
        self.spares.borrow_mut().clear();
    }

    /// Gives memory to a vector that has none.
    #[inline]
    pub fn lend(&self, bytes: &mut Vec<u8>) {
        if bytes.capacity() == 0 {
            *bytes = self.spare();
        }
    }

    /// Takes the memory of an unused vector.
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

/// A byte queue.
#[derive(Default)]
pub struct Backlog {
    bytes: Vec<u8>,
    start: usize,
}

impl Backlog {
    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// The queued bytes.
    #[inline]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Removes `count` bytes from the front.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Appends `data`, using a spare vector if there is none yet.
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

    /// Returns the vector if it is empty.
    #[inline]
    pub fn release(&mut self, workspace: &Workspace) {
        if self.is_empty() {
            self.start = 0;
            workspace.take_back(&mut self.bytes);
        }
    }
}

/// A stream with its residue and outbox.
pub struct Wire<S> {
    stream: S,
    inbox: Backlog,
    outbox: Backlog,
    sent: u64,
    received: u64,
}

/// The result of [`Wire::poll_input`].
#[derive(Debug, PartialEq, Eq)]
pub enum ReadResult<T> {
    /// The consumer is done.
    Taken(T),
    /// The peer has closed its sending direction.
    Eof,
}

/// The result of [`Wire::poll_ahead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// The peer may send more.
    Open,
    /// The peer closed its sending direction.
    Ended,
    /// The connection failed.
    Broken,
}

impl<S: Transport> Wire<S> {
    /// Nothing was read, nothing is pending.
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

    /// The peer's address, while the system knows it.
    pub fn peer(&self) -> Option<IpAddr> {
        self.stream.peer()
    }

    /// The local address, while the system knows it.
    pub fn local(&self) -> Option<SocketAddr> {
        self.stream.local()
    }

    /// Registers the stream with this thread's runtime.
    ///
    /// # Errors
    /// As [`Transport::register_with_runtime`].
    pub fn register_with_runtime(&mut self) -> io::Result<()> {
        self.stream.register_with_runtime()
    }

    /// Passes input to `take` until it returns a result: first what is buffered, then with more each time.
    ///
    /// `take` returns how many bytes it used, and its result once it is done; `None` asks for more and must come with 0
    /// bytes.
    pub fn poll_whole<T>(
        &mut self,
        cx: &mut Context<'_>,
        workspace: &Workspace,
        mut take: impl FnMut(&[u8]) -> (usize, Option<T>),
    ) -> Poll<io::Result<ReadResult<T>>> {
        if !self.inbox.is_empty()
            && let (used, Some(taken)) = take(self.inbox.pending())
        {
            self.inbox.consume(used);
            return Poll::Ready(Ok(ReadResult::Taken(taken)));
        }
        let mut scratch = workspace.scratch.borrow_mut();
        loop {
            let count = ready!(read(&mut self.stream, cx, &mut scratch[..HEAD_READ]))?;
            if count == 0 {
                return Poll::Ready(Ok(ReadResult::Eof));
            }
            self.received += count as u64;
            let fresh = &scratch[..count];
            if self.inbox.is_empty() {
                let (used, taken) = take(fresh);
                self.inbox.extend(&fresh[used..], workspace);
                if let Some(taken) = taken {
                    return Poll::Ready(Ok(ReadResult::Taken(taken)));
                }
            } else {
                self.inbox.extend(fresh, workspace);
                if let (used, Some(taken)) = take(self.inbox.pending()) {
                    self.inbox.consume(used);
                    return Poll::Ready(Ok(ReadResult::Taken(taken)));
                }
            }
        }
    }

    /// Passes the buffered bytes, or those of one read, up to `most`, to `take`, which returns how many it used; the
    /// rest is kept.
    pub fn poll_input<T, E>(
        &mut self,
        cx: &mut Context<'_>,
        workspace: &Workspace,
        most: usize,
        take: impl FnOnce(&mut Context<'_>, &[u8]) -> (usize, Result<T, E>),
    ) -> Poll<io::Result<ReadResult<Result<T, E>>>> {
        if !self.inbox.is_empty() {
            let pending = self.inbox.pending();
            let (used, taken) = take(cx, &pending[..pending.len().min(most)]);
            self.inbox.consume(used);
            return Poll::Ready(Ok(ReadResult::Taken(taken)));
        }
        let mut scratch = workspace.scratch.borrow_mut();
        let count = ready!(read(&mut self.stream, cx, &mut scratch[..S::READ.min(most)]))?;
        if count == 0 {
            return Poll::Ready(Ok(ReadResult::Eof));
        }
        self.received += count as u64;
        let (used, taken) = take(cx, &scratch[..count]);
        self.inbox.extend(&scratch[used..count], workspace);
        Poll::Ready(Ok(ReadResult::Taken(taken)))
    }

    /// Passes the buffered bytes and those of one more read of at most `most` bytes to `take`, which returns how many
    /// it used; the rest is kept. Ready with the number of new bytes: 0 at the end of the stream.
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

    /// Passes the buffered bytes to `take`, which returns how many it used.
    pub fn take_residue(&mut self, take: impl FnOnce(&[u8]) -> usize) {
        let used = take(self.inbox.pending());
        self.inbox.consume(used);
    }

    /// Writes directly to the stream; the outbox is empty. Ready with the number of bytes written, at least 1.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.sent += count as u64;
        Poll::Ready(Ok(count))
    }

    /// Buffers input while nothing else is read, to notice the end of the stream. From a peer that has sent more than
    /// [`AHEAD`] bytes early, nothing more is read, and its end is not noticed.
    pub fn poll_ahead(&mut self, cx: &mut Context<'_>, workspace: &Workspace) -> PeerState {
        while self.inbox.pending().len() < AHEAD {
            let mut scratch = workspace.scratch.borrow_mut();
            match read(&mut self.stream, cx, &mut scratch[..HEAD_READ]) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return PeerState::Ended,
                Poll::Ready(Err(_)) => return PeerState::Broken,
                Poll::Ready(Ok(count)) => {
                    self.received += count as u64;
                    self.inbox.extend(&scratch[..count], workspace);
                }
            }
        }
        PeerState::Open
    }

    /// The number of buffered input bytes.
    pub fn residue(&self) -> usize {
        self.inbox.pending().len()
    }

    /// The buffered input.
    pub fn pending(&self) -> &[u8] {
        self.inbox.pending()
    }

    /// The end of the outbox, to append heads and small writes to.
    pub fn outbox(&mut self, workspace: &Workspace) -> &mut Vec<u8> {
        self.outbox.reserve_from(workspace);
        &mut self.outbox.bytes
    }

    /// Sends `data` after the pending output: small writes wait for the next flush, large ones go directly to the
    /// socket as far as it accepts them.
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

    /// Ready when nothing is pending.
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

    /// Releases the empty outbox: the peer's turn is next.
    pub fn rest_outbox(&mut self, workspace: &Workspace) {
        self.outbox.release(workspace);
    }

    /// Pending bytes. Larger than any limit while TLS has encrypted data that the socket has not accepted: that is as
    /// much as one read, and nothing may be added.
    pub fn queued(&self) -> usize {
        if self.stream.holds_back() { usize::MAX } else { self.outbox.pending().len() }
    }

    /// Grows with every byte that the socket accepts; has no other meaning.
    pub fn progress(&self) -> u64 {
        self.stream.passed_on().unwrap_or(self.sent)
    }

    /// Bytes that the stream accepted since it was made. What it did not accept, the peer cannot have received.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes read from the stream since it was made.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Makes the peer see a failure when this is dropped.
    pub fn abort(&mut self) {
        self.stream.abort();
    }

    /// Closes the sending direction.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    /// Releases empty buffers: the connection is idle.
    pub fn release_memory(&mut self, workspace: &Workspace) {
        self.inbox.release(workspace);
        self.outbox.release(workspace);
    }

    /// Whether an idle stream is still usable: nothing was received and the peer did not close. Needs no system call
    /// unless the socket reports an event.
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
    async fn bytes_after_a_message_are_kept_for_the_next_one() {
        let workspace = Workspace::new();
        let (ours, mut theirs) = duplex(64);
        let mut wire = Wire::new(ours);
        theirs.write_all(b"on").await.unwrap();
        theirs.write_all(b"e;two;th").await.unwrap();
        for expected in [&b"one"[..], b"two"] {
            let input = poll_fn(|cx| wire.poll_whole(cx, &workspace, word)).await.unwrap();
            assert_eq!(input, ReadResult::Taken(expected.to_vec()));
        }
        assert_eq!(wire.residue(), 2);
        drop(theirs);
        assert_eq!(poll_fn(|cx| wire.poll_whole(cx, &workspace, word)).await.unwrap(), ReadResult::Eof);
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
    async fn data_inside_tls_counts_as_waiting_and_each_sent_byte_as_progress() {
        let config = fairway_testkit::Authority::new("test").leaf(&["a.test"]).server_config(&["http/1.1"]);
        let trusting = fairway_testkit::certificates::unverified_client_config();
        let (ours, theirs) = duplex(4096);
        let name = rustls_pki_types::ServerName::try_from("a.test").unwrap();
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(trusting));
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        let below = crate::transport::PrefixedStream::new(Vec::new(), ours);
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
