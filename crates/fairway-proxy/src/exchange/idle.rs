//! Finds an idle connection for an attempt. Which one may be used depends on the request and on the endpoint's health.

use fairway_connection::sides::Hop;

use super::attempt::{Attempts, Connection, Reuse};
use crate::metrics::record::Microseconds;
use crate::network::Network;
use crate::upstream::{Lease, PickedEndpoint};
use crate::worker::EndpointHop;

/// Takes an idle connection, if one may be used.
///
/// # Errors
/// Returns the choice if there is none.
pub(super) fn take_idle<N: Network>(
    chosen: PickedEndpoint<EndpointHop<N>>,
    attempts: &Attempts<'_, N>,
) -> Result<Connection<EndpointHop<N>>, PickedEndpoint<EndpointHop<N>>> {
    // Only a new connection shows whether a suspect endpoint is back.
    if chosen.endpoint.health().is_suspect() {
        return Err(chosen);
    }
    lease_idle(chosen, attempts).map(Connection::reused)
}

impl<H: Hop> Connection<H> {
    /// A connection that carried an exchange before.
    pub(super) fn reused(lease: Lease<H>) -> Self {
        Self { lease, reused: true, connect: Microseconds::default(), hedged: false }
    }
}

/// Leases an idle connection of an endpoint that replaces one whose connect is late.
///
/// # Errors
/// Returns the choice if there is none.
pub(super) fn lease_idle<N: Network>(
    chosen: PickedEndpoint<EndpointHop<N>>,
    attempts: &Attempts<'_, N>,
) -> Result<Lease<EndpointHop<N>>, PickedEndpoint<EndpointHop<N>>> {
    match attempts.reuse {
        Reuse::Any => Lease::from_idle(chosen, false, attempts.now),
        Reuse::Proven => Lease::from_idle(chosen, true, attempts.now),
        Reuse::Never => Err(chosen),
    }
}
