//! Traffic through a Gateway: closed loops over more and more connections, and an open loop. It only shows who is far off;
//! the benchmark measures what a request costs.

use std::time::{Duration, Instant};

use fairway_lab_measure::results::Run;
use fairway_lab_traffic::load::Pace;
use serde::Deserialize;

use super::super::running_peer::{RunningPeer, StreamName, finish, start};
use super::super::site::HOST;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    connections: Vec<usize>,
    rate: f64,
    seconds: f64,
}

pub(super) async fn run(
    running: &mut RunningPeer<'_>,
    parameters: &Parameters,
    run: &mut Run,
) -> anyhow::Result<()> {
    for connections in &parameters.connections {
        let case = format!("traffic, closed loop, {connections} connections");
        one(running, &case, *connections, Pace::Closed, parameters.seconds, run).await?;
    }
    let Some(connections) = parameters.connections.last() else { return Ok(()) };
    let pace = Pace::Open { rate: parameters.rate, poisson: false };
    let case = format!("traffic, {}/s, {connections} connections", parameters.rate);
    one(running, &case, *connections, pace, parameters.seconds, run).await
}

async fn one(
    running: &mut RunningPeer<'_>,
    case: &str,
    connections: usize,
    pace: Pace,
    seconds: f64,
    run: &mut Run,
) -> anyhow::Result<()> {
    let mut plan = running.plain_plan(HOST, "/")?;
    plan.pace = pace;
    plan.shape.connections = connections;
    plan.bounds.duration = Some(Duration::from_secs_f64(seconds));
    // Who counts ids has no time for as many requests as a closed loop sends.
    (plan.request.ids, plan.request.posts) = (false, 0.0);
    running.clock = Instant::now();
    let mut metering = running.metering().await?;
    let outcome = finish(start(plan)?).await?;
    let spent = metering.cut().await?;
    metering.end();
    let name = StreamName { peer: running.contender.peer.name(), case, phase: "pooled" };
    run.measures.push(running.measure(name, outcome, Some(spent))?);
    Ok(())
}
