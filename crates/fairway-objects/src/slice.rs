//! EndpointSlices, decoded straight into what is kept of them: what endpoints are made of. There are more endpoints than
//! anything else, and as the API has them they take eight times as much. Judges no address.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::IpAddr;
use std::sync::Arc;

use fairway_model::Place;
use k8s_openapi::api::discovery::v1::{self, EndpointConditions, EndpointHints, EndpointPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{NamespaceResourceScope, Resource};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::key::ObjectKey;
use crate::multicluster::IMPORT_LABEL;
use crate::shared::{self, Recent};

/// The label of an EndpointSlice with the name of its Service (EndpointSlice API reference).
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Places that a thread remembers: as many as there are nodes, in most clusters.
const PLACES: usize = 256;

thread_local! {
    /// The ports of the slices that were read last.
    static PORTS: RefCell<Recent<[EndpointPort]>> = const { RefCell::new(Recent::new()) };
    /// Where the endpoints are that were read last, each where its hash says: those of a node share one.
    static KNOWN_PLACES: RefCell<[Option<Arc<Place>>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

/// What is kept of an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "SliceForm<Option<ObjectMeta>>")]
pub struct EndpointSlice {
    /// Its name.
    pub key: ObjectKey,
    /// The Service that it belongs to, by its name in the same namespace.
    pub service: Option<Arc<str>>,
    /// The ServiceImport that it belongs to, by its name in the same namespace.
    pub import: Option<Arc<str>>,
    /// Its ports, as they are written. Most slices have the same as their neighbours, and share them.
    pub ports: Arc<[EndpointPort]>,
    /// The addresses of all its endpoints, in its order.
    pub addresses: Box<[SliceAddress]>,
}

/// An address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceAddress {
    /// The number of its endpoint in the slice.
    pub endpoint: u32,
    /// Whether its endpoint may get requests.
    pub condition: Condition,
    /// What is written, where that is no address.
    pub address: Result<IpAddr, Box<str>>,
    /// The pod, where it is known.
    pub pod: Option<Arc<str>>,
    /// Where it runs, where that is known.
    pub place: Option<Arc<Place>>,
}

/// Whether an endpoint may get requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It may.
    Ready,
    /// Terminating, but still serving: used when none is ready.
    LastResort,
    /// It may not.
    Out,
}

impl EndpointSlice {
    /// The Service that it belongs to.
    #[must_use]
    pub fn service(&self) -> Option<ObjectKey> {
        let name = self.service.clone()?;
        Some(ObjectKey { namespace: self.key.namespace.clone(), name })
    }

    /// The ServiceImport that it belongs to.
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

/// The fields of an EndpointSlice, with as much of its metadata as the reader wants.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "EndpointSlice")]
pub struct SliceForm<M> {
    /// What is read of its metadata.
    pub metadata: M,
    #[expect(dead_code, reason = "read for its type")]
    address_type: Option<AnyText>,
    endpoints: Option<Addresses>,
    ports: Option<Vec<EndpointPort>>,
}

impl<M> SliceForm<M> {
    /// What is kept of the slice, which has this name and these labels.
    pub fn kept(self, key: ObjectKey, labels: Option<&BTreeMap<String, String>>) -> EndpointSlice {
        let named = |label| labels.and_then(|labels| labels.get(label)).map(|name| shared::text(name));
        let (service, import) = (named(SERVICE_LABEL), named(IMPORT_LABEL));
        let ports = PORTS.with_borrow_mut(|recent| recent.shared(self.ports.unwrap_or_default().into()));
        let Addresses(addresses) = self.endpoints.unwrap_or_default();
        EndpointSlice { key, service, import, ports, addresses: addresses.into() }
    }
}

impl From<SliceForm<Option<ObjectMeta>>> for EndpointSlice {
    fn from(mut form: SliceForm<Option<ObjectMeta>>) -> Self {
        let metadata = form.metadata.take().unwrap_or_default();
        form.kept(ObjectKey::of(&metadata), metadata.labels.as_ref())
    }
}

/// The addresses of a list of endpoints, which are read one by one.
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
        for number in 0.. {
            let Some(endpoint) = endpoints.next_element::<EndpointForm>()? else { break };
            let condition = condition(&endpoint.conditions.unwrap_or_default());
            let pod = endpoint.target_ref.and_then(|target| target.name).map(|Pod(name)| name);
            let place = place(endpoint.zone, endpoint.node_name, endpoint.hints.unwrap_or_default());
            let address = |Address(address)| SliceAddress {
                endpoint: number,
                condition,
                address,
                pod: pod.clone(),
                place: place.clone(),
            };
            self.0.extend(endpoint.addresses.into_iter().flatten().map(address));
        }
        Ok(self)
    }
}

/// The fields of an endpoint. What is not kept is read for its type: a manifest with a wrong one is refused.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "Endpoint")]
#[expect(dead_code, reason = "most are read for their types")]
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
#[expect(dead_code, reason = "most are read for their types")]
struct TargetForm {
    api_version: Option<AnyText>,
    field_path: Option<AnyText>,
    kind: Option<AnyText>,
    name: Option<Pod>,
    namespace: Option<AnyText>,
    resource_version: Option<AnyText>,
    uid: Option<AnyText>,
}

/// A text of which nothing is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct AnyText;

struct Address(Result<IpAddr, Box<str>>);

struct Pod(Arc<str>);

struct SharedText(Arc<str>);

/// Reads a text without a copy of its own.
struct Text<T>(fn(&str) -> T);

impl<T> Visitor<'_> for Text<T> {
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
        deserializer.deserialize_str(Text(|_| Self))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text(|text| Self(text.parse().map_err(|_| text.into()))))
    }
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text(|text| Self(text.into())))
    }
}

impl<'de> Deserialize<'de> for SharedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text(|text| Self(shared::text(text))))
    }
}

/// Where an endpoint runs and which clients it is meant for, where anything of it is known.
fn place(zone: Option<SharedText>, node: Option<SharedText>, hints: EndpointHints) -> Option<Arc<Place>> {
    let text = |text: Option<SharedText>| text.map(|SharedText(text)| text).filter(|text| !text.is_empty());
    let place = Place {
        zone: text(zone),
        node: text(node),
        for_zones: hints.for_zones.into_iter().flatten().map(|zone| shared::text(&zone.name)).collect(),
        for_nodes: hints.for_nodes.into_iter().flatten().map(|node| shared::text(&node.name)).collect(),
    };
    if place == Place::default() {
        return None;
    }
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&place);
    let at = usize::try_from(hash % PLACES as u64).unwrap_or_default();
    KNOWN_PLACES.with_borrow_mut(|known| match &mut known[at] {
        Some(known) if **known == place => Some(Arc::clone(known)),
        other => Some(Arc::clone(other.insert(Arc::new(place)))),
    })
}

/// EndpointSlice API, `EndpointConditions`: nil `ready` and nil `serving` count as true.
fn condition(conditions: &EndpointConditions) -> Condition {
    let EndpointConditions { ready, serving, terminating } = *conditions;
    if ready.unwrap_or(true) {
        Condition::Ready
    } else if serving.unwrap_or(true) && terminating.unwrap_or(false) {
        Condition::LastResort
    } else {
        Condition::Out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_in_few_bytes() {
        assert!(size_of::<SliceAddress>() <= 56, "{}", size_of::<SliceAddress>());
    }

    #[test]
    fn endpoints_of_a_node_share_what_is_known_of_its_place() {
        let endpoint = |address: &str| {
            let hints = serde_json::json!({ "forZones": [{ "name": "a" }], "forNodes": [{ "name": "n1" }] });
            serde_json::json!({ "addresses": [address], "zone": "a", "nodeName": "n1", "hints": hints })
        };
        let nowhere = serde_json::json!({ "addresses": ["10.0.0.3"], "zone": "", "hints": {} });
        let slice: EndpointSlice = serde_json::from_value(serde_json::json!({
            "metadata": { "namespace": "shop", "name": "web-1" }, "addressType": "IPv4",
            "endpoints": [endpoint("10.0.0.1"), endpoint("10.0.0.2"), nowhere],
        }))
        .expect("an EndpointSlice");
        let [one, two, three] = &*slice.addresses else { panic!("{slice:?}") };
        let (one, two) = (one.place.as_ref().expect("known"), two.place.as_ref().expect("known"));
        assert!(Arc::ptr_eq(one, two));
        let names = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<Arc<str>>>();
        let (zone, node) = (Some("a".into()), Some("n1".into()));
        assert_eq!(**one, Place { zone, node, for_zones: names(&["a"]), for_nodes: names(&["n1"]) });
        assert_eq!(three.place, None);
    }

    #[test]
    fn addresses_conditions_and_pods_are_kept_and_what_is_no_address_as_it_is_written() {
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
        let kept = first.addresses.iter().map(|it| {
            let address = it.address.as_ref().map_or_else(ToString::to_string, ToString::to_string);
            (it.endpoint, address, it.condition, it.pod.as_deref())
        });
        assert_eq!(
            kept.collect::<Vec<_>>(),
            [
                (0, "10.0.0.1".to_owned(), Condition::Ready, Some("web-abc")),
                (0, "nonsense".to_owned(), Condition::Ready, Some("web-abc")),
                (1, "10.0.0.2".to_owned(), Condition::LastResort, None),
                (2, "10.0.0.3".to_owned(), Condition::Out, None),
            ]
        );
    }
}
