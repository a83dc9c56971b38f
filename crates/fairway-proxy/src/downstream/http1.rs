//! A downstream HTTP/1 connection: idle, a head, an exchange, idle again.
//!
//! ```text
//! idle ──first byte──► head ──whole──► exchange ──┬─► idle
//!  │ idle time-out      │ head time-out           ├─► linger ─► closed
//!  │ drain              │ 408                     └─► abort
//!  └──► closed ◄────────┘
//! ```
//!
//! An idle connection holds no buffers and no memory for an exchange: both are taken when its first byte
//! arrives.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_connection::h1::{H1, linger};
use fairway_connection::sides::{HeadRead, Hop, RequestMeta};
use fairway_http::{HeadLimits, Malformed};
use fairway_net::clock::Instant;
use fairway_net::transport::Transport;
use fairway_net::wire::Wire;

use crate::exchange::{ClientSide, Ending, Request, exchange};
use crate::fault::Fault;
use crate::inspection::ClientProtocol;
use crate::network::Network;
use crate::peer::Peer;
use crate::worker::{BuffersLease, OpenConnection, StopPhase, Worker};

/// How long a draining worker waits for the first request of a connection: it may be on its way.
const DRAIN_FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Pipelined requests served before other connections get their turn.
const MAX_REQUESTS_PER_TURN: u32 = 16;

/// Response to a request head that did not arrive in time.
const REQUEST_TIMEOUT_RESPONSE: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The outcome of waiting for a request.
enum NextRequest<N: Network> {
    /// A complete or malformed head.
    Request(BuffersLease<N>, Result<RequestMeta, Malformed>),
    /// The head did not arrive in time.
    HeadTimeout,
    /// The connection is closed.
    Closed,
}

/// What the connection waits for.
enum WaitingFor<N: Network> {
    FirstByte,
    /// The first byte of a connection accepted just before the worker drained.
    FirstByteWhileDraining,
    /// The rest of a head, with the buffers that hold the parser's progress.
    Head(BuffersLease<N>),
}

/// A connection: the client side, passed to one exchange after another.
type Connection<S> = ClientSide<H1<S>>;

/// Serves requests until the connection ends, starting with `input`, which was already read.
///
/// Not an `async fn`, which would hold its arguments twice for the life of the connection.
pub(crate) fn serve<N: Network, S: Transport + Send>(
    mut open: OpenConnection<N>,
    peer: Peer,
    stream: S,
    input: Vec<u8>,
) -> impl Future<Output = ()> {
    open.set_listener(peer.listener, ClientProtocol::Http1);
    let down = H1::new(Wire::with_input(stream, input), Rc::clone(&open.reuse.workspace));
    // Boxed: handing it to an exchange and back moves only a pointer.
    let mut connection = Box::new(Connection::new(down, peer));
    let frames = open.reuse.frames.pool_for(exchange::<N, H1<S>>);
    async move {
        let worker = &*open;
        let registered = poll_fn(|cx| Poll::Ready(worker.register(cx.waker()))).await;
        let mut now = Instant::now();
        loop {
            // Destructured before the next await: every connection has room for what is held across an await.
            let next = next_request(worker, &mut connection, now).await;
            let (buffers, arrival) = match next {
                NextRequest::Request(buffers, Err(_))
                    if connection.served_requests == 0
                        && connection.down.is_http2_preface()
                        && offers_http2(worker) =>
                {
                    // HTTP/2 with prior knowledge: only the first bytes identify it.
                    let (peer, wire) = into_peer_and_wire(connection);
                    drop((buffers, registered));
                    match super::spread::serve(open, peer, wire) {
                        Some(serving) => break serving.await,
                        None => break,
                    }
                }
                NextRequest::Request(buffers, arrival) => (buffers, arrival),
                NextRequest::HeadTimeout => {
                    worker.counters.count_refused(Fault::ClientTimeout);
                    connection.down.queue_response(REQUEST_TIMEOUT_RESPONSE);
                    break Box::pin(linger(&mut connection.down, || worker.has_scarce_connections())).await;
                }
                NextRequest::Closed => break,
            };
            let request = Request { worker: Rc::clone(worker), client_side: connection, buffers, arrival };
            let ending;
            (connection, ending, now) = frames.run(|| exchange(request)).await;
            connection.served_requests = connection.served_requests.saturating_add(1);
            match ending {
                Ending::KeepAlive => {
                    if connection.down.residue() > 0
                        && connection.served_requests.is_multiple_of(MAX_REQUESTS_PER_TURN)
                    {
                        tokio::task::yield_now().await;
                    }
                    connection.down.release_buffers();
                }
                Ending::Linger => {
                    break Box::pin(linger(&mut connection.down, || worker.has_scarce_connections())).await;
                }
                Ending::Abort | Ending::Finished => break,
            }
        }
    }
}

/// Parts for serving another protocol. Frees the rest now, not when that ends.
#[expect(clippy::boxed_local, reason = "the box is to be freed")]
fn into_peer_and_wire<S: Transport>(connection: Box<Connection<S>>) -> (Peer, Wire<S>) {
    let ClientSide { down, peer, .. } = *connection;
    (peer, down.into_wire())
}

/// Whether HTTP/2 is enabled.
fn offers_http2<N: Network>(worker: &Worker<N>) -> bool {
    worker.adopted().settings().downstream.http2.offered
}

/// Waits for the next request head; timeouts start at `now`.
async fn next_request<N: Network, S: Transport>(
    worker: &Rc<Worker<N>>,
    connection: &mut Connection<S>,
    now: Instant,
) -> NextRequest<N> {
    let mut waiting_for = WaitingFor::FirstByte;
    connection
        .deadline
        .set(now, worker.client_limit(connection.peer.listener, |clients| clients.idle_timeout));
    let limits = worker.options.limits.head();
    poll_fn(|cx| poll_next_request(cx, worker, connection, &mut waiting_for, &limits)).await
}

fn poll_next_request<N: Network, S: Transport>(
    cx: &mut Context<'_>,
    worker: &Rc<Worker<N>>,
    connection: &mut Connection<S>,
    waiting: &mut WaitingFor<N>,
    limits: &HeadLimits,
) -> Poll<NextRequest<N>> {
    if !worker.has_listener(connection.peer.listener) {
        // The listener is gone: a further request would have no route.
        return Poll::Ready(NextRequest::Closed);
    }
    let (mut buffers, has_started) = match std::mem::replace(waiting, WaitingFor::FirstByte) {
        WaitingFor::Head(buffers) => (buffers, true),
        idle => {
            *waiting = idle;
            (worker.lend_buffers(), false)
        }
    };
    match connection.down.poll_request(cx, &mut buffers.request, limits) {
        Poll::Ready(HeadRead::Whole(arrival)) => {
            return Poll::Ready(NextRequest::Request(buffers, Ok(arrival)));
        }
        Poll::Ready(HeadRead::Malformed(rule)) => {
            return Poll::Ready(NextRequest::Request(buffers, Err(rule)));
        }
        Poll::Ready(HeadRead::Closed | HeadRead::Cut | HeadRead::Unreachable | HeadRead::NoUpgrade) => {
            return Poll::Ready(NextRequest::Closed);
        }
        Poll::Pending if connection.down.residue() > 0 => {
            *waiting = WaitingFor::Head(buffers);
            if !has_started {
                let limit = worker.client_limit(connection.peer.listener, |clients| clients.head_timeout);
                connection.deadline.set(Instant::now(), limit);
            }
            return connection.deadline.poll_passed(cx).map(|()| NextRequest::HeadTimeout);
        }
        Poll::Pending => {
            // The client has read, or can read, every response.
            connection.own_responses = 0;
            // The head is only written once it is complete.
            buffers.return_untouched();
        }
    }
    if worker.phase() >= StopPhase::Draining {
        if connection.served_requests > 0 {
            return Poll::Ready(NextRequest::Closed);
        }
        if !matches!(waiting, WaitingFor::FirstByteWhileDraining) {
            *waiting = WaitingFor::FirstByteWhileDraining;
            connection.deadline.set(Instant::now(), DRAIN_FIRST_REQUEST_TIMEOUT);
        }
    }
    connection.deadline.poll_passed(cx).map(|()| NextRequest::Closed)
}
