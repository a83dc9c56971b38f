//! A lease: what the pool lends to one exchange. For protocols with one exchange at a time, that is the whole
//! connection.
//!
//! A lease can be dropped at any time: what was lent is then closed, since its state is unknown, and the endpoint has
//! one attempt less in flight. Only [`Lease::give_back`] returns a connection to the pool.

use std::rc::Rc;
use std::time::Duration;

use fairway_net::clock::Instant;

use crate::sides::Hop;
use crate::upstream::circuit::{ConnectionPermit, RequestPermit};
use crate::upstream::endpoint::{Endpoint, PickedEndpoint, PoolLimits, Pooled};

/// A connection to an endpoint, lent to one exchange.
pub struct Lease<H: Hop> {
    picked: PickedEndpoint<H>,
    connection: Box<Pooled<H>>,
    /// The permit of the request, if the backend limits requests.
    request_permit: Option<RequestPermit>,
}

impl<H: Hop> Lease<H> {
    /// An idle connection to the picked endpoint; `proven` asks for one that responded within the last second.
    ///
    /// # Errors
    /// Returns the endpoint if there is none.
    pub fn from_idle(
        chosen: PickedEndpoint<H>,
        proven: bool,
        now: Instant,
    ) -> Result<Self, PickedEndpoint<H>> {
        match chosen.endpoint.checkout(proven, now) {
            Some(mut connection) => {
                connection.served += 1;
                Ok(Self { picked: chosen, connection, request_permit: None })
            }
            None => Err(chosen),
        }
    }

    /// A new connection that was made in `took`, with its permit if the backend limits connections.
    pub fn from_new(
        chosen: PickedEndpoint<H>,
        hop: H,
        place: Option<Rc<ConnectionPermit>>,
        took: Duration,
    ) -> Self {
        chosen.endpoint.connected(took);
        let mut connection = chosen.endpoint.open(hop, place);
        connection.served = 1;
        Self { picked: chosen, connection, request_permit: None }
    }

    /// Holds the request's permit as long as the connection is lent.
    pub fn attach_permit(&mut self, request: Option<RequestPermit>) {
        self.request_permit = request;
    }

    /// The index of the endpoint in its group.
    pub fn index(&self) -> u32 {
        self.picked.index
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Rc<Endpoint<H>> {
        &self.picked.endpoint
    }

    /// The upstream side of the exchange.
    pub fn upstream(&mut self) -> &mut H {
        self.connection.hop()
    }

    /// The exchange ended cleanly, with its response at `answered`: the connection may carry another one.
    pub fn give_back(mut self, answered: Instant, limits: &PoolLimits) {
        self.connection.last_response_at = answered;
        self.picked.endpoint.check_in(self.connection, limits);
    }

    /// The endpoint did not answer the liveness check: a new connection is needed.
    pub fn discard_unresponsive(mut self) -> PickedEndpoint<H> {
        self.connection.hop().mark_unresponsive();
        self.picked
    }

    /// Nothing was sent: returns the connection unused.
    pub fn give_back_unused(mut self, limits: &PoolLimits) {
        self.connection.served = 0;
        self.picked.endpoint.check_in(self.connection, limits);
    }
}
