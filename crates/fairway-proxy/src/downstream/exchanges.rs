//! The exchanges of a connection whose requests are streams (HTTP/2, HTTP/3): begins one for each request, and polls those that
//! are ready. Never knows a frame.

use std::net::IpAddr;
use std::rc::Rc;

use fairway_connection::sides::{Arrival, Departed, Downstream};
use fairway_http::Malformed;
use fairway_net::clock::Instant;
use fairway_net::slots::Slots;

use super::conduct::Conduct;
use crate::exchange::{ClientSide, Ending, Request};
use crate::network::Network;
use crate::peer::Peer;
use crate::worker::{Loan, Phase, Worker};

/// What an exchange gives back.
pub(super) type Over<D> = (Box<ClientSide<D>>, Ending, Instant);

/// The exchanges of one connection, by slot.
pub(super) struct Exchanges<N: Network, D, F> {
    pub(super) slots: Slots<F>,
    /// The client's sides that no exchange has.
    sides: Vec<Option<Box<ClientSide<D>>>>,
    /// What the next head is read into.
    pub(super) loan: Option<Loan<N>>,
    pub(super) peer: Peer,
    pub(super) conduct: Conduct,
}

impl<N: Network, D: Downstream, F: Future<Output = Over<D>>> Exchanges<N, D, F> {
    /// None yet.
    pub(super) fn new(slots: Slots<F>, peer: Peer) -> Self {
        Self { slots, sides: Vec::new(), loan: None, peer, conduct: Conduct::new() }
    }

    /// The client's side of the stream that began in `slot`: the last one there, or a new one with `down`.
    pub(super) fn side(&mut self, slot: usize, down: impl FnOnce() -> D) -> Box<ClientSide<D>> {
        if self.sides.len() <= slot {
            self.sides.resize_with(slot + 1, || None);
        }
        let side = self.sides[slot].take();
        side.unwrap_or_else(|| Box::new(ClientSide::new(down(), self.peer.clone())))
    }

    /// Begins the exchange of a request whose head is in the loan.
    pub(super) fn begin(
        &mut self,
        worker: &Rc<Worker<N>>,
        slot: usize,
        mut side: Box<ClientSide<D>>,
        arrival: Result<Arrival, Malformed>,
        begin: &impl Fn(Request<N, D>) -> F,
    ) {
        let Some(loan) = self.loan.take() else { return };
        let served = u32::try_from(self.conduct.served).unwrap_or(u32::MAX);
        (side.served, side.own_answers) = (served, 0);
        // The last request of this slot may have come from another address.
        side.peer.client = self.peer.client;
        self.conduct.served += 1;
        let request = Request { worker: Rc::clone(worker), client_side: side, buffers: loan, arrival };
        self.slots.begin(slot, || begin(request));
    }

    /// Holds the request that just began where clients take back many, and `waiting` requests of this connection, this one among
    /// them, have no response yet. Says whether it did.
    pub(super) fn hold_back(&mut self, worker: &Worker<N>, slot: usize, waiting: usize) -> bool {
        let is_held = worker.takebacks().are_many() && self.conduct.is_exceeded_by(waiting);
        if is_held {
            self.conduct.hold(slot, &mut self.slots);
        }
        is_held
    }

    /// The client does not want the request in this slot any more.
    pub(super) fn let_go(&mut self, slot: usize) {
        self.conduct.let_go(slot, &mut self.slots);
    }

    /// The same of all.
    pub(super) fn let_all_go(&mut self) {
        self.conduct.let_all_go(&mut self.slots);
    }

    /// Polls each exchange that is ready once, where `waiting` requests have no response yet. `close` closes the stream of one
    /// that is over. Says how many were polled.
    pub(super) fn poll(
        &mut self,
        worker: &Worker<N>,
        waiting: usize,
        mut close: impl FnMut(usize) -> Departed,
    ) -> usize {
        let Self { slots, sides, conduct, .. } = self;
        conduct.release(waiting, worker.takebacks().are_many(), slots);
        slots.poll_round(|slot, (side, _, _)| {
            let departed = close(slot);
            conduct.departed(departed);
            worker.takebacks().note(departed);
            sides[slot] = Some(side);
        })
    }

    /// Whether the connection is to take no more requests: the worker stops, its listener is gone, or it had as many as it may.
    /// While others are still sent here, a connection that is new gets its first request before it is told to go: a client that
    /// is told at once would only come back, again and again, with nothing served.
    pub(super) fn is_to_go(&mut self, worker: &Worker<N>) -> bool {
        let most = worker.clients(self.peer.listener, |clients| clients.requests_per_connection);
        let goes = match worker.phase_of(self.peer.listener) {
            Phase::Running => self.conduct.served >= most || worker.is_unverified(&self.peer),
            Phase::Leaving => self.conduct.served > 0,
            Phase::Draining | Phase::Cutting => true,
        };
        if worker.phase() == Phase::Cutting {
            // Each exchange sees for itself that its time is over.
            self.let_all_go();
            self.slots.ring_all();
        }
        goes
    }

    /// The client has another address from now on. Requests that are under way go on with the one that they came from.
    pub(super) fn client_moved(&mut self, to: IpAddr) {
        self.peer.client = to;
    }

    /// None is there: memory goes back.
    pub(super) fn rest(&mut self) {
        self.slots.clear();
        self.sides = Vec::new();
    }
}
