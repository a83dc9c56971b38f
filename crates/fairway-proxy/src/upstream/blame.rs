//! Blames endpoints for failures, and counts ejections.

use std::time::Duration;

use fairway_connection::sides::Hop;
use fairway_net::clock::Instant;

use crate::fault::Fault;
use crate::metrics::increment;
use crate::network::Network;
use crate::upstream::health::Blame;
use crate::upstream::{Endpoint, Group};
use crate::worker::{EndpointHop, Worker};

/// The fault when a group has no endpoint for an attempt.
pub(crate) fn unpicked_fault<H: Hop>(group: &Group<H>) -> Fault {
    if group.is_empty() { Fault::NoEndpoint } else { Fault::EndpointsFull }
}

/// Blames the endpoint for a failed connect, if the fault is the endpoint's.
pub(crate) fn record_connect_failure<N: Network>(
    worker: &Worker<N>,
    group: &Group<EndpointHop<N>>,
    endpoint: &Endpoint<EndpointHop<N>>,
    fault: Fault,
) {
    if fault.blames_endpoint() {
        blame(worker, group, endpoint, Blame::Connect);
        endpoint.check_siblings();
    }
}

/// Records a response head that arrived after `latency`, and counts endpoints that are ejected as too slow.
pub(crate) fn record_success<N: Network>(
    worker: &Worker<N>,
    group: &Group<EndpointHop<N>>,
    endpoint: u32,
    latency: Duration,
    now: Instant,
) {
    for slow in group.succeeded(endpoint, latency, now) {
        increment(&worker.counters.attempts.ejected);
        let endpoint = group.member(slow.member).identity.address;
        let (mean, others) = (slow.mean, slow.median_of_others);
        tracing::info!(%endpoint, ?mean, ?others, "ejecting an endpoint that responds far more slowly than the others");
    }
}

/// Counts a failure of the endpoint, and the ejection if it causes one.
pub(crate) fn blame<N: Network>(
    worker: &Worker<N>,
    group: &Group<EndpointHop<N>>,
    endpoint: &Endpoint<EndpointHop<N>>,
    blame: Blame,
) {
    if group.failed(endpoint, blame, Instant::now()) {
        increment(&worker.counters.attempts.ejected);
    }
}
