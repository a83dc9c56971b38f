//! Copies between a client and its endpoint until the connection ends, and sees to it that it does end.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use fairway_net::clock::{Deadline, Instant};
use fairway_net::transport::Transport;
use fairway_net::wire::Wire;

use super::connect::{Reached, phase};
use super::end::End;
use super::peer::StreamPeer;
use crate::exchange::peer_watch::{PeerState, PeerWatch};
use crate::fault::Fault;
use crate::l4::pump::{Pump, Side};
use crate::network::Network;
use crate::upstream::Errand;
use crate::upstream::blame::blame;
use crate::upstream::health::Blame;
use crate::worker::{Phase, Worker};

/// What is watched while bytes go by.
struct Watching<'w, N: Network> {
    worker: &'w Rc<Worker<N>>,
    peer: &'w StreamPeer,
    /// When nothing has moved for too long.
    idle: Deadline,
    /// When it has to be over; unset while its listener stays.
    drained: Deadline,
    endpoint: PeerWatch<'w>,
    /// Whether it has lasted for long enough that a silent endpoint is to be asked whether it is still there: connections that
    /// end at once are not worth the system calls.
    lasts: bool,
    /// Bytes that the endpoint was seen to have.
    delivered: u64,
    /// What had moved when that was last looked at.
    moved: Option<Moved>,
    /// Whether the endpoint has said anything.
    has_answered: bool,
}

/// Bytes that have moved.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Moved {
    from_client: u64,
    to_client: u64,
    to_endpoint: u64,
}

/// Relays until the connection ends; who did not end it then sees a reset.
pub(super) async fn relay<N: Network, S: Transport>(
    worker: &Rc<Worker<N>>,
    peer: &StreamPeer,
    client: &mut Wire<S>,
    reached: &mut Reached<N>,
) -> End {
    let mut pump = Pump::default();
    let mut watching = Watching {
        worker,
        peer,
        idle: Deadline::unset(),
        drained: Deadline::unset(),
        endpoint: PeerWatch::default(),
        lasts: false,
        delivered: 0,
        moved: None,
        has_answered: false,
    };
    let end = poll_fn(|cx| {
        let pumped = pump.poll(cx, &worker.reuse.workspace, &mut *client, &mut reached.wire);
        watching.count(client, reached);
        match pumped {
            Poll::Ready(Ok(())) => Poll::Ready(End::Closed),
            Poll::Ready(Err(side)) => Poll::Ready(End::Failed(broken(worker, side, reached))),
            Poll::Pending => watching.poll_end(cx, reached),
        }
    })
    .await;
    if end != End::Closed {
        client.abort();
        reached.wire.abort();
    }
    end
}

/// What it means that a side broke the connection.
fn broken<N: Network>(worker: &Worker<N>, side: Side, reached: &Reached<N>) -> Fault {
    match side {
        Side::Client => Fault::ClientGone,
        Side::Endpoint if reached.wire.received() > 0 => Fault::UpstreamTruncated,
        Side::Endpoint => {
            blame(worker, &reached.group, &reached.chosen.endpoint, Blame::Unconfirmed);
            Fault::UpstreamClosed
        }
    }
}

impl<N: Network> Watching<'_, N> {
    /// Counts what has moved since the last time.
    fn count<S: Transport>(&mut self, client: &Wire<S>, reached: &Reached<N>) {
        let now = Moved {
            from_client: client.received(),
            to_client: client.sent(),
            to_endpoint: reached.wire.sent(),
        };
        let before = self.moved.unwrap_or_default();
        if self.moved == Some(now) {
            return;
        }
        let (received, sent) = (now.from_client - before.from_client, now.to_client - before.to_client);
        self.worker.counters.streams.moved(received, sent);
        self.moved = Some(now);
        let of_listener = || self.worker.clients(self.peer.listener, |clients| clients.stream_idle_timeout);
        self.idle.set(Instant::now(), reached.policy.idle_timeout.unwrap_or_else(of_listener));
        if !self.has_answered && reached.wire.received() > 0 {
            self.has_answered = true;
            reached.chosen.endpoint.succeeded(reached.took);
        }
    }

    /// Ready when it has to end although neither side ended it.
    fn poll_end(&mut self, cx: &mut Context<'_>, reached: &mut Reached<N>) -> Poll<End> {
        if phase(self.worker, self.peer) >= Phase::Draining {
            self.drained.set_once(self.worker.options.drain.timeout);
        }
        if self.drained.poll_passed(cx).is_ready() {
            return Poll::Ready(End::Drained);
        }
        // A connection on which nothing is on its way to the endpoint is woken once, to ask from then on whether it is still there.
        let wire = &reached.wire;
        if wire.sent() != self.delivered || !self.lasts {
            let owes = || wire.stream().owes_acknowledgement();
            match self.endpoint.look_at(cx, PeerWatch::soon, self.worker, owes) {
                PeerState::NotYet => {}
                PeerState::Silent => self.endpoint.go_on(),
                PeerState::Gone => {
                    let endpoint = &reached.chosen.endpoint;
                    endpoint.drop_idle();
                    blame(self.worker, &reached.group, endpoint, Blame::Connect);
                    return Poll::Ready(End::Failed(Fault::UpstreamUnreachable));
                }
                PeerState::Present => {
                    // What is forwarded may have no answers: a probe that is connected and heard is enough.
                    if wire.sent() != self.delivered
                        && std::mem::replace(&mut reached.chosen.errand, Errand::Regular) == Errand::Probe
                    {
                        reached.chosen.endpoint.stayed();
                    }
                    if !std::mem::replace(&mut self.lasts, true) {
                        wire.stream().ask_when_silent(self.worker.options.limits.upstream_unacknowledged);
                    }
                    self.delivered = wire.sent();
                    self.endpoint.rest();
                }
            }
        }
        self.idle.poll_passed(cx).map(|()| End::Idle)
    }
}
