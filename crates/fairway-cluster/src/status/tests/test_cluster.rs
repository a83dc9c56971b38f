//! A cluster with Ingresses, and replicas that report to it. Time is virtual: it advances when all tasks are idle.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairway_control::engine::Engine;
use fairway_control::pipeline::Viewer;
use fairway_objects::object::{Kind, Object, ObjectKey, ObjectRef};
use fairway_objects::options::Options;
use fairway_objects::resources::Change;
use fairway_testkit::api_server::{ApiRequest, ApiServer, GATEWAY_API, note_writer};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::status::publish::PublishAddresses;
use crate::status::reporter::{ReporterSetup, run};
use crate::status::shared_state::ReporterState;
use crate::status::tickets::TicketOptions;
use crate::testing::client;

pub(crate) const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/infra/leases/fairway-leader";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/a/ingresses";

/// An API server with the kinds of the Gateway API.
pub(crate) fn api_server() -> ApiServer {
    let server = ApiServer::new();
    server.define(GATEWAY_API, &[("v1", "gatewayclasses"), ("v1", "gateways"), ("v1", "httproutes")]);
    server
}

/// Requests of a method whose path contains `part`.
pub(crate) fn requests(
    method: &'static str,
    part: &'static str,
) -> impl Fn(&ApiRequest) -> bool + Send + 'static {
    move |request| request.method() == method && request.path().contains(part)
}

/// The path of an Ingress.
pub(crate) fn ingress_path(key: &ObjectKey) -> String {
    format!("/apis/networking.k8s.io/v1/namespaces/{}/ingresses/{}", key.namespace, key.name)
}

/// The cluster.
pub(crate) struct TestCluster {
    pub(crate) api: ApiServer,
    pub(crate) viewer: Viewer,
    pub(crate) start: Instant,
    engine: Arc<Mutex<Engine>>,
}

/// A running replica.
pub(crate) struct Replica {
    pub(crate) standing: ReporterState,
    stop: oneshot::Sender<Duration>,
    task: JoinHandle<Option<JoinHandle<()>>>,
    cut: Arc<AtomicBool>,
}

impl TestCluster {
    /// With the class `fairway`, and the configuration following the objects. The jitter of replicas is deterministic.
    pub(crate) fn new() -> Self {
        fastrand::seed(1);
        let world = Self {
            api: api_server(),
            viewer: Viewer::blank(),
            start: Instant::now(),
            engine: Arc::new(Mutex::new(Engine::new(Options::default()))),
        };
        let class = json!({
            "metadata": { "name": "fairway" }, "spec": { "controller": "fairway.dev/ingress-controller" }
        });
        world.change(vec![Change::Set(
            Object::IngressClass(Arc::new(serde_json::from_value(class).unwrap())),
            None,
        )]);
        tokio::spawn(follow(world.api.clone(), world.viewer.clone(), world.engine.clone()));
        world
    }

    /// Sends changes to the engine directly.
    pub(crate) fn change(&self, changes: Vec<Change>) {
        change(&self.engine, &self.viewer, changes);
    }

    pub(crate) fn ingress(&self, name: &str, class: &str) {
        let path = ingress_path(&ObjectKey::new("a", name));
        let status = self.api.object(&path).map_or(json!({}), |object| object["status"].clone());
        self.api.put_at(&path, ingress(name, class, &status));
    }

    /// Another controller writes a status.
    pub(crate) fn other_writes(&self, name: &str, address: &str) {
        let path = ingress_path(&ObjectKey::new("a", name));
        let mut object = self.api.object(&path).unwrap();
        object["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
        note_writer(&mut object, "nginx-ingress-controller");
        self.api.put_at(&path, object);
    }

    /// The addresses in an Ingress's status.
    pub(crate) fn status(&self, name: &str) -> Vec<String> {
        let object = self.api.object(&ingress_path(&ObjectKey::new("a", name))).unwrap();
        let entries = object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array).cloned();
        let text = |entry: &Value| entry["ip"].as_str().or(entry["hostname"].as_str()).unwrap().to_owned();
        entries.unwrap_or_default().iter().map(text).collect()
    }

    /// The current diagnostics, as `fairway check` prints them.
    pub(crate) fn diagnostics(&self) -> Vec<String> {
        self.viewer.view().unwrap().diagnostics().map(ToString::to_string).collect()
    }

    pub(crate) fn pod(&self, name: &str, additions: &Value) {
        let mut pod = json!({ "metadata": { "name": name, "labels": {
            "app": "fairway", "pod-template-hash": name
        } }, "status": { "phase": "Running" } });
        if let Some(deleted) = additions.get("deletionTimestamp") {
            pod["metadata"]["deletionTimestamp"] = deleted.clone();
        }
        self.api.put_at(&format!("/api/v1/namespaces/infra/pods/{name}"), pod);
    }

    /// A pod on a node.
    pub(crate) fn pod_on(&self, name: &str, node: &str, is_ready: bool) {
        let ready = if is_ready { "True" } else { "False" };
        let pod = json!({
            "metadata": { "name": name, "labels": { "app": "fairway", "pod-template-hash": name } },
            "spec": { "nodeName": node, "containers": [] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] },
        });
        self.api.put_at(&format!("/api/v1/namespaces/infra/pods/{name}"), pod);
    }

    /// Starts a replica in the pod `name`, which publishes `addresses`.
    pub(crate) fn replica(&self, name: &str, addresses: &[&str]) -> Replica {
        let addresses = addresses.iter().map(ToString::to_string).collect();
        self.replica_with(name, PublishAddresses::Addresses(addresses))
    }

    pub(crate) fn replica_with(&self, name: &str, publish: PublishAddresses) -> Replica {
        self.replica_sharing(name, publish, None)
    }

    /// The same, possibly with shared ticket keys.
    pub(crate) fn replica_sharing(
        &self,
        name: &str,
        publish: PublishAddresses,
        tickets: Option<TicketOptions>,
    ) -> Replica {
        if self.api.object(&format!("/api/v1/namespaces/infra/pods/{name}")).is_none() {
            self.pod(name, &json!({}));
        }
        let (stop, stopped) = oneshot::channel();
        let (standing, cut) = (ReporterState::default(), Arc::<AtomicBool>::default());
        let setting = ReporterSetup {
            client: client(&self.api, cut.clone()),
            pod: ObjectKey::new("infra", name),
            election_id: "fairway-leader".into(),
            publish,
            viewer: self.viewer.clone(),
            standing: standing.clone(),
            gateways: None,
            tickets,
        };
        Replica { standing, stop, task: tokio::spawn(run(setting, stopped)), cut }
    }

    pub(crate) fn holder(&self) -> Option<String> {
        let lease = self.api.object(LEASE)?;
        Some(lease.pointer("/spec/holderIdentity")?.as_str()?.to_owned())
    }
}

impl Replica {
    /// From now on none of its requests arrive: for the others it is as if it were killed.
    pub(crate) fn cut_off(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Stops it; returns how long that took.
    pub(crate) async fn stop(self, patience: Duration) -> Duration {
        let start = Instant::now();
        self.stop.send(patience).unwrap();
        let keeper = self.task.await.unwrap();
        let took = start.elapsed();
        // The process ends.
        keeper.iter().for_each(JoinHandle::abort);
        took
    }
}

/// Waits until `condition` holds, for at most `seconds` of virtual time.
pub(crate) async fn within(seconds: u64, expectation: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while !condition() {
        assert!(Instant::now() < end, "not within {seconds} s: {expectation}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Lets virtual time pass.
pub(crate) async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

pub(crate) fn ingress(name: &str, class: &str, status: &Value) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "a", "uid": format!("uid-{name}") },
        "spec": { "ingressClassName": class, "rules": [{ "host": format!("{name}.test"), "http": { "paths": [
            { "path": "/", "pathType": "Prefix", "backend": { "service": { "name": "web", "port": { "number": 80 } } } }
        ] } }] },
        "status": status
    })
}

fn change(engine: &Mutex<Engine>, viewer: &Viewer, changes: Vec<Change>) {
    let mut engine = engine.lock().unwrap();
    engine.update(changes, 0);
    viewer.set_outcome(engine.current().unwrap().clone());
}

/// Acts as a source: tells the engine of every Ingress that was added, changed or removed.
async fn follow(api: ApiServer, viewer: Viewer, engine: Arc<Mutex<Engine>>) {
    let mut changes = api.changes();
    let mut known = BTreeMap::<String, Value>::new();
    loop {
        let now: BTreeMap<String, Value> = api
            .below(INGRESSES)
            .into_iter()
            .map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), object))
            .collect();
        let set = now.iter().filter(|(name, object)| known.get(*name) != Some(*object));
        let set = set.map(|(_, object)| {
            Change::Set(Object::Ingress(Arc::new(serde_json::from_value(object.clone()).unwrap())), None)
        });
        let gone = known.keys().filter(|name| !now.contains_key(*name));
        let gone = gone.map(|name| Change::Remove(ObjectRef::new(Kind::Ingress, ObjectKey::new("a", name))));
        let differences: Vec<_> = set.chain(gone).collect();
        if !differences.is_empty() {
            change(&engine, &viewer, differences);
        }
        known = now;
        if changes.changed().await.is_err() {
            return;
        }
    }
}
