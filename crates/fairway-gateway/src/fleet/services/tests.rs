//! Desired and existing Services, and the edits between them.

use super::*;
use crate::WantedAddress;

fn gateway() -> ObjectKey {
    ObjectKey::new("shop", "edge")
}

fn wanted_gateway(ports: &[u16]) -> WantedGateway {
    WantedGateway {
        uid: "uid-1".into(),
        class: "fairway".into(),
        created: None,
        ports: ports.iter().map(|port| (*port, PortTransport::Tcp)).collect(),
        served: [].into(),
        addresses: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        parameters: Some(BTreeMap::new()),
    }
}

fn listed(wanted_gateway: &WantedGateway) -> Ports {
    let (gateway, mut ports) = (gateway(), Ports::default());
    ports.settle(
        wanted_gateway.ports.keys().map(|port| (&gateway, *port)),
        true,
        "20000-20099".parse().unwrap(),
    );
    ports
}

fn single_service(wanted_gateway: &WantedGateway) -> DesiredService {
    let mut all = desired(
        &gateway(),
        wanted_gateway,
        &listed(wanted_gateway),
        &BTreeSet::new(),
        ServiceType::LoadBalancer,
    );
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// The Service as the API server would keep it.
fn as_stored(desired: &DesiredService) -> Service {
    let mut service = desired.service.clone();
    service.metadata.resource_version = Some("7".to_owned());
    let spec = service.spec.as_mut().unwrap();
    spec.cluster_ip.get_or_insert_with(|| "10.96.0.9".to_owned());
    for (at, port) in spec.ports.as_mut().unwrap().iter_mut().enumerate() {
        port.node_port = Some(30_000 + i32::try_from(at).unwrap());
    }
    service
}

#[test]
fn a_service_maps_ports_of_listeners_to_ports_of_the_pods() {
    let DesiredService { key, service, .. } = single_service(&wanted_gateway(&[80, 443]));
    assert_eq!(key, ObjectKey::new("shop", "edge-fairway"));
    let json = serde_json::to_value(&service).unwrap();
    assert_eq!(
        json["spec"],
        json!({
            "type": "LoadBalancer", "ipFamilyPolicy": "PreferDualStack",
            "ports": [
                { "name": "tcp-80", "port": 80, "protocol": "TCP", "targetPort": 20_000 },
                { "name": "tcp-443", "port": 443, "protocol": "TCP", "targetPort": 20_001 },
            ],
        })
    );
    assert_eq!(json["metadata"]["labels"]["gateway.networking.k8s.io/gateway-name"], "edge");
    assert_eq!(json["metadata"]["labels"]["gateway.networking.k8s.io/gateway-class-name"], "fairway");
    let owner = &json["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Gateway"), &json!("uid-1")));
}

#[test]
fn a_port_of_both_transports_is_two_ports_of_the_service_and_one_of_the_pods() {
    let mut gateway = wanted_gateway(&[]);
    gateway.ports.insert(53, PortTransport::Both);
    let ports = single_service(&gateway).service.spec.unwrap().ports.unwrap();
    let names: Vec<_> = ports.iter().map(|port| port.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["tcp-53", "udp-53"]);
    assert_eq!(ports[0].target_port, ports[1].target_port);
}

#[test]
fn a_new_transport_keeps_the_node_port_of_the_other() {
    let mut tcp = wanted_gateway(&[]);
    tcp.ports.insert(53, PortTransport::Tcp);
    let existing = as_stored(&single_service(&tcp));
    tcp.ports.insert(53, PortTransport::Both);
    let ServiceEdit::Patch(patch) = edit(Some(&existing), &single_service(&tcp), "uid-1") else {
        panic!("no patch")
    };
    assert_eq!(
        patch["spec"],
        json!({ "ports": [
            { "name": "tcp-53", "port": 53, "protocol": "TCP", "targetPort": 20_000, "nodePort": 30_000 },
            { "name": "udp-53", "port": 53, "protocol": "UDP", "targetPort": 20_000 },
        ] })
    );
    tcp.ports.insert(53, PortTransport::Udp);
    let only_udp = single_service(&tcp).service.spec.unwrap().ports.unwrap();
    assert_eq!(only_udp.iter().map(|port| port.name.as_deref()).collect::<Vec<_>>(), [Some("udp-53")]);
}

#[test]
fn a_port_with_http3_takes_both_transports() {
    let ports_for = |http3: &[u16]| {
        let (wanted, http3) = (wanted_gateway(&[80, 443]), http3.iter().copied().collect());
        let service = desired(&gateway(), &wanted, &listed(&wanted), &http3, ServiceType::LoadBalancer);
        let ports = service[0].service.spec.as_ref().unwrap().ports.clone().unwrap();
        ports
            .into_iter()
            .map(|port| (port.name.unwrap(), port.port, port.target_port.unwrap()))
            .collect::<Vec<_>>()
    };
    let port = |name: &str, port, target| (name.to_owned(), port, IntOrString::Int(target));
    let (http, https) = (port("tcp-80", 80, 20_000), port("tcp-443", 443, 20_001));
    assert_eq!(ports_for(&[20_001, 20_099]), [http.clone(), https.clone(), port("udp-443", 443, 20_001)]);
    assert_eq!(ports_for(&[443]), [http, https], "the ports are those of the pods");
}

#[test]
fn without_a_listener_there_is_no_service() {
    assert!(
        desired(
            &gateway(),
            &wanted_gateway(&[]),
            &Ports::default(),
            &BTreeSet::new(),
            ServiceType::ClusterIp
        )
        .is_empty()
    );
}

#[test]
fn an_up_to_date_service_is_not_changed() {
    let desired = single_service(&wanted_gateway(&[80]));
    let mut existing = as_stored(&desired);
    existing.metadata.labels.as_mut().unwrap().insert("team".into(), "edge".into());
    existing.metadata.annotations.as_mut().unwrap().insert("balancer.example/id".into(), "7".into());
    assert_eq!(edit(Some(&existing), &desired, "uid-1"), ServiceEdit::Nothing);
}

#[test]
fn a_new_listener_is_added_and_the_others_keep_the_ports_of_the_nodes() {
    let existing = as_stored(&single_service(&wanted_gateway(&[80])));
    let mut ports = listed(&wanted_gateway(&[80]));
    let larger = wanted_gateway(&[80, 443]);
    let edge = gateway();
    ports.settle(larger.ports.keys().map(|port| (&edge, *port)), true, "20000-20099".parse().unwrap());
    let desired = desired(&edge, &larger, &ports, &BTreeSet::new(), ServiceType::LoadBalancer).remove(0);
    let ServiceEdit::Patch(patch) = edit(Some(&existing), &desired, "uid-1") else { panic!("no patch") };
    assert_eq!(patch["metadata"], json!({ "resourceVersion": "7" }));
    assert_eq!(
        patch["spec"],
        json!({ "ports": [
            { "name": "tcp-80", "port": 80, "protocol": "TCP", "targetPort": 20_000, "nodePort": 30_000 },
            { "name": "tcp-443", "port": 443, "protocol": "TCP", "targetPort": 20_001 },
        ] })
    );
}

#[test]
fn infrastructure_keys_never_override_those_of_fairway() {
    let mut before = wanted_gateway(&[80]);
    before.labels = [("team".into(), "a".into()), (MANAGED_BY.into(), "me".into())].into();
    before.annotations = [("balancer.example/internal".into(), "true".into())].into();
    let desired_before = single_service(&before);
    assert_eq!(desired_before.service.metadata.labels.as_ref().unwrap()[MANAGED_BY], MANAGED_BY_FAIRWAY);
    let mut existing = as_stored(&desired_before);
    existing.metadata.annotations.as_mut().unwrap().insert("of-others".into(), "x".into());
    let after = single_service(&wanted_gateway(&[80]));
    let ServiceEdit::Patch(patch) = edit(Some(&existing), &after, "uid-1") else { panic!("no patch") };
    assert_eq!(patch["metadata"]["labels"], json!({ "team": null }));
    let annotations = patch["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations["balancer.example/internal"], Value::Null);
    assert!(!annotations.contains_key("of-others"));
    assert!(patch.get("spec").is_none());
}

#[test]
fn a_service_of_somebody_else_is_not_touched() {
    let desired = single_service(&wanted_gateway(&[80]));
    let existing = as_stored(&desired);
    assert_eq!(edit(Some(&existing), &desired, "uid-2"), ServiceEdit::Foreign);
    assert_eq!(
        edit(Some(&existing), &desired, ""),
        ServiceEdit::Foreign,
        "a Gateway without uid owns nothing"
    );
}

#[test]
fn each_static_address_has_a_service_of_its_family() {
    let mut edge = wanted_gateway(&[80]);
    for value in ["192.0.2.7", "2001:db8::7"] {
        edge.addresses.push(WantedAddress { kind: AddressKind::Ip, value: Some(value.into()) });
    }
    let all = desired(&gateway(), &edge, &listed(&edge), &BTreeSet::new(), ServiceType::LoadBalancer);
    let spec = |at: usize| all[at].service.spec.clone().unwrap();
    assert_eq!(spec(0).load_balancer_ip.as_deref(), Some("192.0.2.7"));
    assert_eq!(spec(0).ip_families.unwrap(), ["IPv4"]);
    assert_eq!(spec(1).ip_families.unwrap(), ["IPv6"]);
    assert_eq!(&*all[0].key.name, "edge-fairway-192-0-2-7");
    let inside = desired(&gateway(), &edge, &listed(&edge), &BTreeSet::new(), ServiceType::ClusterIp);
    let spec = inside[0].service.spec.as_ref().unwrap();
    assert_eq!((spec.cluster_ip.as_deref(), spec.load_balancer_ip.as_deref()), (Some("192.0.2.7"), None));
}

#[test]
fn parameters_choose_the_type_of_the_service() {
    let mut gateway = wanted_gateway(&[80]);
    let parameters = [
        ("serviceType".into(), "NodePort".into()),
        ("externalTrafficPolicy".into(), "Local".into()),
        ("loadBalancerClass".into(), "example.com/lb".into()),
    ];
    gateway.parameters = Some(parameters.into());
    let spec = single_service(&gateway).service.spec.unwrap();
    assert_eq!(spec.type_.as_deref(), Some("NodePort"));
    assert_eq!(spec.external_traffic_policy.as_deref(), Some("Local"));
    assert_eq!(spec.load_balancer_class, None, "which only a load balancer can have");
}

#[test]
fn invalid_parameters_freeze_services() {
    let mut local = wanted_gateway(&[80]);
    local.parameters = Some([("externalTrafficPolicy".into(), "Local".into())].into());
    let existing = as_stored(&single_service(&local));
    let unusable = single_service(&WantedGateway { parameters: None, ..wanted_gateway(&[80, 443]) });
    assert_eq!(edit(Some(&existing), &unusable, "uid-1"), ServiceEdit::Nothing);
    assert_eq!(edit(None, &unusable, "uid-1"), ServiceEdit::Nothing);
    assert_eq!(edit(Some(&existing), &unusable, "uid-2"), ServiceEdit::Foreign);
}

#[test]
fn the_addresses_of_a_service_are_ipv4_first() {
    let read = |json: Value| {
        let addresses = addresses(&serde_json::from_value(json).unwrap());
        addresses.iter().map(|it| it.value.to_string()).collect::<Vec<_>>()
    };
    let balanced = json!({ "spec": { "type": "LoadBalancer", "clusterIP": "10.0.0.1" },
        "status": { "loadBalancer": { "ingress": [
            { "ip": "2001:db8::1" }, { "hostname": "lb.example" }, { "ip": "192.0.2.1" },
        ] } } });
    assert_eq!(read(balanced), ["192.0.2.1", "2001:db8::1", "lb.example"]);
    let inside = json!({ "spec": { "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"] } });
    assert_eq!(read(inside), ["10.0.0.1", "fd00::1"]);
    assert!(read(json!({ "spec": { "type": "LoadBalancer", "clusterIP": "10.0.0.1" } })).is_empty());
}

#[test]
fn a_removed_traffic_policy_is_reset_unless_set_by_others() {
    let plain = wanted_gateway(&[80]);
    let mut local = wanted_gateway(&[80]);
    local.parameters = Some([("externalTrafficPolicy".into(), "Local".into())].into());
    let existing = as_stored(&single_service(&local));
    let ServiceEdit::Patch(patch) = edit(Some(&existing), &single_service(&plain), "uid-1") else {
        panic!("no patch")
    };
    assert_eq!(patch["spec"], json!({ "externalTrafficPolicy": "Cluster" }));
    let mut theirs = as_stored(&single_service(&plain));
    theirs.spec.as_mut().unwrap().external_traffic_policy = Some("Local".to_owned());
    assert_eq!(edit(Some(&theirs), &single_service(&plain), "uid-1"), ServiceEdit::Nothing);
}
