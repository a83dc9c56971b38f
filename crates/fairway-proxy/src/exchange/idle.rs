//! An idle connection for an attempt: which may be used depends on the request, and on what is known of the endpoint.

use fairway_connection::sides::Hop;

use super::attempt::{Attempts, Connection, Reuse};
use crate::metrics::record::Micros;
use crate::network::Network;
use crate::upstream::{Chosen, Lease};
use crate::worker::ToEndpoint;

/// An idle connection, if one may be used.
///
/// # Errors
/// Gives the choice back where there is none.
pub(super) fn at_hand<N: Network>(
    chosen: Chosen<ToEndpoint<N>>,
    attempts: &Attempts<'_, N>,
) -> Result<Connection<ToEndpoint<N>>, Chosen<ToEndpoint<N>>> {
    // Whether a suspect endpoint is back, only a new connection tells.
    if chosen.endpoint.health().is_suspect() {
        return Err(chosen);
    }
    idle(chosen, attempts).map(Connection::reused)
}

impl<H: Hop> Connection<H> {
    /// It carried an exchange before.
    pub(super) fn reused(lease: Lease<H>) -> Self {
        Self { lease, reused: true, connect: Micros::default(), hedged: false }
    }
}

/// The same of an endpoint that another one's connect is too late for.
///
/// # Errors
/// Gives the choice back where there is none.
pub(super) fn idle<N: Network>(
    chosen: Chosen<ToEndpoint<N>>,
    attempts: &Attempts<'_, N>,
) -> Result<Lease<ToEndpoint<N>>, Chosen<ToEndpoint<N>>> {
    match attempts.reuse {
        Reuse::Any => Lease::of_idle(chosen, false, attempts.now),
        Reuse::Proven => Lease::of_idle(chosen, true, attempts.now),
        Reuse::Never => Err(chosen),
    }
}
