//! EndpointSlices, decoded directly into the fields that Fairway uses. Endpoints are the most numerous objects in a
//! cluster, and the types of `k8s_openapi` would need eight times as much memory for them. `endpoints` checks the
//! addresses.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::IpAddr;
use std::sync::Arc;

use fairway_model::EndpointTopology;
use k8s_openapi::api::discovery::v1::{self, EndpointConditions, EndpointHints, EndpointPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{NamespaceResourceScope, Resource};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::key::ObjectKey;
use crate::multicluster::IMPORT_LABEL;
use crate::shared::{self, RecentValues};

/// The label of an EndpointSlice with the name of its Service (EndpointSlice API reference).
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Slots of a thread's topology cache. Endpoints of one node have equal topologies, and most clusters have fewer
/// nodes.
const TOPOLOGY_CACHE_SLOTS: usize = 256;

thread_local! {
    /// The ports of recently decoded slices, which slices with equal ports share.
    static PORTS: RefCell<RecentValues<[EndpointPort]>> = const { RefCell::new(RecentValues::new()) };
    /// The topologies of recently decoded endpoints, indexed by hash. Endpoints with equal topologies share one.
    static TOPOLOGY_CACHE: RefCell<[Option<Arc<EndpointTopology>>; TOPOLOGY_CACHE_SLOTS]> =
        const { RefCell::new([const { None }; TOPOLOGY_CACHE_SLOTS]) };
}

/// The fields of an EndpointSlice that Fairway uses.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "SliceForm<Option<ObjectMeta>>")]
pub struct EndpointSlice {
    /// The namespace and name of the slice.
    pub key: ObjectKey,
    /// The name of the slice's Service, which is in the same namespace.
    pub service: Option<Arc<str>>,
    /// The name of the slice's ServiceImport, which is in the same namespace.
    pub import: Option<Arc<str>>,
    /// The ports as written in the slice, shared with slices that have equal ports.
    pub ports: Arc<[EndpointPort]>,
    /// The addresses of all endpoints, in the order of the slice.
    pub addresses: Box<[SliceAddress]>,
}

/// An address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceAddress {
    /// The index of the endpoint in the slice.
    pub endpoint: u32,
    /// Whether the endpoint may receive requests.
    pub condition: EndpointCondition,
    /// The IP address, or the text as written if it is not one.
    pub address: Result<IpAddr, Box<str>>,
    /// The name of the endpoint's pod, if the slice contains it.
    pub pod: Option<Arc<str>>,
    /// The node, zone and hints of the endpoint, if the slice contains any.
    pub topology: Option<Arc<EndpointTopology>>,
}

/// Whether an endpoint may receive requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointCondition {
    /// The endpoint receives requests.
    Ready,
    /// The endpoint terminates, but still serves. It receives requests only if no endpoint is ready.
    LastResort,
    /// The endpoint receives no requests.
    NotServing,
}

impl EndpointSlice {
    /// The key of the slice's Service.
    #[must_use]
    pub fn service(&self) -> Option<ObjectKey> {
        let name = self.service.clone()?;
        Some(ObjectKey { namespace: self.key.namespace.clone(), name })
    }

    /// The key of the slice's ServiceImport.
    #[must_use]
    pub fn import(&self) -> Option<ObjectKey> {
        let name = self.import.clone()?;
        Some(ObjectKey { namespace: self.key.namespace.clone(), name })
    }
}

impl Resource for EndpointSlice {
    const API_VERSION: &'static str = v1::EndpointSlice::API_VERSION;
    const GROUP: &'static str = v1::EndpointSlice::GROUP;
    const KIND: &'static str = v1::EndpointSlice::KIND;
    const VERSION: &'static str = v1::EndpointSlice::VERSION;
    const URL_PATH_SEGMENT: &'static str = v1::EndpointSlice::URL_PATH_SEGMENT;
    type Scope = NamespaceResourceScope;
}

/// The API form of an EndpointSlice. `M` contains the part of the metadata that the caller decodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "EndpointSlice")]
pub struct SliceForm<M> {
    /// The decoded metadata.
    pub metadata: M,
    #[expect(dead_code, reason = "decoded only to reject a wrong type")]
    address_type: Option<AnyText>,
    endpoints: Option<Addresses>,
    ports: Option<Vec<EndpointPort>>,
}

impl<M> SliceForm<M> {
    /// Converts the form to a slice with this key. The labels name its Service or ServiceImport.
    pub fn into_slice(self, key: ObjectKey, labels: Option<&BTreeMap<String, String>>) -> EndpointSlice {
        let label_value =
            |label| labels.and_then(|labels| labels.get(label)).map(|value| shared::text(value));
        let (service, import) = (label_value(SERVICE_LABEL), label_value(IMPORT_LABEL));
        let ports = PORTS.with_borrow_mut(|recent| recent.shared(self.ports.unwrap_or_default().into()));
        let Addresses(addresses) = self.endpoints.unwrap_or_default();
        EndpointSlice { key, service, import, ports, addresses: addresses.into() }
    }
}

impl From<SliceForm<Option<ObjectMeta>>> for EndpointSlice {
    fn from(mut form: SliceForm<Option<ObjectMeta>>) -> Self {
        let metadata = form.metadata.take().unwrap_or_default();
        form.into_slice(ObjectKey::from_metadata(&metadata), metadata.labels.as_ref())
    }
}

/// The addresses of a list of endpoints. Endpoints are decoded one by one, so that only one is in memory in its API
/// form.
#[derive(Clone, Debug, Default)]
struct Addresses(Vec<SliceAddress>);

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self::default())
    }
}

impl<'de> Visitor<'de> for Addresses {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut endpoints: A) -> Result<Self, A::Error> {
        for index in 0.. {
            let Some(endpoint) = endpoints.next_element::<EndpointForm>()? else { break };
            let condition = endpoint_condition(&endpoint.conditions.unwrap_or_default());
            let pod = endpoint.target_ref.and_then(|target| target.name).map(|Pod(name)| name);
            let hints = endpoint.hints.unwrap_or_default();
            let topology = shared_topology(endpoint.zone, endpoint.node_name, hints);
            let slice_address = |Address(address)| SliceAddress {
                endpoint: index,
                condition,
                address,
                pod: pod.clone(),
                topology: topology.clone(),
            };
            self.0.extend(endpoint.addresses.into_iter().flatten().map(slice_address));
        }
        Ok(self)
    }
}

/// The API form of an endpoint. It has fields that Fairway does not use, so that a manifest with a value of the wrong
/// type is rejected.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "Endpoint")]
#[expect(dead_code, reason = "most fields are decoded only to reject a wrong type")]
struct EndpointForm {
    addresses: Option<Vec<Address>>,
    conditions: Option<EndpointConditions>,
    deprecated_topology: Option<BTreeMap<AnyText, AnyText>>,
    hints: Option<EndpointHints>,
    hostname: Option<AnyText>,
    node_name: Option<SharedText>,
    target_ref: Option<TargetForm>,
    zone: Option<SharedText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "ObjectReference")]
#[expect(dead_code, reason = "most fields are decoded only to reject a wrong type")]
struct TargetForm {
    api_version: Option<AnyText>,
    field_path: Option<AnyText>,
    kind: Option<AnyText>,
    name: Option<Pod>,
    namespace: Option<AnyText>,
    resource_version: Option<AnyText>,
    uid: Option<AnyText>,
}

/// A text whose content is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct AnyText;

/// An IP address, or the text if it is not one.
struct Address(Result<IpAddr, Box<str>>);

/// The name of a pod. It is not shared like [`SharedText`], because few endpoints have the same pod.
struct Pod(Arc<str>);

/// A text of which equal copies share their memory, such as the name of a node.
struct SharedText(Arc<str>);

/// Passes a decoded text to a function, without a `String` in between.
struct TextVisitor<T>(fn(&str) -> T);

impl<T> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok((self.0)(text))
    }
}

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor(|_| Self))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor(|text| Self(text.parse().map_err(|_| text.into()))))
    }
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor(|text| Self(text.into())))
    }
}

impl<'de> Deserialize<'de> for SharedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor(|text| Self(shared::text(text))))
    }
}

/// The topology of an endpoint, shared through the cache; `None` if its zone, node and hints are unknown.
fn shared_topology(
    zone: Option<SharedText>,
    node: Option<SharedText>,
    hints: EndpointHints,
) -> Option<Arc<EndpointTopology>> {
    let non_empty =
        |name: Option<SharedText>| name.map(|SharedText(name)| name).filter(|name| !name.is_empty());
    let topology = EndpointTopology {
        zone: non_empty(zone),
        node: non_empty(node),
        for_zones: hints.for_zones.into_iter().flatten().map(|zone| shared::text(&zone.name)).collect(),
        for_nodes: hints.for_nodes.into_iter().flatten().map(|node| shared::text(&node.name)).collect(),
    };
    if topology == EndpointTopology::default() {
        return None;
    }
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&topology);
    let slot = usize::try_from(hash % TOPOLOGY_CACHE_SLOTS as u64).unwrap_or_default();
    TOPOLOGY_CACHE.with_borrow_mut(|cache| match &mut cache[slot] {
        Some(cached) if **cached == topology => Some(Arc::clone(cached)),
        entry => Some(Arc::clone(entry.insert(Arc::new(topology)))),
    })
}

/// Conditions by the rules of the EndpointSlice API (`EndpointConditions`): an unset `ready` or `serving` counts as
/// true.
fn endpoint_condition(conditions: &EndpointConditions) -> EndpointCondition {
    let EndpointConditions { ready, serving, terminating } = *conditions;
    if ready.unwrap_or(true) {
        EndpointCondition::Ready
    } else if serving.unwrap_or(true) && terminating.unwrap_or(false) {
        EndpointCondition::LastResort
    } else {
        EndpointCondition::NotServing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_takes_at_most_56_bytes() {
        assert!(size_of::<SliceAddress>() <= 56, "at most 56 bytes, not {}", size_of::<SliceAddress>());
    }

    #[test]
    fn endpoints_of_a_node_share_their_topology() {
        let endpoint = |address: &str| {
            let hints = serde_json::json!({ "forZones": [{ "name": "a" }], "forNodes": [{ "name": "n1" }] });
            serde_json::json!({ "addresses": [address], "zone": "a", "nodeName": "n1", "hints": hints })
        };
        let without_topology = serde_json::json!({ "addresses": ["10.0.0.3"], "zone": "", "hints": {} });
        let slice: EndpointSlice = serde_json::from_value(serde_json::json!({
            "metadata": { "namespace": "shop", "name": "web-1" }, "addressType": "IPv4",
            "endpoints": [endpoint("10.0.0.1"), endpoint("10.0.0.2"), without_topology],
        }))
        .expect("an EndpointSlice");
        let [first, second, third] = &*slice.addresses else { panic!("three addresses expected: {slice:?}") };
        let first = first.topology.as_ref().expect("the first endpoint has a topology");
        let second = second.topology.as_ref().expect("the second endpoint has a topology");
        assert!(Arc::ptr_eq(first, second), "equal topologies are shared");
        let names = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<Arc<str>>>();
        let (zone, node) = (Some("a".into()), Some("n1".into()));
        assert_eq!(
            **first,
            EndpointTopology { zone, node, for_zones: names(&["a"]), for_nodes: names(&["n1"]) }
        );
        assert_eq!(third.topology, None);
    }

    #[test]
    fn decodes_conditions_and_pods_and_keeps_the_text_of_invalid_addresses() {
        let slice = |name: &str| -> EndpointSlice {
            let labels = serde_json::json!({ SERVICE_LABEL: "web", "app": "web" });
            serde_json::from_value(serde_json::json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": { "namespace": "shop", "name": name, "labels": labels },
                "addressType": "IPv4",
                "endpoints": [
                    { "addresses": ["10.0.0.1", "nonsense"], "targetRef": { "name": "web-abc" } },
                    { "addresses": ["10.0.0.2"], "conditions": { "ready": false, "terminating": true } },
                    { "addresses": ["10.0.0.3"], "conditions": { "ready": false } },
                ],
                "ports": [{ "port": 8080 }],
            }))
            .expect("an EndpointSlice")
        };
        let first = slice("web-1");
        assert_eq!(first.key, ObjectKey::new("shop", "web-1"));
        assert_eq!(first.service(), Some(ObjectKey::new("shop", "web")));
        assert!(Arc::ptr_eq(&first.ports, &slice("web-2").ports));
        let decoded = first.addresses.iter().map(|entry| {
            let address = entry.address.as_ref().map_or_else(ToString::to_string, ToString::to_string);
            (entry.endpoint, address, entry.condition, entry.pod.as_deref())
        });
        assert_eq!(
            decoded.collect::<Vec<_>>(),
            [
                (0, "10.0.0.1".to_owned(), EndpointCondition::Ready, Some("web-abc")),
                (0, "nonsense".to_owned(), EndpointCondition::Ready, Some("web-abc")),
                (1, "10.0.0.2".to_owned(), EndpointCondition::LastResort, None),
                (2, "10.0.0.3".to_owned(), EndpointCondition::NotServing, None),
            ]
        );
    }
}
