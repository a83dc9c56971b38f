//! What TLS writes for itself on a client's connection goes with what is written next: session tickets share a packet with
//! the first answer instead of having a system call, a packet and a wake-up of their own. Also counts what the socket takes:
//! TLS does not say when what it has encrypted leaves. Never holds back bytes that the client waits for.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transport::Transport;

/// How many pieces one write hands on behind what is held: a large answer has this many records.
const PIECES: usize = 16;

/// When held bytes leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// All bytes are held, and leave when there is nothing to read: the client waits for them.
    NothingToRead,
    /// None are held any more; those that are leave with the next write, or when they are flushed.
    NextWrite,
}

/// A stream below TLS.
pub(crate) struct Gathering<S> {
    stream: S,
    held: Vec<u8>,
    until: Until,
    /// Bytes that the stream has taken.
    written: u64,
}

impl<S: Transport> Gathering<S> {
    /// For a handshake.
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, held: Vec::new(), until: Until::NothingToRead, written: 0 }
    }

    /// The handshake is over. What is held waits for the first answer, or for [`AsyncWrite::poll_flush`].
    pub(crate) fn opened(&mut self) {
        self.until = Until::NextWrite;
    }

    /// Sends what is held.
    pub(crate) fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            ready!(self.poll_both(cx, &[]))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what is held and `data` behind it; says how much of `data` was taken.
    fn poll_both(&mut self, cx: &mut Context<'_>, data: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut all = [IoSlice::new(&[]); PIECES + 1];
        all[0] = IoSlice::new(&self.held);
        let pieces = data.len().min(PIECES);
        for (place, piece) in all[1..].iter_mut().zip(data) {
            *place = *piece;
        }
        let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &all[..=pieces]))?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.written += count as u64;
        if count < self.held.len() {
            self.held.drain(..count);
            return Poll::Ready(Ok(0));
        }
        Poll::Ready(Ok(count - std::mem::take(&mut self.held).len()))
    }
}

impl<S: Transport> AsyncRead for Gathering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        if read.is_pending() && self.until == Until::NothingToRead {
            ready!(self.poll_release(cx))?;
        }
        read
    }
}

impl<S: Transport> AsyncWrite for Gathering<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.until == Until::NothingToRead {
            data.iter().for_each(|piece| self.held.extend_from_slice(piece));
            return Poll::Ready(Ok(data.iter().map(|piece| piece.len()).sum()));
        }
        while !self.held.is_empty() {
            match ready!(self.poll_both(cx, data))? {
                0 => {}
                taken => return Poll::Ready(Ok(taken)),
            }
        }
        let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, data))?;
        self.written += count as u64;
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.until == Until::NextWrite {
            ready!(self.poll_release(cx))?;
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_release(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: Transport> Transport for Gathering<S> {
    fn peer(&self) -> Option<IpAddr> {
        self.stream.peer()
    }

    fn passed_on(&self) -> Option<u64> {
        Some(self.written)
    }

    fn abort(&mut self) {
        self.stream.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    fn read(stream: &mut Gathering<DuplexStream>) -> Poll<io::Result<()>> {
        let mut bytes = [0; 64];
        let mut buffer = ReadBuf::new(&mut bytes);
        Pin::new(stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer)
    }

    async fn arrived(theirs: &mut DuplexStream) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        let count = theirs.read(&mut bytes).await.unwrap();
        bytes.truncate(count);
        bytes
    }

    #[tokio::test]
    async fn a_flight_of_the_handshake_leaves_before_the_client_is_waited_for_and_not_sooner() {
        let (ours, mut theirs) = duplex(1000);
        let mut stream = Gathering::new(ours);
        theirs.write_all(b"hello").await.unwrap();
        stream.write_all(b"server").await.unwrap();
        stream.write_all(b" flight").await.unwrap();
        stream.flush().await.unwrap();
        assert!(read(&mut stream).is_ready());
        assert_eq!(stream.passed_on(), Some(0), "there was something to read");
        assert!(read(&mut stream).is_pending());
        assert_eq!(arrived(&mut theirs).await, b"server flight");
        assert_eq!(stream.passed_on(), Some(13));
    }

    #[tokio::test]
    async fn tickets_go_with_the_first_answer_however_little_the_socket_takes() {
        for room in [3, 1000] {
            let (ours, mut theirs) = duplex(room);
            let mut stream = Gathering::new(ours);
            stream.write_all(b"ticket ").await.unwrap();
            stream.opened();
            let writer = async {
                let both = [IoSlice::new(b"ans"), IoSlice::new(b"wer")];
                let taken = stream.write_vectored(&both).await.unwrap();
                stream.write_all(&b"answer"[taken..]).await.unwrap();
                stream.shutdown().await.unwrap();
            };
            let mut all = Vec::new();
            let (_, count) = tokio::join!(writer, theirs.read_to_end(&mut all));
            assert_eq!((count.unwrap(), &all[..]), (13, &b"ticket answer"[..]));
            assert_eq!(stream.passed_on(), Some(13));
        }
    }

    #[tokio::test]
    async fn tickets_leave_when_they_are_flushed() {
        let (ours, mut theirs) = duplex(1000);
        let mut stream = Gathering::new(ours);
        stream.write_all(b"ticket").await.unwrap();
        stream.opened();
        assert!(read(&mut stream).is_pending());
        assert_eq!(stream.passed_on(), Some(0));
        stream.flush().await.unwrap();
        assert_eq!(arrived(&mut theirs).await, b"ticket");
    }
}
