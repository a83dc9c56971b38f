//! What failures say about endpoints.

use std::time::Duration;

use fairway_connection::sides::Hop;
use fairway_net::clock::Instant;

use crate::fault::Fault;
use crate::metrics::count;
use crate::network::Network;
use crate::upstream::health::Blame;
use crate::upstream::{Endpoint, Group};
use crate::worker::{ToEndpoint, Worker};

/// Why a group has no endpoint for an attempt.
pub(crate) fn unpicked<H: Hop>(group: &Group<H>) -> Fault {
    if group.is_empty() { Fault::NoEndpoint } else { Fault::EndpointsFull }
}

/// What a failed connect says about the endpoint.
pub(crate) fn note_connect_failure<N: Network>(
    worker: &Worker<N>,
    group: &Group<ToEndpoint<N>>,
    endpoint: &Endpoint<ToEndpoint<N>>,
    fault: Fault,
) {
    if fault.blames_endpoint() {
        blame(worker, group, endpoint, Blame::Connect);
        endpoint.check_siblings();
    }
}

/// A response head came after `latency`: counts the endpoints that are ejected because they have been slow.
pub(crate) fn note_success<N: Network>(
    worker: &Worker<N>,
    group: &Group<ToEndpoint<N>>,
    endpoint: u32,
    latency: Duration,
    now: Instant,
) {
    for slow in group.succeeded(endpoint, latency, now) {
        count(&worker.counters.attempts.ejected);
        let endpoint = group.member(slow.member).identity.address;
        let (mean, others) = (slow.mean, slow.others);
        tracing::info!(%endpoint, ?mean, ?others, "an endpoint is ejected: it answers far more slowly than the others");
    }
}

/// Counts a failure against the endpoint, and an ejection that follows from it.
pub(crate) fn blame<N: Network>(
    worker: &Worker<N>,
    group: &Group<ToEndpoint<N>>,
    endpoint: &Endpoint<ToEndpoint<N>>,
    blame: Blame,
) {
    if group.failed(endpoint, blame, Instant::now()) {
        count(&worker.counters.attempts.ejected);
    }
}
