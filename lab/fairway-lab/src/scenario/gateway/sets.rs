//! ListenerSet scale: namespaces full of ListenerSets, each with its own hostname, TLS and routes; then only routes change.
//! Measures the pods' usage and whether all are served.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use fairway_lab_measure::results::Run;
use fairway_lab_traffic::load::{Plan, TlsPlan};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::propagation::{Action, at_once, note_effect, propagation};
use super::super::running_peer::{RunningPeer, finish, start};
use super::super::site::{NAMESPACE, PORT};
use super::apps::{Folders, endpoints, service, slice};
use super::costs::Costs;
use super::figures::{finding, not_served, sample};
use crate::peers::CERTIFICATE;
use crate::peers::gateway::{self, HttpRoute, Parent};

const CASE: &str = "ListenerSet scale";
/// The Service of each namespace.
const APP: &str = "app";
/// How many ListenerSets are checked at the end.
const SAMPLED_SETS: usize = 50;
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// Delay between two changes of a route.
const ROUTE_CHANGE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    namespaces: u32,
    sets: u32,
    routes: u32,
    seconds: f64,
}

impl Parameters {
    /// A share of the ListenerSets of each namespace, one at least in one of them.
    pub(super) fn with_share(self, share: f64) -> Self {
        let sets = f64::from(self.sets) * share;
        match sets >= 1.0 {
            true => Self { sets: sets.round() as u32, ..self },
            false => {
                Self { sets: 1, namespaces: ((f64::from(self.namespaces) * sets) as u32).max(1), ..self }
            }
        }
    }

    pub(super) fn sets_in_all(self) -> u32 {
        self.namespaces * self.sets
    }
}

/// One ListenerSet.
struct Set {
    name: String,
    namespace: String,
    host: String,
}

impl Set {
    fn route(&self, number: u32, turn: u32) -> Value {
        gateway::http_route(&HttpRoute {
            name: &format!("{}-{number}", self.name),
            namespace: &self.namespace,
            host: None,
            // The first one is requested, the others change.
            path: &if number == 0 { "/".to_owned() } else { format!("/{number}/{turn}") },
            service: APP,
            parent: Parent::ListenerSet(&self.name),
        })
    }
}

pub(super) async fn run(
    running: &RunningPeer<'_>,
    parameters: Parameters,
    patience: Duration,
    run: &mut Run,
) -> anyhow::Result<()> {
    let folders = Folders::make(running, "sets", parameters.namespaces).await?;
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
    surroundings(running, folders).await?;
    let set = |(at, namespace): (usize, &String), number: u32| Set {
        name: format!("set-{number}"),
        namespace: namespace.clone(),
        host: format!("set-{at}-{number}.lab.example"),
    };
    let numbers = 0..parameters.sets;
    let folders = folders.names().iter().enumerate();
    let sets: Vec<Set> =
        folders.flat_map(|folder| numbers.clone().map(move |number| set(folder, number))).collect();
    let mut costs = Costs::start(running).await?;
    let peer = running.contender.peer.name();
    let listeners = sets
        .iter()
        .map(|set| gateway::listener_set(peer, &running.placement, &set.name, &set.namespace, &set.host));
    at_once(running, listeners.collect(), Action::Apply).await?;
    let routes = 0..parameters.routes;
    let all = sets.iter().flat_map(|set| routes.clone().map(move |number| set.route(number, 0)));
    at_once(running, all.collect(), Action::Apply).await?;
    let created_at = Instant::now();
    let mut found = propagation(running, "ListenerSet scale: the last of all routes made until it is served");
    let last = sets.last().context("there are no ListenerSets")?;
    note_effect(&mut found, created_at, until_served(running, &last.host, patience).await?);
    found.routes = u64::from(parameters.sets_in_all() * parameters.routes);
    run.propagations.push(found);
    costs.note(running, CASE, "while ListenerSets and routes were made", run).await?;
    changing(running, parameters, &sets).await?;
    costs.end(running, CASE, "while routes changed", run).await?;
    let sampled = sample(&sets, SAMPLED_SETS);
    let mut unserved = 0;
    for set in &sampled {
        unserved += usize::from(!is_served(running, &set.host).await?);
    }
    run.supplement.findings.push(not_served(running, CASE, "ListenerSets", unserved, sampled.len()));
    run.supplement.findings.push(finding(running, CASE, "ListenerSets", "", sets.len() as f64));
    Ok(())
}

/// The certificate and the Service of each namespace.
async fn surroundings(running: &RunningPeer<'_>, folders: &Folders) -> anyhow::Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": CERTIFICATE, "namespace": NAMESPACE },
    });
    let secret = running.cluster.read(&secret).await?.context("the certificate of the run is not there")?;
    let addresses = endpoints(running).await?;
    for namespace in folders.names() {
        let copy = json!({
            "apiVersion": "v1", "kind": "Secret", "type": secret["type"], "data": secret["data"],
            "metadata": { "name": CERTIFICATE, "namespace": namespace },
        });
        let slice = slice(APP, namespace, "", &addresses, PORT)?;
        running.cluster.apply(&[copy, service(APP, namespace), slice]).await?;
    }
    Ok(())
}

async fn changing(running: &RunningPeer<'_>, parameters: Parameters, sets: &[Set]) -> anyhow::Result<()> {
    let (end, mut choice) =
        (Instant::now() + Duration::from_secs_f64(parameters.seconds), fastrand::Rng::with_seed(1));
    for turn in 1_u32.. {
        if Instant::now() >= end {
            break;
        }
        let set = &sets[choice.usize(..sets.len())];
        let number = choice.u32(..parameters.routes.max(1));
        running.cluster.apply(&[set.route(number, turn)]).await?;
        tokio::time::sleep(ROUTE_CHANGE_INTERVAL).await;
    }
    Ok(())
}

async fn until_served(
    running: &RunningPeer<'_>,
    host: &str,
    patience: Duration,
) -> anyhow::Result<Option<Instant>> {
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if is_served(running, host).await? {
            return Ok(Some(Instant::now()));
        }
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
    Ok(None)
}

/// Sends one request over HTTPS.
async fn is_served(running: &RunningPeer<'_>, host: &str) -> anyhow::Result<bool> {
    let mut plan =
        Plan::for_addresses(&format!("https://{host}/"), vec![SocketAddr::new(running.address, 443)])?;
    plan.wire.tls = Some(TlsPlan::default());
    plan.bounds.requests = Some(1);
    plan.bounds.duration = Some(Duration::from_secs(2));
    Ok(finish(start(plan)?).await?.load.counts.ok == 1)
}
