//! The objects as they are kept: decoded straight into the fields that translation, explanations and status need. What
//! the API server sends beside them (`managedFields` above all, often the larger half) is skipped while reading and never
//! allocated. Never judges a value.

use std::any::Any;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::SystemTime;

use fairway_objects::object::{Object, ObjectKey};
use fairway_objects::pod::{Pod, PodStatusForm};
use fairway_objects::slice::SliceForm;
use k8s_openapi::api::core::v1::{
    ConfigMap, LoadBalancerStatus, Namespace, Secret, Service, ServicePort, ServiceSpec, ServiceStatus,
};
use k8s_openapi::api::networking::v1::{Ingress, IngressClass, IngressClassSpec, IngressSpec, IngressStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::{ByteString, Metadata};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// `kubectl apply` keeps the whole object once more in here.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// When what an EndpointSlice tells of happened (Kubernetes well-known annotations).
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// An object that was heard of.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) key: ObjectKey,
    pub(super) version: Version,
    /// Its resource version, from which a watch can continue.
    pub(super) revision: String,
    pub(super) content: Content,
    /// When it was written, where it says.
    pub(super) written: Option<SystemTime>,
}

/// What an object has besides its name.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Nothing that counts: a Namespace is selected by its name.
    Nothing,
    /// What translation and status read.
    Kept(Object),
    /// All of it, in the type that the API has for the kind.
    Whole(Arc<dyn Any + Send + Sync>),
}

impl Content {
    pub(super) fn kept(object: impl Into<Object>) -> Self {
        Self::Kept(object.into())
    }
}

/// Which state of an object it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    /// Differs between any two states, also of two objects with one name.
    stamp: u64,
    /// The resource version as a number, by which states can be ordered where it is one (KEP-5504).
    pub(super) number: Option<u64>,
}

/// How a kind is read.
pub(super) trait Wire: DeserializeOwned + Clone + Send + 'static {
    /// What is kept of it.
    fn trim(self) -> Item;
}

impl Version {
    fn of(uid: &str, revision: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (uid, revision).hash(&mut hasher);
        Self { stamp: hasher.finish(), number: revision.parse().ok() }
    }
}

/// What is read of `metadata`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    name: String,
    namespace: Option<String>,
    uid: String,
    resource_version: String,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl Meta {
    /// The object by its name.
    pub(super) fn item(&self) -> Item {
        let key = ObjectKey::new(self.namespace.as_deref().unwrap_or_default(), &self.name);
        let version = Version::of(&self.uid, &self.resource_version);
        let revision = self.resource_version.clone();
        Item { key, version, revision, content: Content::Nothing, written: None }
    }

    pub(super) fn kept(self) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name),
            namespace: self.namespace,
            uid: Some(self.uid),
            resource_version: Some(self.resource_version),
            generation: self.generation,
            creation_timestamp: self.creation_timestamp,
            labels: self.labels.filter(|labels| !labels.is_empty()),
            annotations: self.annotations.filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        }
    }

    pub(super) fn without_labels(mut self) -> Self {
        self.labels = None;
        self
    }

    /// Without the copy of the object that `kubectl apply` leaves.
    pub(super) fn without_copy(mut self) -> Self {
        if let Some(annotations) = &mut self.annotations {
            annotations.remove(LAST_APPLIED);
        }
        self
    }

    /// Without labels, and without annotations but this one.
    fn only(mut self, annotation: &str) -> Self {
        self.labels = None;
        if let Some(annotations) = &mut self.annotations {
            annotations.retain(|name, _| name == annotation);
        }
        self
    }
}

#[derive(Clone, Deserialize)]
pub(super) struct IngressWire {
    metadata: Meta,
    spec: Option<IngressSpec>,
    status: Option<IngressStatus>,
}

impl Wire for IngressWire {
    fn trim(mut self) -> Item {
        if let Some(spec) = &mut self.spec {
            fit_spec(spec);
        }
        let item = self.metadata.item();
        let metadata = self.metadata.without_labels().without_copy().kept();
        let object = Ingress { metadata, spec: self.spec, status: self.status };
        Item { content: Content::kept(object), ..item }
    }
}

/// Lists grow while they are read and end with room for more, which is most of them where they have one member.
fn fit<T>(list: &mut Option<Vec<T>>) {
    if let Some(list) = list {
        list.shrink_to_fit();
    }
}

fn fit_spec(spec: &mut IngressSpec) {
    fit(&mut spec.tls);
    for tls in spec.tls.iter_mut().flatten() {
        fit(&mut tls.hosts);
    }
    fit(&mut spec.rules);
    for http in spec.rules.iter_mut().flatten().filter_map(|rule| rule.http.as_mut()) {
        http.paths.shrink_to_fit();
    }
}

#[derive(Clone, Deserialize)]
pub(super) struct IngressClassWire {
    metadata: Meta,
    spec: Option<IngressClassSpec>,
}

impl Wire for IngressClassWire {
    fn trim(self) -> Item {
        let item = self.metadata.item();
        let metadata = self.metadata.only(DEFAULT_CLASS).kept();
        let object = IngressClass { metadata, spec: self.spec };
        Item { content: Content::kept(object), ..item }
    }
}

#[derive(Clone, Deserialize)]
pub(super) struct ServiceWire {
    metadata: Meta,
    #[serde(default)]
    spec: ServiceSpecWire,
    #[serde(default)]
    status: ServiceStatusWire,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceSpecWire {
    ports: Option<Vec<ServicePort>>,
    r#type: Option<String>,
    external_name: Option<String>,
    #[serde(rename = "externalIPs")]
    external_ips: Option<Vec<String>>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceStatusWire {
    load_balancer: Option<LoadBalancerStatus>,
}

impl Wire for ServiceWire {
    fn trim(mut self) -> Item {
        fit(&mut self.spec.ports);
        let item = self.metadata.item();
        let metadata = self.metadata.only("").kept();
        let spec = ServiceSpec {
            ports: self.spec.ports,
            type_: self.spec.r#type,
            external_name: self.spec.external_name,
            external_ips: self.spec.external_ips,
            cluster_ip: self.spec.cluster_ip,
            ..ServiceSpec::default()
        };
        let addresses = self.status.load_balancer.filter(|status| status.ingress.is_some());
        let status = addresses
            .map(|addresses| ServiceStatus { load_balancer: Some(addresses), ..ServiceStatus::default() });
        let object = Service { metadata, spec: Some(spec), status };
        Item { content: Content::kept(object), ..item }
    }
}

impl Wire for SliceForm<Meta> {
    fn trim(mut self) -> Item {
        let annotations = self.metadata.annotations.as_ref();
        let written = annotations.and_then(|all| all.get(TRIGGER_TIME)).and_then(|text| time(text));
        let item = self.metadata.item();
        let labels = self.metadata.labels.take();
        let object = self.kept(item.key.clone(), labels.as_ref());
        Item { content: Content::kept(object), written, ..item }
    }
}

#[derive(Clone, Deserialize)]
pub(super) struct PodWire {
    metadata: Meta,
    #[serde(default)]
    status: PodStatusForm,
}

impl Wire for PodWire {
    fn trim(self) -> Item {
        let item = self.metadata.item();
        let (labels, leaving) = (self.metadata.labels, self.metadata.deletion_timestamp);
        let object = Pod::kept(item.key.clone(), labels.unwrap_or_default(), self.status, leaving.is_some());
        Item { content: Content::kept(object), ..item }
    }
}

#[derive(Clone, Deserialize)]
pub(super) struct SecretWire {
    metadata: Meta,
    data: Option<BTreeMap<String, ByteString>>,
    r#type: Option<String>,
}

impl Wire for SecretWire {
    fn trim(self) -> Item {
        let item = self.metadata.item();
        let metadata = self.metadata.only("").kept();
        let object = Secret { metadata, data: self.data, type_: self.r#type, ..Secret::default() };
        Item { content: Content::kept(object), ..item }
    }
}

#[derive(Clone, Deserialize)]
pub(super) struct ConfigMapWire {
    metadata: Meta,
    data: Option<BTreeMap<String, String>>,
}

impl Wire for ConfigMapWire {
    fn trim(self) -> Item {
        let item = self.metadata.item();
        let metadata = self.metadata.only("").kept();
        let object = ConfigMap { metadata, data: self.data, ..ConfigMap::default() };
        Item { content: Content::kept(object), ..item }
    }
}

#[derive(Clone, Deserialize)]
pub(super) struct NamespaceWire {
    metadata: Meta,
}

impl Wire for NamespaceWire {
    fn trim(self) -> Item {
        self.metadata.item()
    }
}

/// A Namespace by whose labels Gateways choose.
#[derive(Clone, Deserialize)]
pub(super) struct LabelledNamespaceWire {
    metadata: Meta,
}

impl Wire for LabelledNamespaceWire {
    fn trim(mut self) -> Item {
        self.metadata.annotations = None;
        let item = self.metadata.item();
        let object = Namespace { metadata: self.metadata.kept(), ..Namespace::default() };
        Item { content: Content::kept(object), ..item }
    }
}

/// An object with all that it has but for the notes of who wrote which field.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct WholeWire<K>(K);

impl<K: Metadata<Ty = ObjectMeta> + DeserializeOwned + Clone + Send + Sync + 'static> Wire for WholeWire<K> {
    fn trim(self) -> Item {
        let Self(mut object) = self;
        let metadata = object.metadata_mut();
        metadata.managed_fields = None;
        let revision = metadata.resource_version.clone().unwrap_or_default();
        let version = Version::of(metadata.uid.as_deref().unwrap_or_default(), &revision);
        let key = ObjectKey::of(metadata);
        Item { key, version, revision, content: Content::Whole(Arc::new(object)), written: None }
    }
}

/// RFC 3339, as Kubernetes writes times.
fn time(text: &str) -> Option<SystemTime> {
    let quoted = serde_json::Value::String(text.to_owned());
    let Time(timestamp) = serde_json::from_value(quoted).ok()?;
    Some(timestamp.into())
}

#[cfg(test)]
mod tests {
    use fairway_objects::slice::SERVICE_LABEL;

    use super::*;

    #[test]
    fn keeps_of_an_ingress_what_is_needed() {
        let wire: IngressWire = serde_json::from_value(serde_json::json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 3,
                "labels": { "a": "b" },
                "annotations": { LAST_APPLIED: "{}", "kubernetes.io/ingress.class": "fairway" },
                "managedFields": [{ "manager": "kubectl", "fieldsV1": { "f:spec": {} } }],
                "ownerReferences": [{ "apiVersion": "v1", "kind": "A", "name": "b", "uid": "c" }],
            },
            "spec": { "ingressClassName": "fairway" },
        }))
        .expect("an Ingress");
        let item = wire.trim();
        assert_eq!((item.key, item.version.number), (ObjectKey::new("shop", "web"), Some(7)));
        let Content::Kept(Object::Ingress(ingress)) = item.content else { panic!("not an Ingress") };
        let metadata = &ingress.metadata;
        assert_eq!(metadata.annotations.as_ref().map(BTreeMap::len), Some(1));
        assert_eq!((metadata.generation, metadata.uid.as_deref()), (Some(3), Some("u")));
        assert!(metadata.managed_fields.is_none() && metadata.owner_references.is_none());
    }

    #[test]
    fn a_slice_says_when_its_pods_changed_and_keeps_their_names() {
        let wire: SliceForm<Meta> = serde_json::from_value(serde_json::json!({
            "metadata": {
                "name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": "8",
                "labels": { SERVICE_LABEL: "web", "endpointslice.kubernetes.io/managed-by": "x" },
                "annotations": { TRIGGER_TIME: "2026-01-02T03:04:05.5Z" },
            },
            "addressType": "IPv4",
            "endpoints": [{
                "addresses": ["10.0.0.1"], "conditions": { "ready": true }, "nodeName": "n",
                "targetRef": { "kind": "Pod", "name": "web-abc", "uid": "p" },
            }],
            "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        }))
        .expect("an EndpointSlice");
        let item = wire.trim();
        let since_epoch = item.written.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        assert_eq!(since_epoch.map(|at| at.as_millis()), Some(1_767_323_045_500));
        let Content::Kept(Object::EndpointSlice(slice)) = item.content else {
            panic!("not an EndpointSlice")
        };
        assert_eq!((&slice.key, slice.service()), (&item.key, Some(ObjectKey::new("shop", "web"))));
        assert_eq!(slice.addresses[0].pod.as_deref(), Some("web-abc"));
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_not_ready() {
        let read = |deleted: Option<&str>| {
            let mut metadata = serde_json::json!({
                "name": "vllm-1", "namespace": "models", "uid": "u", "resourceVersion": "9",
                "labels": { "app": "vllm" },
            });
            if let Some(at) = deleted {
                metadata["deletionTimestamp"] = at.into();
            }
            let wire: PodWire = serde_json::from_value(serde_json::json!({
                "metadata": metadata,
                "spec": { "containers": [{ "name": "vllm" }] },
                "status": {
                    "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }],
                    "conditions": [{ "type": "Ready", "status": "True" }],
                },
            }))
            .expect("a Pod");
            let Content::Kept(Object::Pod(pod)) = wire.trim().content else { panic!("not a Pod") };
            pod
        };
        let pod = read(None);
        assert_eq!((&pod.key, pod.is_ready), (&ObjectKey::new("models", "vllm-1"), true));
        assert_eq!(pod.labels.get("app").map(String::as_str), Some("vllm"));
        assert!(!read(Some("2026-01-02T03:04:05Z")).is_ready);
    }

    #[test]
    fn another_object_of_the_same_name_is_another_version() {
        let version = |uid: &str, number: &str| Version::of(uid, number);
        assert_eq!(version("a", "1"), version("a", "1"));
        assert_ne!(version("a", "1"), version("b", "1"));
        assert_ne!(version("a", "1"), version("a", "2"));
    }
}
