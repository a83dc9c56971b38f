//! The placement of a Gateway: assigned by the fleet, or at addresses shared by all. Decides who owns a shared port.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fairway_model::PortProtocol;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::GatewayPlacement;
use fairway_objects::own_addresses::{OwnAddresses, overlaps};
use fairway_objects::placement::{
    Address, AddressKind, GatewayAddresses, Placement, PortPlacement, PortState,
};
use fairway_objects::users::ReverseIndex;

use crate::requirements::{WantedAddress, WantedGateway};

/// Claimants of a port, in order of precedence.
pub(crate) type PortClaimants = ReverseIndex<(PortProtocol, u16), PortClaimant>;

/// A claimant of a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PortClaimant {
    /// A ConfigMap of TCP or UDP services: it is named by a flag, so it precedes all Gateways. Contains the addresses
    /// that it binds.
    ServiceMap(ObjectKey, Vec<SocketAddr>),
    /// A Gateway and its creation time: the oldest comes first.
    Gateway(i64, ObjectKey),
}

/// A port of a ConfigMap of TCP or UDP services.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePort {
    /// Of TCP or UDP.
    pub protocol: PortProtocol,
    /// Its number.
    pub number: u16,
    /// The addresses bound for it.
    pub bind: Vec<SocketAddr>,
    /// The ConfigMap.
    pub map: ObjectKey,
}

/// The placement of a Gateway; `None` while it is unknown.
pub(crate) fn placement(
    key: &ObjectKey,
    wanted: &WantedGateway,
    inputs: Inputs<'_>,
    users: &PortClaimants,
) -> Option<Arc<Placement>> {
    match &inputs.options.gateways.placement {
        GatewayPlacement::Given => inputs.resources.gateway.placements.get(key).cloned(),
        GatewayPlacement::Nowhere => {
            let why = "nobody gives Gateways addresses: --gateway-pods is not set".into();
            Some(Arc::new(Placement { addresses: GatewayAddresses::Pending(why), ..Placement::default() }))
        }
        GatewayPlacement::At(all) => {
            let own_addresses = &inputs.options.trust.external.own_addresses;
            let mut placement = Placement { addresses: fixed_addresses(wanted, all), ..Placement::default() };
            for (protocol, number) in wanted.each_port() {
                let port = port_placement(key, protocol, number, all, users, own_addresses);
                placement.set_port(protocol, number, port);
            }
            Some(Arc::new(placement))
        }
    }
}

/// The placement of a Gateway that shares the address of Ingresses.
pub(crate) fn shared_placement(gateway: &WantedGateway, inputs: Inputs<'_>) -> Arc<Placement> {
    let at = &inputs.options.listeners;
    let addresses = match (&inputs.resources.gateway.published, &inputs.options.gateways.placement) {
        (Some(published), _) if published.is_empty() => {
            GatewayAddresses::Pending("Ingresses have no address yet".into())
        }
        (Some(published), _) => shared_addresses(gateway, published),
        (None, GatewayPlacement::At(all)) => fixed_addresses(gateway, all),
        (None, _) => GatewayAddresses::Pending(
            "no flag says which addresses Ingresses have: --publish-service is not set".into(),
        ),
    };
    let mut placement = Placement { addresses, ..Placement::default() };
    for it in [&at.http, &at.https] {
        let bound = PortPlacement { bind: it.bind.clone(), state: PortState::Bound };
        placement.set_port(PortProtocol::Tcp, it.public_port, bound);
    }
    Arc::new(placement)
}

/// The addresses of Ingresses, or those of them that the Gateway requests.
fn shared_addresses(gateway: &WantedGateway, published: &[Address]) -> GatewayAddresses {
    let fits = |wanted_address: &WantedAddress, address: &Address| {
        let is_value = |value: &Arc<str>| value.eq_ignore_ascii_case(&address.value);
        wanted_address.kind == address.kind && wanted_address.value.as_ref().is_none_or(is_value)
    };
    let wanted_addresses = &gateway.addresses;
    let is_usable = |address: &&Address| {
        wanted_addresses.is_empty() || wanted_addresses.iter().any(|it| fits(it, address))
    };
    let usable: Vec<Address> = published.iter().filter(is_usable).cloned().collect();
    match wanted_addresses.iter().find(|it| !usable.iter().any(|address| fits(it, address))) {
        None => GatewayAddresses::Assigned(usable),
        Some(missing) => {
            let missing_text = missing.value.as_deref().unwrap_or(missing.kind.name());
            GatewayAddresses::NotUsable {
                why: format!("{missing_text} is no address of Ingresses").into(),
                usable,
            }
        }
    }
}

impl PortClaimant {
    /// The claim of a Gateway.
    pub(crate) fn from_gateway(key: &ObjectKey, gateway: &WantedGateway) -> Self {
        Self::Gateway(gateway.created.unwrap_or(i64::MAX), key.clone())
    }

    /// The Gateway.
    pub(crate) fn gateway(&self) -> Option<&ObjectKey> {
        match self {
            Self::Gateway(_, key) => Some(key),
            Self::ServiceMap(..) => None,
        }
    }
}

impl ServicePort {
    /// The port and its claim.
    pub(crate) fn claim(&self) -> ((PortProtocol, u16), PortClaimant) {
        ((self.protocol, self.number), PortClaimant::ServiceMap(self.map.clone(), self.bind.clone()))
    }
}

fn fixed_addresses(gateway: &WantedGateway, all: &[IpAddr]) -> GatewayAddresses {
    let address = |ip: &IpAddr| Address { kind: AddressKind::Ip, value: ip.to_string().into() };
    let mut usable = Vec::new();
    for asked in &gateway.addresses {
        match (&asked.value, asked.kind) {
            (None, AddressKind::Ip) => usable.extend(all.iter().map(address)),
            (Some(value), AddressKind::Ip) => {
                let found = all.iter().find(|ip| value.parse() == Ok(**ip));
                usable.extend(found.map(address));
            }
            (_, AddressKind::Hostname) => {}
        }
    }
    let had = |is_assigned: &&WantedAddress| {
        is_assigned.kind == AddressKind::Ip
            && is_assigned.value.as_ref().is_none_or(|value| usable.iter().any(|it| it.value == *value))
    };
    if let Some(missing) = gateway.addresses.iter().find(|asked| !had(asked)) {
        let missing_text = missing.value.as_deref().unwrap_or("a host name");
        let why = format!("{missing_text} cannot be had; --gateway-address says which addresses there are");
        return GatewayAddresses::NotUsable { why: why.into(), usable };
    }
    match gateway.addresses.is_empty() {
        true => GatewayAddresses::Assigned(all.iter().map(address).collect()),
        false => GatewayAddresses::Assigned(usable),
    }
}

fn port_placement(
    key: &ObjectKey,
    protocol: PortProtocol,
    port: u16,
    all: &[IpAddr],
    users: &PortClaimants,
    own: &OwnAddresses,
) -> PortPlacement {
    let failed = |why: String| PortPlacement { bind: Vec::new(), state: PortState::Failed(why.into()) };
    let bind: Vec<SocketAddr> = all.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
    if let Some(taken) = own.conflicting_listener(protocol, &bind) {
        return failed(format!("{} is that of {}", taken.address, taken.flag));
    }
    // All Gateways have the same addresses, so the first claimant gets the port everywhere.
    let has_port = |user: &&PortClaimant| match user {
        PortClaimant::ServiceMap(_, taken) => taken.iter().any(|own| bind.iter().any(|at| overlaps(own, at))),
        PortClaimant::Gateway(..) => true,
    };
    let suffix = if protocol == PortProtocol::Udp { " of UDP" } else { "" };
    match users.users_of(&(protocol, port)).find(has_port) {
        Some(PortClaimant::ServiceMap(map, _)) => failed(format!("ConfigMap {map} has port {port}{suffix}")),
        Some(PortClaimant::Gateway(_, first)) if first != key => {
            failed(format!("Gateway {first} has port {port}{suffix}"))
        }
        _ => PortPlacement { bind, state: PortState::Bound },
    }
}

/// The addresses bound for a port; empty if none.
pub(crate) fn bound_addresses(placement: &Placement, protocol: PortProtocol, port: u16) -> &[SocketAddr] {
    placement.port(protocol, port).map(|port| port.bind.as_slice()).unwrap_or_default()
}
