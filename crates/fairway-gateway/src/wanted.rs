//! What a Gateway needs from whoever allocates addresses and ports. Allocates nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::PortProtocol;
use fairway_objects::gateway_api::Gateway;
use fairway_objects::placement::AddressKind;

use crate::condition::Fault;
use crate::listener::Entry;
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
    /// Those of them at which a listener is served. The others wait for what their listeners refer to, e.g. for a
    /// certificate: nothing listens there until then.
    pub served: BTreeSet<(PortProtocol, u16)>,
    /// The addresses that it asks for.
    pub addresses: Vec<WantedAddress>,
    /// The labels of what is made for it.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// The annotations of what is made for it.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// What its class and itself say about its Service: `serviceType`, `loadBalancerClass`, `externalTrafficPolicy`. `None`
    /// where what says so cannot be used: the Services that it has stay as they are, and it gets no new ones.
    pub parameters: Option<Parameters>,
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

impl WantedGateway {
    /// Its ports: one of each transport where both arrive at a number.
    pub(crate) fn each_port(&self) -> impl Iterator<Item = (PortProtocol, u16)> {
        let of = |(number, transport): (&u16, &PortTransport)| {
            let number = *number;
            transport.protocols().iter().map(move |protocol| (*protocol, number))
        };
        self.ports.iter().flat_map(of)
    }
}

impl PortTransport {
    /// The protocols of the ports that this takes.
    #[must_use]
    pub fn protocols(self) -> &'static [PortProtocol] {
        match self {
            Self::Tcp => &[PortProtocol::Tcp],
            Self::Udp => &[PortProtocol::Udp],
            Self::Both => &[PortProtocol::Tcp, PortProtocol::Udp],
        }
    }
}

/// The addresses that a Gateway asks for, or what is wrong with one.
pub(crate) fn addresses(gateway: &Gateway) -> Result<Vec<WantedAddress>, Fault> {
    let address = |it: &fairway_objects::gateway_api::GatewayAddress| {
        // An address of another reach than the one that was asked for would expose the Gateway (GEP-5093).
        if let Some(routability) = it.routability.as_deref().filter(|it| !it.is_empty()) {
            let problem = format!("addresses of routability {routability} cannot be had");
            return Err(Fault::new("UnsupportedAddress", problem));
        }
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
        let transport = match entry.protocol.port_protocol() {
            PortProtocol::Udp => PortTransport::Udp,
            PortProtocol::Tcp => PortTransport::Tcp,
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
