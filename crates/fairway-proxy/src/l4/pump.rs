//! Copies bytes between a client and an endpoint in both directions.
//!
//! A side is read only when the other has taken everything read before, so that a connection holds at most one
//! read per direction, and an idle one nothing. A read brings up to [`INITIAL_READ_BYTES`], growing to
//! [`Transport::READ`] while reads are full and the other side takes everything at once. The end of one
//! direction is passed on and leaves the other open. A direction with more to move yields its thread after
//! [`MAX_BYTES_PER_TURN`].

use std::io;
use std::task::{Context, Poll, ready};

use fairway_net::transport::Transport;
use fairway_net::wire::{ReadResult, Wire, Workspace};
use fairway_net::yielding::go_on_later;

/// Size of the first read, and of reads after the other side was slow: pending data then fits into vectors that
/// return to the worker.
const INITIAL_READ_BYTES: usize = 64 * 1024;

/// Bytes moved per direction and turn, plus the rest of the last read.
const MAX_BYTES_PER_TURN: usize = 512 * 1024;

/// One of the two peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Endpoint,
}

/// State of both directions.
#[derive(Debug, Default)]
pub(crate) struct Pump {
    /// Client to endpoint.
    to_endpoint: Direction,
    /// Endpoint to client.
    to_client: Direction,
}

/// One direction.
#[derive(Debug)]
struct Direction {
    state: State,
    /// Size of the next read, as far as the transport allows.
    max_read: usize,
}

impl Default for Direction {
    fn default() -> Self {
        Self { state: State::Open, max_read: INITIAL_READ_BYTES }
    }
}

/// State of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// End of input; data read before is still being sent.
    Closing,
    Closed,
}

impl Pump {
    /// Copies what can be copied. Ready when both directions have ended: then both wires must be dropped.
    ///
    /// # Errors
    /// The side that broke the connection.
    pub(crate) fn poll<C: Transport, E: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        workspace: &Workspace,
        client: &mut Wire<C>,
        endpoint: &mut Wire<E>,
    ) -> Poll<Result<(), Side>> {
        let is_last = self.to_client.state == State::Closed;
        let (from, to) = (Peer::client(client), Peer::endpoint(endpoint));
        let forth = self.to_endpoint.poll(cx, workspace, from, to, is_last);
        let is_last = self.to_endpoint.state == State::Closed;
        let (from, to) = (Peer::endpoint(endpoint), Peer::client(client));
        let back = self.to_client.poll(cx, workspace, from, to, is_last);
        match (forth, back) {
            (Poll::Ready(Err(side)), _) | (_, Poll::Ready(Err(side))) => Poll::Ready(Err(side)),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }
}

/// A peer as seen by one direction.
struct Peer<'w, T> {
    wire: &'w mut Wire<T>,
    side: Side,
}

impl<'w, T> Peer<'w, T> {
    fn client(wire: &'w mut Wire<T>) -> Self {
        Self { wire, side: Side::Client }
    }

    fn endpoint(wire: &'w mut Wire<T>) -> Self {
        Self { wire, side: Side::Endpoint }
    }
}

impl Direction {
    /// Copies from one peer to the other; `is_last` says that the other direction has ended.
    fn poll<F: Transport, T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        workspace: &Workspace,
        from: Peer<'_, F>,
        to: Peer<'_, T>,
        is_last: bool,
    ) -> Poll<Result<(), Side>> {
        let (Peer { wire: from, side: source }, Peer { wire: to, side: target }) = (from, to);
        let blame = |side: Side| move |_: io::Error| side;
        let mut moved = 0;
        loop {
            if self.state == State::Closed {
                return Poll::Ready(Ok(()));
            }
            let Poll::Ready(flushed) = to.poll_flush(cx) else {
                // The other side is slow: use small reads again.
                self.max_read = INITIAL_READ_BYTES;
                return Poll::Pending;
            };
            flushed.map_err(blame(target))?;
            to.rest_outbox(workspace);
            if self.state == State::Closing {
                // The caller closes the sockets once both directions end, which signals the same; TLS has its
                // own message for it.
                if !is_last || to.stream().is_secure() {
                    ready!(to.poll_shutdown(cx)).map_err(blame(target))?;
                }
                self.state = State::Closed;
                return Poll::Ready(Ok(()));
            }
            if moved >= MAX_BYTES_PER_TURN {
                go_on_later(cx);
                return Poll::Pending;
            }
            let limit = self.max_read.min(F::READ);
            let passed = from.poll_input(cx, workspace, limit, |cx, bytes| {
                (bytes.len(), send_or_queue(to, cx, workspace, bytes).map(|()| bytes.len()))
            });
            match ready!(passed).map_err(blame(source))? {
                ReadResult::Taken(passed) => {
                    let passed = passed.map_err(blame(target))?;
                    moved += passed;
                    if passed == limit {
                        // There is more input. If the other side is slow, the next flush shows it.
                        self.max_read = (limit * 2).min(F::READ);
                    }
                    // Input read before forwarding started is consumed: release its memory.
                    from.release_memory(workspace);
                }
                ReadResult::Eof => self.state = State::Closing,
            }
        }
    }
}

/// Sends `bytes`; queues what the socket does not take.
fn send_or_queue<T: Transport>(
    to: &mut Wire<T>,
    cx: &mut Context<'_>,
    workspace: &Workspace,
    bytes: &[u8],
) -> io::Result<()> {
    let written = match to.poll_write(cx, bytes) {
        Poll::Ready(taken) => taken?,
        Poll::Pending => 0,
    };
    match &bytes[written..] {
        [] => Ok(()),
        rest => to.send(cx, workspace, rest),
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// Read size of a pipe.
    const READ: usize = <DuplexStream as Transport>::READ;

    /// Both peers, and the wires between them.
    fn between(pipe: usize) -> ([DuplexStream; 2], [Wire<DuplexStream>; 2]) {
        let ((client, near), (endpoint, far)) = (duplex(pipe), duplex(pipe));
        ([client, endpoint], [Wire::new(near), Wire::new(far)])
    }

    #[tokio::test]
    async fn each_direction_ends_independently_after_delivering_its_data() {
        let ([mut client, mut endpoint], [mut near, mut far]) = between(100);
        let (workspace, mut pump) = (Workspace::new(), Pump::default());
        let pumped = async move {
            let end = poll_fn(|cx| pump.poll(cx, &workspace, &mut near, &mut far)).await;
            // Dropping both wires ends the last direction.
            (end, (near.received(), near.sent(), far.received(), far.sent()))
        };
        let peers = async {
            client.write_all(&[1; 1_000]).await.unwrap();
            client.shutdown().await.unwrap();
            let mut response = Vec::new();
            client.read_to_end(&mut response).await.unwrap();
            response
        };
        let answering = async {
            let mut segments = Vec::new();
            endpoint.read_to_end(&mut segments).await.unwrap();
            endpoint.write_all(&segments).await.unwrap();
            endpoint.shutdown().await.unwrap();
        };
        let (pumped, response, ()) = tokio::join!(pumped, peers, answering);
        assert_eq!((pumped, response), ((Ok(()), (1_000, 1_000, 1_000, 1_000)), vec![1; 1_000]));
    }

    #[tokio::test]
    async fn earlier_input_is_forwarded_and_its_memory_released() {
        let ((_client, near), (mut endpoint, far)) = (duplex(10_000), duplex(10_000));
        let (mut near, mut far) = (Wire::with_input(near, vec![7; 5_000]), Wire::new(far));
        let (workspace, mut pump) = (Workspace::new(), Pump::default());
        let pumped = poll_fn(|cx| Poll::Ready(pump.poll(cx, &workspace, &mut near, &mut far))).await;
        assert!(pumped.is_pending());
        let mut buffer = vec![0; 5_000];
        endpoint.read_exact(&mut buffer).await.unwrap();
        assert!(buffer.iter().all(|byte| *byte == 7));
        let mut lent = Vec::new();
        workspace.lend(&mut lent);
        assert!(lent.capacity() >= 5_000, "others have it now");
    }

    #[tokio::test]
    async fn a_stalled_side_stops_reads_from_the_other() {
        let ([_client, mut endpoint], [mut near, mut far]) = between(10 * INITIAL_READ_BYTES);
        let (workspace, mut pump) = (Workspace::new(), Pump::default());
        let mut written = 0;
        loop {
            let pumped = poll_fn(|cx| Poll::Ready(pump.poll(cx, &workspace, &mut near, &mut far))).await;
            assert!(pumped.is_pending());
            let write = tokio::time::timeout(std::time::Duration::ZERO, endpoint.write(&[7; 1_000])).await;
            let Ok(Ok(count)) = write else { break };
            written += count;
        }
        // The capacity of the pipes, and one read.
        assert!((20 * INITIAL_READ_BYTES..=21 * INITIAL_READ_BYTES).contains(&written), "{written}");
    }

    #[tokio::test]
    async fn a_busy_direction_yields_its_thread() {
        let ([mut client, mut endpoint], [mut near, mut far]) = between(100 * INITIAL_READ_BYTES);
        let (workspace, mut pump) = (Workspace::new(), Pump::default());
        client.write_all(&vec![7; 50 * INITIAL_READ_BYTES]).await.unwrap();
        let mut before = 0;
        for turn in 0..5 {
            let pumped = poll_fn(|cx| Poll::Ready(pump.poll(cx, &workspace, &mut near, &mut far))).await;
            assert!(pumped.is_pending());
            let moved = far.sent() - before;
            assert!(
                (MAX_BYTES_PER_TURN..MAX_BYTES_PER_TURN + READ).contains(&(moved as usize)),
                "{moved} bytes in turn {turn}"
            );
            before = far.sent();
        }
        while far.sent() < 50 * INITIAL_READ_BYTES as u64 {
            let pumped = poll_fn(|cx| Poll::Ready(pump.poll(cx, &workspace, &mut near, &mut far))).await;
            assert!(pumped.is_pending());
        }
        let mut all = vec![0; 50 * INITIAL_READ_BYTES];
        endpoint.read_exact(&mut all).await.unwrap();
        assert!(all.iter().all(|byte| *byte == 7));
    }

    #[tokio::test]
    async fn reads_grow_while_full_and_shrink_for_a_slow_side() {
        let ((mut client, near), (mut endpoint, far)) =
            (duplex(100 * INITIAL_READ_BYTES), duplex(4 * INITIAL_READ_BYTES));
        let (mut near, mut far) = (Wire::new(near), Wire::new(far));
        let (workspace, mut pump) = (Workspace::new(), Pump::default());
        client.write_all(&vec![7; 20 * INITIAL_READ_BYTES]).await.unwrap();
        // One initial read and two of twice the size, of whose last the pipe takes half. After that one initial
        // read each time there is room.
        for chunks in [5, 6, 7] {
            let pumped = poll_fn(|cx| Poll::Ready(pump.poll(cx, &workspace, &mut near, &mut far))).await;
            assert!(pumped.is_pending());
            assert_eq!(
                (near.received(), far.queued()),
                (chunks * INITIAL_READ_BYTES as u64, INITIAL_READ_BYTES)
            );
            endpoint.read_exact(&mut vec![0; INITIAL_READ_BYTES]).await.unwrap();
        }
    }

    #[tokio::test]
    async fn reports_the_side_that_broke_the_connection() {
        let ([client, endpoint], [mut near, mut far]) = between(100);
        let (workspace, mut pump) = (Workspace::new(), Pump::default());
        // Reading from a closed pipe ends, writing to it fails.
        drop(endpoint);
        let mut client = client;
        client.write_all(b"nobody is there").await.unwrap();
        let pumped = poll_fn(|cx| pump.poll(cx, &workspace, &mut near, &mut far)).await;
        assert_eq!(pumped, Err(Side::Endpoint));
    }
}
