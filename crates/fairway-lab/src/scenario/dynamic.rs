//! `dynamic`: a constant rate over HTTPS, first while nothing changes, then while the Deployment behind it is scaled all
//! the time. Beside it a stream straight to a pod that stays.

use std::time::{Duration, Instant};

use serde::Deserialize;

use super::site::{BACKEND, NAMESPACE};
use super::stage::{Cast, Stage, StreamName, finish, start};
use fairway_lab_results::Run;
use fairway_lab_traffic::load::Pace;

/// Its parameters; the file explains them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Terms {
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

impl Terms {
    pub(super) fn cast(&self) -> Cast {
        Cast { proxies: self.proxy_replicas, workers: self.workers, backends: self.static_replicas }
    }
}

/// Both halves with one contender.
pub(super) async fn run(stage: &mut Stage<'_>, terms: &Terms, run: &mut Run) -> anyhow::Result<()> {
    half(stage, terms, run, "static", terms.static_s).await?;
    half(stage, terms, run, "dynamic", terms.dynamic_s).await
}

async fn half(
    stage: &mut Stage<'_>,
    terms: &Terms,
    run: &mut Run,
    case: &str,
    seconds: f64,
) -> anyhow::Result<()> {
    let name = stage.contender.peer.name();
    stage.progress.say(&format!("{name} {case}: {} requests/s for {seconds} s", terms.rate));
    let path = format!("/?size={}", terms.answer_bytes);
    let mut plan = stage.plan(&path)?;
    plan.pace = Pace::Open { rate: terms.rate, poisson: false };
    plan.shape.connections = terms.connections;
    plan.shape.threads = terms.threads;
    plan.bounds.duration = Some(Duration::from_secs_f64(seconds));
    plan.bounds.timeout = Duration::from_secs_f64(terms.timeout_s);
    plan.records.bucket = Duration::from_millis(200);
    let mut beside = stage.direct_plan(&path, terms.direct_rate)?;
    if let Some(beside) = &mut beside {
        beside.bounds.duration = plan.bounds.duration;
        beside.records.bucket = plan.records.bucket;
    }

    stage.clock = Instant::now();
    let mut metering = stage.metering().await?;
    let (main, direct) = (start(plan)?, beside.map(start).transpose()?);
    if case == "dynamic" {
        churn(stage, terms, run, seconds).await?;
    }
    let outcome = finish(main).await?;
    let spent = metering.cut().await?;
    metering.end();
    run.measures.push(stage.measure(
        StreamName { peer: name, case, phase: "pooled" },
        outcome,
        Some(spent),
    )?);
    if let Some(direct) = direct {
        let mut measure = stage.measure(
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
async fn churn(stage: &Stage<'_>, terms: &Terms, run: &mut Run, seconds: f64) -> anyhow::Result<()> {
    let mut before = terms.static_replicas;
    for step in terms.steps.iter().cycle() {
        if stage.now() >= seconds {
            break;
        }
        if step.replicas != before {
            let label = format!("backend {before} -> {}", step.replicas);
            run.events.push(stage.event("dynamic", "scale", label));
        }
        stage.cluster.scale(NAMESPACE, BACKEND, step.replicas).await?;
        before = step.replicas;
        let left = (seconds - stage.now()).max(0.0);
        tokio::time::sleep(Duration::from_secs_f64(step.hold_s.min(left))).await;
    }
    stage.cluster.scale(NAMESPACE, BACKEND, terms.static_replicas).await
}
