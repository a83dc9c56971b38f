//! Many routes, as Ingresses or HTTPRoutes, from a directory or an API server: time until served, memory, and the cost of a
//! change.

mod objects;

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::api_server::ListeningServer;
use crate::manifests::Manifests;
use crate::process::{Fairway, Metrics};
use crate::proof::changes::Observers;
use crate::proof::delays::Delays;
use crate::proof::floods::resident;
use crate::proof::site::Endpoint;
use crate::wait::{eventually, free_port, holds_within};
use objects::Object;
pub use objects::{Kind, Shape, Source};

/// Timeout of the first configuration.
const READY_WITHIN: Duration = Duration::from_secs(300);
/// Timeout of a change.
const CHANGED_WITHIN: Duration = Duration::from_secs(30);
/// The number of routes that change, in rotation: requested hosts keep their own metrics from then on.
const CHANGING: usize = 100;
/// They lie apart by a step that shares no factor with any round number.
const STRIDE: usize = 7919;
/// Delay between two changes; closer ones are batched.
const CHANGE_INTERVAL: Duration = Duration::from_millis(10);

/// The findings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Routes {
    /// The kind of routes.
    pub kind: Kind,
    /// The source of routes.
    pub source: Source,
    /// The number of routes.
    pub shape: Shape,
    /// From the start of the process to readiness.
    pub ready_seconds: f64,
    /// Resident memory of the ready process.
    pub resident_mib: f64,
    /// The same after all changes.
    pub resident_after_mib: f64,
    /// From the event at the source to the adoption by the last worker, as measured by Fairway.
    pub adoption: Delays,
    /// From the change until every connection sees it. `None` if clients cannot reach the routes: Gateways in a cluster get
    /// addresses from their Services, and this API server has none.
    pub visible: Option<Delays>,
}

/// Serves routes and changes one of them `changes` times.
pub async fn measure(binary: &Path, kind: Kind, source: Source, shape: Shape, changes: usize) -> Routes {
    let port = free_port();
    let cluster = Cluster::start(kind, source, shape, port).await;
    let began = Instant::now();
    let mut fairway = cluster.serve(binary);
    let ready = holds_within(READY_WITHIN, || async {
        fairway.admin("/readyz").await.is_ok_and(|answer| answer.status == 200)
    });
    assert!(ready.await, "not ready within {READY_WITHIN:?}:\n{}", fairway.lines().join("\n"));
    let ready_seconds = began.elapsed().as_secs_f64();
    let process = fairway.program().id();
    let resident_mib = mebibytes(resident(process));
    let reached = match (kind, source) {
        (Kind::Ingress, _) => Some(fairway.http),
        (Kind::HttpRoute, Source::Directory) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        (Kind::HttpRoute, Source::Api) => None,
    };
    let (adoption, visible) = change_route(&cluster, &fairway, reached, changes).await;
    Routes {
        kind,
        source,
        shape,
        ready_seconds,
        resident_mib,
        resident_after_mib: mebibytes(resident(process)),
        adoption,
        visible,
    }
}

/// Changes routes, one at a time; gives Fairway's own times and, where clients reach it, theirs.
async fn change_route(
    cluster: &Cluster,
    fairway: &Fairway,
    reached: Option<SocketAddr>,
    changes: usize,
) -> (Delays, Option<Delays>) {
    let shape = cluster.shape;
    let mut observers = match reached {
        Some(address) => {
            Some(Observers::gather(&Endpoint::plain(address), &objects::host_name(0), "/").await)
        }
        None => None,
    };
    let (mut own, mut seen) = (Vec::new(), Vec::new());
    for change in 1..=changes {
        let route = changing(shape, change);
        let label = format!("n{change}");
        let version = fairway.metrics().await.sum("fairway_config_version", &[]);
        let began = Instant::now();
        cluster.change(route, &label);
        if let Some(observers) = &mut observers {
            let host = objects::host_name(shape.host_of(route));
            observers.ask_of(&host, &objects::path(shape, route));
            seen.push(observers.agree(&label, began).await);
        }
        let newer = || async { fairway.metrics().await.sum("fairway_config_version", &[]) > version };
        eventually("the change is published", CHANGED_WITHIN, newer).await;
        // Workers have adopted it by then.
        sleep(CHANGE_INTERVAL).await;
        own.push(own_delay(&fairway.metrics().await));
    }
    (Delays::from_times(own), reached.map(|_| Delays::from_times(seen)))
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The route that a change is about.
fn changing(shape: Shape, change: usize) -> usize {
    change % CHANGING * STRIDE % shape.routes
}

/// From the event to its publication, and from there to its adoption by the last worker.
fn own_delay(metrics: &Metrics) -> Duration {
    let seconds = |name: &str| metrics.sum(name, &[]);
    let delay = seconds("fairway_config_delay_seconds") + seconds("fairway_config_adoption_seconds");
    Duration::from_secs_f64(delay)
}

/// The source with all its objects.
struct Cluster {
    kind: Kind,
    shape: Shape,
    /// The routes that change. They redirect from the start, so that no request waits for an endpoint that is not there.
    changing: HashSet<usize>,
    origin: Origin,
}

enum Origin {
    Directory(Manifests),
    Api(ListeningServer),
}

impl Cluster {
    async fn start(kind: Kind, source: Source, shape: Shape, port: u16) -> Self {
        let origin = match source {
            Source::Directory => Origin::Directory(Manifests::new()),
            Source::Api => Origin::Api(ListeningServer::start().await),
        };
        let changing = (0..CHANGING).map(|change| changing(shape, change)).collect();
        let cluster = Self { kind, shape, changing, origin };
        cluster.put("common.yaml", objects::common(kind, port));
        for host in 0..shape.hosts {
            cluster.put(&file(host), cluster.of_host(host, None));
        }
        cluster
    }

    /// The objects of a host; one route of it may be another by now.
    fn of_host(&self, host: usize, changed: Option<(usize, &str)>) -> Vec<Object> {
        let routes = (host..self.shape.routes).step_by(self.shape.hosts);
        let label = |route: usize| match changed {
            Some((changed, label)) if changed == route => Some(label),
            _ => self.changing.contains(&route).then_some("start"),
        };
        let routes = routes.map(|route| objects::route(self.shape, self.kind, route, label(route)));
        objects::service(self.shape, host).into_iter().chain(routes).collect()
    }

    fn put(&self, file: &str, objects: Vec<Object>) {
        match &self.origin {
            Origin::Directory(manifests) => {
                let documents: Vec<String> = objects.iter().map(|(_, object)| object.to_string()).collect();
                manifests.put(file, documents.join("\n---\n"));
            }
            Origin::Api(server) => {
                objects.into_iter().for_each(|(resource, object)| server.put(resource, object));
            }
        }
    }

    fn change(&self, route: usize, label: &str) {
        let host = self.shape.host_of(route);
        match &self.origin {
            Origin::Directory(_) => self.put(&file(host), self.of_host(host, Some((route, label)))),
            Origin::Api(_) => self.put("", vec![objects::route(self.shape, self.kind, route, Some(label))]),
        }
    }

    fn serve(&self, binary: &Path) -> Fairway {
        let workers = ["--workers", "2", "--access-log", "off"];
        match &self.origin {
            Origin::Directory(manifests) => {
                let address = ["--gateway-address", "127.0.0.1"];
                Fairway::start(binary, manifests.path(), &[&workers[..], &address].concat())
            }
            Origin::Api(server) => {
                let kubeconfig = server.kubeconfig().display().to_string();
                let source = ["--kubernetes", "--kubeconfig", &kubeconfig, "--no-status"];
                Fairway::start_with(binary, &[&workers[..], &source].concat())
            }
        }
    }
}

fn file(host: usize) -> String {
    format!("host-{host:06}.yaml")
}
