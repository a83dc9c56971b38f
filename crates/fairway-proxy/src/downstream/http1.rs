//! A client's HTTP/1 connection: idle, a head, an exchange, idle again.
//!
//! ```text
//! idle ──first byte──► head ──whole──► exchange ──┬─► idle
//!  │ idle time-out      │ head time-out           ├─► linger ─► closed
//!  │ drain              │ 408                     └─► abort
//!  └──► closed ◄────────┘
//! ```
//!
//! An idle connection holds no buffers and no room for an exchange: both are taken when its first byte is there.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_connection::h1::{H1, linger};
use fairway_connection::sides::{Arrival, HeadRead, Hop};
use fairway_http::{HeadLimits, Malformed};
use fairway_net::clock::Instant;
use fairway_net::transport::Transport;
use fairway_net::wire::Wire;

use crate::exchange::{ClientSide, Ending, Request, exchange};
use crate::fault::Fault;
use crate::inspection::ClientProtocol;
use crate::network::Network;
use crate::peer::Peer;
use crate::worker::{Loan, Open, Phase, Worker};

/// How long a connection that has not sent its first request is waited for when the worker drains: the request may be
/// on its way.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// Requests that came together and are served before other connections have their turn.
const REQUESTS_IN_A_TURN: u32 = 16;

/// What a client gets whose head did not come in time.
const LATE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// What came instead of, or as, a request.
enum Next<N: Network> {
    /// A head, whole or malformed.
    Request(Loan<N>, Result<Arrival, Malformed>),
    /// The head did not come in time.
    Late,
    /// The connection is over.
    Over,
}

/// What the connection waits for.
enum Waiting<N: Network> {
    FirstByte,
    /// The first byte of a connection that was accepted just before the worker drained.
    LastChance,
    /// The rest of a head, with the buffers that remember how far it was read.
    Head(Loan<N>),
}

/// A client's connection: its side of each exchange, one after the other.
type Connection<S> = ClientSide<H1<S>>;

/// Serves requests until the connection ends. `input` was read already.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the connection lives.
pub(crate) fn serve<N: Network, S: Transport + Send>(
    mut open: Open<N>,
    peer: Peer,
    stream: S,
    input: Vec<u8>,
) -> impl Future<Output = ()> {
    open.served_by(peer.listener, ClientProtocol::Http1);
    let down = H1::new(Wire::with_input(stream, input), Rc::clone(&open.reuse.workspace));
    // Boxed, so that handing it to an exchange and back moves a pointer.
    let mut connection = Box::new(Connection::new(down, peer));
    let frames = open.reuse.frames.of(exchange::<N, H1<S>>);
    async move {
        let worker = &*open;
        let registered = poll_fn(|cx| Poll::Ready(worker.register(cx.waker()))).await;
        let mut now = Instant::now();
        loop {
            // Taken apart before anything is waited for: what is held over a wait, every connection has room for.
            let next = next(worker, &mut connection, now).await;
            let (buffers, arrival) = match next {
                Next::Request(buffers, Err(_))
                    if connection.served == 0 && connection.down.begins_http2() && offers_http2(worker) =>
                {
                    // Prior knowledge: nothing but its first bytes says so.
                    let (peer, wire) = take_apart(connection);
                    drop((buffers, registered));
                    match super::spread::serve(open, peer, wire) {
                        Some(serving) => break serving.await,
                        None => break,
                    }
                }
                Next::Request(buffers, arrival) => (buffers, arrival),
                Next::Late => {
                    worker.counters.refused(Fault::ClientTimeout);
                    connection.down.queue_answer(LATE);
                    break Box::pin(linger(&mut connection.down, || worker.has_scarce_connections())).await;
                }
                Next::Over => break,
            };
            let request = Request { worker: Rc::clone(worker), client_side: connection, buffers, arrival };
            let ending;
            (connection, ending, now) = frames.run(|| exchange(request)).await;
            connection.served = connection.served.saturating_add(1);
            match ending {
                Ending::Again => {
                    if connection.down.residue() > 0 && connection.served.is_multiple_of(REQUESTS_IN_A_TURN) {
                        tokio::task::yield_now().await;
                    }
                    connection.down.rest();
                }
                Ending::Linger => {
                    break Box::pin(linger(&mut connection.down, || worker.has_scarce_connections())).await;
                }
                Ending::Abort | Ending::Finished => break,
            }
        }
    }
}

/// What another protocol goes on with. The rest is freed here, not when that ends.
#[expect(clippy::boxed_local, reason = "the box is to be freed")]
fn take_apart<S: Transport>(connection: Box<Connection<S>>) -> (Peer, Wire<S>) {
    let ClientSide { down, peer, .. } = *connection;
    (peer, down.into_wire())
}

/// Whether HTTP/2 is spoken at all.
fn offers_http2<N: Network>(worker: &Worker<N>) -> bool {
    worker.adopted().settings().downstream.http2.offered
}

/// Waits for the next request's head, from `now` on.
async fn next<N: Network, S: Transport>(
    worker: &Rc<Worker<N>>,
    connection: &mut Connection<S>,
    now: Instant,
) -> Next<N> {
    let mut waiting = Waiting::FirstByte;
    connection.deadline.set(now, worker.clients(connection.peer.listener, |clients| clients.idle_timeout));
    let limits = worker.options.limits.head();
    poll_fn(|cx| poll_next(cx, worker, connection, &mut waiting, &limits)).await
}

fn poll_next<N: Network, S: Transport>(
    cx: &mut Context<'_>,
    worker: &Rc<Worker<N>>,
    connection: &mut Connection<S>,
    waiting: &mut Waiting<N>,
    limits: &HeadLimits,
) -> Poll<Next<N>> {
    if !worker.has(connection.peer.listener) {
        // Nobody is left to say whose the next request would be.
        return Poll::Ready(Next::Over);
    }
    let (mut buffers, begun) = match std::mem::replace(waiting, Waiting::FirstByte) {
        Waiting::Head(buffers) => (buffers, true),
        idle => {
            *waiting = idle;
            (worker.lend_buffers(), false)
        }
    };
    match connection.down.poll_request(cx, &mut buffers.request, limits) {
        Poll::Ready(HeadRead::Whole(arrival)) => return Poll::Ready(Next::Request(buffers, Ok(arrival))),
        Poll::Ready(HeadRead::Malformed(rule)) => return Poll::Ready(Next::Request(buffers, Err(rule))),
        Poll::Ready(HeadRead::Closed | HeadRead::Cut | HeadRead::Unreachable | HeadRead::NoUpgrade) => {
            return Poll::Ready(Next::Over);
        }
        Poll::Pending if connection.down.residue() > 0 => {
            *waiting = Waiting::Head(buffers);
            if !begun {
                let limit = worker.clients(connection.peer.listener, |clients| clients.head_timeout);
                connection.deadline.set(Instant::now(), limit);
            }
            return connection.deadline.poll_passed(cx).map(|()| Next::Late);
        }
        Poll::Pending => {
            // It has read, or can read, every answer.
            connection.own_answers = 0;
            // A head is only written when all of it is there.
            buffers.give_back_untouched();
        }
    }
    if worker.phase() >= Phase::Draining {
        if connection.served > 0 {
            return Poll::Ready(Next::Over);
        }
        if !matches!(waiting, Waiting::LastChance) {
            *waiting = Waiting::LastChance;
            connection.deadline.set(Instant::now(), LAST_CHANCE);
        }
    }
    connection.deadline.poll_passed(cx).map(|()| Next::Over)
}
