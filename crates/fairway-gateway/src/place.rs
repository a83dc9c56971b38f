//! Where a Gateway is: where it was placed, or at the addresses that hold for all. Owns who has a port there; binds
//! nothing.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fairway_model::PortProtocol;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::Places;
use fairway_objects::own::{Own, overlap};
use fairway_objects::placement::{Address, AddressKind, Addresses, Placement, PortPlacement, PortState};
use fairway_objects::users::Users;

use crate::wanted::{WantedAddress, WantedGateway};

/// Those who want a port, in the order in which they may have it.
pub(crate) type PortUsers = Users<(PortProtocol, u16), PortUser>;

/// Who wants a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PortUser {
    /// A ConfigMap of TCP or UDP services: a flag names it, so it comes before all Gateways. It binds these addresses.
    ServiceMap(ObjectKey, Vec<SocketAddr>),
    /// A Gateway, and since when: the oldest comes first.
    Gateway(i64, ObjectKey),
}

/// A port that a ConfigMap of TCP or UDP services has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePort {
    /// Of TCP or UDP.
    pub protocol: PortProtocol,
    /// Its number.
    pub number: u16,
    /// The addresses that are bound for it.
    pub bind: Vec<SocketAddr>,
    /// The ConfigMap.
    pub map: ObjectKey,
}

/// Where a Gateway that wants this is; `None` while nobody has said so.
pub(crate) fn placement(
    key: &ObjectKey,
    wanted: &WantedGateway,
    inputs: Inputs<'_>,
    users: &PortUsers,
) -> Option<Arc<Placement>> {
    match &inputs.options.gateways.places {
        Places::Given => inputs.resources.gateway.placements.get(key).cloned(),
        Places::Nowhere => {
            let why = "nobody gives Gateways addresses: --gateway-pods is not set".into();
            Some(Arc::new(Placement { addresses: Addresses::Pending(why), ..Placement::default() }))
        }
        Places::At(all) => {
            let own = &inputs.options.trust.external.own;
            let mut placement = Placement { addresses: at_addresses(wanted, all), ..Placement::default() };
            for (protocol, number) in wanted.each_port() {
                let port = at_port(key, protocol, number, all, users, own);
                placement.place(protocol, number, port);
            }
            Some(Arc::new(placement))
        }
    }
}

/// Where a Gateway at the address of Ingresses is.
pub(crate) fn shared(wanted: &WantedGateway, inputs: Inputs<'_>) -> Arc<Placement> {
    let at = &inputs.options.listeners;
    let addresses = match (&inputs.resources.gateway.published, &inputs.options.gateways.places) {
        (Some(published), _) if published.is_empty() => {
            Addresses::Pending("Ingresses have no address yet".into())
        }
        (Some(published), _) => of_ingresses(wanted, published),
        (None, Places::At(all)) => at_addresses(wanted, all),
        (None, _) => Addresses::Pending(
            "no flag says which addresses Ingresses have: --publish-service is not set".into(),
        ),
    };
    let mut placement = Placement { addresses, ..Placement::default() };
    for it in [&at.http, &at.https] {
        let bound = PortPlacement { bind: it.bind.clone(), state: PortState::Bound };
        placement.place(PortProtocol::Tcp, it.public_port, bound);
    }
    Arc::new(placement)
}

/// The addresses of Ingresses, or those of them that a Gateway asks for.
fn of_ingresses(wanted: &WantedGateway, published: &[Address]) -> Addresses {
    let fits = |asked: &WantedAddress, address: &Address| {
        let is_value = |value: &Arc<str>| value.eq_ignore_ascii_case(&address.value);
        asked.kind == address.kind && asked.value.as_ref().is_none_or(is_value)
    };
    let asked = &wanted.addresses;
    let is_usable = |address: &&Address| asked.is_empty() || asked.iter().any(|it| fits(it, address));
    let usable: Vec<Address> = published.iter().filter(is_usable).cloned().collect();
    match asked.iter().find(|it| !usable.iter().any(|address| fits(it, address))) {
        None => Addresses::Assigned(usable),
        Some(missing) => {
            let what = missing.value.as_deref().unwrap_or(missing.kind.name());
            Addresses::NotUsable { why: format!("{what} is no address of Ingresses").into(), usable }
        }
    }
}

impl PortUser {
    /// A Gateway that wants this.
    pub(crate) fn of(key: &ObjectKey, wanted: &WantedGateway) -> Self {
        Self::Gateway(wanted.created.unwrap_or(i64::MAX), key.clone())
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
    /// The port, and who wants it.
    pub(crate) fn wanted(&self) -> ((PortProtocol, u16), PortUser) {
        ((self.protocol, self.number), PortUser::ServiceMap(self.map.clone(), self.bind.clone()))
    }
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
    let had = |asked: &&WantedAddress| {
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
    protocol: PortProtocol,
    port: u16,
    all: &[IpAddr],
    users: &PortUsers,
    own: &Own,
) -> PortPlacement {
    let failed = |why: String| PortPlacement { bind: Vec::new(), state: PortState::Failed(why.into()) };
    let bind: Vec<SocketAddr> = all.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
    if let Some(taken) = own.in_the_way(protocol, &bind) {
        return failed(format!("{} is that of {}", taken.address, taken.flag));
    }
    // All Gateways are at the same addresses, so the first one has the port there.
    let has_port = |user: &&PortUser| match user {
        PortUser::ServiceMap(_, taken) => taken.iter().any(|own| bind.iter().any(|at| overlap(own, at))),
        PortUser::Gateway(..) => true,
    };
    let of = if protocol == PortProtocol::Udp { " of UDP" } else { "" };
    match users.of(&(protocol, port)).find(has_port) {
        Some(PortUser::ServiceMap(map, _)) => failed(format!("ConfigMap {map} has port {port}{of}")),
        Some(PortUser::Gateway(_, first)) if first != key => {
            failed(format!("Gateway {first} has port {port}{of}"))
        }
        _ => PortPlacement { bind, state: PortState::Bound },
    }
}

/// What is bound for a port; empty where nothing is.
pub(crate) fn bound(placement: &Placement, protocol: PortProtocol, port: u16) -> &[SocketAddr] {
    placement.port(protocol, port).map(|port| port.bind.as_slice()).unwrap_or_default()
}
