//! What a Gateway needs from whoever allocates addresses and ports. Allocates nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_gateway_types::Gateway;
use fairway_objects::placement::AddressKind;

use crate::condition::Fault;
use crate::listener::{Entry, Protocol};
use crate::parameters::Parameters;

/// A Gateway that needs a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedGateway {
    /// Its `metadata.uid`; empty when it has none.
    pub uid: Arc<str>,
    /// Its creation time in seconds since 1970.
    pub created: Option<i64>,
    /// The name of its class.
    pub class: Arc<str>,
    /// The ports of its accepted listeners, those of ListenerSets included.
    pub ports: BTreeMap<u16, PortTransport>,
    /// The addresses that it asks for.
    pub addresses: Vec<WantedAddress>,
    /// The labels of what is made for it.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// The annotations of what is made for it.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// What its class and itself say about its Service: `serviceType`, `loadBalancerClass`, `externalTrafficPolicy`.
    pub parameters: Parameters,
}

/// An address that a Gateway asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedAddress {
    /// What its value is.
    pub kind: AddressKind,
    /// `None` is any one of the kind.
    pub value: Option<Arc<str>>,
}

/// What arrives at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortTransport {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
    /// Both.
    Both,
}

/// The addresses that a Gateway asks for, or what is wrong with one.
pub(crate) fn addresses(gateway: &Gateway) -> Result<Vec<WantedAddress>, Fault> {
    let address = |it: &fairway_gateway_types::TypedValue| {
        let kind = AddressKind::find(it.type_.as_deref()).ok_or_else(|| {
            let kind = it.type_.as_deref().unwrap_or_default();
            Fault::new("UnsupportedAddress", format!("addresses of type {kind} cannot be had"))
        })?;
        let value = it.value.as_deref().filter(|value| !value.is_empty()).map(Into::into);
        Ok(WantedAddress { kind, value })
    };
    gateway.spec.addresses.iter().map(address).collect()
}

/// The ports of these listeners.
pub(crate) fn ports<'e>(entries: impl Iterator<Item = &'e Entry>) -> BTreeMap<u16, PortTransport> {
    let mut ports = BTreeMap::new();
    for entry in entries {
        let transport = match entry.protocol {
            Protocol::Udp => PortTransport::Udp,
            _ => PortTransport::Tcp,
        };
        let both = |before: &mut PortTransport| {
            if *before != transport {
                *before = PortTransport::Both;
            }
        };
        ports.entry(entry.port).and_modify(both).or_insert(transport);
    }
    ports
}
