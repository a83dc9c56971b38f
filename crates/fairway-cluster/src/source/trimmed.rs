//! Objects decoded directly into the fields that translation, explanations and status need. Everything else (above all
//! `managedFields`, often the larger half) is skipped while decoding and never allocated. Does not judge values.

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

/// `kubectl apply` stores a second copy of the object here.
const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// When the change behind an EndpointSlice happened (Kubernetes well-known annotations).
const TRIGGER_TIME_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const DEFAULT_CLASS_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

/// An object that was received.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) key: ObjectKey,
    pub(super) version: Version,
    /// Its resource version, from which a watch can continue.
    pub(super) revision: String,
    pub(super) content: Content,
    /// When it was written, if it says so.
    pub(super) written: Option<SystemTime>,
}

/// The part of an object that is kept.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Only its name: a Namespace is selected by it.
    NameOnly,
    /// What translation and status read.
    Trimmed(Object),
    /// All of it, in the API type of the kind.
    Full(Arc<dyn Any + Send + Sync>),
}

impl Content {
    pub(super) fn trimmed(object: impl Into<Object>) -> Self {
        Self::Trimmed(object.into())
    }
}

/// Identifies a state of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    /// Differs between any two states, also of two objects of the same name.
    stamp: u64,
    /// The resource version as a number, if it is one: states can then be ordered (KEP-5504).
    pub(super) number: Option<u64>,
}

/// The wire format of a kind.
pub(super) trait Wire: DeserializeOwned + Clone + Send + 'static {
    /// The part that is kept.
    fn trim(self) -> Item;
}

impl Version {
    fn new(uid: &str, revision: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (uid, revision).hash(&mut hasher);
        Self { stamp: hasher.finish(), number: revision.parse().ok() }
    }
}

/// The decoded part of `metadata`.
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
    /// The object with its name only.
    pub(super) fn to_item(&self) -> Item {
        let key = ObjectKey::new(self.namespace.as_deref().unwrap_or_default(), &self.name);
        let version = Version::new(&self.uid, &self.resource_version);
        let revision = self.resource_version.clone();
        Item { key, version, revision, content: Content::NameOnly, written: None }
    }

    pub(super) fn into_object_meta(self) -> ObjectMeta {
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

    /// Without the copy of the object that `kubectl apply` stores.
    pub(super) fn without_last_applied(mut self) -> Self {
        if let Some(annotations) = &mut self.annotations {
            annotations.remove(LAST_APPLIED_ANNOTATION);
        }
        self
    }

    /// Without labels, and without annotations except this one.
    fn with_only_annotation(mut self, annotation: &str) -> Self {
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
            shrink_spec(spec);
        }
        let item = self.metadata.to_item();
        let metadata = self.metadata.without_labels().without_last_applied().into_object_meta();
        let object = Ingress { metadata, spec: self.spec, status: self.status };
        Item { content: Content::trimmed(object), ..item }
    }
}

/// Vectors that grow while decoding keep spare capacity, which is most of the memory of one-element lists.
fn shrink_list<T>(list: &mut Option<Vec<T>>) {
    if let Some(list) = list {
        list.shrink_to_fit();
    }
}

fn shrink_spec(spec: &mut IngressSpec) {
    shrink_list(&mut spec.tls);
    for tls in spec.tls.iter_mut().flatten() {
        shrink_list(&mut tls.hosts);
    }
    shrink_list(&mut spec.rules);
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
        let item = self.metadata.to_item();
        let metadata = self.metadata.with_only_annotation(DEFAULT_CLASS_ANNOTATION).into_object_meta();
        let object = IngressClass { metadata, spec: self.spec };
        Item { content: Content::trimmed(object), ..item }
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
        shrink_list(&mut self.spec.ports);
        let item = self.metadata.to_item();
        let metadata = self.metadata.with_only_annotation("").into_object_meta();
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
        Item { content: Content::trimmed(object), ..item }
    }
}

impl Wire for SliceForm<Meta> {
    fn trim(mut self) -> Item {
        let annotations = self.metadata.annotations.as_ref();
        let written =
            annotations.and_then(|all| all.get(TRIGGER_TIME_ANNOTATION)).and_then(|text| parse_time(text));
        let item = self.metadata.to_item();
        let labels = self.metadata.labels.take();
        let object = self.into_slice(item.key.clone(), labels.as_ref());
        Item { content: Content::trimmed(object), written, ..item }
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
        let item = self.metadata.to_item();
        let (labels, leaving) = (self.metadata.labels, self.metadata.deletion_timestamp);
        let object =
            Pod::from_parts(item.key.clone(), labels.unwrap_or_default(), self.status, leaving.is_some());
        Item { content: Content::trimmed(object), ..item }
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
        let item = self.metadata.to_item();
        let metadata = self.metadata.with_only_annotation("").into_object_meta();
        let object = Secret { metadata, data: self.data, type_: self.r#type, ..Secret::default() };
        Item { content: Content::trimmed(object), ..item }
    }
}

#[derive(Clone, Deserialize)]
pub(super) struct ConfigMapWire {
    metadata: Meta,
    data: Option<BTreeMap<String, String>>,
}

impl Wire for ConfigMapWire {
    fn trim(self) -> Item {
        let item = self.metadata.to_item();
        let metadata = self.metadata.with_only_annotation("").into_object_meta();
        let object = ConfigMap { metadata, data: self.data, ..ConfigMap::default() };
        Item { content: Content::trimmed(object), ..item }
    }
}

#[derive(Clone, Deserialize)]
pub(super) struct NamespaceWire {
    metadata: Meta,
}

impl Wire for NamespaceWire {
    fn trim(self) -> Item {
        self.metadata.to_item()
    }
}

/// A Namespace, whose labels Gateways select by.
#[derive(Clone, Deserialize)]
pub(super) struct LabelledNamespaceWire {
    metadata: Meta,
}

impl Wire for LabelledNamespaceWire {
    fn trim(mut self) -> Item {
        self.metadata.annotations = None;
        let item = self.metadata.to_item();
        let object = Namespace { metadata: self.metadata.into_object_meta(), ..Namespace::default() };
        Item { content: Content::trimmed(object), ..item }
    }
}

/// The complete object except for `managedFields`.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct WholeWire<K>(K);

impl<K: Metadata<Ty = ObjectMeta> + DeserializeOwned + Clone + Send + Sync + 'static> Wire for WholeWire<K> {
    fn trim(self) -> Item {
        let Self(mut object) = self;
        let metadata = object.metadata_mut();
        metadata.managed_fields = None;
        let revision = metadata.resource_version.clone().unwrap_or_default();
        let version = Version::new(metadata.uid.as_deref().unwrap_or_default(), &revision);
        let key = ObjectKey::from_metadata(metadata);
        Item { key, version, revision, content: Content::Full(Arc::new(object)), written: None }
    }
}

/// RFC 3339, as Kubernetes writes times.
fn parse_time(text: &str) -> Option<SystemTime> {
    let quoted = serde_json::Value::String(text.to_owned());
    let Time(timestamp) = serde_json::from_value(quoted).ok()?;
    Some(timestamp.into())
}

#[cfg(test)]
mod tests {
    use fairway_objects::slice::SERVICE_LABEL;

    use super::*;

    #[test]
    fn an_ingress_is_trimmed_to_what_is_needed() {
        let wire: IngressWire = serde_json::from_value(serde_json::json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 3,
                "labels": { "a": "b" },
                "annotations": { LAST_APPLIED_ANNOTATION: "{}", "kubernetes.io/ingress.class": "fairway" },
                "managedFields": [{ "manager": "kubectl", "fieldsV1": { "f:spec": {} } }],
                "ownerReferences": [{ "apiVersion": "v1", "kind": "A", "name": "b", "uid": "c" }],
            },
            "spec": { "ingressClassName": "fairway" },
        }))
        .expect("an Ingress");
        let item = wire.trim();
        assert_eq!((item.key, item.version.number), (ObjectKey::new("shop", "web"), Some(7)));
        let Content::Trimmed(Object::Ingress(ingress)) = item.content else { panic!("not an Ingress") };
        let metadata = &ingress.metadata;
        assert_eq!(metadata.annotations.as_ref().map(BTreeMap::len), Some(1));
        assert_eq!((metadata.generation, metadata.uid.as_deref()), (Some(3), Some("u")));
        assert!(metadata.managed_fields.is_none() && metadata.owner_references.is_none());
    }

    #[test]
    fn a_slice_keeps_pod_names_and_the_time_of_their_change() {
        let wire: SliceForm<Meta> = serde_json::from_value(serde_json::json!({
            "metadata": {
                "name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": "8",
                "labels": { SERVICE_LABEL: "web", "endpointslice.kubernetes.io/managed-by": "x" },
                "annotations": { TRIGGER_TIME_ANNOTATION: "2026-01-02T03:04:05.5Z" },
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
        let Content::Trimmed(Object::EndpointSlice(slice)) = item.content else {
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
            let Content::Trimmed(Object::Pod(pod)) = wire.trim().content else { panic!("not a Pod") };
            pod
        };
        let pod = read(None);
        assert_eq!((&pod.key, pod.is_ready), (&ObjectKey::new("models", "vllm-1"), true));
        assert_eq!(pod.labels.get("app").map(String::as_str), Some("vllm"));
        assert!(!read(Some("2026-01-02T03:04:05Z")).is_ready);
    }

    #[test]
    fn a_recreated_object_has_another_version() {
        let version = |uid: &str, number: &str| Version::new(uid, number);
        assert_eq!(version("a", "1"), version("a", "1"));
        assert_ne!(version("a", "1"), version("b", "1"));
        assert_ne!(version("a", "1"), version("a", "2"));
    }
}
