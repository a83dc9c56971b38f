//! An update after any edits of Gateway API objects equals a translation from scratch, at a cost that depends on the
//! edit and not on the number of objects.

use std::sync::LazyLock;
use std::time::Duration;

use fairway_ingress::{Translator, translate};
use fairway_model::PortProtocol;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::options::{GatewayPlacement, Options};
use fairway_objects::resources::{Change, Resources};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{NOW, object};

const GROUP: &str = "gateway.networking.k8s.io/v1";
const INFERENCE: &str = "inference.networking.k8s.io";
const MULTICLUSTER: &str = "multicluster.x-k8s.io";

/// Shared by all cases, because creating certificates is slow.
static SECRETS: LazyLock<[Value; 2]> = LazyLock::new(|| {
    ["a", "b"].map(|name| {
        let wish = json!({"kind": "Certificate", "metadata": metadata("a", name, 0), "names": ["a.test"]});
        match object(wish) {
            fairway_objects::object::Object::Secret(secret) => {
                let mut value = serde_json::to_value(&*secret).unwrap();
                value["kind"] = json!("Secret");
                value
            }
            _ => panic!("a certificate is a Secret"),
        }
    })
});

#[derive(Clone, Debug)]
enum Edit {
    Set(Value),
    Remove(Kind, ObjectKey),
    Place(u16),
    Publish(usize),
}

fn metadata(namespace: &str, name: &str, day: u32) -> Value {
    let created = format!("2026-01-{:02}T00:00:00Z", day + 1);
    json!({"name": name, "namespace": namespace, "creationTimestamp": created, "generation": 1})
}

fn namespace() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b"])
}

fn host() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "a.test", "*.test", "x.a.test", "*.a.test"])
}

fn listener(at: usize) -> impl Strategy<Value = Value> {
    let protocol = prop::sample::select(vec!["HTTP", "HTTP", "HTTPS", "TLS", "TCP", "UDP"]);
    let from = prop::sample::select(vec!["Same", "All", "Selector"]);
    let secret = prop::sample::select(vec![("a", "a"), ("a", "b"), ("a", "gone"), ("b", "a")]);
    (protocol, from, secret, host(), 80..82_u16).prop_map(move |(protocol, from, (namespace, secret), host, port)| {
        let allowed = json!({"namespaces": {"from": from, "selector": {"matchLabels": {"team": "red"}}}});
        let mut listener =
            json!({"name": format!("l{at}"), "port": port, "protocol": protocol, "allowedRoutes": allowed});
        if !host.is_empty() && !matches!(protocol, "TCP" | "UDP") {
            listener["hostname"] = json!(host);
        }
        let certificates = json!([{"name": secret, "namespace": namespace}]);
        match protocol {
            "HTTPS" => listener["tls"] = json!({"certificateRefs": certificates}),
            "TLS" if secret == "b" => listener["tls"] = json!({"mode": "Passthrough"}),
            "TLS" => listener["tls"] = json!({"certificateRefs": certificates}),
            _ => {}
        }
        listener
    })
}

fn listeners() -> impl Strategy<Value = Value> {
    (1..3_usize).prop_flat_map(|count| {
        (0..count).map(listener).collect::<Vec<_>>().prop_map(|listeners| json!(listeners))
    })
}

fn gateway() -> impl Strategy<Value = Value> {
    let class = prop::sample::select(vec!["c0", "c0", "c1"]);
    let sets = prop::sample::select(vec!["None", "Same", "All"]);
    let client = prop::sample::select(vec![None, Some("a"), Some("gone")]);
    (0..2_u32, class, sets, client, listeners()).prop_map(|(at, class, sets, client, listeners)| {
        let mut spec = json!({"gatewayClassName": class, "listeners": listeners,
                              "allowedListeners": {"namespaces": {"from": sets}}});
        if let Some(secret) = client {
            spec["tls"] = json!({"backend": {"clientCertificateRef": {"name": secret}}});
        }
        json!({"apiVersion": GROUP, "kind": "Gateway", "metadata": metadata("a", &format!("g{at}"), at), "spec": spec})
    })
}

fn set() -> impl Strategy<Value = Value> {
    (0..2_u32, 0..2_u32, namespace(), listeners()).prop_map(|(at, parent, namespace, listeners)| {
        let spec =
            json!({"parentRef": {"name": format!("g{parent}"), "namespace": "a"}, "listeners": listeners});
        let metadata = metadata(namespace, &format!("s{at}"), 1 - at);
        json!({"apiVersion": GROUP, "kind": "ListenerSet", "metadata": metadata, "spec": spec})
    })
}

fn parent() -> impl Strategy<Value = Value> {
    let section = prop::sample::select(vec![None, None, Some("l0"), Some("l1")]);
    (0..2_u32, namespace(), any::<bool>(), section).prop_map(|(at, namespace, set, section)| {
        let mut parent = match set {
            true => json!({"kind": "ListenerSet", "name": format!("s{at}"), "namespace": namespace}),
            false => json!({"name": format!("g{at}"), "namespace": "a"}),
        };
        if let Some(section) = section {
            parent["sectionName"] = json!(section);
        }
        parent
    })
}

fn backend() -> impl Strategy<Value = Value> {
    (0..2_u32, namespace(), 0..5_u32).prop_map(|(at, namespace, variant)| match variant {
        0 => json!({"group": INFERENCE, "kind": "InferencePool", "name": format!("i{at}"), "namespace": namespace}),
        1 => json!({"group": MULTICLUSTER, "kind": "ServiceImport", "name": format!("v{at}"), "namespace": namespace, "port": 80}),
        _ => json!({"name": format!("v{at}"), "namespace": namespace, "port": 80}),
    })
}

/// The same route or policy with another status: first none, then that of another controller, then also its own.
fn with_entries(mut value: Value, status: u32) -> Value {
    value["metadata"]["resourceVersion"] = json!(status.to_string());
    let to = json!({"name": "g0", "namespace": "a"});
    let entry = |controller| json!({"controllerName": controller, "parentRef": to, "ancestorRef": to, "conditions": []});
    let entries: Vec<_> = ["example.com/other", "fairway.dev/gateway-controller"][..status.min(2) as usize]
        .iter()
        .map(entry)
        .collect();
    let is_policy = value["kind"].as_str().unwrap().ends_with("Policy");
    let list = if is_policy { "ancestors" } else { "parents" };
    value["status"] = json!({list: entries});
    value
}

/// The objects that a batch sets, with another status and no other change.
fn with_other_status(batch: &[Edit], status: u32) -> Vec<Edit> {
    let of_it = |edit: &Edit| match edit {
        Edit::Set(value) => match value["kind"].as_str()? {
            "Gateway" | "ListenerSet" => Some(Edit::Set(with_status(value.clone(), status))),
            kind if kind.ends_with("Route") || kind.ends_with("Policy") || kind == "InferencePool" => {
                Some(Edit::Set(with_entries(value.clone(), status)))
            }
            _ => None,
        },
        _ => None,
    };
    batch.iter().filter_map(of_it).collect()
}

/// The same Gateway or ListenerSet with another status.
fn with_status(mut value: Value, status: u32) -> Value {
    value["metadata"]["resourceVersion"] = json!(status.to_string());
    // The second has this controller's messages, by which the controller recognises its own status.
    let own_condition = json!({
        "type": "Programmed", "status": "True", "reason": "Programmed", "message": "its listeners are bound",
        "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    value["status"] = json!({"conditions": if status == 1 { vec![own_condition] } else { Vec::new() }});
    value
}

fn route() -> impl Strategy<Value = Value> {
    let kinds = vec!["HTTPRoute", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"];
    let kind = prop::sample::select(kinds);
    let path = prop::sample::select(vec!["/", "/a", "/("]);
    let parents = prop::collection::vec(parent(), 0..3);
    let filter = prop::sample::select(vec![None, None, Some("f0"), Some("f1")]);
    (0..3_u32, kind, namespace(), parents, host(), backend(), (path, filter)).prop_map(
        |(at, kind, namespace, parents, host, backend, (path, filter))| {
            let mut rule = json!({"backendRefs": [backend]});
            if let Some(name) = filter.filter(|_| matches!(kind, "HTTPRoute" | "GRPCRoute")) {
                let reference = json!({"group": "fairway.dev", "kind": "HTTPRouteFilter", "name": name});
                rule["filters"] = json!([{"type": "ExtensionRef", "extensionRef": reference}]);
            }
            if kind == "HTTPRoute" {
                let kind = if path == "/(" { "RegularExpression" } else { "PathPrefix" };
                rule["matches"] = json!([{"path": {"type": kind, "value": path}}]);
            }
            let mut spec = json!({"parentRefs": parents, "rules": [rule]});
            if !host.is_empty() && !matches!(kind, "TCPRoute" | "UDPRoute") {
                spec["hostnames"] = json!([host]);
            }
            let metadata = metadata(namespace, &format!("r{at}"), at);
            json!({"apiVersion": GROUP, "kind": kind, "metadata": metadata, "spec": spec})
        },
    )
}

/// A filter for both kinds of routes, for one, or for none.
fn filter() -> impl Strategy<Value = Value> {
    let specs = prop::sample::select(vec![
        json!({"responseHeaders": {"set": [{"name": "X-A", "value": "{request.id}"}]}}),
        json!({"directResponse": {"body": "a"}}),
        json!({"requestHeaders": {"set": [{"name": "X-A", "value": "{request.body}"}]}}),
    ]);
    (0..2_u32, namespace(), specs).prop_map(|(at, namespace, spec)| {
        let metadata = metadata(namespace, &format!("f{at}"), at);
        json!({"apiVersion": "fairway.dev/v1alpha1", "kind": "HTTPRouteFilter", "metadata": metadata, "spec": spec})
    })
}

/// An InferencePool whose picker is a Service that may exist, or a Pod that may belong to it.
fn pool_or_pod() -> impl Strategy<Value = Value> {
    (0..2_u32, 0..2_u32, namespace(), 0..4_u32).prop_map(|(at, label, namespace, variant)| {
        let labels = json!({"app": format!("m{label}")});
        if variant > 1 {
            let mut metadata = metadata(namespace, &format!("i{at}"), 0);
            metadata["labels"] = labels;
            let ready = json!([{"type": "Ready", "status": if variant == 2 { "True" } else { "False" }}]);
            return json!({"kind": "Pod", "metadata": metadata,
                          "status": {"podIP": format!("10.7.0.{at}"), "conditions": ready}});
        }
        let mode = if variant == 0 { "FailOpen" } else { "FailClose" };
        let picker = json!({"name": "v0", "port": {"number": 80}, "failureMode": mode});
        let ports = json!([{"number": if label == 0 { 8000 } else { 8001 }}]);
        let selector = json!({"matchLabels": labels});
        let spec = json!({"selector": selector, "targetPorts": ports, "endpointPickerRef": picker});
        json!({"apiVersion": format!("{INFERENCE}/v1"), "kind": "InferencePool",
               "metadata": metadata(namespace, &format!("i{at}"), at), "spec": spec})
    })
}

/// A ServiceImport named like a Service, or a slice that may belong to either or both.
fn import_or_slice() -> impl Strategy<Value = Value> {
    (0..2_u32, 0..3_u32, 0..3_u32, namespace()).prop_map(|(at, service, import, namespace)| {
        if service == 0 {
            return json!({"apiVersion": format!("{MULTICLUSTER}/v1alpha1"), "kind": "ServiceImport",
                          "metadata": metadata(namespace, &format!("v{at}"), 0),
                          "spec": {"ports": [{"port": 80 + import, "name": "web"}]}});
        }
        let mut slice = metadata(namespace, &format!("e{at}"), 0);
        if service == 1 {
            slice["labels"]["kubernetes.io/service-name"] = json!("v0");
        }
        if import > 0 {
            slice["labels"]["multicluster.kubernetes.io/service-name"] = json!(format!("v{}", import - 1));
        }
        json!({"kind": "EndpointSlice", "metadata": slice, "addressType": "IPv4",
               "ports": [{"name": "web", "port": 3000}], "endpoints": [{"addresses": [format!("10.8.0.{at}")]}]})
    })
}

fn other_object() -> impl Strategy<Value = Value> {
    let kinds = vec![
        "HTTPRoute",
        "GRPCRoute",
        "UDPRoute",
        "Gateway",
        "ListenerSet",
        "SecurityPolicy",
        "ExtensionPolicy",
    ];
    let kind = prop::sample::select(kinds);
    let controller = prop::sample::select(vec!["fairway.dev/gateway-controller", "example.com/other"]);
    let team = prop::sample::select(vec!["red", "blue"]);
    let ca = prop::sample::select(vec!["ca", "gone"]);
    prop_oneof![
        (kind, namespace(), namespace()).prop_map(|(kind, from, to)| {
            let is_own = matches!(kind, "SecurityPolicy" | "ExtensionPolicy");
            let group = if is_own { "fairway.dev" } else { "gateway.networking.k8s.io" };
            let spec = json!({
                "from": [{"group": group, "kind": kind, "namespace": from}],
                "to": [{"group": "", "kind": "Service"}, {"group": "", "kind": "Secret"},
                       {"group": INFERENCE, "kind": "InferencePool"},
                       {"group": MULTICLUSTER, "kind": "ServiceImport"}],
            });
            json!({"apiVersion": GROUP, "kind": "ReferenceGrant", "metadata": metadata(to, kind, 0), "spec": spec})
        }),
        controller.prop_map(|controller| {
            let metadata = json!({"name": "c0"});
            json!({"apiVersion": GROUP, "kind": "GatewayClass", "metadata": metadata,
                   "spec": {"controllerName": controller, "parametersRef":
                            {"group": "", "kind": "ConfigMap", "name": "place", "namespace": "a"}}})
        }),
        prop::sample::select(vec![
            json!({"address": "shared"}),
            json!({"address": "shared"}),
            json!({"address": "own"}),
            json!({"address": "elsewhere"}),
            json!({"address": "shared", "other": ""}),
            json!({}),
        ])
        .prop_map(|data| json!({"kind": "ConfigMap", "metadata": metadata("a", "place", 0), "data": data})),
        (namespace(), team).prop_map(|(name, team)| {
            json!({"kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}})
        }),
        (0..2_u32, namespace(), any::<bool>()).prop_map(|(at, namespace, named)| {
            let name = if named { "web" } else { "" };
            json!({"kind": "Service", "metadata": metadata(namespace, &format!("v{at}"), 0),
                   "spec": {"ports": [{"port": 80, "name": name}, {"port": 80, "protocol": "UDP", "name": "dns"}]}})
        }),
        (0..2_u32, 0..2_u32, namespace(), any::<bool>(), ca).prop_map(|(at, service, namespace, section, ca)| {
            let mut target = json!({"group": "", "kind": "Service", "name": format!("v{service}")});
            if section {
                target["sectionName"] = json!("web");
            }
            let validation =
                json!({"hostname": "v.test", "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": ca}]});
            json!({"apiVersion": GROUP, "kind": "BackendTLSPolicy", "metadata": metadata(namespace, &format!("p{at}"), at),
                   "spec": {"targetRefs": [target], "validation": validation}})
        }),
        namespace().prop_map(|namespace| {
            let pem = SECRETS[0]["data"]["ca.crt"].clone();
            let pem = if pem.is_null() { SECRETS[0]["stringData"]["ca.crt"].clone() } else { pem };
            json!({"kind": "ConfigMap", "metadata": metadata(namespace, "ca", 0), "data": {"ca.crt": pem}})
        }),
        (0..2_usize).prop_map(|at| SECRETS[at].clone()),
        pool_or_pod(),
        import_or_slice(),
        (80..83_u16, namespace()).prop_map(|(port, namespace)| {
            let port = port.to_string();
            json!({"kind": "ConfigMap", "metadata": metadata("a", "tcp", 0), "data": {port: format!("{namespace}/v0:80")}})
        }),
    ]
}

/// One of Fairway's own policies, for a target that may exist.
fn policy() -> impl Strategy<Value = Value> {
    let client = prop::sample::select(vec![
        json!({"timeouts": {"idle": "1m"}}),
        json!({"proxyProtocol": {"mode": "Off"}}),
        json!({"limits": {"requestBody": "1Mi"}}),
        json!({"timeouts": {"idle": "soon"}}),
        json!({"tracing": {"samplingRate": {"numerator": 1}}}),
    ]);
    let backend = prop::sample::select(vec![
        json!({"limits": {"requestsPerEndpoint": 7}}),
        json!({"loadBalancing": {"algorithm": "Random"}}),
        json!({"limits": {"requestBody": "1Mi"}}),
        json!({"compression": {}, "limits": {"requestBody": "2Mi"}}),
        json!({"buffering": {"requests": {}}}),
        json!({"retry": {"attempts": -1}}),
    ]);
    let issuer = |keys: Value| json!({"jwt": {"issuers": [{"issuer": "a", "keys": keys}]}});
    let security = prop::sample::select(vec![
        issuer(json!({"url": "http://v0.b.svc/"})),
        issuer(json!({"url": "https://v.test/", "caCertificateRefs": [{"kind": "ConfigMap", "name": "ca"}]})),
        json!({"apiKey": {"secretRefs": [{"name": "a", "namespace": "a"}]}}),
        json!({"sourceRanges": {"allow": ["10.0.0.0/8"]}}),
        json!({"concurrencyLimit": {"requests": 3}, "replaceableBy": "None"}),
        json!({"replaceableBy": "All", "basicAuth": {"secretRef": {"name": "a", "namespace": "a"}}}),
        json!({"externalAuth": {"backendRef": {"name": "v0", "namespace": "b", "port": 80}}}),
        json!({"externalAuth": {"backendRef": {"name": "v1", "namespace": "b", "port": 80}, "grpc": {}}}),
        json!({"clientCertificates": {"caCertificateRefs": [{"kind": "ConfigMap", "name": "ca"}]}}),
        json!({}),
    ]);
    let service = |name: &str, mode: &str| json!({"backendRef": {"name": name, "namespace": "b", "port": 80}, "failureMode": mode});
    let extension = prop::sample::select(vec![
        json!({"extProc": [service("v0", "Closed")]}),
        json!({"extProc": [service("v0", "Open"), service("v1", "Closed")]}),
        json!({"extProc": [service("v1", "Open")]}),
        json!({"extProc": []}),
    ]);
    let listening = || {
        let section = prop::sample::select(vec![None, None, Some("l0"), Some("l1")]);
        let name = prop::sample::select(vec![("Gateway", "g0"), ("Gateway", "g1"), ("ListenerSet", "s0")]);
        (name, section)
            .prop_map(|((kind, name), section)| target("gateway.networking.k8s.io", kind, name, section))
    };
    let route = || {
        (prop::sample::select(vec!["HTTPRoute", "GRPCRoute"]), 0..3_u32)
            .prop_map(|(kind, at)| target("gateway.networking.k8s.io", kind, &format!("r{at}"), None))
    };
    let service = (0..2_u32, any::<bool>())
        .prop_map(|(at, section)| target("", "Service", &format!("v{at}"), section.then_some("web")));
    let filter_kinds = prop_oneof![
        (client, listening()).prop_map(|(spec, target)| ("ClientTrafficPolicy", spec, target)),
        (backend, service).prop_map(|(spec, target)| ("BackendTrafficPolicy", spec, target)),
        (extension, prop_oneof![listening(), route()]).prop_map(|(spec, target)| (
            "ExtensionPolicy",
            spec,
            target
        )),
        (security, prop_oneof![listening(), route()]).prop_map(|(spec, target)| (
            "SecurityPolicy",
            spec,
            target
        )),
    ];
    (filter_kinds, 0..3_u32, namespace()).prop_map(|((kind, mut spec, target), at, namespace)| {
        spec["targetRefs"] = json!([target]);
        let metadata = metadata(namespace, &format!("q{at}"), at);
        json!({"apiVersion": "fairway.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
    })
}

fn target(group: &str, kind: &str, name: &str, section: Option<&str>) -> Value {
    let mut target = json!({"group": group, "kind": kind, "name": name});
    if let Some(section) = section {
        target["sectionName"] = json!(section);
    }
    target
}

fn removal() -> impl Strategy<Value = Edit> {
    let kinds = vec![
        (Kind::Gateway, "g"),
        (Kind::ListenerSet, "s"),
        (Kind::HttpRoute, "r"),
        (Kind::GrpcRoute, "r"),
        (Kind::TlsRoute, "r"),
        (Kind::TcpRoute, "r"),
        (Kind::UdpRoute, "r"),
        (Kind::Service, "v"),
        (Kind::BackendTlsPolicy, "p"),
        (Kind::InferencePool, "i"),
        (Kind::ServiceImport, "v"),
        (Kind::EndpointSlice, "e"),
        (Kind::RouteFilter, "f"),
        (Kind::Pod, "i"),
        (Kind::ClientTrafficPolicy, "q"),
        (Kind::BackendTrafficPolicy, "q"),
        (Kind::SecurityPolicy, "q"),
        (Kind::ExtensionPolicy, "q"),
    ];
    (prop::sample::select(kinds), 0..3_u32, namespace()).prop_map(|((kind, prefix), at, namespace)| {
        Edit::Remove(kind, ObjectKey::new(namespace, &format!("{prefix}{at}")))
    })
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        3 => (gateway(), 0..3_u32).prop_map(|(value, status)| Edit::Set(with_status(value, status))),
        3 => (set(), 0..3_u32).prop_map(|(value, status)| Edit::Set(with_status(value, status))),
        5 => route().prop_map(Edit::Set),
        2 => filter().prop_map(Edit::Set),
        3 => other_object().prop_map(Edit::Set),
        3 => policy().prop_map(Edit::Set),
        2 => removal(),
        1 => Just(Edit::Remove(Kind::GatewayClass, ObjectKey::new("", "c0"))),
        1 => Just(Edit::Remove(Kind::Secret, ObjectKey::new("a", "a"))),
        1 => Just(Edit::Remove(Kind::ConfigMap, ObjectKey::new("a", "tcp"))),
        1 => Just(Edit::Remove(Kind::ConfigMap, ObjectKey::new("a", "place"))),
        1 => (0..4_u16).prop_map(Edit::Place),
        1 => (0..2_usize).prop_map(Edit::Publish),
    ]
}

fn change(edit: &Edit) -> Change {
    use fairway_objects::placement::{
        Address, AddressKind, GatewayAddresses, Placement, PortPlacement, PortState,
    };
    match edit {
        Edit::Set(value) => Change::Set(object(value.clone()), None),
        Edit::Remove(kind, key) => Change::Remove(ObjectRef::new(*kind, key.clone())),
        Edit::Publish(count) => {
            let address = Address { kind: AddressKind::Ip, value: "10.0.0.9".into() };
            Change::Published(vec![address; *count].into())
        }
        Edit::Place(at) => {
            let bind = vec![std::net::SocketAddr::from(([0, 0, 0, 0], 30_000 + at))];
            let state = if *at == 3 { PortState::Pending } else { PortState::Bound };
            let addresses = vec![Address { kind: AddressKind::Ip, value: format!("10.0.0.{at}").into() }];
            let port = PortPlacement { bind, state };
            let placement = Placement {
                addresses: GatewayAddresses::Assigned(addresses),
                ports: [(80, port.clone())].into(),
                datagram_ports: [(80, port)].into(),
            };
            let gateway = ObjectKey::new("a", &format!("g{}", at % 2));
            Change::Placed { gateway, placement: (*at != 2).then(|| placement.into()) }
        }
    }
}

fn options(fixed: bool) -> Options {
    let mut options = Options::default();
    if fixed {
        options.gateways.placement = GatewayPlacement::At(vec!["10.9.0.1".parse().unwrap()]);
        options.listeners.http.bind = vec!["10.9.0.1:8080".parse().unwrap()];
        options.listeners.https.public_port = 81;
        options.listeners.service_maps.tcp = Some(ObjectKey::new("a", "tcp"));
    }
    options
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn an_update_gives_what_a_translation_from_scratch_gives(
        fixed: bool,
        batches in prop::collection::vec((prop::collection::vec(edit(), 1..6), 0..3_u32), 1..12),
    ) {
        let options = options(fixed);
        let (mut resources, mut translator) = (Resources::default(), Translator::new(options.clone()));
        let parameters = json!({"group": "", "kind": "ConfigMap", "name": "place", "namespace": "a"});
        let class = json!({"apiVersion": GROUP, "kind": "GatewayClass", "metadata": {"name": "c0"},
                           "spec": {"controllerName": "fairway.dev/gateway-controller", "parametersRef": parameters}});
        resources.apply(Change::Set(object(class), None));
        for secret in &*SECRETS {
            resources.apply(Change::Set(object(secret.clone()), None));
        }
        translator.update(&resources, &[], NOW);
        // Written statuses come back as changes.
        let batches = batches.into_iter().flat_map(|(batch, status)| {
            let written = with_other_status(&batch, status);
            [batch, written]
        });
        for batch in batches {
            let mut changed = Vec::new();
            for edit in &batch {
                let change = change(edit);
                changed.push(change.reference());
                resources.apply(change);
            }
            let updated = translator.update(&resources, &changed, NOW);
            let scratch = translate(&resources, &options, NOW);
            prop_assert_eq!(&updated.gateway, &scratch.gateway);
            prop_assert_eq!(&updated.config, &scratch.config);
            prop_assert_eq!(&updated.diagnostics, &scratch.diagnostics);
        }
    }
}

#[test]
fn a_port_passes_from_a_gateway_to_a_configmap_of_services_and_back() {
    let options = options(true);
    let (mut resources, mut translator) = (Resources::default(), Translator::new(options.clone()));
    let class = json!({"apiVersion": GROUP, "kind": "GatewayClass", "metadata": {"name": "c0"},
                       "spec": {"controllerName": "fairway.dev/gateway-controller"}});
    let gateway = json!({"apiVersion": GROUP, "kind": "Gateway", "metadata": metadata("a", "g0", 0), "spec": {
        "gatewayClassName": "c0", "listeners": [{"name": "l", "port": 80, "protocol": "HTTP"}]}});
    let service =
        json!({"kind": "Service", "metadata": metadata("a", "v0", 0), "spec": {"ports": [{"port": 80}]}});
    for value in [class, gateway, service] {
        resources.apply(Change::Set(object(value), None));
    }
    let map = |port: &str| {
        let data = json!({port: "a/v0:80"});
        Edit::Set(json!({"kind": "ConfigMap", "metadata": metadata("a", "tcp", 0), "data": data}))
    };
    let mut listeners_at_80 = |edit: Option<Edit>| {
        let change = edit.as_ref().map(change);
        let changed: Vec<_> = change.iter().map(Change::reference).collect();
        change.into_iter().for_each(|change| resources.apply(change));
        let updated = translator.update(&resources, &changed, NOW);
        let scratch = translate(&resources, &options, NOW);
        assert_eq!((&updated.config, &updated.gateway), (&scratch.config, &scratch.gateway));
        assert_eq!(updated.diagnostics, scratch.diagnostics);
        let at_80 = updated.config.listeners.values().filter(|it| it.bind.iter().any(|at| at.port() == 80));
        at_80.map(|it| it.origin.kind.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listeners_at_80(None), ["Gateway"]);
    assert_eq!(listeners_at_80(Some(map("80"))), ["ConfigMap"]);
    assert_eq!(listeners_at_80(Some(map("81"))), ["Gateway"]);
    assert_eq!(listeners_at_80(Some(map("80"))), ["ConfigMap"]);
    let gone = Edit::Remove(Kind::ConfigMap, ObjectKey::new("a", "tcp"));
    assert_eq!(listeners_at_80(Some(gone)), ["Gateway"]);
}

fn thread_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(spent).unwrap()
}

fn set_of(at: usize) -> Value {
    let listeners = json!([{"name": "l", "port": 80, "protocol": "HTTP", "hostname": format!("s{at}.test")}]);
    json!({"apiVersion": GROUP, "kind": "ListenerSet", "metadata": metadata("a", &format!("s{at}"), 0),
           "spec": {"parentRef": {"name": "g0"}, "listeners": listeners}})
}

fn route_of(at: usize, path: &str, to_set: bool) -> Value {
    let parent = match to_set {
        true => json!({"kind": "ListenerSet", "name": format!("s{at}")}),
        false => json!({"name": "g0"}),
    };
    let rule = json!({"matches": [{"path": {"value": path}}], "backendRefs": [{"name": "v0", "port": 80}]});
    let mut spec = json!({"parentRefs": [parent], "rules": [rule]});
    if !to_set {
        spec["hostnames"] = json!([format!("h{at}.test")]);
    }
    json!({"apiVersion": GROUP, "kind": "HTTPRoute", "metadata": metadata("a", &format!("r{at}"), 0), "spec": spec})
}

/// The minimum CPU time of a change of one route among `count`, each with its own ListenerSet or all at the Gateway.
fn cost_of_a_route(count: usize, sets: bool) -> Duration {
    let mut resources = Resources::default();
    let class = json!({"apiVersion": GROUP, "kind": "GatewayClass", "metadata": {"name": "c0"},
                       "spec": {"controllerName": "fairway.dev/gateway-controller"}});
    let gateway = json!({"apiVersion": GROUP, "kind": "Gateway", "metadata": metadata("a", "g0", 0), "spec": {
        "gatewayClassName": "c0", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
        "allowedListeners": {"namespaces": {"from": "All"}}}});
    let service =
        json!({"kind": "Service", "metadata": metadata("a", "v0", 0), "spec": {"ports": [{"port": 80}]}});
    for value in [class, gateway, service] {
        resources.apply(Change::Set(object(value), None));
    }
    for at in 0..count {
        if sets {
            resources.apply(Change::Set(object(set_of(at)), None));
        }
        resources.apply(Change::Set(object(route_of(at, "/", sets)), None));
    }
    let mut translator = Translator::new(options(true));
    let first = translator.update(&resources, &[], NOW);
    assert!(first.config.hosts.len() >= count, "{}", first.config.hosts.len());
    let mut least = Duration::MAX;
    for at in 0..50 {
        let change = Change::Set(object(route_of(at * 97 % count, "/other", sets)), None);
        let changed = [change.reference()];
        resources.apply(change);
        let began = thread_time();
        let updated = translator.update(&resources, &changed, NOW);
        least = least.min(thread_time() - began);
        assert_ne!(updated.config, first.config);
    }
    least
}

#[test]
fn a_status_update_changes_only_the_version() {
    let mut resources = Resources::default();
    let class = json!({"apiVersion": GROUP, "kind": "GatewayClass", "metadata": {"name": "c0"},
                       "spec": {"controllerName": "fairway.dev/gateway-controller"}});
    let gateway = json!({"apiVersion": GROUP, "kind": "Gateway", "metadata": metadata("a", "g0", 0), "spec": {
        "gatewayClassName": "c0", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}});
    for value in [class, gateway.clone()] {
        resources.apply(Change::Set(object(value), None));
    }
    let mut translator = Translator::new(options(true));
    let first = translator.update(&resources, &[], NOW);
    let written = Change::Set(object(with_status(gateway, 7)), None);
    let changed = [written.reference()];
    resources.apply(written);
    let second = translator.update(&resources, &changed, NOW);
    assert_eq!(first.config, second.config);
    let status = &second.gateway.statuses[&changed[0]];
    assert_eq!(
        (&*status.version, &status.own_status),
        ("7", &first.gateway.statuses[&changed[0]].own_status)
    );
}

/// A Gateway with an HTTPS port, and a ListenerSet with another one; both use the certificate of Secret `a`, which
/// the Gateway also presents to endpoints.
fn with_certificates() -> Resources {
    let mut resources = Resources::default();
    let class = json!({"apiVersion": GROUP, "kind": "GatewayClass", "metadata": {"name": "c0"},
                       "spec": {"controllerName": "fairway.dev/gateway-controller"}});
    let https = |port: u16| {
        let tls = json!({"certificateRefs": [{"name": "a"}]});
        json!([{"name": "https", "port": port, "protocol": "HTTPS", "tls": tls}])
    };
    let gateway = json!({"apiVersion": GROUP, "kind": "Gateway", "metadata": metadata("a", "g0", 0), "spec": {
        "gatewayClassName": "c0", "listeners": https(443), "allowedListeners": {"namespaces": {"from": "All"}},
        "tls": {"backend": {"clientCertificateRef": {"name": "a"}}}}});
    let set = json!({"apiVersion": GROUP, "kind": "ListenerSet", "metadata": metadata("a", "s0", 0),
                     "spec": {"parentRef": {"name": "g0"}, "listeners": https(8443)}});
    for value in [class, gateway, set] {
        resources.apply(Change::Set(object(value), None));
    }
    resources
}

#[test]
fn a_port_is_served_once_its_listener_has_a_certificate() {
    let mut resources = with_certificates();
    let mut translator = Translator::new(options(true));
    let key = ObjectKey::new("a", "g0");
    let without = translator.update(&resources, &[], NOW).gateway.wanted_gateways[&key].clone();
    assert!(without.ports.contains_key(&443), "its Service has the port");
    assert!(without.served.is_empty(), "{:?}", without.served);
    let secret = Change::Set(object(SECRETS[0].clone()), None);
    let changed = [secret.reference()];
    resources.apply(secret);
    let with = translator.update(&resources, &changed, NOW).gateway.wanted_gateways[&key].clone();
    assert_eq!(with.served, [443, 8443].map(|port| (PortProtocol::Tcp, port)).into());
}

#[test]
fn a_certificate_that_breaks_stays_in_use_at_listener_sets_and_towards_endpoints() {
    let mut resources = with_certificates();
    resources.apply(Change::Set(object(SECRETS[0].clone()), None));
    let route = json!({"apiVersion": GROUP, "kind": "HTTPRoute", "metadata": metadata("a", "r0", 0), "spec": {
        "parentRefs": [{"kind": "ListenerSet", "name": "s0"}],
        "rules": [{"backendRefs": [{"name": "v0", "port": 443}]}]}});
    let service =
        json!({"kind": "Service", "metadata": metadata("a", "v0", 0), "spec": {"ports": [{"port": 443}]}});
    let policy = json!({"apiVersion": GROUP, "kind": "BackendTLSPolicy", "metadata": metadata("a", "p0", 0), "spec": {
        "targetRefs": [{"group": "", "kind": "Service", "name": "v0"}],
        "validation": {"hostname": "v0.test", "wellKnownCACertificates": "System"}}});
    for value in [route, service, policy] {
        resources.apply(Change::Set(object(value), None));
    }
    let mut translator = Translator::new(options(true));
    let good = translator.update(&resources, &[], NOW);
    let mut broken = SECRETS[0].clone();
    broken["stringData"]["tls.crt"] = json!("nonsense");
    let broken = Change::Set(object(broken), None);
    let changed = [broken.reference()];
    resources.apply(broken);
    let update = translator.update(&resources, &changed, NOW);
    assert_eq!(update.config, good.config);
    let key = ObjectKey::new("a", "g0");
    assert_eq!(update.gateway.wanted_gateways[&key], good.gateway.wanted_gateways[&key]);
    let statuses = &update.gateway.statuses;
    let status_of = |kind: Kind, name: &str| {
        format!("{:?}", statuses[&ObjectRef::new(kind, ObjectKey::new("a", name))].own_status)
    };
    let of_set = status_of(Kind::ListenerSet, "s0");
    assert!(of_set.contains("has no certificate that can be used"), "{of_set}");
    assert!(status_of(Kind::Gateway, "g0").contains("InvalidClientCertificateRef"));
}

#[test]
fn a_gateway_recreated_within_a_second_is_a_new_one() {
    let mut resources = Resources::default();
    let class = json!({"apiVersion": GROUP, "kind": "GatewayClass", "metadata": {"name": "c0"},
                       "spec": {"controllerName": "fairway.dev/gateway-controller"}});
    let mut gateway = json!({"apiVersion": GROUP, "kind": "Gateway", "metadata": metadata("a", "g0", 0), "spec": {
        "gatewayClassName": "c0", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}});
    gateway["metadata"]["uid"] = json!("first");
    for value in [class, gateway.clone()] {
        resources.apply(Change::Set(object(value), None));
    }
    let mut translator = Translator::new(options(true));
    translator.update(&resources, &[], NOW);
    gateway["metadata"]["uid"] = json!("second");
    let again = Change::Set(object(gateway), None);
    let changed = [again.reference()];
    resources.apply(again);
    let second = translator.update(&resources, &changed, NOW);
    assert_eq!(&*second.gateway.wanted_gateways[&ObjectKey::new("a", "g0")].uid, "second");
}

#[test]
fn the_cost_of_a_route_change_does_not_depend_on_the_number_of_routes() {
    for sets in [false, true] {
        let (few, many) = (cost_of_a_route(200, sets), cost_of_a_route(4_000, sets));
        println!("with ListenerSets: {sets}; one of 200: {few:?}, one of 4,000: {many:?}");
        // A cost proportional to the number of routes would be twenty times as high.
        assert!(many < few * 5, "one change among 200 took {few:?}, among 4,000 {many:?}");
    }
}
