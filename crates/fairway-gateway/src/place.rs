//! Where a Gateway is: where it was placed, or at the addresses that hold for all. Owns who has a port there; binds
//! nothing.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fairway_model::PortProtocol;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::{IngressListeners, Places};
use fairway_objects::placement::{Address, AddressKind, Addresses, Placement, PortPlacement, PortState};
use fairway_objects::users::Users;

use crate::wanted::WantedGateway;

/// The Gateways that want a port, the oldest first.
pub(crate) type PortUsers = Users<(PortProtocol, u16), (i64, ObjectKey)>;

/// Where a Gateway that wants this is.
pub(crate) fn placement(
    key: &ObjectKey,
    wanted: &WantedGateway,
    inputs: Inputs<'_>,
    users: &PortUsers,
) -> Arc<Placement> {
    match &inputs.options.gateways.places {
        Places::Given => inputs.resources.gateway.placements.get(key).cloned().unwrap_or_default(),
        Places::At(all) => {
            let own = &inputs.options.listeners;
            let mut placement = Placement { addresses: at_addresses(wanted, all), ..Placement::default() };
            for (protocol, number) in wanted.each_port() {
                let port = at_port(key, ((protocol, number), all), users, own);
                placement.place(protocol, number, port);
            }
            Arc::new(placement)
        }
    }
}

/// Since when a Gateway wants its ports.
pub(crate) fn since(key: &ObjectKey, wanted: &WantedGateway) -> (i64, ObjectKey) {
    (wanted.created.unwrap_or(i64::MAX), key.clone())
}

fn at_addresses(wanted: &WantedGateway, all: &[IpAddr]) -> Addresses {
    let address = |ip: &IpAddr| Address { kind: AddressKind::Ip, value: ip.to_string().into() };
    let mut usable = Vec::new();
    for asked in &wanted.addresses {
        match (&asked.value, asked.kind) {
            (None, AddressKind::Ip) => usable.extend(all.iter().map(address)),
            (Some(value), AddressKind::Ip) => {
                let found = all.iter().find(|ip| value.parse() == Ok(**ip));
                usable.extend(found.map(address));
            }
            (_, AddressKind::Hostname) => {}
        }
    }
    let had = |asked: &&crate::wanted::WantedAddress| {
        asked.kind == AddressKind::Ip
            && asked.value.as_ref().is_none_or(|value| usable.iter().any(|it| it.value == *value))
    };
    if let Some(missing) = wanted.addresses.iter().find(|asked| !had(asked)) {
        let what = missing.value.as_deref().unwrap_or("a host name");
        let why = format!("{what} cannot be had; --gateway-address says which addresses there are");
        return Addresses::NotUsable { why: why.into(), usable };
    }
    match wanted.addresses.is_empty() {
        true => Addresses::Assigned(all.iter().map(address).collect()),
        false => Addresses::Assigned(usable),
    }
}

fn at_port(
    key: &ObjectKey,
    ((protocol, port), all): ((PortProtocol, u16), &[IpAddr]),
    users: &PortUsers,
    own: &IngressListeners,
) -> PortPlacement {
    let failed = |why: String| PortPlacement { bind: Vec::new(), state: PortState::Failed(why.into()) };
    let bind: Vec<SocketAddr> = all.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
    let mut ingress = own.http.bind.iter().chain(&own.https.bind).filter(|_| protocol == PortProtocol::Tcp);
    let same = |own: &SocketAddr, at: &SocketAddr| {
        own.port() == at.port()
            && (own.ip() == at.ip() || own.ip().is_unspecified() || at.ip().is_unspecified())
    };
    if let Some(taken) = ingress.find(|own| bind.iter().any(|at| same(own, at))) {
        return failed(format!("{taken} is a listener of Ingresses"));
    }
    match users.of(&(protocol, port)).next() {
        Some((_, first)) if first != key => {
            let of = if protocol == PortProtocol::Udp { " of UDP" } else { "" };
            failed(format!("Gateway {first} has port {port}{of}"))
        }
        _ => PortPlacement { bind, state: PortState::Bound },
    }
}

/// What is bound for a port; empty where nothing is.
pub(crate) fn bound(placement: &Placement, protocol: PortProtocol, port: u16) -> &[SocketAddr] {
    placement.port(protocol, port).map(|port| port.bind.as_slice()).unwrap_or_default()
}
