//! Bytes in both directions between a client and an endpoint, whatever they mean.
//!
//! A side is read only when the other has taken all that was read before, so that a connection holds at most one read for each
//! direction, and an idle one nothing. A read may bring [`CHUNK`]; it may bring more, up to [`Transport::READ`], while reads
//! fill what they may bring and the other side takes all of it at once. The end of one direction is passed on and leaves the other
//! open. What always has more to move leaves its thread to others after [`TURN`].

use std::io;
use std::task::{Context, Poll, ready};

use fairway_net::transport::Transport;
use fairway_net::turns::go_on_later;
use fairway_net::wire::{Input, Wire, Workspace};

/// How much one read may bring at first, and after the other side was slow: what waits then fits into the vectors that go back
/// to the worker.
const CHUNK: usize = 64 * 1024;

/// How many bytes of a direction are moved, with the rest of the last read, before others have their turn.
const TURN: usize = 512 * 1024;

/// Which of the two peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The client.
    Client,
    /// The endpoint.
    Endpoint,
}

/// How far both directions are.
#[derive(Debug, Default)]
pub(crate) struct Pump {
    /// To the endpoint.
    forth: Direction,
    /// To the client.
    back: Direction,
}

/// One direction.
#[derive(Debug)]
struct Direction {
    state: State,
    /// How much the next read may bring, as far as its side allows it.
    most: usize,
}

impl Default for Direction {
    fn default() -> Self {
        Self { state: State::Open, most: CHUNK }
    }
}

/// How far one direction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Nothing more comes; what came is still being sent.
    Closing,
    Closed,
}

impl Pump {
    /// Moves what can be moved. Ready when both directions have ended: then both wires are to be dropped.
    ///
    /// # Errors
    /// With the side that broke the connection.
    pub(crate) fn poll<C: Transport, E: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        workspace: &Workspace,
        client: &mut Wire<C>,
        endpoint: &mut Wire<E>,
    ) -> Poll<Result<(), Side>> {
        let is_last = self.back.state == State::Closed;
        let (from, to) = (Peer::client(client), Peer::endpoint(endpoint));
        let forth = self.forth.poll(cx, workspace, from, to, is_last);
        let is_last = self.forth.state == State::Closed;
        let (from, to) = (Peer::endpoint(endpoint), Peer::client(client));
        let back = self.back.poll(cx, workspace, from, to, is_last);
        match (forth, back) {
            (Poll::Ready(Err(side)), _) | (_, Poll::Ready(Err(side))) => Poll::Ready(Err(side)),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }
}

/// A peer, as a direction sees it.
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
    /// Reads from one peer and sends to the other; `is_last` says that the other direction has ended.
    fn poll<F: Transport, T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        workspace: &Workspace,
        from: Peer<'_, F>,
        to: Peer<'_, T>,
        is_last: bool,
    ) -> Poll<Result<(), Side>> {
        let (Peer { wire: from, side: source }, Peer { wire: to, side: target }) = (from, to);
        let broken = |side: Side| move |_: io::Error| side;
        let mut moved = 0;
        loop {
            if self.state == State::Closed {
                return Poll::Ready(Ok(()));
            }
            let Poll::Ready(flushed) = to.poll_flush(cx) else {
                // It is slow: less is read for it from now on.
                self.most = CHUNK;
                return Poll::Pending;
            };
            flushed.map_err(broken(target))?;
            to.rest_outbox(workspace);
            if self.state == State::Closing {
                // Whoever waits for both directions closes the sockets then, which says the same; TLS has a message for it.
                if !is_last || to.stream().is_secure() {
                    ready!(to.poll_shutdown(cx)).map_err(broken(target))?;
                }
                self.state = State::Closed;
                return Poll::Ready(Ok(()));
            }
            if moved >= TURN {
                go_on_later(cx);
                return Poll::Pending;
            }
            let most = self.most.min(F::READ);
            let passed = from.poll_input(cx, workspace, most, |cx, bytes| {
                (bytes.len(), pass(to, cx, workspace, bytes).map(|()| bytes.len()))
            });
            match ready!(passed).map_err(broken(source))? {
                Input::Taken(passed) => {
                    let passed = passed.map_err(broken(target))?;
                    moved += passed;
                    if passed == most {
                        // There is more. If the other side is slow, the next flush says so.
                        self.most = (most * 2).min(F::READ);
                    }
                    // What was read before the connection was forwarded is gone, and its memory with it.
                    from.rest(workspace);
                }
                Input::Eof => self.state = State::Closing,
            }
        }
    }
}

/// Sends `bytes` as far as they are taken at once, and keeps the rest.
fn pass<T: Transport>(
    to: &mut Wire<T>,
    cx: &mut Context<'_>,
    workspace: &Workspace,
    bytes: &[u8],
) -> io::Result<()> {
    let taken = match to.poll_write(cx, bytes) {
        Poll::Ready(taken) => taken?,
        Poll::Pending => 0,
    };
    match &bytes[taken..] {
        [] => Ok(()),
        rest => to.send(cx, workspace, rest),
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// How much one read of a pipe may bring.
    const READ: usize = <DuplexStream as Transport>::READ;

    /// Both peers, and the two ends that lie between them.
    fn between(pipe: usize) -> ([DuplexStream; 2], [Wire<DuplexStream>; 2]) {
        let ((client, near), (endpoint, far)) = (duplex(pipe), duplex(pipe));
        ([client, endpoint], [Wire::new(near), Wire::new(far)])
    }

    #[tokio::test]
    async fn each_direction_ends_by_itself_and_what_came_before_its_end_arrives() {
        let ([mut client, mut endpoint], [mut near, mut far]) = between(100);
        let (workspace, mut pump) = (Workspace::new(), Pump::default());
        let pumped = async move {
            let end = poll_fn(|cx| pump.poll(cx, &workspace, &mut near, &mut far)).await;
            // Both ends are dropped here: the last direction ends by that.
            (end, (near.received(), near.sent(), far.received(), far.sent()))
        };
        let peers = async {
            client.write_all(&[1; 1_000]).await.unwrap();
            client.shutdown().await.unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let answering = async {
            let mut asked = Vec::new();
            endpoint.read_to_end(&mut asked).await.unwrap();
            endpoint.write_all(&asked).await.unwrap();
            endpoint.shutdown().await.unwrap();
        };
        let (pumped, answer, ()) = tokio::join!(pumped, peers, answering);
        assert_eq!((pumped, answer), ((Ok(()), (1_000, 1_000, 1_000, 1_000)), vec![1; 1_000]));
    }

    #[tokio::test]
    async fn what_was_read_before_is_passed_on_and_leaves_no_memory_behind() {
        let ((_client, near), (mut endpoint, far)) = (duplex(10_000), duplex(10_000));
        let (mut near, mut far) = (Wire::with_input(near, vec![7; 5_000]), Wire::new(far));
        let (workspace, mut pump) = (Workspace::new(), Pump::default());
        let pumped = poll_fn(|cx| Poll::Ready(pump.poll(cx, &workspace, &mut near, &mut far))).await;
        assert!(pumped.is_pending());
        let mut seen = vec![0; 5_000];
        endpoint.read_exact(&mut seen).await.unwrap();
        assert!(seen.iter().all(|byte| *byte == 7));
        let mut lent = Vec::new();
        workspace.lend(&mut lent);
        assert!(lent.capacity() >= 5_000, "others have it now");
    }

    #[tokio::test]
    async fn a_side_that_takes_nothing_stops_what_is_read_from_the_other() {
        let ([_client, mut endpoint], [mut near, mut far]) = between(10 * CHUNK);
        let (workspace, mut pump) = (Workspace::new(), Pump::default());
        let mut written = 0;
        loop {
            let pumped = poll_fn(|cx| Poll::Ready(pump.poll(cx, &workspace, &mut near, &mut far))).await;
            assert!(pumped.is_pending());
            let more = tokio::time::timeout(std::time::Duration::ZERO, endpoint.write(&[7; 1_000])).await;
            let Ok(Ok(count)) = more else { break };
            written += count;
        }
        // What the pipes hold, and one read.
        assert!((20 * CHUNK..=21 * CHUNK).contains(&written), "{written}");
    }

    #[tokio::test]
    async fn what_always_has_more_to_move_leaves_its_thread_to_others() {
        let ([mut client, mut endpoint], [mut near, mut far]) = between(100 * CHUNK);
        let (workspace, mut pump) = (Workspace::new(), Pump::default());
        client.write_all(&vec![7; 50 * CHUNK]).await.unwrap();
        let mut before = 0;
        for turn in 0..5 {
            let pumped = poll_fn(|cx| Poll::Ready(pump.poll(cx, &workspace, &mut near, &mut far))).await;
            assert!(pumped.is_pending());
            let moved = far.sent() - before;
            assert!((TURN..TURN + READ).contains(&(moved as usize)), "{moved} bytes in turn {turn}");
            before = far.sent();
        }
        while far.sent() < 50 * CHUNK as u64 {
            let pumped = poll_fn(|cx| Poll::Ready(pump.poll(cx, &workspace, &mut near, &mut far))).await;
            assert!(pumped.is_pending());
        }
        let mut all = vec![0; 50 * CHUNK];
        endpoint.read_exact(&mut all).await.unwrap();
        assert!(all.iter().all(|byte| *byte == 7));
    }

    #[tokio::test]
    async fn reads_grow_while_they_fill_and_are_small_again_for_a_side_that_is_slow() {
        let ((mut client, near), (mut endpoint, far)) = (duplex(100 * CHUNK), duplex(4 * CHUNK));
        let (mut near, mut far) = (Wire::new(near), Wire::new(far));
        let (workspace, mut pump) = (Workspace::new(), Pump::default());
        client.write_all(&vec![7; 20 * CHUNK]).await.unwrap();
        // A chunk and two reads of twice as much, of whose last the pipe takes a half. Then one chunk each time that there is
        // room for one.
        for chunks in [5, 6, 7] {
            let pumped = poll_fn(|cx| Poll::Ready(pump.poll(cx, &workspace, &mut near, &mut far))).await;
            assert!(pumped.is_pending());
            assert_eq!((near.received(), far.queued()), (chunks * CHUNK as u64, CHUNK));
            endpoint.read_exact(&mut vec![0; CHUNK]).await.unwrap();
        }
    }

    #[tokio::test]
    async fn who_broke_the_connection_is_told() {
        let ([client, endpoint], [mut near, mut far]) = between(100);
        let (workspace, mut pump) = (Workspace::new(), Pump::default());
        // A closed pipe is an end to its reader and broken to its writer.
        drop(endpoint);
        let mut client = client;
        client.write_all(b"nobody is there").await.unwrap();
        let pumped = poll_fn(|cx| pump.poll(cx, &workspace, &mut near, &mut far)).await;
        assert_eq!(pumped, Err(Side::Endpoint));
    }
}
