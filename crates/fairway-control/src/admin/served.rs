//! What every worker serves now: the page by which replicas are compared.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use fairway_gateway::fleet::agreement::ServedGateway;
use fairway_gateway::{ObjectStatus, WantedGateway};
use fairway_ingress::IngressStatus;
use fairway_model::PortProtocol;
use fairway_objects::kinds::ApiResource;
use fairway_objects::object::{ObjectKey, ObjectRef};
use fairway_objects::placement::PortPlacement;
use serde::{Deserialize, Serialize};

use crate::pipeline::{Freshness, View};

/// The response of `/served`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedConfig {
    /// The digest of the configuration; equal on replicas that serve the same.
    pub digest: String,
    /// Its version in this process.
    pub version: u64,
    /// Whether every worker has adopted it.
    pub adopted: bool,
    /// Whether it comes from the source or from an earlier process.
    pub freshness: Freshness,
    /// The requested Ingress, if it is served.
    pub ingress: Option<ServedIngress>,
    /// The requested Gateway API object, if it is this controller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ServedObject>,
    /// All accepted Gateways by `NAMESPACE/NAME`, if requested: other replicas compare them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateways: Option<BTreeMap<String, ServedGateway>>,
}

/// A Gateway API object as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedObject {
    /// Its kind.
    pub kind: String,
    /// `NAMESPACE/NAME`, or `NAME` where it has no namespace.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its `metadata.resourceVersion`.
    pub resource_version: String,
    /// Its `metadata.generation`.
    pub generation: Option<i64>,
}

/// An Ingress as it is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedIngress {
    /// `NAMESPACE/NAME`.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its `metadata.resourceVersion` as it was read.
    pub resource_version: String,
    /// Its `metadata.generation` as it was read.
    pub generation: Option<i64>,
}

impl ServedConfig {
    /// From `view`, when every worker has adopted version `adopted` or later; `bound` tells which addresses are bound.
    pub(super) fn from_view(
        view: &View,
        adopted: u64,
        bound: &dyn Fn((PortProtocol, SocketAddr)) -> bool,
        query: Option<&str>,
    ) -> Self {
        let outcome = &view.outcome;
        let requested = |parameter: &str| {
            let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
            let mut values = pairs.filter(|(name, _)| *name == parameter).map(|(_, value)| value);
            values.next().map(|name| name.replace("%2F", "/").replace("%2f", "/"))
        };
        let status = requested("ingress")
            .and_then(|name| ObjectKey::parse(&name))
            .and_then(|key| outcome.translation.status.get(&key));
        Self {
            digest: outcome.digest.to_string(),
            version: outcome.snapshot.version(),
            adopted: adopted >= outcome.snapshot.version(),
            freshness: view.freshness,
            ingress: status.map(|status| ServedIngress::new(status)),
            object: requested("object").and_then(|name| ServedObject::find(&name, view)),
            gateways: query
                .is_some_and(|query| query.split('&').any(|part| part == "gateways"))
                .then(|| accepted_gateways(view, bound)),
        }
    }
}

/// The accepted Gateways, with their bound addresses.
fn accepted_gateways(
    view: &View,
    bound: &dyn Fn((PortProtocol, SocketAddr)) -> bool,
) -> BTreeMap<String, ServedGateway> {
    let (wanted, read) = (&view.outcome.translation.gateway.wanted_gateways, &view.outcome.resources.gateway);
    let served = |(key, wanted): (&ObjectKey, &Arc<WantedGateway>)| {
        let placement = read.placements.get(key);
        let ports_of = |protocol, ports: Option<&BTreeMap<u16, PortPlacement>>| {
            let addresses = ports.into_iter().flatten().flat_map(|(_, port)| &port.bind).copied();
            addresses.filter(|address| bound((protocol, *address))).collect()
        };
        let gateway = ServedGateway {
            uid: wanted.uid.to_string(),
            generation: read
                .gateways
                .get(key)
                .and_then(|it| it.object.metadata.generation)
                .unwrap_or_default(),
            bound: ports_of(PortProtocol::Tcp, placement.map(|placement| &placement.ports)),
            datagrams: ports_of(PortProtocol::Udp, placement.map(|placement| &placement.datagram_ports)),
        };
        (key.to_string(), gateway)
    };
    wanted.iter().map(served).collect()
}

impl ServedObject {
    /// An object of this controller.
    pub(super) fn new(object: &ObjectRef, status: &ObjectStatus) -> Self {
        Self {
            kind: object.kind.name().to_owned(),
            name: object.key.to_string(),
            uid: status.uid.to_string(),
            resource_version: status.version.to_string(),
            generation: status.generation,
        }
    }

    /// Finds `KIND/NAMESPACE/NAME`, or `KIND/NAME` for a cluster-scoped kind.
    fn find(name: &str, view: &View) -> Option<Self> {
        let (kind, name) = name.split_once('/')?;
        let kind = ApiResource::find_gateway_kind(kind)?.kind;
        let key = ObjectKey::parse(name).unwrap_or_else(|| ObjectKey::new("", name));
        let object = ObjectRef::new(kind, key);
        let status = view.outcome.translation.gateway.statuses.get(&object)?;
        Some(Self::new(&object, status))
    }
}

impl ServedIngress {
    /// A served Ingress.
    pub(super) fn new(status: &IngressStatus) -> Self {
        Self {
            name: status.ingress.to_string(),
            uid: status.uid.to_string(),
            resource_version: status.version.to_string(),
            generation: status.generation,
        }
    }
}
