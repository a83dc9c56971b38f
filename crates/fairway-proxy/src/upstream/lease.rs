//! What the pool lends to an exchange: one exchange's worth of a connection to an endpoint. Today that is a whole HTTP/1
//! connection.
//!
//! A lease may be dropped at any point: then its connection is closed, since nobody knows what is still on its way there,
//! and the endpoint counts one exchange less. Only [`Lease::give_back`] returns the connection.

use std::rc::Rc;
use std::time::Duration;

use crate::clock::Instant;
use crate::h1::H1;
use crate::transport::Transport;
use crate::upstream::endpoint::{Chosen, Endpoint, PoolLimits, Pooled};
use crate::wire::{Wire, Workspace};

/// A connection to an endpoint, for one exchange.
pub(crate) struct Lease<S: Transport> {
    chosen: Chosen<S>,
    connection: Box<Pooled<S>>,
}

impl<S: Transport> Lease<S> {
    /// An idle connection to the chosen endpoint; `proven` asks for one that answered within the last second.
    ///
    /// # Errors
    /// Gives the choice back where there is none.
    pub(crate) fn of_idle(chosen: Chosen<S>, proven: bool, now: Instant) -> Result<Self, Chosen<S>> {
        match chosen.endpoint.checkout(proven, now) {
            Some(mut connection) => {
                connection.served += 1;
                Ok(Self { chosen, connection })
            }
            None => Err(chosen),
        }
    }

    /// A connection that was just made, in `took`.
    pub(crate) fn of_new(chosen: Chosen<S>, stream: S, workspace: &Rc<Workspace>, took: Duration) -> Self {
        chosen.endpoint.connected(took);
        let h1 = H1::new(Wire::new(stream), Rc::clone(workspace));
        Self { chosen, connection: Box::new(Pooled { h1, served: 1, answered: Instant::now() }) }
    }

    /// The endpoint's place in its group.
    pub(crate) fn index(&self) -> u32 {
        self.chosen.index
    }

    pub(crate) fn endpoint(&self) -> &Rc<Endpoint<S>> {
        &self.chosen.endpoint
    }

    /// The endpoint's side of the exchange.
    pub(crate) fn up(&mut self) -> &mut H1<S> {
        &mut self.connection.h1
    }

    /// The exchange ended cleanly, at `answered`: the connection may carry another one.
    pub(crate) fn give_back(mut self, answered: Instant, limits: &PoolLimits) {
        self.connection.answered = answered;
        self.chosen.endpoint.check_in(self.connection, limits);
    }

    /// Nothing was sent: the connection waits for its first exchange.
    pub(crate) fn give_back_unused(mut self, limits: &PoolLimits) {
        self.connection.served = 0;
        self.chosen.endpoint.check_in(self.connection, limits);
    }
}
