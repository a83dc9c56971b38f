//! `comparison`: HTTPS to an echo backend while the proxy's own replicas come and go and its route is changed. Each phase
//! is a measure of its own, and all of them pooled.

use std::time::{Duration, Instant};

use serde::Deserialize;

use super::metering::{Metered, Metering};
use super::site::route;
use super::stage::{Cast, Stage, StreamName, finish, start};
use super::trial::ineffective;
use crate::peers::Filters;
use fairway_lab_results::Run;
use fairway_lab_traffic::load::{Pace, Segment, Stream};

/// Its parameters; the file explains them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Terms {
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

impl Terms {
    pub(super) fn cast(&self) -> Cast {
        Cast { proxies: self.proxy_replicas, workers: self.workers, backends: self.backends }
    }
}

/// What begins a phase.
enum Change {
    Proxies(u32),
    Nothing,
    Route(Filters),
}

/// Every variant with one contender.
pub(super) async fn run(stage: &mut Stage<'_>, terms: &Terms, run: &mut Run) -> anyhow::Result<()> {
    // A controller that was there before may have other replicas.
    let (namespace, deployment) = (stage.placement.namespace.clone(), stage.deployment()?.to_owned());
    stage.cluster.scale(&namespace, &deployment, terms.proxy_replicas).await?;
    stage.cluster.settled(&namespace, &deployment).await?;
    let left_out = ineffective(stage, routes().to_vec()).await?;
    for variant in &terms.variants {
        with_variant(stage, terms, &left_out, run, *variant).await?;
    }
    Ok(())
}

/// A stream with its meter, cut at the end of each phase.
struct Watched {
    stream: Stream,
    metering: Metering,
    phases: Vec<(Segment, Metered)>,
}

impl Watched {
    async fn cut(&mut self) -> anyhow::Result<()> {
        let segment = tokio::task::block_in_place(|| self.stream.split())?;
        let spent = self.metering.cut().await?;
        self.phases.push((segment, spent));
        Ok(())
    }
}

async fn with_variant(
    stage: &mut Stage<'_>,
    terms: &Terms,
    left_out: &[&str],
    run: &mut Run,
    variant: Variant,
) -> anyhow::Result<()> {
    let (name, case) =
        (stage.contender.peer.name(), format!("{} x {}", variant.generators, variant.connections));
    stage.progress.say(&format!("{name} {case}: lead-in of {} s", terms.lead_in_s));
    let mut plan = stage.plan("/")?;
    plan.pace = if terms.rate > 0.0 { Pace::Open { rate: terms.rate, poisson: false } } else { Pace::Closed };
    plan.shape.threads = variant.generators;
    plan.shape.connections = variant.generators * variant.connections;
    plan.bounds.duration = None;
    plan.bounds.timeout = Duration::from_secs_f64(terms.timeout_s);
    plan.records.bucket = Duration::from_millis(200);
    stage.clock = Instant::now();
    let mut watched = Watched { stream: start(plan)?, metering: stage.metering().await?, phases: Vec::new() };
    sleep(terms.lead_in_s).await;
    // The lead-in is no phase of the paper's: connections are made in it.
    watched.cut().await?;
    watched.phases.clear();
    let mut names = Vec::new();
    for (label, change) in changes(terms, left_out) {
        let seconds = if matches!(change, Change::Nothing) { terms.undisturbed_s } else { terms.phase_s };
        enter(stage, run, &case, &label, change).await?;
        sleep(seconds).await;
        // A phase lasts until its proxies are there or gone, so that the next one does not inherit them.
        stage.cluster.settled(&stage.placement.namespace, stage.deployment()?).await?;
        watched.cut().await?;
        names.push(label);
    }
    watched.stream.stop();
    finish(watched.stream).await?;
    watched.metering.end();
    record(stage, run, &case, names.into_iter().zip(watched.phases).collect())
}

async fn sleep(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

async fn enter(
    stage: &Stage<'_>,
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
    run.events.push(stage.event(case, kind, label.to_owned()));
    match change {
        Change::Proxies(replicas) => {
            stage.cluster.scale(&stage.placement.namespace, stage.deployment()?, replicas).await
        }
        Change::Nothing => Ok(()),
        Change::Route(filters) => {
            let mut changed = route();
            changed.filters = filters;
            stage.route(&changed).await
        }
    }
}

/// Changes of the route come in pairs: one that has no effect is left out with what takes it back.
fn changes(terms: &Terms, left_out: &[&str]) -> Vec<(String, Change)> {
    let (few, more) = (terms.proxy_replicas, terms.proxy_replicas_more);
    let mut changes = Vec::new();
    for cycle in 1..=terms.cycles {
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

type Phase = (String, (Segment, Metered));

fn record(stage: &Stage<'_>, run: &mut Run, case: &str, phases: Vec<Phase>) -> anyhow::Result<()> {
    let name = stage.contender.peer.name();
    let pooled = phases.iter().map(|(_, (segment, _))| segment.clone()).reduce(Segment::and);
    let all = phases.iter().fold(Metered::default(), |sum, (_, (_, metered))| sum.and(metered));
    for (label, (segment, spent)) in phases {
        run.measures.push(stage.measure(
            StreamName { peer: name, case, phase: &label },
            segment.outcome(),
            Some(spent),
        )?);
    }
    if let Some(pooled) = pooled {
        run.measures.push(stage.measure(
            StreamName { peer: name, case, phase: "pooled" },
            pooled.outcome(),
            Some(all),
        )?);
    }
    Ok(())
}
