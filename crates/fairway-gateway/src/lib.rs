//! The interface of the translation of the Gateway API, as far as the control side uses it. Translates nothing yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_gateway_types::{
    GatewayClassStatus, GatewayStatus, ListenerSetStatus, PolicyAncestorStatus, RouteParentStatus,
};
use fairway_objects::object::{ObjectKey, ObjectRef};
use fairway_objects::placement::AddressKind;
use imbl::OrdMap;

/// What the objects of the Gateway API mean beside the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayTranslation {
    /// What is to be written to `status`, for each object that is ours or has an entry of ours.
    pub statuses: OrdMap<ObjectRef, Arc<ObjectStatus>>,
    /// The Gateways that need a place: accepted ones of accepted classes.
    pub wanted: OrdMap<ObjectKey, Arc<WantedGateway>>,
}

/// What is to be written to the `status` of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectStatus {
    /// Its `metadata.uid`; empty when there is none.
    pub uid: Arc<str>,
    /// The `metadata.resourceVersion` that it was made for.
    pub version: Arc<str>,
    /// The `observedGeneration` of every condition.
    pub generation: Option<i64>,
    /// What this controller says.
    pub own: OwnStatus,
}

/// What this controller says; nothing of others.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnStatus {
    /// Of a GatewayClass.
    Class(GatewayClassStatus),
    /// Of a Gateway.
    Gateway(GatewayStatus),
    /// Of a ListenerSet.
    ListenerSet(ListenerSetStatus),
    /// Of a route.
    Route(Vec<RouteParentStatus>),
    /// Of a policy.
    Policy(Vec<PolicyAncestorStatus>),
}

impl ObjectStatus {
    /// The `status` to write over `existing`, or `None` where it already says so.
    #[must_use]
    pub fn merged(&self, _existing: &serde_json::Value, _now: i64) -> Option<serde_json::Value> {
        None
    }
}

/// A Gateway that needs a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedGateway {
    /// Its `metadata.uid`.
    pub uid: Arc<str>,
    /// When it was created, in seconds since 1970.
    pub created: Option<i64>,
    /// The name of its class.
    pub class: Arc<str>,
    /// The ports of accepted listeners, also of ListenerSets.
    pub ports: BTreeMap<u16, PortTransport>,
    /// `spec.addresses`, of supported kinds; a value of `None` asks for any address of the kind.
    pub addresses: Vec<WantedAddress>,
    /// `spec.infrastructure.labels`.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// `spec.infrastructure.annotations`.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// The known entries of the ConfigMap in `parametersRef`.
    pub parameters: BTreeMap<Arc<str>, Arc<str>>,
}

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortTransport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// Both.
    Both,
}

/// An address that a Gateway asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedAddress {
    /// Its kind.
    pub kind: AddressKind,
    /// The address; `None` asks for any.
    pub value: Option<Arc<str>>,
}
