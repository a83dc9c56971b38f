//! Route scale: namespaces full of routes, each with its own Service; then routes and endpoints change for a while.
//! Measures the pods' usage, whether all routes are served, and how soon new ones are.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Context;
use fairway_lab_measure::results::Run;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::probe::Probe;
use super::super::propagation::{Action, at_once, judge_new, note_effect, propagation};
use super::super::running_peer::RunningPeer;
use super::super::site::{NAMESPACE, PORT};
use super::apps::{Folders, endpoints, service, slice};
use super::costs::Costs;
use super::figures::{not_served, sample};
use super::routes::add;
use crate::peers::gateway::{self, HttpRoute, Parent};

const CASE: &str = "route scale";
/// Delay between two changes of a route, as in the benchmark; endpoints change half as often.
const ROUTE_CHANGE_INTERVAL: Duration = Duration::from_secs(1);
/// How many routes are checked at the end.
const SAMPLED_ROUTES: usize = 100;

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    namespaces: u32,
    routes: u32,
    seconds: f64,
    added: u32,
}

/// One of the many routes and its objects.
struct App {
    name: String,
    namespace: String,
    host: String,
}

impl App {
    /// Its route. With a number, it has one more rule, so that each version differs.
    fn route(&self, peer: &str, turn: Option<u32>) -> Value {
        let mut route = gateway::http_route(&HttpRoute {
            name: &self.name,
            namespace: &self.namespace,
            host: Some(&self.host),
            path: "/",
            service: &self.name,
            parent: Parent::Gateway { peer, namespace: NAMESPACE },
        });
        let mut added_rule = route["spec"]["rules"][0].clone();
        if let (Some(turn), Some(rules)) = (turn, route["spec"]["rules"].as_array_mut()) {
            added_rule["matches"][0]["path"]["value"] = json!(format!("/turn-{turn}"));
            rules.push(added_rule);
        }
        route
    }

    fn slice(&self, addresses: &[IpAddr]) -> anyhow::Result<Value> {
        slice(&self.name, &self.namespace, "", addresses, PORT)
    }
}

pub(super) async fn run(
    running: &RunningPeer<'_>,
    parameters: Parameters,
    patience: Duration,
    run: &mut Run,
) -> anyhow::Result<()> {
    let folders = Folders::make(running, "scale", parameters.namespaces).await?;
    let measured = measured(running, parameters, &folders, patience, run).await;
    measured.and(folders.remove(running).await)
}

async fn measured(
    running: &RunningPeer<'_>,
    parameters: Parameters,
    folders: &Folders,
    patience: Duration,
    run: &mut Run,
) -> anyhow::Result<()> {
    let peer = running.contender.peer.name();
    let app = |namespace: &String, number: u32| App {
        name: format!("app-{number}"),
        host: format!("{namespace}-{number}.lab.example"),
        namespace: namespace.clone(),
    };
    let routes = 0..parameters.routes;
    let apps: Vec<App> = folders
        .names()
        .iter()
        .flat_map(|namespace| routes.clone().map(move |number| app(namespace, number)))
        .collect();
    let addresses = endpoints(running).await?;
    let mut costs = Costs::start(running).await?;
    // Endpoints first: a route is not to be served before it has some.
    let slices = apps.iter().map(|app| app.slice(&addresses[..1])).collect::<anyhow::Result<Vec<_>>>()?;
    at_once(running, apps.iter().map(|app| service(&app.name, &app.namespace)).collect(), Action::Apply)
        .await?;
    at_once(running, slices, Action::Apply).await?;
    at_once(running, apps.iter().map(|app| app.route(peer, None)).collect(), Action::Apply).await?;
    let created_at = Instant::now();
    let mut found = propagation(running, "route scale: the last of all routes made until it is served");
    let mut probe = Probe::new(SocketAddr::new(running.address, 80));
    let last = apps.last().context("there are no routes")?;
    let outcome = probe.wait_until(&last.host, patience, judge_new).await;
    note_effect(&mut found, created_at, outcome.at);
    found.routes = apps.len() as u64;
    run.propagations.push(found);
    costs.note(running, CASE, "while routes were made", run).await?;
    churn(running, parameters, &apps, &addresses, patience, run).await?;
    costs.end(running, CASE, "while routes and endpoints changed", run).await?;
    let sampled = sample(&apps, SAMPLED_ROUTES);
    let unserved = count_unserved(&mut probe, &sampled).await;
    run.supplement.findings.push(not_served(running, CASE, "routes", unserved, sampled.len()));
    Ok(())
}

/// Changes a route every second and a Service's endpoints every other second, while routes are added one by one.
async fn churn(
    running: &RunningPeer<'_>,
    parameters: Parameters,
    apps: &[App],
    addresses: &[IpAddr],
    patience: Duration,
    run: &mut Run,
) -> anyhow::Result<()> {
    let (begun, length) = (Instant::now(), Duration::from_secs_f64(parameters.seconds));
    let mut found = propagation(running, "HTTPRoute added while others changed: accepted until served");
    let mut added = Vec::new();
    let changing = changing(running, apps, addresses, begun + length);
    let adding = async {
        let mut probe = Probe::new(SocketAddr::new(running.address, 80));
        for number in 0..parameters.added {
            let due = begun + length.mul_f64(f64::from(number) / f64::from(parameters.added));
            tokio::time::sleep_until(due.into()).await;
            add(running, &mut probe, "meanwhile", number, patience, &mut found, &mut added).await?;
        }
        anyhow::Ok(())
    };
    let (changed, outcome) = tokio::join!(changing, adding);
    found.routes = apps.len() as u64;
    run.propagations.push(found);
    let removed = at_once(running, added, Action::Remove).await;
    changed.and(outcome).and(removed)
}

async fn changing(
    running: &RunningPeer<'_>,
    apps: &[App],
    addresses: &[IpAddr],
    end: Instant,
) -> anyhow::Result<()> {
    let mut choice = fastrand::Rng::with_seed(1);
    for turn in 0_u32.. {
        if Instant::now() >= end {
            break;
        }
        let app = &apps[choice.usize(..apps.len())];
        running.cluster.apply(&[app.route(running.contender.peer.name(), Some(turn))]).await?;
        if turn.is_multiple_of(2) {
            let app = &apps[choice.usize(..apps.len())];
            let count = 1 + usize::from(turn.is_multiple_of(4)).min(addresses.len() - 1);
            running.cluster.apply(&[app.slice(&addresses[..count])?]).await?;
        }
        tokio::time::sleep(ROUTE_CHANGE_INTERVAL).await;
    }
    Ok(())
}

/// How many of these routes do not return 200.
async fn count_unserved(probe: &mut Probe, apps: &[&App]) -> usize {
    let mut unserved = 0;
    for app in apps {
        let served = probe.request_root(&app.host).await.is_ok_and(|answer| answer.status == 200);
        unserved += usize::from(!served);
    }
    unserved
}
