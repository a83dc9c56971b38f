//! Runs the source against a test's API server in virtual time, records what it sends, and waits for more. Owns the objects that
//! tests use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fairway_control::input::{ChangeBatch, Outlet, pipe};
use fairway_objects::gateway_resources::Releases;
use fairway_objects::object::{Kind, Object, ObjectRef};
use fairway_objects::resources::Change;
use fairway_testkit::api_server::{ApiRequest, ApiServer};
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio::time::{self, Instant};

use crate::source::condition::{SharedCondition, SourceCondition};
use crate::source::run;
use crate::source::selection::{Namespaces, Selection};
use crate::testing::client;

/// Nothing takes longer in virtual time.
const LIMIT: Duration = Duration::from_secs(120);

pub(super) struct Harness {
    pub(super) server: ApiServer,
    outlet: Outlet,
    board: SharedCondition,
    source: AbortHandle,
    /// The version of each object that was sent.
    pub(super) objects: BTreeMap<ObjectRef, String>,
    /// The reported releases of CRDs, in order.
    pub(super) releases: Vec<Releases>,
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.source.abort();
    }
}

impl Harness {
    /// Starts the source with deterministic backoff.
    pub(super) fn start(server: &ApiServer, selection: Selection) -> Self {
        fastrand::seed(1);
        let ((inlet, outlet), board) = (pipe(), SharedCondition::new());
        let source = tokio::spawn(run::run(client(server, Arc::default()), selection, inlet, board.clone()));
        Self {
            server: server.clone(),
            outlet,
            board,
            source: source.abort_handle(),
            objects: BTreeMap::new(),
            releases: Vec::new(),
        }
    }

    /// Starts it for all namespaces and waits for the first batch.
    pub(super) async fn started(server: &ApiServer) -> Self {
        let mut harness = Self::start(server, Selection::default());
        harness.batch().await;
        harness
    }

    pub(super) fn condition(&self) -> SourceCondition {
        self.board.read()
    }

    /// The next queued batch, if any.
    pub(super) fn poll(&mut self) -> Option<ChangeBatch> {
        let batch = self.outlet.next(Duration::ZERO)?;
        for change in &batch.changes {
            match change {
                Change::Set(object, _) => drop(self.objects.insert(object.reference(), version(object))),
                Change::Remove(reference) => drop(self.objects.remove(reference)),
                Change::Released(releases) => self.releases.push(releases.clone()),
                Change::Resolved { .. } | Change::Placed { .. } | Change::Published(_) => {}
            }
        }
        Some(batch)
    }

    /// The next batch.
    pub(super) async fn batch(&mut self) -> ChangeBatch {
        let limit = Instant::now() + LIMIT;
        loop {
            if let Some(batch) = self.poll() {
                return batch;
            }
            assert!(Instant::now() < limit, "nothing was told; {:#?}", self.condition());
            time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The next batch with changes.
    pub(super) async fn changes(&mut self) -> ChangeBatch {
        loop {
            let batch = self.batch().await;
            if !batch.changes.is_empty() {
                return batch;
            }
        }
    }

    /// Lets time pass; returns everything that is sent meanwhile.
    pub(super) async fn pass(&mut self, duration: Duration) -> Vec<Change> {
        let until = Instant::now() + duration;
        let mut changes = Vec::new();
        while Instant::now() < until {
            time::sleep(Duration::from_millis(20)).await;
            while let Some(batch) = self.poll() {
                changes.extend(batch.changes);
            }
        }
        changes
    }

    /// Waits until `holds`, recording what is sent.
    pub(super) async fn until(&mut self, expectation: &str, holds: impl Fn(&Self) -> bool) -> Duration {
        let started = Instant::now();
        while !holds(self) {
            assert!(started.elapsed() < LIMIT, "{expectation} never came; {:#?}", self.condition());
            while self.poll().is_some() {}
            time::sleep(Duration::from_millis(1)).await;
        }
        started.elapsed()
    }

    /// The objects of a kind that were sent, as `namespace/name@version`, with the version from [`version`].
    pub(super) fn names(&self, kind: Kind) -> BTreeSet<String> {
        let of_kind = self.objects.iter().filter(|(reference, _)| reference.kind == kind);
        of_kind.map(|(it, version)| format!("{}/{}@{version}", it.key.namespace, it.key.name)).collect()
    }

    pub(super) fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        let key = fairway_objects::object::ObjectKey::new(namespace, name);
        self.objects.contains_key(&ObjectRef::new(kind, key))
    }
}

/// The version of an object; for a slice, whose version is not kept, its first address.
fn version(object: &Object) -> String {
    if let Object::EndpointSlice(slice) = object {
        let first = slice.addresses.first().and_then(|it| it.address.as_ref().ok());
        return first.map(ToString::to_string).unwrap_or_default();
    }
    // Of a Pod, only what endpoints need is kept.
    let Some(metadata) = object.metadata() else { return String::new() };
    metadata.resource_version.clone().unwrap_or_default()
}

/// A change as text: `+Ingress shop/web` or `-Secret shop/tls`.
pub(super) fn text(change: &Change) -> String {
    let reference = change.reference();
    let sign = if matches!(change, Change::Set(..)) { '+' } else { '-' };
    format!("{sign}{} {}", reference.kind.name(), reference.key)
}

pub(super) fn texts(changes: &[Change]) -> Vec<String> {
    changes.iter().map(text).collect()
}

/// A selection of these namespaces only.
pub(super) fn selection_of_namespaces(names: &[&str]) -> Selection {
    let names = names.iter().map(|name| Arc::from(*name)).collect();
    Selection { namespaces: Namespaces::Listed(names), ..Selection::default() }
}

/// All requests for a resource.
pub(super) fn requests_for(resource: &'static str) -> impl Fn(&ApiRequest) -> bool + Send + 'static {
    move |request| request.resource() == resource
}

/// Requests for all objects of a resource, as a list or as the start of a watch.
pub(super) fn lists(resource: &'static str) -> impl Fn(&ApiRequest) -> bool + Send + 'static {
    move |request| request.is_list() && request.resource() == resource
}

/// Requests for a resource in a namespace or, if that is empty, in all namespaces at once.
pub(super) fn requests_in(
    resource: &'static str,
    namespace: &'static str,
) -> impl Fn(&ApiRequest) -> bool + Send + 'static {
    move |request| request.resource() == resource && request.namespace() == namespace
}

/// An Ingress of this controller with these Secrets.
pub(super) fn ingress(namespace: &str, name: &str, secrets: &[&str]) -> Value {
    let tls: Vec<_> = secrets.iter().map(|name| json!({ "hosts": ["a.test"], "secretName": name })).collect();
    json!({
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "ingressClassName": "fairway", "tls": tls },
    })
}

pub(super) fn secret(namespace: &str, name: &str) -> Value {
    json!({ "metadata": { "namespace": namespace, "name": name }, "data": { "tls.crt": "YQ==" } })
}

pub(super) fn service(namespace: &str, name: &str) -> Value {
    json!({ "metadata": { "namespace": namespace, "name": name }, "spec": { "ports": [{ "port": 80 }] } })
}

pub(super) fn slice(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": { "namespace": namespace, "name": name, "labels": { "kubernetes.io/service-name": name } },
        "addressType": "IPv4", "endpoints": [{ "addresses": ["10.0.0.1"] }], "ports": [],
    })
}

pub(super) fn class(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "controller": "fairway.dev/ingress-controller" } })
}

/// A GatewayClass of this controller.
pub(super) fn gateway_class(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "controllerName": "fairway.dev/gateway-controller" } })
}

/// A Gateway of the class `edge` with an HTTPS listener that has these Secrets, as `NAME` or `NAMESPACE/NAME`.
pub(super) fn gateway(namespace: &str, name: &str, secrets: &[&str]) -> Value {
    let named = |secret: &&str| match secret.split_once('/') {
        Some((namespace, name)) => json!({ "namespace": namespace, "name": name }),
        None => json!({ "name": secret }),
    };
    let tls = json!({ "certificateRefs": secrets.iter().map(named).collect::<Vec<_>>() });
    let listener = json!({ "name": "https", "port": 443, "protocol": "HTTPS", "tls": tls });
    json!({
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "gatewayClassName": "edge", "listeners": [listener] },
    })
}

pub(super) fn http_route(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "parentRefs": [{ "name": "edge" }], "rules": [{ "backendRefs": [{ "name": "web", "port": 80 }] }] },
    })
}

pub(super) fn namespace(name: &str, label: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "edge": label } } })
}
