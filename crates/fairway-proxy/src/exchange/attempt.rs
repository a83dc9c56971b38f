//! One attempt: an endpoint, a connection to it, and the request up to the answer's head.

use std::time::Duration;

use super::acquire::{Acquired, Detour};
use super::record::Micros;
use super::sides::{Channel, Downstream, Reply, RequestPlan, Upgrade, Upstream};
use super::transact::transact;
use super::{Environment, Exchange};
use crate::clock::Instant;
use crate::fault::Fault;
use crate::metrics::count;
use crate::transport::{Network, Transport};
use crate::upstream::health::Blame;
use crate::upstream::{Endpoint, Group, Lease};
use crate::worker::{ToEndpoint, Worker};

/// An attempt that brought an answer's head.
pub(crate) struct Answered<S: Transport> {
    pub(crate) lease: Lease<S>,
    pub(crate) reply: Reply,
    pub(crate) connect: Micros,
    pub(crate) detour: Detour,
    /// When the request began to be sent.
    pub(crate) sent: Instant,
    /// When the head was there.
    pub(crate) headed: Instant,
}

/// An attempt that did not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) fault: Fault,
    pub(crate) progress: Progress,
    pub(crate) age: Age,
    /// The endpoint, as its group counts.
    pub(crate) endpoint: u32,
}

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The endpoint cannot have seen any of the request.
    Nothing,
    /// The endpoint may have seen the request, or some of it.
    Written,
    /// A byte of an answer came: there is no other attempt (design: Retries).
    Answered,
}

/// Whether the connection had carried an exchange before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    Fresh,
    Reused,
}

impl Failed {
    /// A reused connection that the endpoint had closed: says nothing about the endpoint.
    pub(crate) fn is_stale(&self) -> bool {
        self.age == Age::Reused && self.fault == Fault::UpstreamClosed && self.progress != Progress::Answered
    }

    /// Whether the request may be the cause: an endpoint that took the connection failed to answer it.
    pub(crate) fn is_of_doubtful_cause(&self) -> bool {
        use Fault::{UpstreamClosed, UpstreamMalformed, UpstreamTimeout};
        matches!(self.fault, UpstreamClosed | UpstreamTimeout | UpstreamMalformed(_))
    }
}

/// Which connections may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// Any idle one.
    Any,
    /// Only one that answered within the last second: the request must not be sent twice.
    Proven,
    /// None: a stale one was met already.
    Never,
}

/// Makes the attempt on the connection that was acquired.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the attempt takes.
pub(crate) fn attempt<'e, N: Network, D: Downstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    group: &'e Group<ToEndpoint<N>>,
    acquired: Acquired<ToEndpoint<N>>,
    now: Instant,
) -> impl Future<Output = Result<Answered<ToEndpoint<N>>, Failed>> {
    let Acquired { mut lease, age, connect, detour } = acquired;
    count(&exchange.env.worker.counters.attempts.sent);
    let before = (lease.up().sent(), lease.up().received());
    let sent = if age == Age::Fresh { Instant::now() } else { now };
    let buffers = &*exchange.buffers;
    let target =
        if buffers.target.is_empty() { exchange.env.intake.received(buffers) } else { &buffers.target };
    let asks = exchange.env.rule.rule().policy.websocket;
    let upgrade = if asks { exchange.env.intake.upgrade } else { Upgrade::None };
    lease
        .up()
        .send_request(&buffers.request, &RequestPlan { target, body: exchange.env.intake.body, upgrade });
    async move {
        let patience = lease.endpoint().acknowledges_within(ACKNOWLEDGED);
        let fault = match transact(exchange, lease.up(), (sent, patience)).await {
            Ok(reply) => {
                let headed = Instant::now();
                lease.endpoint().succeeded(headed - sent);
                return Ok(Answered { lease, reply, connect, detour, sent, headed });
            }
            Err(fault) => fault,
        };
        let progress = match (lease.up().sent() == before.0, lease.up().received() == before.1) {
            (_, false) => Progress::Answered,
            (false, true) => Progress::Written,
            (true, true) => Progress::Nothing,
        };
        let failed = Failed { fault, progress, age, endpoint: lease.index() };
        note_failure(&exchange.env, group, lease.endpoint(), &failed);
        Err(failed)
    }
}

/// How long an endpoint may leave a request unacknowledged before the request is given up for another endpoint: longer
/// than a delayed acknowledgement (200 ms at most) and than one lost segment takes to be repeated.
const ACKNOWLEDGED: Duration = Duration::from_millis(250);

/// What a failure after the connect says about the endpoint, as far as it can be told before another one was tried.
fn note_failure<N: Network>(
    env: &Environment<'_, N>,
    group: &Group<ToEndpoint<N>>,
    endpoint: &Endpoint<ToEndpoint<N>>,
    failed: &Failed,
) {
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

/// What a failed connect says about the endpoint.
pub(super) fn note_connect_failure<N: Network>(
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

/// Counts a failure against the endpoint, and an ejection that follows from it.
pub(super) fn blame<N: Network>(
    worker: &Worker<N>,
    group: &Group<ToEndpoint<N>>,
    endpoint: &Endpoint<ToEndpoint<N>>,
    blame: Blame,
) {
    if group.failed(endpoint, blame, Instant::now()) {
        count(&worker.counters.attempts.ejected);
    }
}
