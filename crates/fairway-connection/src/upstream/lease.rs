//! What the pool lends to an exchange: one exchange's worth of a connection to an endpoint. Of a protocol that carries one
//! exchange at a time that is the whole connection.
//!
//! A lease may be dropped at any point: then what was lent is closed, since nobody knows what is still on its way there, and
//! the endpoint counts one exchange less. Only [`Lease::give_back`] returns a whole connection to its pool.

use std::rc::Rc;
use std::time::Duration;

use fairway_net::clock::Instant;

use crate::sides::Hop;
use crate::upstream::circuit::{ConnectionPlace, RequestPlace};
use crate::upstream::endpoint::{Chosen, Endpoint, PoolLimits, Pooled};

/// A connection to an endpoint, for one exchange.
pub struct Lease<H: Hop> {
    chosen: Chosen<H>,
    connection: Box<Pooled<H>>,
    /// The place of its request, where its backend limits them.
    request: Option<RequestPlace>,
}

impl<H: Hop> Lease<H> {
    /// An idle connection to the chosen endpoint; `proven` asks for one that answered within the last second.
    ///
    /// # Errors
    /// Gives the choice back where there is none.
    pub fn of_idle(chosen: Chosen<H>, proven: bool, now: Instant) -> Result<Self, Chosen<H>> {
        match chosen.endpoint.checkout(proven, now) {
            Some(mut connection) => {
                connection.served += 1;
                Ok(Self { chosen, connection, request: None })
            }
            None => Err(chosen),
        }
    }

    /// A connection that was just made, in `took`, with its place where its backend limits them.
    pub fn of_new(chosen: Chosen<H>, hop: H, place: Option<Rc<ConnectionPlace>>, took: Duration) -> Self {
        chosen.endpoint.connected(took);
        let mut connection = chosen.endpoint.open(hop, place);
        connection.served = 1;
        Self { chosen, connection, request: None }
    }

    /// Its request keeps its place as long as it has the connection.
    pub fn keep(&mut self, request: Option<RequestPlace>) {
        self.request = request;
    }

    /// The endpoint's place in its group.
    pub fn index(&self) -> u32 {
        self.chosen.index
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Rc<Endpoint<H>> {
        &self.chosen.endpoint
    }

    /// The endpoint's side of the exchange.
    pub fn up(&mut self) -> &mut H {
        self.connection.hop()
    }

    /// The exchange ended cleanly, at `answered`: the connection may carry another one.
    pub fn give_back(mut self, answered: Instant, limits: &PoolLimits) {
        self.connection.answered = answered;
        self.chosen.endpoint.check_in(self.connection, limits);
    }

    /// The endpoint did not show that it is there: another connection is to be made.
    pub fn distrust(mut self) -> Chosen<H> {
        self.connection.hop().distrust();
        self.chosen
    }

    /// Nothing was sent: the connection waits for its first exchange.
    pub fn give_back_unused(mut self, limits: &PoolLimits) {
        self.connection.served = 0;
        self.chosen.endpoint.check_in(self.connection, limits);
    }
}
