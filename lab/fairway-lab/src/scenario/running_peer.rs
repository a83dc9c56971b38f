//! A peer running alone in a cluster: its address, its route, its backends. Scenarios change it and send their streams
//! through it. Does not interpret results.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use fairway_lab_measure::results::{Backstage, Event, Measure, Settings};
use fairway_lab_traffic::load::{Outcome, Pace, Plan, Stream, TlsPlan};
use serde_json::Value;

use super::metering::{Follow, MeteredUsage, Metering, split};
use super::progress::Progress;
use super::receipts::Receipts;
use super::site::{self, HOST, NAMESPACE, PORT, STEADY};
use crate::cluster::Cluster;
use crate::peers::{
    Artifacts, CpuSource, PROXY, PROXY_LABEL, Peer, Placement, Route, RouteApi, gateway, label,
};

/// A peer with settings, which is installed, measured and removed.
pub(super) struct Contender<'a> {
    pub(super) peer: &'a dyn Peer,
    pub(super) settings: Settings,
}

/// A contender that is up.
pub(super) struct RunningPeer<'a> {
    pub(super) cluster: Arc<Cluster>,
    pub(super) progress: Progress,
    pub(super) contender: &'a Contender<'a>,
    pub(super) placement: Placement,
    pub(super) address: IpAddr,
    histograms: Histograms<'a>,
    ids: Ids<'a>,
    /// The start of a case; measures and events give seconds since then.
    pub(super) clock: Instant,
    /// The pod that streams without a proxy go to.
    direct: Option<SocketAddr>,
    /// The objects of the route that streams use, as they were applied last.
    applied: RefCell<Vec<Value>>,
    /// Objects that earlier routes referred to.
    remaining: RefCell<Vec<Value>>,
    /// Changes without effect.
    pub(super) notes: RefCell<Vec<String>>,
}

/// The requirements of a contender.
pub(super) struct RunContext<'a> {
    pub(super) cluster: Arc<Cluster>,
    pub(super) artifacts: &'a Artifacts,
    pub(super) progress: Progress,
    pub(super) histograms: Histograms<'a>,
    pub(super) ids: Ids<'a>,
    /// The API for routes.
    pub(super) api: RouteApi,
}

/// The folder of raw histograms.
#[derive(Clone, Copy)]
pub(super) struct Histograms<'a> {
    /// The folder of the results.
    pub(super) folder: &'a Path,
    /// The round, which is a part of their names; 0 without rounds.
    pub(super) round: u32,
}

impl Histograms<'_> {
    fn name(&self, parts: &[&str]) -> String {
        let name = file_name(parts);
        if self.round == 0 { name } else { format!("round-{}_{name}", self.round) }
    }
}

/// Further checks of requests.
#[derive(Clone, Copy)]
pub(super) struct Ids<'a> {
    /// The collector to which backends report the requests they received.
    pub(super) receipts: &'a Receipts,
    /// The fraction of them that are POST.
    pub(super) posts: f64,
}

/// The scale of a scenario at its start.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) proxies: u32,
    pub(super) workers: u32,
    pub(super) backends: u32,
}

/// The name of a stream in results.
#[derive(Clone, Copy)]
pub(super) struct StreamName<'a> {
    pub(super) peer: &'a str,
    pub(super) case: &'a str,
    pub(super) phase: &'a str,
}

impl<'a> RunningPeer<'a> {
    /// Brings a contender up and waits until it serves the route.
    pub(super) async fn open(
        context: &RunContext<'a>,
        contender: &'a Contender<'a>,
        sizes: Sizes,
    ) -> anyhow::Result<Self> {
        let existing = contender.peer.existing();
        let placement = Placement {
            namespace: existing.map_or_else(
                || format!("lab-{}", label(contender.peer.name())),
                |location| location.namespace.clone(),
            ),
            replicas: sizes.proxies,
            workers: sizes.workers,
            settings: contender.settings,
            watched: NAMESPACE.to_owned(),
            api: context.api,
        };
        let cluster = context.cluster.clone();
        for (deployment, replicas) in [(site::BACKEND, sizes.backends), (STEADY, 1)] {
            cluster.scale(NAMESPACE, deployment, replicas).await?;
        }
        if context.api == RouteApi::Gateway {
            cluster.apply(&gateway::definitions(context.artifacts)?).await?;
        }
        cluster.apply(&contender.peer.objects(context.artifacts, &placement)?).await?;
        for deployment in [site::BACKEND, STEADY] {
            cluster.wait_until_settled(NAMESPACE, deployment).await?;
        }
        let address = match existing {
            Some(existing) => existing.address,
            None => wait_for_address(&cluster, &placement).await?,
        };
        let steady = cluster.pods(NAMESPACE, &format!("app={STEADY}")).await?;
        let direct = reachable(steady.iter().find_map(|pod| pod.address)).await;
        let mut running = Self {
            cluster,
            progress: context.progress,
            contender,
            placement,
            address,
            histograms: context.histograms,
            ids: context.ids,
            clock: Instant::now(),
            direct,
            applied: RefCell::default(),
            remaining: RefCell::default(),
            notes: RefCell::default(),
        };
        if context.api == RouteApi::Gateway {
            running.address = running.gateway().await?;
        }
        running.route(&site::route()).await?;
        running.wait_until_served().await?;
        Ok(running)
    }

    /// Creates the Gateway, which is removed with the peer, and waits for its address.
    async fn gateway(&self) -> anyhow::Result<IpAddr> {
        let peer = self.contender.peer.name();
        let api = self.contender.peer.gateway_api().map_err(anyhow::Error::msg)?;
        let objects = gateway::gateway(peer, &api, &self.placement);
        self.cluster.apply(&objects).await?;
        self.remaining.borrow_mut().extend(objects);
        self.cluster.gateway_address(&gateway::named(peer, NAMESPACE)).await
    }

    /// Puts the contender away, so that the next one is alone.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        self.ids.receipts.forget();
        let mut applied = self.applied.take();
        applied.extend(self.remaining.take());
        self.cluster.remove(&applied).await?;
        for deployment in [site::BACKEND, site::OTHER] {
            self.cluster.scale(NAMESPACE, deployment, 0).await?;
        }
        if self.contender.peer.existing().is_none() {
            for (deployment, _) in self.cluster.deployments(&self.placement.namespace).await? {
                self.cluster.scale(&self.placement.namespace, &deployment, 0).await?;
            }
            // The measurement is over, so draining is not needed.
            self.cluster.evict(&self.placement.namespace).await?;
            self.cluster.vacant(&self.placement.namespace, "").await?;
        }
        self.cluster.vacant(NAMESPACE, &format!("app={}", site::BACKEND)).await
    }

    /// Makes the route of the streams what it should be; returns when the API server has it. What a route only referred to
    /// (a Middleware, a ConfigMap) stays until the end, as a careful operator leaves it: a controller may read its objects
    /// in any order.
    pub(super) async fn route(&self, route: &Route) -> anyhow::Result<()> {
        let after = self.route_objects(route);
        let before = self.applied.replace(after.clone());
        let (routes, referred): (Vec<_>, Vec<_>) = before.into_iter().partition(is_route);
        self.remaining.borrow_mut().extend(referred);
        self.cluster.replace(&routes, &after).await
    }

    /// A route as the contender's own objects or as Gateway API objects.
    fn route_objects(&self, route: &Route) -> Vec<Value> {
        match self.placement.api {
            RouteApi::Ingress => self.contender.peer.route(&self.placement, route),
            RouteApi::Gateway => vec![gateway::route(self.contender.peer.name(), &self.placement, route)],
        }
    }

    /// Waits until the route is served over HTTPS, as the streams will ask.
    pub(super) async fn wait_until_served(&self) -> anyhow::Result<()> {
        let end = Instant::now() + crate::cluster::WAIT_TIMEOUT;
        loop {
            let mut plan = self.plan("/")?;
            // These requests belong to no stream.
            (plan.request.ids, plan.request.posts) = (false, 0.0);
            plan.bounds.requests = Some(3);
            plan.bounds.duration = Some(Duration::from_secs(3));
            let outcome = finish(start(plan)?).await?;
            if outcome.load.counts.ok == 3 {
                return Ok(());
            }
            let first = outcome
                .load
                .examples
                .first()
                .map(|example| format!("{}: {}", example.class.name(), example.text));
            anyhow::ensure!(
                Instant::now() < end,
                "{} does not serve https://{HOST}/ {} s after it was ready; the last answer: {}",
                self.contender.peer.name(),
                crate::cluster::WAIT_TIMEOUT.as_secs(),
                first.unwrap_or_else(|| "none".to_owned())
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A stream's plan: HTTPS through the proxy.
    pub(super) fn plan(&self, path: &str) -> anyhow::Result<Plan> {
        let mut plan =
            Plan::for_addresses(&format!("https://{HOST}{path}"), vec![SocketAddr::new(self.address, 443)])?;
        plan.wire.tls = Some(TlsPlan::default());
        self.ids.apply(&mut plan);
        Ok(plan)
    }

    /// A stream's plan: plain HTTP through the proxy.
    pub(super) fn plain_plan(&self, host: &str, path: &str) -> anyhow::Result<Plan> {
        let mut plan =
            Plan::for_addresses(&format!("http://{host}{path}"), vec![SocketAddr::new(self.address, 80)])?;
        self.ids.apply(&mut plan);
        Ok(plan)
    }

    /// The plan of a plain HTTP stream directly to the permanent pod; `None` if pods are not reachable from here.
    pub(super) fn direct_plan(&self, path: &str, rate: f64) -> anyhow::Result<Option<Plan>> {
        let Some(pod) = self.direct else { return Ok(None) };
        let mut plan = Plan::for_addresses(&format!("http://{HOST}{path}"), vec![pod])?;
        plan.pace = Pace::Open { rate, poisson: false };
        plan.shape.connections = 4;
        self.ids.apply(&mut plan);
        Ok(Some(plan))
    }

    /// A meter of the proxy's pods.
    pub(super) async fn metering(&self) -> anyhow::Result<Metering> {
        let (selector, source) = match self.contender.peer.existing() {
            Some(existing) => (existing.selector.clone(), existing.cpu),
            None => (Some(format!("{PROXY_LABEL}={}", label(self.contender.peer.name()))), CpuSource::Cgroup),
        };
        let (cluster, namespace) = (self.cluster.clone(), self.placement.namespace.clone());
        Metering::start(Follow { cluster, namespace, selector, source }).await
    }

    /// A meter of all pods of an installed contender: its controller too, where that is another one.
    pub(super) async fn metering_of_all(&self) -> anyhow::Result<Metering> {
        let (cluster, namespace) = (self.cluster.clone(), self.placement.namespace.clone());
        let selector = Some(String::new());
        Metering::start(Follow { cluster, namespace, selector, source: CpuSource::Cgroup }).await
    }

    /// The Deployment of the proxy's data plane, in the placement's namespace.
    pub(super) fn deployment(&self) -> anyhow::Result<&str> {
        match self.contender.peer.existing() {
            None => Ok(PROXY),
            Some(existing) => existing.deployment.as_deref().with_context(|| {
                format!(
                    "{}: its replicas cannot be changed; describe it with deployment=NAME",
                    self.contender.peer.name()
                )
            }),
        }
    }

    /// Records, for the log and the report, a change that had no effect with this contender.
    pub(super) fn add_note(&self, text: &str) {
        let text = format!("{}: {text}", self.contender.peer.name());
        self.progress.say(&text);
        self.notes.borrow_mut().push(text);
    }

    /// Seconds since the beginning of the case.
    pub(super) fn now(&self) -> f64 {
        self.clock.elapsed().as_secs_f64()
    }

    /// An event, now.
    pub(super) fn event(&self, case: &str, kind: &str, label: String) -> Event {
        self.progress.say(&format!("{} {case}: {label}", self.contender.peer.name()));
        Event {
            peer: self.contender.peer.name().to_owned(),
            settings: self.contender.settings,
            case: case.to_owned(),
            at_s: self.now(),
            label,
            kind: kind.to_owned(),
        }
    }

    /// Converts a stream's results: stores its histogram in the folder and adds the proxy's costs and the backends'
    /// receipts.
    pub(super) fn measure(
        &self,
        name: StreamName<'_>,
        mut outcome: Outcome,
        metered: Option<MeteredUsage>,
    ) -> anyhow::Result<Measure> {
        let StreamName { peer, case, phase } = name;
        let file = self.histograms.name(&[
            peer,
            settings_name(self.contender.settings),
            self.contender.peer.name(),
            case,
            phase,
        ]);
        outcome.save(self.histograms.folder, &file)?;
        let receipts = self.ids.receipts;
        let deliveries =
            tokio::task::block_in_place(|| receipts.compare(outcome.fates.as_ref(), &mut outcome.load));
        let answered = outcome.load.counts.ok;
        let (cost, uncosted) = metered.map_or((None, None), |metered| split(metered.cost(answered)));
        Ok(Measure {
            peer: peer.to_owned(),
            settings: self.contender.settings,
            case: case.to_owned(),
            phase: phase.to_owned(),
            beside: None,
            begun_s: outcome.begun.saturating_duration_since(self.clock).as_secs_f64(),
            load: outcome.load,
            cost,
            backstage: Backstage { uncosted, deliveries },
        })
    }
}

impl Ids<'_> {
    /// Adds POSTs to a stream.
    fn apply(&self, plan: &mut Plan) {
        plan.request.ids = self.receipts.address().is_some();
        plan.request.posts = self.posts;
    }
}

fn is_route(object: &Value) -> bool {
    ["Ingress", "HTTPProxy", "HTTPRoute"].iter().any(|kind| object["kind"] == *kind)
}

/// Waits for a peer's Deployments and returns its address.
async fn wait_for_address(cluster: &Cluster, placement: &Placement) -> anyhow::Result<IpAddr> {
    for (deployment, _) in cluster.deployments(&placement.namespace).await? {
        cluster.wait_until_started(&placement.namespace, &deployment).await?;
    }
    cluster.address(&placement.namespace, PROXY).await
}

/// A pod's address, if the pods' network can be reached from here.
async fn reachable(pod: Option<IpAddr>) -> Option<SocketAddr> {
    let address = SocketAddr::new(pod?, PORT);
    let connect = tokio::time::timeout(Duration::from_secs(2), tokio::net::TcpStream::connect(address)).await;
    connect.is_ok_and(|connected| connected.is_ok()).then_some(address)
}

/// Starts a stream; its connections are open then.
pub(super) fn start(plan: Plan) -> anyhow::Result<Stream> {
    tokio::task::block_in_place(|| Stream::start(plan))
}

/// Waits for the end of a stream, off the runtime's threads.
pub(super) async fn finish(stream: Stream) -> anyhow::Result<Outcome> {
    tokio::task::spawn_blocking(move || stream.join()).await.context("wait for a stream")?
}

fn settings_name(settings: Settings) -> &'static str {
    match settings {
        Settings::Recommended => "recommended",
        Settings::Defaults => "defaults",
    }
}

/// A name for a file from names for people.
pub(super) fn file_name(parts: &[&str]) -> String {
    let plain = |part: &&str| {
        part.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>()
    };
    parts.iter().map(plain).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_of_rounds_have_distinct_names() {
        let name = |round| Histograms { folder: Path::new(""), round }.name(&["envoy", "100/s"]);
        assert_eq!(name(0), "envoy_100-s");
        assert_eq!((name(1).as_str(), name(2).as_str()), ("round-1_envoy_100-s", "round-2_envoy_100-s"));
    }
}
