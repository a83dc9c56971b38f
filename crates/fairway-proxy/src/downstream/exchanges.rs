//! Exchanges of a multiplexed connection (HTTP/2, HTTP/3): starts one per request and polls those that are
//! ready. Knows no frames.

use std::net::IpAddr;
use std::rc::Rc;

use fairway_connection::sides::{Downstream, RequestEnd, RequestMeta};
use fairway_http::Malformed;
use fairway_net::clock::Instant;
use fairway_net::slots::ExchangeSlots;

use super::client_trust::ClientTrustLevel;
use crate::exchange::{ClientSide, Ending, Request};
use crate::network::Network;
use crate::peer::Peer;
use crate::worker::{BuffersLease, StopPhase, Worker};

/// The result of an exchange.
pub(super) type FinishedExchange<D> = (Box<ClientSide<D>>, Ending, Instant);

/// Exchanges of one connection, by slot.
pub(super) struct Exchanges<N: Network, D, F> {
    pub(super) slots: ExchangeSlots<F>,
    /// Client sides not in use by an exchange.
    idle_sides: Vec<Option<Box<ClientSide<D>>>>,
    /// Buffers for the next request head.
    pub(super) lease: Option<BuffersLease<N>>,
    pub(super) peer: Peer,
    pub(super) trust_level: ClientTrustLevel,
}

impl<N: Network, D: Downstream, F: Future<Output = FinishedExchange<D>>> Exchanges<N, D, F> {
    /// No exchanges yet.
    pub(super) fn new(slots: ExchangeSlots<F>, peer: Peer) -> Self {
        Self { slots, idle_sides: Vec::new(), lease: None, peer, trust_level: ClientTrustLevel::new() }
    }

    /// The client side for the stream in `slot`: the previous one of the slot, or a new one.
    pub(super) fn take_side(
        &mut self,
        slot: usize,
        new_downstream: impl FnOnce() -> D,
    ) -> Box<ClientSide<D>> {
        if self.idle_sides.len() <= slot {
            self.idle_sides.resize_with(slot + 1, || None);
        }
        let side = self.idle_sides[slot].take();
        side.unwrap_or_else(|| Box::new(ClientSide::new(new_downstream(), self.peer.clone())))
    }

    /// Starts the exchange of the request whose head is in the leased buffers.
    pub(super) fn start(
        &mut self,
        worker: &Rc<Worker<N>>,
        slot: usize,
        mut side: Box<ClientSide<D>>,
        arrival: Result<RequestMeta, Malformed>,
        run_exchange: &impl Fn(Request<N, D>) -> F,
    ) {
        let Some(lease) = self.lease.take() else { return };
        let served = u32::try_from(self.trust_level.requests_served).unwrap_or(u32::MAX);
        (side.served_requests, side.own_responses) = (served, 0);
        // The previous request of this slot may have come from another address.
        side.peer.client = self.peer.client;
        self.trust_level.requests_served += 1;
        let request = Request { worker: Rc::clone(worker), client_side: side, buffers: lease, arrival };
        self.slots.start(slot, || run_exchange(request));
    }

    /// Holds the request just started if clients cancel many requests and this connection has `waiting`
    /// unanswered ones, including this one. Returns whether it did.
    pub(super) fn hold_if_untrusted(&mut self, worker: &Worker<N>, slot: usize, waiting: usize) -> bool {
        let is_held = worker.cancellation_rate().is_high() && self.trust_level.must_hold(waiting);
        if is_held {
            self.trust_level.hold(slot, &mut self.slots);
        }
        is_held
    }

    /// The client cancelled the request in this slot.
    pub(super) fn release_cancelled(&mut self, slot: usize) {
        self.trust_level.release_cancelled(slot, &mut self.slots);
    }

    /// Releases all held requests.
    pub(super) fn release_all(&mut self) {
        self.trust_level.release_all(&mut self.slots);
    }

    /// Polls each ready exchange once, with `waiting` requests unanswered. `close` closes the stream of a
    /// finished exchange. Returns how many were polled.
    pub(super) fn poll(
        &mut self,
        worker: &Worker<N>,
        waiting: usize,
        mut close: impl FnMut(usize) -> RequestEnd,
    ) -> usize {
        let Self { slots, idle_sides, trust_level, .. } = self;
        trust_level.release(waiting, worker.cancellation_rate().is_high(), slots);
        slots.poll_round(|slot, (side, _, _)| {
            let departed = close(slot);
            trust_level.record_departure(departed);
            worker.cancellation_rate().record(departed);
            idle_sides[slot] = Some(side);
        })
    }

    /// Whether the connection must take no more requests: the worker drains, its listener is gone, or it
    /// reached its request limit. While load balancers still send connections here, a new one gets its first
    /// request before GOAWAY: a client refused at once would only reconnect, again and again.
    pub(super) fn must_go_away(&mut self, worker: &Worker<N>) -> bool {
        let max_requests = worker.client_limit(self.peer.listener, |clients| clients.requests_per_connection);
        let must_go = match worker.phase_of(self.peer.listener) {
            StopPhase::Running => {
                self.trust_level.requests_served >= max_requests || worker.is_unverified(&self.peer)
            }
            StopPhase::Leaving => self.trust_level.requests_served > 0,
            StopPhase::Draining | StopPhase::Cutting => true,
        };
        if worker.phase() == StopPhase::Cutting {
            // Each exchange checks the drain deadline itself.
            self.release_all();
            self.slots.ring_all();
        }
        must_go
    }

    /// The client has a new address. Requests in flight keep the old one.
    pub(super) fn client_moved(&mut self, to: IpAddr) {
        self.peer.client = to;
    }

    /// Releases memory while there are no exchanges.
    pub(super) fn release_memory(&mut self) {
        self.slots.clear();
        self.idle_sides = Vec::new();
    }
}
