//! Where Gateways are: their addresses and ports, as whoever allocates them says. Owns the words for it; allocates nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::PortProtocol;

/// Where a Gateway is, and what became of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The addresses at which clients reach it.
    pub addresses: Addresses,
    /// Its ports of TCP, by the number that listeners have. One that is missing is pending.
    pub ports: BTreeMap<u16, PortPlacement>,
    /// The same of UDP, whose ports are others.
    pub datagram_ports: BTreeMap<u16, PortPlacement>,
}

/// The addresses of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// There is none yet, for this reason.
    Pending(Arc<str>),
    /// These.
    Assigned(Vec<Address>),
    /// What the Gateway asks for cannot be had.
    NotUsable {
        /// Why.
        why: Arc<str>,
        /// Those that can be used.
        usable: Vec<Address>,
    },
    /// What addresses and ports are made of is used up, as this says.
    NoResources(Arc<str>),
}

/// An address of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// What its value is.
    pub kind: AddressKind,
    /// The address or name.
    pub value: Arc<str>,
}

/// What the value of an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressKind {
    /// An IPv4 or IPv6 address.
    Ip,
    /// A DNS name.
    Hostname,
}

/// Where a port of a Gateway is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPlacement {
    /// What is bound for it; where there is nothing, its listeners are not in the configuration.
    pub bind: Vec<SocketAddr>,
    /// What became of that.
    pub state: PortState,
}

/// What became of a port.
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
    /// Where a port is; `None` where that is not known yet.
    #[must_use]
    pub fn port(&self, protocol: PortProtocol, number: u16) -> Option<&PortPlacement> {
        match protocol {
            PortProtocol::Tcp => self.ports.get(&number),
            PortProtocol::Udp => self.datagram_ports.get(&number),
        }
    }

    /// Says where a port is.
    pub fn place(&mut self, protocol: PortProtocol, number: u16, port: PortPlacement) {
        match protocol {
            PortProtocol::Tcp => self.ports.insert(number, port),
            PortProtocol::Udp => self.datagram_ports.insert(number, port),
        };
    }
}

impl Default for Addresses {
    fn default() -> Self {
        Self::Pending("no address is assigned yet".into())
    }
}

impl Addresses {
    /// Those that can be used.
    #[must_use]
    pub fn usable(&self) -> &[Address] {
        match self {
            Self::Assigned(addresses) | Self::NotUsable { usable: addresses, .. } => addresses,
            Self::Pending(_) | Self::NoResources(_) => &[],
        }
    }
}

impl AddressKind {
    /// As the Gateway API spells it (`AddressType`).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => "IPAddress",
            Self::Hostname => "Hostname",
        }
    }

    /// Reads it; nothing is an IP address (Gateway API `GatewaySpecAddress`).
    #[must_use]
    pub fn find(name: Option<&str>) -> Option<Self> {
        match name {
            None | Some("IPAddress") => Some(Self::Ip),
            Some("Hostname") => Some(Self::Hostname),
            Some(_) => None,
        }
    }
}
