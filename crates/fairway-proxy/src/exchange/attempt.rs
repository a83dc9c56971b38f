//! One attempt: an endpoint, a connection to it, and the request up to the answer's head.

use std::time::Duration;

use fairway_connection::sides::{Channel, Downstream, Hop, Reply, RequestPlan, Upgrade, Upstream};
use fairway_model::{EndpointHop, HopConnection, HopVersion};
use fairway_net::clock::Instant;

use super::acquire::Acquired;
use super::blame::blame;
use super::environment::{Environment, Exchange};
use super::retry::{Age, Failed, Progress, RetryState};
use super::transact::transact;
use crate::fault::Fault;
use crate::metrics::count;
use crate::metrics::record::{Detour, Micros};
use crate::network::Network;
use crate::upstream::health::Blame;
use crate::upstream::{Group, Lease};
use crate::worker::ToEndpoint;

/// An attempt that brought an answer's head.
pub(crate) struct Answered<H: Hop> {
    pub(crate) lease: Lease<H>,
    pub(crate) reply: Reply,
    pub(crate) connect: Micros,
    pub(crate) detour: Detour,
    /// When the head was there.
    pub(crate) headed: Instant,
}

/// Makes the attempt on the connection that was acquired.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the attempt takes.
pub(crate) fn attempt<'e, N: Network, D: Downstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    acquired: Acquired<ToEndpoint<N>>,
    retry_state: &'e RetryState,
) -> impl Future<Output = Result<Answered<ToEndpoint<N>>, Failed>> {
    let Acquired { mut lease, age, connect, detour } = acquired;
    count(&exchange.env.worker.counters.attempts.sent);
    exchange.env.begin_attempt(retry_state.now);
    let before = (lease.up().sent(), lease.up().received());
    let buffers = &*exchange.buffers;
    let rewritten = &buffers.forms.read().target;
    let target = if rewritten.is_empty() { exchange.env.intake.received(buffers) } else { rewritten };
    let asks = exchange.env.rule().rule().policy.websocket;
    let upgrade = if asks { exchange.env.intake.upgrade } else { Upgrade::None };
    let EndpointHop { version, connection } = exchange.env.rule().steps().forwarding.hop;
    let (http10, connection) = (version == HopVersion::Http10, option(connection));
    let plan = RequestPlan { target, body: exchange.env.intake.body, upgrade, http10, connection };
    lease.up().send_request(&buffers.request, &plan);
    async move {
        let patience = lease.endpoint().acknowledges_within(ACKNOWLEDGED);
        let fault = match transact(exchange, lease.up(), (retry_state.now, patience)).await {
            Ok(reply) => return Ok(Answered { lease, reply, connect, detour, headed: Instant::now() }),
            Err(fault) => fault_of_attempt(exchange, fault),
        };
        let progress = match (lease.up().sent() == before.0, lease.up().received() == before.1) {
            (_, false) => Progress::Answered,
            (false, true) => Progress::Written,
            (true, true) => Progress::Nothing,
        };
        // A stream that an endpoint resets on a connection that goes on is no sign of a connection that was dead already.
        let age = if lease.up().is_quiet() { Age::Fresh } else { age };
        // A client that resets its requests would else have the system run out of ports: each closed here is kept a minute.
        lease.up().abandon();
        Err(Failed { fault, progress, age, endpoint: lease.index() })
    }
}

/// Why an attempt failed: when its own time is over, there may be some left for another one.
fn fault_of_attempt<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, fault: Fault) -> Fault {
    exchange.env.end_attempt();
    match fault {
        Fault::DeadlineExceeded | Fault::RequestTimeout if !exchange.env.is_overdue() => {
            Fault::UpstreamTimeout
        }
        fault => fault,
    }
}

/// What the endpoint is told of the connection.
fn option(connection: HopConnection) -> Option<&'static [u8]> {
    match connection {
        HopConnection::Unsaid => None,
        HopConnection::Close => Some(b"close"),
        HopConnection::KeepAlive => Some(b"keep-alive"),
    }
}

/// How long an endpoint may leave a request unacknowledged before the request is given up for another endpoint: longer
/// than a delayed acknowledgement (200 ms at most) and than one lost segment takes to be repeated.
const ACKNOWLEDGED: Duration = Duration::from_millis(250);

/// What a failure after the connect says about the endpoint, as far as it can be told before another one was tried.
pub(super) fn note_failure<N: Network>(
    env: &Environment<'_, N>,
    group: &Group<ToEndpoint<N>>,
    failed: &Failed,
) {
    let endpoint = group.member(failed.endpoint);
    if failed.is_stale() {
        count(&env.worker.counters.attempts.stale);
    } else if failed.fault == Fault::UpstreamUnreachable {
        endpoint.drop_idle();
        blame(env.worker, group, endpoint, Blame::Connect);
    } else if !failed.fault.blames_endpoint() {
        return;
    }
    endpoint.check_siblings();
}
