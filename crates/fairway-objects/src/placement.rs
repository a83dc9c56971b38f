//! Where Gateways are reachable: their addresses and ports, as set by the allocator. Allocates nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::PortProtocol;

/// Where a Gateway is reachable, and the state of its ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The addresses for clients.
    pub addresses: GatewayAddresses,
    /// Its TCP ports, by the port number of the listener. A missing one is pending.
    pub ports: BTreeMap<u16, PortPlacement>,
    /// The same for UDP.
    pub datagram_ports: BTreeMap<u16, PortPlacement>,
}

/// The addresses of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayAddresses {
    /// There is none yet, for this reason.
    Pending(Arc<str>),
    /// These.
    Assigned(Vec<Address>),
    /// The requested addresses are not available.
    NotUsable {
        /// Why.
        why: Arc<str>,
        /// The addresses that are usable.
        usable: Vec<Address>,
    },
    /// There are no more addresses or ports, for this reason.
    NoResources(Arc<str>),
}

/// An address of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The type of its value.
    pub kind: AddressKind,
    /// The address or name.
    pub value: Arc<str>,
}

/// The type of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressKind {
    /// An IPv4 or IPv6 address.
    Ip,
    /// A DNS name.
    Hostname,
}

/// Where a port of a Gateway is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPlacement {
    /// The bound addresses; while empty, its listeners are not in the configuration.
    pub bind: Vec<SocketAddr>,
    /// Its state.
    pub state: PortState,
}

/// The state of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortState {
    /// It is not bound yet.
    Pending,
    /// It is bound.
    Bound,
    /// It cannot be allocated or bound, for this reason.
    Failed(Arc<str>),
}

impl Placement {
    /// The placement of a port; `None` if it is unknown.
    #[must_use]
    pub fn port(&self, protocol: PortProtocol, number: u16) -> Option<&PortPlacement> {
        match protocol {
            PortProtocol::Tcp => self.ports.get(&number),
            PortProtocol::Udp => self.datagram_ports.get(&number),
        }
    }

    /// Sets the placement of a port.
    pub fn set_port(&mut self, protocol: PortProtocol, number: u16, port: PortPlacement) {
        match protocol {
            PortProtocol::Tcp => self.ports.insert(number, port),
            PortProtocol::Udp => self.datagram_ports.insert(number, port),
        };
    }
}

impl Default for GatewayAddresses {
    fn default() -> Self {
        Self::Pending("no address is assigned yet".into())
    }
}

impl GatewayAddresses {
    /// The usable addresses.
    #[must_use]
    pub fn usable(&self) -> &[Address] {
        match self {
            Self::Assigned(addresses) | Self::NotUsable { usable: addresses, .. } => addresses,
            Self::Pending(_) | Self::NoResources(_) => &[],
        }
    }
}

impl AddressKind {
    /// The name in the Gateway API (`AddressType`).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => "IPAddress",
            Self::Hostname => "Hostname",
        }
    }

    /// Parses the name; the default is an IP address (Gateway API `GatewaySpecAddress`).
    #[must_use]
    pub fn parse(name: Option<&str>) -> Option<Self> {
        match name {
            None | Some("IPAddress") => Some(Self::Ip),
            Some("Hostname") => Some(Self::Hostname),
            Some(_) => None,
        }
    }
}
