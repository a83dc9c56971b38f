//! `dynamic`: a constant rate over HTTPS, first without changes, then while the Deployment is scaled repeatedly. A
//! direct stream to a permanent pod runs at the same time.

use std::time::{Duration, Instant};

use fairway_lab_measure::results::Run;
use fairway_lab_traffic::load::Pace;
use serde::Deserialize;

use super::running_peer::{RunningPeer, Sizes, StreamName, finish, start};
use super::site::{BACKEND, NAMESPACE};

/// Its parameters; the file explains them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    rate: f64,
    connections: usize,
    threads: usize,
    timeout_s: f64,
    answer_bytes: u64,
    static_replicas: u32,
    static_s: f64,
    dynamic_s: f64,
    steps: Vec<Step>,
    direct_rate: f64,
    proxy_replicas: u32,
    workers: u32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    replicas: u32,
    hold_s: f64,
}

impl Parameters {
    pub(super) fn sizes(&self) -> Sizes {
        Sizes { proxies: self.proxy_replicas, workers: self.workers, backends: self.static_replicas }
    }
}

/// Both halves with one contender.
pub(super) async fn run(
    running: &mut RunningPeer<'_>,
    parameters: &Parameters,
    run: &mut Run,
) -> anyhow::Result<()> {
    half(running, parameters, run, "static", parameters.static_s).await?;
    half(running, parameters, run, "dynamic", parameters.dynamic_s).await
}

async fn half(
    running: &mut RunningPeer<'_>,
    parameters: &Parameters,
    run: &mut Run,
    case: &str,
    seconds: f64,
) -> anyhow::Result<()> {
    let name = running.contender.peer.name();
    running.progress.say(&format!("{name} {case}: {} requests/s for {seconds} s", parameters.rate));
    let path = format!("/?size={}", parameters.answer_bytes);
    let mut plan = running.plan(&path)?;
    plan.pace = Pace::Open { rate: parameters.rate, poisson: false };
    plan.shape.connections = parameters.connections;
    plan.shape.threads = parameters.threads;
    plan.bounds.duration = Some(Duration::from_secs_f64(seconds));
    plan.bounds.timeout = Duration::from_secs_f64(parameters.timeout_s);
    plan.records.bucket = Duration::from_millis(200);
    let mut beside = running.direct_plan(&path, parameters.direct_rate)?;
    if let Some(beside) = &mut beside {
        beside.bounds.duration = plan.bounds.duration;
        beside.records.bucket = plan.records.bucket;
    }

    running.clock = Instant::now();
    let mut metering = running.metering().await?;
    let (main, direct) = (start(plan)?, beside.map(start).transpose()?);
    if case == "dynamic" {
        churn(running, parameters, run, seconds).await?;
    }
    let outcome = finish(main).await?;
    let spent = metering.cut().await?;
    metering.end();
    run.measures.push(running.measure(
        StreamName { peer: name, case, phase: "pooled" },
        outcome,
        Some(spent),
    )?);
    if let Some(direct) = direct {
        let mut measure = running.measure(
            StreamName { peer: "direct", case, phase: "pooled" },
            finish(direct).await?,
            None,
        )?;
        measure.beside = Some(name.to_owned());
        run.measures.push(measure);
    }
    Ok(())
}

/// Scales again and again until the time is over. A step asks and then waits, as the study's script did: whether the
/// pods are there by then is the cluster's business.
async fn churn(
    running: &RunningPeer<'_>,
    parameters: &Parameters,
    run: &mut Run,
    seconds: f64,
) -> anyhow::Result<()> {
    let mut before = parameters.static_replicas;
    for step in parameters.steps.iter().cycle() {
        if running.now() >= seconds {
            break;
        }
        if step.replicas != before {
            let label = format!("backend {before} -> {}", step.replicas);
            run.events.push(running.event("dynamic", "scale", label));
        }
        running.cluster.scale(NAMESPACE, BACKEND, step.replicas).await?;
        before = step.replicas;
        let time_left = (seconds - running.now()).max(0.0);
        tokio::time::sleep(Duration::from_secs_f64(step.hold_s.min(time_left))).await;
    }
    running.cluster.scale(NAMESPACE, BACKEND, parameters.static_replicas).await
}
