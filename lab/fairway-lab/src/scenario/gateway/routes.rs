//! Route propagation, from the API's acceptance of a new HTTPRoute to the first 200, and changes of a route under traffic.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fairway_lab_measure::results::{Propagation, Run};
use serde::Deserialize;
use serde_json::Value;

use super::super::probe::{Probe, Verdict};
use super::super::propagation::{self, Action, Changes, at_once, judge_new};
use super::super::running_peer::RunningPeer;
use super::super::site::{BACKEND, NAMESPACE};
use crate::peers::gateway::{self, HttpRoute, Parent};

/// How often a served route is requested again, to confirm that it stays served.
const CONFIRMING_REQUESTS: u32 = 3;
/// How long only new responses must arrive before a route is changed again.
const QUIET_PERIOD: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Added {
    pub(super) routes: u32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Changed {
    count: u32,
    pub(super) requests: u32,
}

/// Adds routes one after another and removes them at the end.
pub(super) async fn one_by_one(
    running: &RunningPeer<'_>,
    parameters: Added,
    patience: Duration,
    run: &mut Run,
) -> anyhow::Result<()> {
    let case = "HTTPRoute added: accepted by the API until served";
    let mut added = Vec::new();
    let mut found = propagation::propagation(running, case);
    let mut probe = Probe::new(SocketAddr::new(running.address, 80));
    let mut outcome = Ok(());
    for number in 0..parameters.routes {
        outcome = add(running, &mut probe, "added", number, patience, &mut found, &mut added).await;
        if outcome.is_err() {
            break;
        }
    }
    found.routes = u64::from(parameters.routes);
    run.propagations.push(found);
    let removed = at_once(running, added, Action::Remove).await;
    outcome.and(removed)
}

/// Adds a route, requests it until it is served, then confirms it. Only 404 followed by 200 is correct.
pub(super) async fn add(
    running: &RunningPeer<'_>,
    probe: &mut Probe,
    prefix: &str,
    number: u32,
    patience: Duration,
    found: &mut Propagation,
    added: &mut Vec<Value>,
) -> anyhow::Result<()> {
    let (name, host) = (format!("{prefix}-{number}"), format!("{prefix}-{number}.lab.example"));
    let object = gateway::http_route(&HttpRoute {
        name: &name,
        namespace: NAMESPACE,
        host: Some(&host),
        path: "/",
        service: BACKEND,
        parent: Parent::Gateway { peer: running.contender.peer.name(), namespace: NAMESPACE },
    });
    added.push(object.clone());
    running.cluster.apply(&[object]).await?;
    let accepted = Instant::now();
    let outcome = probe.wait_until(&host, patience, judge_new).await;
    found.wrong += outcome.wrong;
    propagation::note_effect(found, accepted, outcome.at);
    if outcome.at.is_none() {
        return Ok(());
    }
    for _ in 0..CONFIRMING_REQUESTS {
        let response = probe.request_root(&host).await;
        found.wrong += u64::from(!matches!(judge_new(&response), Verdict::Wanted));
    }
    Ok(())
}

/// Changes the route that a stream uses.
pub(super) async fn change_routes(
    running: &mut RunningPeer<'_>,
    parameters: Changed,
    patience: Duration,
    run: &mut Run,
) -> anyhow::Result<()> {
    let changes = Changes {
        case: "HTTPRoute under traffic",
        count: parameters.count,
        rate: f64::from(parameters.requests),
        timeout: patience,
        calm: QUIET_PERIOD,
    };
    propagation::under_load(running, &changes, run).await
}
