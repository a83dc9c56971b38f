//! Backend failover: one endpoint of a Service refuses connections for a while and recovers, under load over many routes.
//! Measures what clients see and how soon the endpoint is used again.

use std::time::{Duration, Instant};

use anyhow::Context;
use fairway_lab_measure::results::Run;
use fairway_lab_traffic::load::Pace;
use serde::Deserialize;
use serde_json::Value;

use super::super::propagation::{Action, at_once};
use super::super::running_peer::{RunningPeer, StreamName, finish, start};
use super::super::site::{NAMESPACE, PORT};
use super::apps::{endpoints, service, slice};
use super::figures::finding;
use super::flipping_endpoint::Flipping;
use crate::peers::gateway::{self, HttpRoute, Parent};

const CASE: &str = "failover";
const NAME: &str = "failover";
const HOST: &str = "failover.lab.example";

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    cycles: u32,
    seconds: f64,
    requests: u32,
    routes: u32,
}

pub(super) async fn run(
    running: &mut RunningPeer<'_>,
    parameters: Parameters,
    run: &mut Run,
) -> anyhow::Result<()> {
    let node = running.cluster.node().await.context("the endpoint that fails runs on this node")?;
    let mut flipping = Flipping::start(node)?;
    let wells = endpoints(running).await?;
    let peer = running.contender.peer.name();
    let route = |number: u32| {
        gateway::http_route(&HttpRoute {
            name: &format!("{NAME}-{number}"),
            namespace: NAMESPACE,
            host: Some(HOST),
            path: &format!("/{number}"),
            service: NAME,
            parent: Parent::Gateway { peer, namespace: NAMESPACE },
        })
    };
    let mut objects: Vec<Value> = vec![
        service(NAME, NAMESPACE),
        slice(NAME, NAMESPACE, "-well", &wells, PORT)?,
        slice(NAME, NAMESPACE, "-flipping", &[node], flipping.port())?,
    ];
    objects.extend((0..parameters.routes).map(route));
    running.cluster.apply(&objects).await?;
    let measured = cycles(running, parameters, &mut flipping, run).await;
    measured.and(at_once(running, objects, Action::Remove).await)
}

async fn cycles(
    running: &mut RunningPeer<'_>,
    parameters: Parameters,
    flipping: &mut Flipping,
    run: &mut Run,
) -> anyhow::Result<()> {
    let length = Duration::from_secs_f64(parameters.seconds);
    let mut plan = running.plain_plan(HOST, "/0")?;
    plan.request.paths = (0..parameters.routes).map(|number| format!("/{number}")).collect();
    // The endpoint that fails counts by itself; it reports no ids.
    (plan.request.ids, plan.request.posts) = (false, 0.0);
    plan.pace = Pace::Open { rate: f64::from(parameters.requests), poisson: false };
    plan.shape.connections = 20;
    plan.bounds.duration = None;
    // All endpoints get something before anything is counted.
    tokio::time::sleep(Duration::from_secs(2)).await;
    running.clock = Instant::now();
    let load = start(plan)?;
    tokio::time::sleep(length).await;
    let quiet = flipping.requests();
    let mut back = Vec::new();
    for _ in 0..parameters.cycles {
        run.events.push(running.event(CASE, "endpoint", "an endpoint refuses connections".to_owned()));
        flipping.fail().await;
        tokio::time::sleep(length).await;
        run.events.push(running.event(CASE, "endpoint", "it is well again".to_owned()));
        let well = Instant::now();
        flipping.be_well()?;
        tokio::time::sleep(length).await;
        back.extend(flipping.first().map(|first| first.saturating_duration_since(well).as_secs_f64()));
    }
    load.stop();
    let name = StreamName { peer: running.contender.peer.name(), case: CASE, phase: "pooled" };
    run.measures.push(running.measure(name, finish(load).await?, None)?);
    let lost = f64::from(parameters.cycles) - back.len() as f64;
    let longest = back.iter().copied().reduce(f64::max);
    for (figure, unit, value) in [
        ("requests at the endpoint before it failed", "", Some(quiet as f64)),
        ("until the endpoint was used again, longest", "s", longest),
        ("times that it was not used again", "", Some(lost)),
    ] {
        run.supplement.findings.extend(value.map(|value| finding(running, CASE, figure, unit, value)));
    }
    Ok(())
}
