//! The placement of a Gateway: its addresses from its Services, and its ports from the port list and the data plane.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fairway_objects::object::ObjectKey;
use fairway_objects::placement::{
    Address, AddressKind, GatewayAddresses, Placement, PortPlacement, PortState,
};
use fairway_objects::transport::PortProtocol;
use k8s_openapi::api::core::v1::Service;

use crate::WantedGateway;
use crate::fleet::ports::{PortRange, Ports};
use crate::fleet::services::{self, DesiredService};

/// Current state of the cluster and the data plane.
pub struct FleetState<'a> {
    /// Assigned ports.
    pub ports: &'a Ports,
    /// The range of ports that can be assigned.
    pub range: PortRange,
    /// Addresses on which each port is bound.
    pub bind: &'a [IpAddr],
    /// The state of an address to bind.
    pub bound: &'a dyn Fn(PortProtocol, SocketAddr) -> PortState,
    /// Existing Services.
    pub services: &'a BTreeMap<ObjectKey, Arc<Service>>,
    /// Why a Service could not be written.
    pub problems: &'a BTreeMap<ObjectKey, Arc<str>>,
}

impl FleetState<'_> {
    /// The placement of a Gateway whose Services should be `desired`.
    #[must_use]
    pub fn placement(
        &self,
        gateway: &ObjectKey,
        wanted: &WantedGateway,
        desired: &[DesiredService],
    ) -> Placement {
        let addresses = self.addresses(gateway, wanted, desired);
        let mut placement = Placement { addresses, ..Placement::default() };
        for (protocol, number) in wanted.each_port() {
            placement.set_port(protocol, number, self.port(gateway, protocol, number));
        }
        placement
    }

    /// TCP and UDP of one number share a pod port, but are bound independently.
    fn port(&self, gateway: &ObjectKey, protocol: PortProtocol, port: u16) -> PortPlacement {
        let Some(given) = self.ports.pod_port(gateway, port) else {
            return PortPlacement { bind: Vec::new(), state: PortState::Pending };
        };
        let bind: Vec<_> = self.bind.iter().map(|ip| SocketAddr::new(*ip, given)).collect();
        let states: Vec<_> = bind.iter().map(|address| (self.bound)(protocol, *address)).collect();
        let failed = states.iter().find(|state| matches!(state, PortState::Failed(_)));
        let pending = states.contains(&PortState::Pending);
        let state = match failed {
            Some(failed) => failed.clone(),
            None if pending => PortState::Pending,
            None => PortState::Bound,
        };
        PortPlacement { bind, state }
    }

    fn addresses(
        &self,
        gateway: &ObjectKey,
        wanted: &WantedGateway,
        desired: &[DesiredService],
    ) -> GatewayAddresses {
        let without = wanted.ports.keys().find(|port| self.ports.pod_port(gateway, **port).is_none());
        if let Some(port) = without {
            return match self.ports.is_used_up(self.range) {
                true => GatewayAddresses::NoResources(
                    format!("no port of --gateway-ports {} is free for port {port}", self.range).into(),
                ),
                false => GatewayAddresses::Pending(format!("port {port} has no port of the pods yet").into()),
            };
        }
        if desired.is_empty() {
            return GatewayAddresses::Pending("no listener has a port".into());
        }
        if wanted.addresses.iter().any(|asked| asked.value.is_some()) {
            return self.static_addresses(wanted, desired);
        }
        let key = &desired[0].key;
        match self.service_addresses(&wanted.uid, &desired[0]) {
            Ok(found) if found.is_empty() => {
                GatewayAddresses::Pending(format!("the Service {key} has no address yet").into())
            }
            Ok(found) => match wanted.addresses.iter().find(|asked| !has_kind(&found, asked.kind)) {
                Some(asked) => GatewayAddresses::Pending(missing_kind_reason(key, asked.kind).into()),
                None => GatewayAddresses::Assigned(found),
            },
            Err(problem) => GatewayAddresses::Pending(problem),
        }
    }

    /// The addresses of a Service, or why it does not exist.
    fn service_addresses(&self, uid: &str, desired: &DesiredService) -> Result<Vec<Address>, Arc<str>> {
        let key = &desired.key;
        match self.services.get(key).filter(|service| services::is_owned(service, uid)) {
            Some(service) => Ok(services::addresses(service)),
            None => {
                Err(self.problem(key).unwrap_or_else(|| format!("the Service {key} is not there yet").into()))
            }
        }
    }

    fn problem(&self, key: &ObjectKey) -> Option<Arc<str>> {
        self.problems.get(key).cloned()
    }

    /// Every requested address must be visible: an IP address on the Service created for it, a host name on any
    /// Service of the Gateway, because no Service field requests a host name.
    fn static_addresses(&self, gateway: &WantedGateway, desired: &[DesiredService]) -> GatewayAddresses {
        let (mut usable, mut missing) = (Vec::new(), Vec::new());
        let mut shown_by_all = Vec::new();
        for service in desired {
            let found = self.service_addresses(&gateway.uid, service).unwrap_or_default();
            if let Some(asked) = service.address {
                match found.iter().find(|address| address.value.parse() == Ok(asked)) {
                    Some(address) => usable.push(address.clone()),
                    None => missing.push(self.unassigned_reason(&asked.to_string(), &service.key)),
                }
            }
            shown_by_all.extend(found);
        }
        let first = &desired[0].key;
        for asked in &gateway.addresses {
            match &asked.value {
                Some(value) if value.parse::<IpAddr>().is_ok() => {}
                Some(value) => match shown_by_all.iter().find(|it| it.value.eq_ignore_ascii_case(value)) {
                    Some(address) => usable.push(address.clone()),
                    None => missing.push(self.unassigned_reason(value, first)),
                },
                None if has_kind(&shown_by_all, asked.kind) => {}
                None => missing.push(missing_kind_reason(first, asked.kind)),
            }
        }
        if missing.is_empty() {
            return GatewayAddresses::Assigned(usable);
        }
        GatewayAddresses::NotUsable { why: missing.join("; ").into(), usable }
    }

    fn unassigned_reason(&self, address: &str, key: &ObjectKey) -> String {
        match self.problem(key) {
            Some(problem) => format!("{address}: {problem}"),
            None => format!("{address} is not given to the Service {key}"),
        }
    }
}

fn has_kind(found: &[Address], kind: AddressKind) -> bool {
    found.iter().any(|address| address.kind == kind)
}

fn missing_kind_reason(key: &ObjectKey, kind: AddressKind) -> String {
    format!("the Service {key} has no address of type {}", kind.name())
}

#[cfg(test)]
mod tests {
    use crate::{PortTransport, WantedAddress};
    use serde_json::json;

    use super::*;
    use crate::fleet::services::ServiceType;

    struct Scene {
        gateway: ObjectKey,
        wanted_gateway: WantedGateway,
        ports: Ports,
        range: PortRange,
        services: BTreeMap<ObjectKey, Arc<Service>>,
        problems: BTreeMap<ObjectKey, Arc<str>>,
    }

    impl Scene {
        fn new(ports: &[u16], wanted_address: &[&str]) -> Self {
            let gateway = ObjectKey::new("shop", "edge");
            let address =
                |value: &&str| WantedAddress { kind: AddressKind::Ip, value: Some((*value).into()) };
            let wanted_gateway = WantedGateway {
                uid: "u".into(),
                created: None,
                class: "fairway".into(),
                ports: ports.iter().map(|port| (*port, PortTransport::Tcp)).collect(),
                served: [].into(),
                addresses: wanted_address.iter().map(address).collect(),
                labels: BTreeMap::new(),
                annotations: BTreeMap::new(),
                parameters: Some(BTreeMap::new()),
            };
            let range: PortRange = "20000-20001".parse().unwrap();
            let mut given_ports = Ports::default();
            given_ports.settle(ports.iter().map(|port| (&gateway, *port)), true, range);
            let (services, problems) = (BTreeMap::new(), BTreeMap::new());
            Self { gateway, wanted_gateway, ports: given_ports, range, services, problems }
        }

        fn desired(&self) -> Vec<DesiredService> {
            services::desired(
                &self.gateway,
                &self.wanted_gateway,
                &self.ports,
                &std::collections::BTreeSet::new(),
                ServiceType::LoadBalancer,
            )
        }

        /// Gives the desired Service at index `at` these addresses.
        fn set_addresses(&mut self, at: usize, addresses: &[&str]) {
            let DesiredService { key, mut service, .. } = self.desired().remove(at);
            let entry = |address: &&str| match address.parse::<IpAddr>() {
                Ok(ip) => json!({ "ip": ip }),
                Err(_) => json!({ "hostname": address }),
            };
            let entries: Vec<_> = addresses.iter().map(entry).collect();
            let status = json!({ "loadBalancer": { "ingress": entries } });
            service.status = Some(serde_json::from_value(status).unwrap());
            self.services.insert(key, Arc::new(service));
        }

        fn placement(&self, bound: &dyn Fn(PortProtocol, SocketAddr) -> PortState) -> Placement {
            let bind = ["0.0.0.0".parse().unwrap(), "::".parse().unwrap()];
            let known = FleetState {
                ports: &self.ports,
                range: self.range,
                bind: &bind,
                bound,
                services: &self.services,
                problems: &self.problems,
            };
            known.placement(&self.gateway, &self.wanted_gateway, &self.desired())
        }

        fn addresses(&self) -> GatewayAddresses {
            self.placement(&|_, _| PortState::Bound).addresses
        }
    }

    fn ip(value: &str) -> Address {
        Address { kind: AddressKind::Ip, value: value.into() }
    }

    #[test]
    fn a_port_is_bound_when_all_of_its_addresses_are() {
        let scene = Scene::new(&[80], &[]);
        let reason_for = |bound: &dyn Fn(SocketAddr) -> PortState| {
            scene.placement(&|_, address| bound(address)).ports[&80].clone()
        };
        let bind: Vec<SocketAddr> = vec!["0.0.0.0:20000".parse().unwrap(), "[::]:20000".parse().unwrap()];
        assert_eq!(
            reason_for(&|_| PortState::Bound),
            PortPlacement { bind: bind.clone(), state: PortState::Bound }
        );
        let half =
            |address: SocketAddr| if address.is_ipv4() { PortState::Bound } else { PortState::Pending };
        assert_eq!(reason_for(&half).state, PortState::Pending);
        let is_bound = |address: SocketAddr| match address.is_ipv4() {
            true => PortState::Pending,
            false => PortState::Failed("taken".into()),
        };
        assert_eq!(reason_for(&is_bound), PortPlacement { bind, state: PortState::Failed("taken".into()) });
    }

    #[test]
    fn tcp_and_udp_of_a_port_number_share_a_pod_port_and_have_separate_states() {
        let mut scene = Scene::new(&[53], &[]);
        scene.wanted_gateway.ports.insert(53, PortTransport::Both);
        let placement = scene.placement(&|protocol, _| match protocol {
            PortProtocol::Tcp => PortState::Bound,
            PortProtocol::Udp => PortState::Failed("taken".into()),
        });
        let (tcp, udp) = (&placement.ports[&53], &placement.datagram_ports[&53]);
        assert_eq!(tcp.bind, udp.bind);
        assert_eq!((&tcp.state, &udp.state), (&PortState::Bound, &PortState::Failed("taken".into())));
    }

    #[test]
    fn a_udp_port_is_not_a_tcp_port() {
        let mut scene = Scene::new(&[53], &[]);
        scene.wanted_gateway.ports.insert(53, PortTransport::Udp);
        let placement = scene.placement(&|_, _| PortState::Bound);
        assert_eq!((placement.ports.len(), placement.datagram_ports.len()), (0, 1));
    }

    #[test]
    fn the_addresses_of_a_gateway_are_those_of_its_service() {
        let mut scene = Scene::new(&[80], &[]);
        assert_eq!(
            scene.addresses(),
            GatewayAddresses::Pending("the Service shop/edge-fairway is not there yet".into())
        );
        scene.set_addresses(0, &[]);
        assert_eq!(
            scene.addresses(),
            GatewayAddresses::Pending("the Service shop/edge-fairway has no address yet".into())
        );
        scene.set_addresses(0, &["192.0.2.7"]);
        assert_eq!(scene.addresses(), GatewayAddresses::Assigned(vec![ip("192.0.2.7")]));
    }

    #[test]
    fn service_errors_are_reported() {
        let mut scene = Scene::new(&[80], &[]);
        scene.problems.insert(ObjectKey::new("shop", "edge-fairway"), "it is somebody else's".into());
        assert_eq!(scene.addresses(), GatewayAddresses::Pending("it is somebody else's".into()));
    }

    #[test]
    fn a_static_address_is_usable_when_its_service_shows_it() {
        let mut scene = Scene::new(&[80], &["192.0.2.7", "192.0.2.99"]);
        scene.set_addresses(0, &["192.0.2.7"]);
        scene.set_addresses(1, &["192.0.2.1"]);
        let GatewayAddresses::NotUsable { why, usable } = scene.addresses() else { panic!("usable") };
        assert_eq!(usable, [ip("192.0.2.7")]);
        assert_eq!(&*why, "192.0.2.99 is not given to the Service shop/edge-fairway-192-0-2-99");
        scene.set_addresses(1, &["192.0.2.99"]);
        assert_eq!(scene.addresses(), GatewayAddresses::Assigned(vec![ip("192.0.2.7"), ip("192.0.2.99")]));
    }

    fn asking_for_host_name(value: Option<&str>) -> Scene {
        let mut scene = Scene::new(&[80], &[]);
        let value = value.map(Into::into);
        scene.wanted_gateway.addresses.push(WantedAddress { kind: AddressKind::Hostname, value });
        scene
    }

    fn host_name(value: &str) -> Address {
        Address { kind: AddressKind::Hostname, value: value.into() }
    }

    #[test]
    fn a_requested_host_name_is_usable_when_a_service_shows_it() {
        let mut scene = asking_for_host_name(Some("edge.example.com"));
        scene.set_addresses(0, &["192.0.2.7", "lb.example.net"]);
        let why = "edge.example.com is not given to the Service shop/edge-fairway".into();
        assert_eq!(scene.addresses(), GatewayAddresses::NotUsable { why, usable: Vec::new() });
        scene.set_addresses(0, &["192.0.2.7", "edge.example.com"]);
        assert_eq!(scene.addresses(), GatewayAddresses::Assigned(vec![host_name("edge.example.com")]));
        let ip = WantedAddress { kind: AddressKind::Ip, value: Some("192.0.2.7".into()) };
        scene.wanted_gateway.addresses.push(ip);
        scene.set_addresses(0, &["192.0.2.7"]);
        let GatewayAddresses::NotUsable { usable, .. } = scene.addresses() else { panic!("usable") };
        assert_eq!(usable, [self::ip("192.0.2.7")], "the others are still had");
    }

    #[test]
    fn any_address_of_a_type_is_assigned_when_the_service_shows_one() {
        let mut scene = asking_for_host_name(None);
        scene.set_addresses(0, &["192.0.2.7"]);
        let why = "the Service shop/edge-fairway has no address of type Hostname";
        assert_eq!(scene.addresses(), GatewayAddresses::Pending(why.into()));
        scene.set_addresses(0, &["lb.example.net"]);
        assert_eq!(scene.addresses(), GatewayAddresses::Assigned(vec![host_name("lb.example.net")]));
    }

    #[test]
    fn an_exhausted_port_range_is_reported_with_its_flag() {
        let scene = Scene::new(&[80, 443, 8080], &[]);
        let expected = "no port of --gateway-ports 20000-20001 is free for port 8080";
        assert_eq!(scene.addresses(), GatewayAddresses::NoResources(expected.into()));
    }

    #[test]
    fn a_service_of_a_deleted_gateway_is_not_used() {
        let mut scene = Scene::new(&[80], &[]);
        scene.set_addresses(0, &["192.0.2.7"]);
        scene.wanted_gateway.uid = "later".into();
        assert!(matches!(scene.addresses(), GatewayAddresses::Pending(_)));
    }
}
