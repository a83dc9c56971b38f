//! Traffic through a Gateway: a closed loop for each number of connections, then an open loop at a fixed rate. The
//! results only reveal a proxy that is far slower than the others; the benchmark measures the cost of a request.

use std::time::{Duration, Instant};

use fairway_lab_measure::results::Run;
use fairway_lab_traffic::load::Pace;
use serde::Deserialize;

use super::super::running_peer::{RunningPeer, StreamName, finish, start};
use super::super::site::HOST;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The number of connections of each closed loop; the open loop uses the last.
    connections: Vec<usize>,
    /// Requests per second of the open loop.
    rate: f64,
    /// The duration of each loop.
    seconds: f64,
}

/// Runs all loops through one proxy and adds their measures to `results`.
pub(super) async fn run(
    running_peer: &mut RunningPeer<'_>,
    parameters: &Parameters,
    results: &mut Run,
) -> anyhow::Result<()> {
    for connections in &parameters.connections {
        let case = format!("traffic, closed loop, {connections} connections");
        measure_loop(running_peer, &case, *connections, Pace::Closed, parameters.seconds, results).await?;
    }
    let Some(connections) = parameters.connections.last() else { return Ok(()) };
    let pace = Pace::Open { rate: parameters.rate, poisson: false };
    let case = format!("traffic, {}/s, {connections} connections", parameters.rate);
    measure_loop(running_peer, &case, *connections, pace, parameters.seconds, results).await
}

async fn measure_loop(
    running_peer: &mut RunningPeer<'_>,
    case: &str,
    connections: usize,
    pace: Pace,
    seconds: f64,
    results: &mut Run,
) -> anyhow::Result<()> {
    let mut plan = running_peer.plain_plan(HOST, "/")?;
    plan.pace = pace;
    plan.shape.connections = connections;
    plan.bounds.duration = Some(Duration::from_secs_f64(seconds));
    // A closed loop sends more requests than the recording of ids can keep up with.
    (plan.request.ids, plan.request.posts) = (false, 0.0);
    running_peer.clock = Instant::now();
    let mut metering = running_peer.metering().await?;
    let outcome = finish(start(plan)?).await?;
    let proxy_costs = metering.cut().await?;
    metering.end();
    let name = StreamName { peer: running_peer.contender.peer.name(), case, phase: "pooled" };
    results.measures.push(running_peer.measure(name, outcome, Some(proxy_costs))?);
    Ok(())
}
