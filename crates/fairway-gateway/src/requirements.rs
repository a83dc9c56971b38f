//! The ports and addresses that a Gateway needs. Allocates nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::PortProtocol;
use fairway_objects::gateway_api::Gateway;
use fairway_objects::placement::AddressKind;

use crate::condition::Fault;
use crate::listener::ListenerEntry;
use crate::parameters::Parameters;

/// A Gateway that needs ports and addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedGateway {
    /// Its `metadata.uid`, or empty.
    pub uid: Arc<str>,
    /// Its creation time in seconds since 1970.
    pub created: Option<i64>,
    /// The name of its class.
    pub class: Arc<str>,
    /// Ports of its accepted listeners, including those of ListenerSets.
    pub ports: BTreeMap<u16, PortTransport>,
    /// The ports at which a listener is served. The others wait for references of their listeners, such as a
    /// certificate, and are not bound until then.
    pub served: BTreeSet<(PortProtocol, u16)>,
    /// The addresses that it requests.
    pub addresses: Vec<WantedAddress>,
    /// Labels of the resources created for it.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Annotations of the resources created for it.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// Parameters of its class and itself for the Service: `serviceType`, `loadBalancerClass`,
    /// `externalTrafficPolicy`. `None` if they are unusable: existing Services stay as they are, and none are
    /// created.
    pub parameters: Option<Parameters>,
}

/// An address that a Gateway requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedAddress {
    /// The kind of its value.
    pub kind: AddressKind,
    /// `None` requests any address of the kind.
    pub value: Option<Arc<str>>,
}

/// Transport protocols of a port.
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
    /// Its ports, one for each transport protocol.
    pub(crate) fn each_port(&self) -> impl Iterator<Item = (PortProtocol, u16)> {
        let listener_of = |(number, transport): (&u16, &PortTransport)| {
            let number = *number;
            transport.protocols().iter().map(move |protocol| (*protocol, number))
        };
        self.ports.iter().flat_map(listener_of)
    }
}

impl PortTransport {
    /// The protocols of the port.
    #[must_use]
    pub fn protocols(self) -> &'static [PortProtocol] {
        match self {
            Self::Tcp => &[PortProtocol::Tcp],
            Self::Udp => &[PortProtocol::Udp],
            Self::Both => &[PortProtocol::Tcp, PortProtocol::Udp],
        }
    }
}

/// The addresses that a Gateway requests, or the first fault.
pub(crate) fn addresses(gateway: &Gateway) -> Result<Vec<WantedAddress>, Fault> {
    let address = |it: &fairway_objects::gateway_api::GatewayAddress| {
        // An address with another routability than requested would expose the Gateway (GEP-5093).
        if let Some(routability) = it.routability.as_deref().filter(|it| !it.is_empty()) {
            let problem = format!("addresses of routability {routability} cannot be had");
            return Err(Fault::new("UnsupportedAddress", problem));
        }
        let kind = AddressKind::parse(it.type_.as_deref()).ok_or_else(|| {
            let kind = it.type_.as_deref().unwrap_or_default();
            Fault::new("UnsupportedAddress", format!("addresses of type {kind} cannot be had"))
        })?;
        let value = it.value.as_deref().filter(|value| !value.is_empty()).map(Into::into);
        Ok(WantedAddress { kind, value })
    };
    gateway.spec.addresses.iter().map(address).collect()
}

/// The ports of these listeners.
pub(crate) fn ports<'e>(entries: impl Iterator<Item = &'e ListenerEntry>) -> BTreeMap<u16, PortTransport> {
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
