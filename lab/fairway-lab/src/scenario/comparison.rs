//! `comparison`: HTTPS to an echo backend while the proxy's own replicas come and go and its route is changed. Each phase
//! is a measure of its own, and all of them pooled.

use std::time::{Duration, Instant};

use fairway_lab_measure::results::Run;
use fairway_lab_traffic::load::{Pace, Segment, Stream};
use serde::Deserialize;

use super::metering::{MeteredUsage, Metering};
use super::running_peer::{RunningPeer, Sizes, StreamName, finish, start};
use super::site::route;
use super::trial::ineffective;
use crate::peers::Filters;

/// Its parameters; the file explains them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    variants: Vec<Variant>,
    lead_in_s: f64,
    proxy_replicas: u32,
    proxy_replicas_more: u32,
    cycles: u32,
    phase_s: f64,
    undisturbed_s: f64,
    rate: f64,
    timeout_s: f64,
    backends: u32,
    workers: u32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    generators: usize,
    connections: usize,
}

impl Parameters {
    pub(super) fn sizes(&self) -> Sizes {
        Sizes { proxies: self.proxy_replicas, workers: self.workers, backends: self.backends }
    }
}

/// The event that starts a phase.
enum Change {
    Proxies(u32),
    Nothing,
    Route(Filters),
}

/// Every variant with one contender.
pub(super) async fn run(
    running: &mut RunningPeer<'_>,
    parameters: &Parameters,
    run: &mut Run,
) -> anyhow::Result<()> {
    // A controller that was there before may have other replicas.
    let (namespace, deployment) = (running.placement.namespace.clone(), running.deployment()?.to_owned());
    running.cluster.scale(&namespace, &deployment, parameters.proxy_replicas).await?;
    running.cluster.wait_until_settled(&namespace, &deployment).await?;
    let left_out = ineffective(running, routes().to_vec()).await?;
    for variant in &parameters.variants {
        with_variant(running, parameters, &left_out, run, *variant).await?;
    }
    Ok(())
}

/// A stream with its meter, cut at the end of each phase.
struct MeteredStream {
    stream: Stream,
    metering: Metering,
    phases: Vec<(Segment, MeteredUsage)>,
}

impl MeteredStream {
    async fn cut(&mut self) -> anyhow::Result<()> {
        let segment = tokio::task::block_in_place(|| self.stream.split())?;
        let spent = self.metering.cut().await?;
        self.phases.push((segment, spent));
        Ok(())
    }
}

async fn with_variant(
    running: &mut RunningPeer<'_>,
    parameters: &Parameters,
    left_out: &[&str],
    run: &mut Run,
    variant: Variant,
) -> anyhow::Result<()> {
    let (name, case) =
        (running.contender.peer.name(), format!("{} x {}", variant.generators, variant.connections));
    running.progress.say(&format!("{name} {case}: lead-in of {} s", parameters.lead_in_s));
    let mut plan = running.plan("/")?;
    plan.pace = if parameters.rate > 0.0 {
        Pace::Open { rate: parameters.rate, poisson: false }
    } else {
        Pace::Closed
    };
    plan.shape.threads = variant.generators;
    plan.shape.connections = variant.generators * variant.connections;
    plan.bounds.duration = None;
    plan.bounds.timeout = Duration::from_secs_f64(parameters.timeout_s);
    plan.records.bucket = Duration::from_millis(200);
    running.clock = Instant::now();
    let mut watched =
        MeteredStream { stream: start(plan)?, metering: running.metering().await?, phases: Vec::new() };
    sleep(parameters.lead_in_s).await;
    // The lead-in is not a phase of the paper: the generator opens its connections then.
    watched.cut().await?;
    watched.phases.clear();
    let mut names = Vec::new();
    for (label, change) in changes(parameters, left_out) {
        let seconds =
            if matches!(change, Change::Nothing) { parameters.undisturbed_s } else { parameters.phase_s };
        enter(running, run, &case, &label, change).await?;
        sleep(seconds).await;
        // A phase ends when its proxies have started or stopped, so that the next one is not affected.
        running.cluster.wait_until_settled(&running.placement.namespace, running.deployment()?).await?;
        watched.cut().await?;
        names.push(label);
    }
    watched.stream.stop();
    finish(watched.stream).await?;
    watched.metering.end();
    record(running, run, &case, names.into_iter().zip(watched.phases).collect())
}

async fn sleep(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

async fn enter(
    running: &RunningPeer<'_>,
    run: &mut Run,
    case: &str,
    label: &str,
    change: Change,
) -> anyhow::Result<()> {
    let kind = match &change {
        Change::Proxies(_) => "proxy-scale",
        Change::Nothing => "quiet",
        Change::Route(_) => "route",
    };
    run.events.push(running.event(case, kind, label.to_owned()));
    match change {
        Change::Proxies(replicas) => {
            running.cluster.scale(&running.placement.namespace, running.deployment()?, replicas).await
        }
        Change::Nothing => Ok(()),
        Change::Route(filters) => {
            let mut changed = route();
            changed.filters = filters;
            running.route(&changed).await
        }
    }
}

/// A change of the route and its reversal are a pair: if the change has no effect, both are left out.
fn changes(parameters: &Parameters, left_out: &[&str]) -> Vec<(String, Change)> {
    let (few, more) = (parameters.proxy_replicas, parameters.proxy_replicas_more);
    let mut changes = Vec::new();
    for cycle in 1..=parameters.cycles {
        changes.push((format!("proxy {few} -> {more} ({cycle})"), Change::Proxies(more)));
        changes.push((format!("proxy {more} -> {few} ({cycle})"), Change::Proxies(few)));
    }
    changes.push(("undisturbed".to_owned(), Change::Nothing));
    for pair in routes().chunks(2).filter(|pair| !pair.iter().any(|(label, _)| left_out.contains(label))) {
        changes.extend(
            pair.iter().map(|(label, filters)| ((*label).to_owned(), Change::Route(filters.clone()))),
        );
    }
    changes
}

fn routes() -> [(&'static str, Filters); 4] {
    [
        ("CORS headers added", Filters { cors: true, ..Filters::default() }),
        ("CORS headers removed", Filters::default()),
        ("redirect route added", redirect()),
        ("redirect route removed", Filters::default()),
    ]
}

fn redirect() -> Filters {
    let redirect = Some(("/moved".to_owned(), "https://example.com/".to_owned()));
    Filters { redirect, ..Filters::default() }
}

type Phase = (String, (Segment, MeteredUsage));

fn record(running: &RunningPeer<'_>, run: &mut Run, case: &str, phases: Vec<Phase>) -> anyhow::Result<()> {
    let name = running.contender.peer.name();
    let pooled = phases.iter().map(|(_, (segment, _))| segment.clone()).reduce(Segment::and);
    let all = phases.iter().fold(MeteredUsage::default(), |sum, (_, (_, metered))| sum.and(metered));
    for (label, (segment, spent)) in phases {
        run.measures.push(running.measure(
            StreamName { peer: name, case, phase: &label },
            segment.outcome(),
            Some(spent),
        )?);
    }
    if let Some(pooled) = pooled {
        run.measures.push(running.measure(
            StreamName { peer: name, case, phase: "pooled" },
            pooled.outcome(),
            Some(all),
        )?);
    }
    Ok(())
}
