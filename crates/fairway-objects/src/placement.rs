//! Where Gateways are: which addresses clients reach them at, and which of the process's ports stand for theirs. Facts that the
//! owner of the resources brings; nothing here decides them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Where a Gateway is, and what became of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The addresses at which clients reach it (`status.addresses`, `Programmed` of the Gateway).
    pub addresses: Addresses,
    /// Its ports, by the number that listeners have. A port that is missing is [`PortState::Pending`].
    pub ports: BTreeMap<u16, PortPlacement>,
}

/// The addresses of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// There is none yet, for this reason.
    Pending(Arc<str>),
    /// These.
    Assigned(Vec<Address>),
    /// What `spec.addresses` asks for cannot be had.
    NotUsable {
        /// Why.
        why: Arc<str>,
        /// Those that can be had.
        usable: Vec<Address>,
    },
    /// A budget is used up.
    NoResources(Arc<str>),
}

/// An address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// What it is.
    pub kind: AddressKind,
    /// As it is written.
    pub value: Arc<str>,
}

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressKind {
    /// `IPAddress`.
    Ip,
    /// `Hostname`.
    Hostname,
}

/// Where a port of a Gateway is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPlacement {
    /// What the data plane binds. Empty: nothing is bound, and the listener is not in the configuration.
    pub bind: Vec<SocketAddr>,
    /// What became of it.
    pub state: PortState,
}

/// What became of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortState {
    /// Not bound yet.
    Pending,
    /// Bound.
    Bound,
    /// It cannot be bound or allocated, for this reason.
    Failed(Arc<str>),
}
