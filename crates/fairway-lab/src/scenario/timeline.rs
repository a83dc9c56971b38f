//! `timeline`: low constant rates while pods are added and removed and routes are changed; what each event does to
//! latency and for how long, beside a stream straight to a pod.

use std::time::{Duration, Instant};

use serde::Deserialize;

use super::site::{BACKEND, NAMESPACE, route};
use super::spikes::spikes;
use super::stage::{Cast, Stage, StreamName, finish, start};
use super::trial::ineffective;
use crate::peers::{Filters, RESPONSE_HEADER};
use fairway_lab_results::{Measure, Run};
use fairway_lab_traffic::load::{Pace, Plan};

/// Its parameters; the file explains them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Terms {
    rates: Vec<f64>,
    replicas: u32,
    replicas_more: u32,
    cycles: u32,
    phase_s: f64,
    sampled: f64,
    connections: usize,
    timeout_s: f64,
    answer_bytes: u64,
    proxy_replicas: u32,
    workers: u32,
}

impl Terms {
    pub(super) fn cast(&self) -> Cast {
        Cast { proxies: self.proxy_replicas, workers: self.workers, backends: self.replicas }
    }

    fn plan(&self, mut plan: Plan, rate: f64) -> Plan {
        plan.pace = Pace::Open { rate, poisson: false };
        plan.shape.connections = self.connections;
        plan.shape.threads = 1;
        plan.bounds.duration = None;
        plan.bounds.timeout = Duration::from_secs_f64(self.timeout_s);
        plan.records.bucket = Duration::from_millis(100);
        plan.records.sample = self.sampled;
        plan
    }
}

/// A change and what it is called.
enum Change {
    Scale(u32, String),
    Route(Filters, &'static str),
}

/// Every rate with one contender.
pub(super) async fn run(stage: &mut Stage<'_>, terms: &Terms, run: &mut Run) -> anyhow::Result<()> {
    let routes = changes(terms).into_iter().filter_map(|change| match change {
        Change::Route(filters, label) => Some((label, filters)),
        Change::Scale(..) => None,
    });
    let left_out = ineffective(stage, routes.collect()).await?;
    for rate in &terms.rates {
        at_rate(stage, terms, &left_out, run, *rate).await?;
    }
    Ok(())
}

async fn at_rate(
    stage: &mut Stage<'_>,
    terms: &Terms,
    left_out: &[&str],
    run: &mut Run,
    rate: f64,
) -> anyhow::Result<()> {
    let (name, case) = (stage.contender.peer.name(), format!("{rate}/s"));
    stage.progress.say(&format!("{name} {case}: quiet for {} s", terms.phase_s));
    // The path that the rewrite is about.
    let path = format!("/rewritten/item?size={}", terms.answer_bytes);
    let plan = terms.plan(stage.plan(&path)?, rate);
    let beside = stage.direct_plan(&path, rate)?.map(|plan| terms.plan(plan, rate));
    stage.clock = Instant::now();
    let mut metering = stage.metering().await?;
    let (main, direct) = (start(plan)?, beside.map(start).transpose()?);
    hold(terms).await;
    let first = run.events.len();
    let known = |change: &Change| !matches!(change, Change::Route(_, label) if left_out.contains(label));
    for change in changes(terms).into_iter().filter(known) {
        let (kind, label) = match &change {
            Change::Scale(_, label) => ("scale", label.clone()),
            Change::Route(_, label) => ("route", (*label).to_owned()),
        };
        run.events.push(stage.event(&case, kind, label));
        match change {
            Change::Scale(replicas, _) => stage.cluster.scale(NAMESPACE, BACKEND, replicas).await?,
            Change::Route(filters, _) => {
                let mut changed = route();
                changed.filters = filters;
                stage.route(&changed).await?;
            }
        }
        hold(terms).await;
    }
    main.stop();
    if let Some(direct) = &direct {
        direct.stop();
    }
    let spent = metering.cut().await?;
    metering.end();
    let through = stage.measure(
        StreamName { peer: name, case: &case, phase: "pooled" },
        finish(main).await?,
        Some(spent),
    )?;
    let mut straight: Option<Measure> = None;
    if let Some(direct) = direct {
        let mut measure = stage.measure(
            StreamName { peer: "direct", case: &case, phase: "pooled" },
            finish(direct).await?,
            None,
        )?;
        measure.beside = Some(name.to_owned());
        straight = Some(measure);
    }
    let events = &run.events[first..];
    run.spikes.extend(spikes(&through, straight.as_ref(), events, terms.phase_s));
    if let Some(straight) = &straight {
        run.spikes.extend(spikes(straight, None, events, terms.phase_s));
    }
    run.measures.push(through);
    run.measures.extend(straight);
    Ok(())
}

async fn hold(terms: &Terms) {
    tokio::time::sleep(Duration::from_secs_f64(terms.phase_s)).await;
}

fn changes(terms: &Terms) -> Vec<Change> {
    let (few, more) = (terms.replicas, terms.replicas_more);
    let mut changes = Vec::new();
    for _ in 0..terms.cycles {
        changes.push(Change::Scale(more, format!("backend {few} -> {more}")));
        changes.push(Change::Scale(few, format!("backend {more} -> {few}")));
    }
    changes.push(Change::Route(Filters { cors: true, ..Filters::default() }, "CORS headers added"));
    let header = Some((RESPONSE_HEADER.to_owned(), "yes".to_owned()));
    changes.push(Change::Route(
        Filters { response_header: header, ..Filters::default() },
        "response header added",
    ));
    let rewrite = Some("/rewritten".to_owned());
    changes.push(Change::Route(Filters { rewrite, ..Filters::default() }, "path rewritten"));
    changes.push(Change::Route(Filters::default(), "back to the base route"));
    changes
}
