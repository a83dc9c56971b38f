//! One attempt: an endpoint, a connection to it, and the request up to the answer's head.

use std::rc::Rc;
use std::time::Duration;

use super::forward::Course;
use super::sides::Upstream;
use super::transact::{Reply, transact};
use super::{Scene, Turn};
use crate::clock::Instant;
use crate::fault::Fault;
use crate::h1::H1;
use crate::metrics::count;
use crate::transport::{Network, Transport};
use crate::upstream::health::Blame;
use crate::upstream::{Endpoint, Group, Pooled};
use crate::wire::Wire;
use crate::worker::ToEndpoint;

/// An attempt that brought an answer's head.
pub(crate) struct Answered<S> {
    pub(crate) connection: Box<Pooled<S>>,
    pub(crate) reply: Reply,
    pub(crate) connect: Duration,
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

/// Makes the attempt.
pub(crate) async fn attempt<N: Network, S: Transport>(
    turn: &mut Turn<'_, '_, N, S>,
    to: &Target<'_, ToEndpoint<N>>,
) -> Result<Answered<ToEndpoint<N>>, Failed> {
    let (mut pooled, age, connect) = acquire(&turn.scene, to).await.map_err(|fault| {
        let failed = Failed { fault, progress: Progress::Nothing, age: Age::Fresh };
        note_failure(&turn.scene, to, &failed);
        failed
    })?;
    count(&turn.scene.worker.counters.attempts.sent);
    let before = (pooled.h1.wire.sent(), pooled.h1.wire.received());
    let sent = if age == Age::Fresh { Instant::now() } else { to.course.now };
    let desk = &*turn.desk;
    let target = if desk.target.is_empty() { turn.scene.intake.received(desk) } else { &desk.target };
    pooled.h1.send_request(&desk.request, target, turn.scene.intake.framing);
    match transact(turn, &mut pooled.h1, sent).await {
        Ok(reply) => {
            let headed = Instant::now();
            to.endpoint.succeeded(headed - sent);
            Ok(Answered { connection: pooled, reply, connect, sent, headed })
        }
        Err(fault) => {
            let progress = match (pooled.h1.wire.sent() == before.0, pooled.h1.wire.received() == before.1) {
                (_, false) => Progress::Answered,
                (false, true) => Progress::Written,
                (true, true) => Progress::Nothing,
            };
            let failed = Failed { fault, progress, age };
            note_failure(&turn.scene, to, &failed);
            Err(failed)
        }
    }
}

/// Where an attempt goes.
pub(crate) struct Target<'a, S> {
    pub(crate) group: &'a Group<S>,
    pub(crate) endpoint: &'a Rc<Endpoint<S>>,
    pub(crate) course: &'a Course,
}

async fn acquire<N: Network>(
    scene: &Scene<'_, N>,
    to: &Target<'_, ToEndpoint<N>>,
) -> Result<(Box<Pooled<ToEndpoint<N>>>, Age, Duration), Fault> {
    let reused = match to.course.reuse {
        Reuse::Any => to.endpoint.checkout(false, to.course.now),
        Reuse::Proven => to.endpoint.checkout(true, to.course.now),
        Reuse::Never => None,
    };
    if let Some(mut pooled) = reused {
        pooled.served += 1;
        return Ok((pooled, Age::Reused, Duration::ZERO));
    }
    let worker = scene.worker;
    let limit = scene.rule.rule().policy.timeouts.connect.min(to.course.connect_limit(scene));
    // Boxed: connecting is rare and large, and every connection's task would carry room for it.
    let connecting = worker.connector.connect(&to.endpoint.identity, scene.adopted.identities(), limit);
    let stream = Box::pin(connecting).await?;
    count(&worker.counters.attempts.connected);
    let answered = Instant::now();
    let h1 = H1::new(Wire::new(stream), Rc::clone(&worker.workspace));
    Ok((Box::new(Pooled { h1, served: 1, answered }), Age::Fresh, answered - to.course.now))
}

/// What a failure says about the endpoint.
fn note_failure<N: Network>(scene: &Scene<'_, N>, to: &Target<'_, ToEndpoint<N>>, failed: &Failed) {
    let counters = &scene.worker.counters;
    if failed.is_stale() {
        count(&counters.attempts.stale);
        to.endpoint.check_siblings();
        return;
    }
    if !failed.fault.blames_endpoint() {
        if failed.fault == Fault::LocalShortage {
            to.endpoint.probe_came_to_nothing(Instant::now());
        }
        return;
    }
    let blame = match failed.fault {
        // An address that acknowledges nothing would take no connection either.
        Fault::ConnectFailed | Fault::ConnectTimeout | Fault::UpstreamTls | Fault::UpstreamUnreachable => {
            Blame::Connect
        }
        _ => Blame::BeforeHead,
    };
    if to.group.failed(to.endpoint, blame, Instant::now()) {
        count(&counters.attempts.ejected);
    }
    to.endpoint.check_siblings();
}
