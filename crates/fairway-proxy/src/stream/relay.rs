//! Relays between a client and its endpoint until the connection ends, and enforces its deadlines.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use fairway_net::clock::{Deadline, Instant};
use fairway_net::transport::Transport;
use fairway_net::wire::Wire;

use super::connect::{ConnectedEndpoint, phase};
use super::end_reason::StreamEnd;
use super::peer::StreamPeer;
use crate::exchange::peer_watch::{PeerState, PeerWatch};
use crate::fault::Fault;
use crate::l4::pump::{Pump, Side};
use crate::network::Network;
use crate::upstream::PickReason;
use crate::upstream::blame::blame;
use crate::upstream::health::Blame;
use crate::worker::{StopPhase, Worker};

/// Deadlines and progress of a relayed connection.
struct RelayWatch<'w, N: Network> {
    worker: &'w Rc<Worker<N>>,
    peer: &'w StreamPeer,
    /// Idle deadline.
    idle: Deadline,
    /// Drain deadline; unset while its listener stays.
    drain_deadline: Deadline,
    endpoint: PeerWatch<'w>,
    /// Whether it has lasted long enough to enable keep-alive towards the endpoint: short connections are not
    /// worth the system calls.
    is_established: bool,
    /// Bytes the endpoint has acknowledged.
    acknowledged_bytes: u64,
    /// Bytes moved at the last count.
    last_counted: Option<MovedBytes>,
    /// Whether the endpoint has sent anything.
    has_answered: bool,
}

/// Bytes moved.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct MovedBytes {
    from_client: u64,
    to_client: u64,
    to_endpoint: u64,
}

/// Relays until the connection ends; the side that did not end it sees a reset.
pub(super) async fn relay<N: Network, S: Transport>(
    worker: &Rc<Worker<N>>,
    peer: &StreamPeer,
    client: &mut Wire<S>,
    connected: &mut ConnectedEndpoint<N>,
) -> StreamEnd {
    let mut pump = Pump::default();
    let mut watch = RelayWatch {
        worker,
        peer,
        idle: Deadline::unset(),
        drain_deadline: Deadline::unset(),
        endpoint: PeerWatch::default(),
        is_established: false,
        acknowledged_bytes: 0,
        last_counted: None,
        has_answered: false,
    };
    let end = poll_fn(|cx| {
        let pumped = pump.poll(cx, &worker.reuse.workspace, &mut *client, &mut connected.wire);
        watch.count_moved(client, connected);
        match pumped {
            Poll::Ready(Ok(())) => Poll::Ready(StreamEnd::Closed),
            Poll::Ready(Err(side)) => Poll::Ready(StreamEnd::Failed(blame_side(worker, side, connected))),
            Poll::Pending => watch.poll_deadlines(cx, connected),
        }
    })
    .await;
    if end != StreamEnd::Closed {
        client.abort();
        connected.wire.abort();
    }
    end
}

/// The fault of a side that broke the connection.
fn blame_side<N: Network>(worker: &Worker<N>, side: Side, connected: &ConnectedEndpoint<N>) -> Fault {
    match side {
        Side::Client => Fault::ClientGone,
        Side::Endpoint if connected.wire.received() > 0 => Fault::UpstreamTruncated,
        Side::Endpoint => {
            blame(worker, &connected.group, &connected.picked.endpoint, Blame::Unconfirmed);
            Fault::UpstreamClosed
        }
    }
}

impl<N: Network> RelayWatch<'_, N> {
    /// Counts bytes moved since the last call.
    fn count_moved<S: Transport>(&mut self, client: &Wire<S>, connected: &ConnectedEndpoint<N>) {
        let now = MovedBytes {
            from_client: client.received(),
            to_client: client.sent(),
            to_endpoint: connected.wire.sent(),
        };
        let before = self.last_counted.unwrap_or_default();
        if self.last_counted == Some(now) {
            return;
        }
        let (received, sent) = (now.from_client - before.from_client, now.to_client - before.to_client);
        self.worker.counters.streams.moved(received, sent);
        self.last_counted = Some(now);
        let of_listener =
            || self.worker.client_limit(self.peer.listener, |clients| clients.stream_idle_timeout);
        self.idle.set(Instant::now(), connected.policy.idle_timeout.unwrap_or_else(of_listener));
        if !self.has_answered && connected.wire.received() > 0 {
            self.has_answered = true;
            connected.picked.endpoint.succeeded(connected.connect_time);
        }
    }

    /// Ready when a deadline ends the connection.
    fn poll_deadlines(
        &mut self,
        cx: &mut Context<'_>,
        connected: &mut ConnectedEndpoint<N>,
    ) -> Poll<StreamEnd> {
        if phase(self.worker, self.peer) >= StopPhase::Draining {
            self.drain_deadline.set_once(self.worker.options.drain.timeout);
        }
        if self.drain_deadline.poll_passed(cx).is_ready() {
            return Poll::Ready(StreamEnd::Drained);
        }
        // Woken once even if nothing is on its way to the endpoint, to enable keep-alive from then on.
        let wire = &connected.wire;
        if wire.sent() != self.acknowledged_bytes || !self.is_established {
            let is_unacknowledged = || wire.stream().owes_acknowledgement();
            match self.endpoint.check_with(cx, PeerWatch::first_check_at, self.worker, is_unacknowledged) {
                PeerState::NotYet => {}
                PeerState::Silent => self.endpoint.schedule_next_check(),
                PeerState::Gone => {
                    let endpoint = &connected.picked.endpoint;
                    endpoint.drop_idle();
                    blame(self.worker, &connected.group, endpoint, Blame::Connect);
                    return Poll::Ready(StreamEnd::Failed(Fault::UpstreamUnreachable));
                }
                PeerState::Present => {
                    // Forwarded protocols may have no responses: a probe that is connected and acknowledged
                    // counts as passed.
                    if wire.sent() != self.acknowledged_bytes
                        && std::mem::replace(&mut connected.picked.reason, PickReason::Regular)
                            == PickReason::Probe
                    {
                        connected.picked.endpoint.probe_connection_stayed();
                    }
                    if !std::mem::replace(&mut self.is_established, true) {
                        wire.stream().ask_when_silent(self.worker.options.limits.upstream_unacknowledged);
                    }
                    self.acknowledged_bytes = wire.sent();
                    self.endpoint.reset();
                }
            }
        }
        self.idle.poll_passed(cx).map(|()| StreamEnd::Idle)
    }
}
