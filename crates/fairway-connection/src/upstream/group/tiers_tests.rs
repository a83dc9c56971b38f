//! Which endpoints get requests if near ones are preferred, and where the share of failed ones goes.

use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;

use fairway_model::{
    Backend, BackendProtocol, BackendTraffic, Balancing, Endpoint as Address, EndpointTopology, Origin,
    PortProtocol, ProxyLocation, ServiceName, TrafficDistribution,
};
use fairway_net::clock::Instant;
use fairway_routing::session::Affinity;
use tokio::net::TcpStream;

use super::{Group, Groups, TriedMembers};
use crate::hop::AnyHop;
use crate::upstream::checks::HealthChecks;
use crate::upstream::circuit::Circuits;
use crate::upstream::endpoint::PickedEndpoint;
use crate::upstream::health::Blame;

type Hops = AnyHop<TcpStream>;

const ALL: [Balancing; 4] =
    [Balancing::RoundRobin, Balancing::PeakEwma, Balancing::LeastRequests, Balancing::Random];

const REQUESTS: usize = 20_000;

/// Endpoints in these places, each a zone and a node; this process is in zone `a` on node `n1`.
fn group(
    places: &[(&str, &str)],
    balancing: Balancing,
    traffic: BackendTraffic,
) -> (Groups<Hops>, Rc<Group<Hops>>) {
    let endpoint = |(number, (zone, node)): (u16, &(&str, &str))| Address {
        place: Some(Arc::new(EndpointTopology {
            zone: Some((*zone).into()),
            node: Some((*node).into()),
            ..EndpointTopology::default()
        })),
        ..Address::at(([192, 0, 2, 1], number).into())
    };
    let distribution = Some(TrafficDistribution::PreferSameNode);
    let backend = Backend {
        key: "backend".into(),
        origin: Origin::object("Service", "default", "backend"),
        service: ServiceName::default(),
        endpoints: (0..).zip(places).map(endpoint).collect(),
        protocol: BackendProtocol::Http1,
        tls: None,
        balancing,
        session: None,
        traffic: BackendTraffic { distribution, ..traffic }.if_not_empty(),
    };
    let location = ProxyLocation { zone: Some("a".into()), node: Some("n1".into()) };
    let groups = Groups::new(location, HealthChecks::default(), Circuits::default());
    let group = groups.group(Arc::new(backend), PortProtocol::Tcp, None);
    (groups, group)
}

fn pick(group: &Group<Hops>, random: &mut fastrand::Rng, now: Instant) -> PickedEndpoint<Hops> {
    group.pick(&TriedMembers::default(), Affinity::Anywhere, random, now).unwrap()
}

/// How many of [`REQUESTS`] sequential requests go to each endpoint, by port.
fn shares(group: &Group<Hops>, count: usize) -> Vec<usize> {
    let (mut random, now) = (fastrand::Rng::with_seed(7), Instant::now());
    let mut shares = vec![0; count];
    for _ in 0..REQUESTS {
        let port = pick(group, &mut random, now).endpoint.identity.address.port();
        shares[usize::from(port)] += 1;
    }
    shares
}

/// Ejects the endpoint with this port.
fn eject(group: &Group<Hops>, port: u16) {
    let members = || group.members.iter();
    let member = members().find(|member| member.identity.address.port() == port).unwrap();
    assert!(group.failed(member, Blame::Connect, Instant::now()), "it is ejected");
}

#[test]
fn all_requests_stay_near_where_all_endpoints_are_well() {
    let locations = [("b", "n3"), ("a", "n2"), ("b", "n4"), ("a", "n5")];
    for balancing in ALL {
        let (groups, group) = group(&locations, balancing, BackendTraffic::default());
        let shares = shares(&group, locations.len());
        assert_eq!((shares[0], shares[2]), (0, 0), "{balancing:?}");
        assert!(shares[1].abs_diff(shares[3]) <= REQUESTS / 50, "{balancing:?}: {shares:?}");
        let zones = groups.attempts_by_zone();
        assert_eq!(zones.get(&("a".into(), true)), Some(&(REQUESTS as u64)), "{balancing:?}");
        assert_eq!(zones.get(&("b".into(), false)), Some(&0), "{balancing:?}");
    }
}

#[test]
fn the_share_of_an_ejected_endpoint_leaves_and_no_more() {
    let locations = [
        ("a", "n2"),
        ("a", "n3"),
        ("a", "n4"),
        ("a", "n5"),
        ("b", "n6"),
        ("b", "n7"),
        ("c", "n8"),
        ("c", "n9"),
    ];
    for balancing in ALL {
        let (_groups, group) = group(&locations, balancing, BackendTraffic::default());
        eject(&group, 1);
        let shares = shares(&group, locations.len());
        let (near, far) = shares.split_at(4);
        let (left, most) = (far.iter().sum::<usize>(), REQUESTS / 50);
        assert!(left.abs_diff(REQUESTS / 4) <= most, "{balancing:?}: {shares:?}");
        assert_eq!(near[1], 0, "{balancing:?}");
        // Each of the far ones takes its part of it.
        assert!(far.iter().all(|share| share.abs_diff(left / 4) <= most), "{balancing:?}: {shares:?}");
    }
}

#[test]
fn requests_leave_the_node_for_the_zone_and_the_zone_for_the_rest() {
    let locations = [("a", "n1"), ("a", "n1"), ("a", "n2"), ("a", "n2"), ("b", "n3"), ("b", "n3")];
    let (_groups, group) = group(&locations, Balancing::Random, BackendTraffic::default());
    assert_eq!(shares(&group, 6)[2..], [0; 4]);
    eject(&group, 0);
    eject(&group, 2);
    let found = shares(&group, 6);
    let expected = [0, 8, 0, 4, 2, 2].map(|sixteenths| REQUESTS * sixteenths / 16);
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.abs_diff(expected) <= REQUESTS / 50, "{found} of {expected}");
    }
}

#[test]
fn without_a_healthy_near_endpoint_requests_go_to_far_ones() {
    let locations = [("a", "n2"), ("b", "n3"), ("b", "n4")];
    for balancing in ALL {
        let (_groups, group) = group(&locations, balancing, BackendTraffic::default());
        eject(&group, 0);
        let shares = shares(&group, 3);
        assert_eq!((shares[0], shares[1] + shares[2]), (0, REQUESTS), "{balancing:?}");
    }
}

#[test]
fn requests_beyond_the_capacity_of_near_endpoints_go_farther_and_none_is_refused_before_all_are_full() {
    let locations = [("a", "n2"), ("b", "n3"), ("a", "n4")];
    for balancing in ALL {
        let within = BackendTraffic { in_flight: NonZeroU32::new(2), ..BackendTraffic::default() };
        let (_groups, group) = group(&locations, balancing, within);
        let (mut random, now) = (fastrand::Rng::with_seed(7), Instant::now());
        let mut picked: Vec<_> = (0..6).map(|_| pick(&group, &mut random, now)).collect();
        let ports = picked.iter().map(|chosen| chosen.endpoint.identity.address.port());
        assert!(ports.enumerate().all(|(at, port)| (port == 1) == (at >= 4)), "{balancing:?}");
        let none = TriedMembers::default();
        assert!(group.pick(&none, Affinity::Anywhere, &mut random, now).is_none(), "{balancing:?}");
        picked.clear();
    }
}

#[test]
fn a_failed_request_is_retried_near_before_it_goes_farther() {
    let locations = [("b", "n3"), ("a", "n2"), ("a", "n4")];
    for balancing in ALL {
        let (_groups, group) = group(&locations, balancing, BackendTraffic::default());
        let (mut random, now) = (fastrand::Rng::with_seed(7), Instant::now());
        let mut tried = TriedMembers::default();
        let ports = [(); 3].map(|()| {
            let picked = group.pick(&tried, Affinity::Anywhere, &mut random, now).unwrap();
            tried.insert(picked.index);
            picked.endpoint.identity.address.port()
        });
        assert_eq!(ports[2], 0, "{balancing:?}: {ports:?}");
    }
}

#[test]
fn names_of_zones_are_bounded() {
    let names: Vec<_> = (0..100).map(|number| format!("z{number}")).collect();
    let mut locations: Vec<_> = names.iter().map(|name| (name.as_str(), "n")).collect();
    locations.push(("a", "n2"));
    let (groups, _group) = group(&locations, Balancing::Random, BackendTraffic::default());
    let zones = groups.attempts_by_zone();
    assert!(zones.len() <= 34, "{}", zones.len());
    assert!(zones.contains_key(&("a".into(), true)) && zones.contains_key(&("others".into(), false)));
}
