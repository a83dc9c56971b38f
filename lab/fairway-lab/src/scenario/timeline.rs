//! `timeline`: low constant rates while pods are added and removed and routes are changed; the effect of each event on
//! latency and its duration, compared with a stream directly to a pod.

use std::time::{Duration, Instant};

use fairway_lab_measure::results::{Measure, Run};
use fairway_lab_traffic::load::{Pace, Plan};
use serde::Deserialize;

use super::running_peer::{RunningPeer, Sizes, StreamName, finish, start};
use super::site::{BACKEND, NAMESPACE, route};
use super::spikes::spikes;
use super::trial::ineffective;
use crate::peers::{Filters, RESPONSE_HEADER};

/// Its parameters; the file explains them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    rates: Vec<f64>,
    replicas: u32,
    replicas_more: u32,
    cycles: u32,
    phase_s: f64,
    connections: usize,
    timeout_s: f64,
    answer_bytes: u64,
    proxy_replicas: u32,
    workers: u32,
}

impl Parameters {
    pub(super) fn sizes(&self) -> Sizes {
        Sizes { proxies: self.proxy_replicas, workers: self.workers, backends: self.replicas }
    }

    fn plan(&self, mut plan: Plan, rate: f64) -> Plan {
        plan.pace = Pace::Open { rate, poisson: false };
        plan.shape.connections = self.connections;
        plan.shape.threads = 1;
        plan.bounds.duration = None;
        plan.bounds.timeout = Duration::from_secs_f64(self.timeout_s);
        plan.records.bucket = Duration::from_millis(100);
        plan
    }
}

/// A change and its name.
enum Change {
    Scale(u32, String),
    Route(Filters, &'static str),
}

/// Every rate with one contender.
pub(super) async fn run(
    running: &mut RunningPeer<'_>,
    parameters: &Parameters,
    run: &mut Run,
) -> anyhow::Result<()> {
    let routes = changes(parameters).into_iter().filter_map(|change| match change {
        Change::Route(filters, label) => Some((label, filters)),
        Change::Scale(..) => None,
    });
    let left_out = ineffective(running, routes.collect()).await?;
    for rate in &parameters.rates {
        at_rate(running, parameters, &left_out, run, *rate).await?;
    }
    Ok(())
}

async fn at_rate(
    running: &mut RunningPeer<'_>,
    parameters: &Parameters,
    left_out: &[&str],
    run: &mut Run,
    rate: f64,
) -> anyhow::Result<()> {
    let (name, case) = (running.contender.peer.name(), format!("{rate}/s"));
    running.progress.say(&format!("{name} {case}: quiet for {} s", parameters.phase_s));
    // The path that the rewrite is about.
    let path = format!("/rewritten/item?size={}", parameters.answer_bytes);
    let plan = parameters.plan(running.plan(&path)?, rate);
    let beside = running.direct_plan(&path, rate)?.map(|plan| parameters.plan(plan, rate));
    running.clock = Instant::now();
    let mut metering = running.metering().await?;
    let (main, direct) = (start(plan)?, beside.map(start).transpose()?);
    hold(parameters).await;
    let first = run.events.len();
    let known = |change: &Change| !matches!(change, Change::Route(_, label) if left_out.contains(label));
    for change in changes(parameters).into_iter().filter(known) {
        let (kind, label) = match &change {
            Change::Scale(_, label) => ("scale", label.clone()),
            Change::Route(_, label) => ("route", (*label).to_owned()),
        };
        run.events.push(running.event(&case, kind, label));
        match change {
            Change::Scale(replicas, _) => running.cluster.scale(NAMESPACE, BACKEND, replicas).await?,
            Change::Route(filters, _) => {
                let mut changed = route();
                changed.filters = filters;
                running.route(&changed).await?;
            }
        }
        hold(parameters).await;
    }
    main.stop();
    if let Some(direct) = &direct {
        direct.stop();
    }
    let spent = metering.cut().await?;
    metering.end();
    let through = running.measure(
        StreamName { peer: name, case: &case, phase: "pooled" },
        finish(main).await?,
        Some(spent),
    )?;
    let mut straight: Option<Measure> = None;
    if let Some(direct) = direct {
        let mut measure = running.measure(
            StreamName { peer: "direct", case: &case, phase: "pooled" },
            finish(direct).await?,
            None,
        )?;
        measure.beside = Some(name.to_owned());
        straight = Some(measure);
    }
    let events = &run.events[first..];
    run.spikes.extend(spikes(&through, straight.as_ref(), events, parameters.phase_s));
    if let Some(straight) = &straight {
        run.spikes.extend(spikes(straight, None, events, parameters.phase_s));
    }
    run.measures.push(through);
    run.measures.extend(straight);
    Ok(())
}

async fn hold(parameters: &Parameters) {
    tokio::time::sleep(Duration::from_secs_f64(parameters.phase_s)).await;
}

fn changes(parameters: &Parameters) -> Vec<Change> {
    let (few, more) = (parameters.replicas, parameters.replicas_more);
    let mut changes = Vec::new();
    for _ in 0..parameters.cycles {
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
