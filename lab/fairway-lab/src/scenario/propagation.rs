//! `propagation`: from a write to the API to the first response that shows it; the same under load, until the last old
//! response; and the cost of thousands of routes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use fairway_lab_measure::results::{Propagation, Run};
use fairway_lab_traffic::load::Pace;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::Value;

use super::probe::{Probe, ProbeResponse, Verdict};
use super::running_peer::{RunningPeer, Sizes, StreamName, finish, start};
use super::site::{BACKEND, NAMESPACE, OTHER, route_of};
use crate::peers::Route;

/// Its parameters; the file explains them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    routes: u32,
    changes: u32,
    change_rate: f64,
    total_routes: u32,
    patience_s: f64,
    proxy_replicas: u32,
    workers: u32,
}

/// Objects that are written or removed at a time, where it is not measured.
const AT_ONCE: usize = 16;
/// How long only new responses must arrive before the old state counts as gone.
const QUIET_PERIOD: Duration = Duration::from_millis(300);

impl Parameters {
    pub(super) fn sizes(&self) -> Sizes {
        Sizes { proxies: self.proxy_replicas, workers: self.workers, backends: 2 }
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.patience_s)
    }
}

/// Runs all three parts with one contender; added objects are removed again.
pub(super) async fn run(
    running: &mut RunningPeer<'_>,
    parameters: &Parameters,
    run: &mut Run,
) -> anyhow::Result<()> {
    running.cluster.scale(NAMESPACE, OTHER, 1).await?;
    running.cluster.wait_until_settled(NAMESPACE, OTHER).await?;
    let mut added = Vec::new();
    let outcome = parts(running, parameters, run, &mut added).await;
    let removed = at_once(running, added, Action::Remove).await;
    outcome.and(removed)
}

async fn parts(
    running: &mut RunningPeer<'_>,
    parameters: &Parameters,
    run: &mut Run,
    added: &mut Vec<Value>,
) -> anyhow::Result<()> {
    let name = running.contender.peer.name();
    running.progress.say(&format!("{name}: {} routes one by one", parameters.routes));
    run.propagations.push(one_by_one(running, parameters, added).await?);
    running.progress.say(&format!("{name}: {} changes of a route under load", parameters.changes));
    let changes = Changes {
        case: "under load",
        count: parameters.changes,
        rate: parameters.change_rate,
        timeout: parameters.timeout(),
        calm: QUIET_PERIOD,
    };
    under_load(running, &changes, run).await?;
    running.progress.say(&format!("{name}: {} routes in all", parameters.total_routes));
    run.propagations.push(run_many(running, parameters, added).await?);
    Ok(())
}

/// Changes a route while a stream uses it.
#[derive(Clone, Copy)]
pub(super) struct Changes {
    /// What follows `first answer of the new, `.
    pub(super) case: &'static str,
    pub(super) count: u32,
    /// Rate of the load during the changes, in requests per second.
    pub(super) rate: f64,
    pub(super) timeout: Duration,
    /// How long only new responses must arrive before the next change.
    pub(super) calm: Duration,
}

fn plain(name: &str, host: &str, service: &str) -> Route {
    Route { tls: false, ..route_of(name, host, service) }
}

pub(super) fn host(number: u32) -> String {
    format!("r{number}.lab.example")
}

pub(super) fn propagation(running: &RunningPeer<'_>, case: &str) -> Propagation {
    Propagation {
        peer: running.contender.peer.name().to_owned(),
        settings: running.contender.settings,
        case: case.to_owned(),
        ms: Vec::new(),
        lost: 0,
        wrong: 0,
        routes: 0,
        memory_bytes: None,
    }
}

/// Notes when something that was written took effect, or that it did not in time.
pub(super) fn note_effect(found: &mut Propagation, written: Instant, at: Option<Instant>) {
    match at {
        Some(at) => found.ms.push(at.saturating_duration_since(written).as_secs_f64() * 1e3),
        None => found.lost += 1,
    }
}

/// Until a route exists, only 404 is correct.
pub(super) fn judge_new(response: &anyhow::Result<ProbeResponse>) -> Verdict {
    match response {
        Ok(answer) if answer.status == 200 => Verdict::Wanted,
        Ok(answer) if answer.status == 404 => Verdict::Early,
        _ => Verdict::Wrong,
    }
}

async fn one_by_one(
    running: &RunningPeer<'_>,
    parameters: &Parameters,
    added: &mut Vec<Value>,
) -> anyhow::Result<Propagation> {
    let mut found = propagation(running, "add one by one");
    let mut probe = Probe::new(SocketAddr::new(running.address, 80));
    for number in 0..parameters.routes {
        let route = plain(&format!("r{number}"), &host(number), BACKEND);
        let objects = running.contender.peer.route(&running.placement, &route);
        added.extend(objects.iter().cloned());
        let written = Instant::now();
        running.cluster.apply(&objects).await?;
        let outcome = probe.wait_until(&host(number), parameters.timeout(), judge_new).await;
        found.wrong += outcome.wrong;
        note_effect(&mut found, written, outcome.at);
    }
    found.routes = u64::from(parameters.routes);
    Ok(found)
}

/// A route alternates between two backends while a stream uses it.
pub(super) async fn under_load(
    running: &mut RunningPeer<'_>,
    changes: &Changes,
    run: &mut Run,
) -> anyhow::Result<()> {
    let mut plan = running.plan("/")?;
    plan.pace = Pace::Open { rate: changes.rate, poisson: false };
    plan.shape.connections = 20;
    plan.bounds.duration = None;
    running.clock = Instant::now();
    let name = running.contender.peer.name();
    let load = start(plan)?;
    let mut first = propagation(running, &format!("first answer of the new, {}", changes.case));
    let mut last = propagation(running, &format!("last answer of the old, {}", changes.case));
    let mut probe = Probe::new(SocketAddr::new(running.address, 80));
    for number in 0..changes.count {
        let (old, new) = if number % 2 == 0 { (BACKEND, OTHER) } else { (OTHER, BACKEND) };
        let mut route = super::site::route();
        new.clone_into(&mut route.service);
        let written = Instant::now();
        running.route(&route).await?;
        let changeover = watch(&mut probe, old, new, changes).await;
        let ms =
            |at: Option<Instant>| at.map(|at| (at.saturating_duration_since(written)).as_secs_f64() * 1e3);
        first.wrong += changeover.wrong;
        match (ms(changeover.first_new), ms(changeover.last_old)) {
            (Some(new), old) => {
                first.ms.push(new);
                last.ms.push(old.unwrap_or(0.0));
            }
            (None, _) => first.lost += 1,
        }
    }
    running.route(&super::site::route()).await?;
    load.stop();
    run.measures.push(running.measure(
        StreamName { peer: name, case: &format!("change {}", changes.case), phase: "pooled" },
        finish(load).await?,
        None,
    )?);
    run.propagations.extend([first, last]);
    Ok(())
}

#[derive(Default)]
struct Changeover {
    first_new: Option<Instant>,
    last_old: Option<Instant>,
    wrong: u64,
}

async fn watch(probe: &mut Probe, old: &str, new: &str, changes: &Changes) -> Changeover {
    let started = Instant::now();
    let mut changeover = Changeover::default();
    let mut calm_since = None;
    while started.elapsed() < changes.timeout {
        let response = probe.request_root(super::site::HOST).await;
        let now = Instant::now();
        match response.ok().and_then(|answer| answer.backend) {
            Some(backend) if backend == new => {
                changeover.first_new.get_or_insert(now);
                if now - *calm_since.get_or_insert(now) > changes.calm {
                    break;
                }
            }
            Some(backend) if backend == old => {
                changeover.last_old = Some(now);
                calm_since = None;
            }
            _ => {
                changeover.wrong += 1;
                calm_since = None;
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    changeover
}

async fn run_many(
    running: &RunningPeer<'_>,
    parameters: &Parameters,
    added: &mut Vec<Value>,
) -> anyhow::Result<Propagation> {
    let mut found = propagation(running, "all at once");
    let mut objects = Vec::new();
    for number in parameters.routes..parameters.total_routes {
        let route = plain(&format!("r{number}"), &host(number), BACKEND);
        objects.extend(running.contender.peer.route(&running.placement, &route));
    }
    added.extend(objects.iter().cloned());
    let started = Instant::now();
    at_once(running, objects, Action::Apply).await?;
    let written = started.elapsed();
    let mut probe = Probe::new(SocketAddr::new(running.address, 80));
    let last = parameters.total_routes.checked_sub(1).context("total_routes is 0")?;
    let outcome = probe.wait_until(&host(last), parameters.timeout(), judge_new).await;
    match outcome.at {
        Some(at) => found.ms.push((at - started).saturating_sub(written).as_secs_f64() * 1e3),
        None => found.lost += 1,
    }
    found.wrong = outcome.wrong;
    found.routes = u64::from(parameters.total_routes);
    let mut metering = running.metering().await?;
    found.memory_bytes = metering.cut().await?.spent.memory_bytes;
    metering.end();
    Ok(found)
}

#[derive(Clone, Copy)]
pub(super) enum Action {
    Apply,
    Remove,
}

/// Many objects at a time, whose order does not matter.
pub(super) async fn at_once(
    running: &RunningPeer<'_>,
    objects: Vec<Value>,
    deed: Action,
) -> anyhow::Result<()> {
    let cluster = &running.cluster;
    stream::iter(objects)
        .map(|object| async move {
            match deed {
                Action::Apply => cluster.apply(std::slice::from_ref(&object)).await,
                Action::Remove => cluster.remove(std::slice::from_ref(&object)).await,
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}
