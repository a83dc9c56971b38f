//! Parses manifests into resources and creates certificates.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a manifest of a test that cannot be read is a wrong test")]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairway_objects::kinds::KINDS;
use fairway_objects::manifest;
use fairway_objects::object::{DocumentSource, Object, ObjectKey};
use fairway_objects::options::{
    Compat, Defaults, ExternalNames, GatewayPlacement, HostOwnership, LogFormatChoice, LoopbackEndpoints,
    Options, ProxySenders, ReservedPorts, UnsupportedProtection, WithoutClass,
};
use fairway_objects::own_addresses::OwnListener;
use fairway_objects::placement::{
    Address, AddressKind, GatewayAddresses, Placement, PortPlacement, PortState,
};
use fairway_objects::resources::{Change, Resources};
use fairway_objects::with_type;
use fairway_testkit::golden;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

/// The time of all tests: 2026-01-01.
pub const NOW: i64 = 1_767_225_600;

/// Manifests, with options from a document of kind `Options`.
#[derive(Default)]
pub struct Scene {
    pub resources: Resources,
    pub options: Options,
}

/// Reads documents. In addition to Kubernetes kinds: `Options`, and `Certificate` for a TLS Secret with a new
/// certificate. A SecurityPolicy or ExtensionPolicy is invalid in the field that `refused` names.
pub fn scene(yaml: &str) -> Scene {
    let mut scene = Scene::default();
    for change in changes(yaml, &mut scene.options) {
        scene.resources.apply(change);
    }
    scene
}

/// The documents as edits.
pub fn changes(yaml: &str, options: &mut Options) -> Vec<Change> {
    let mut changes = Vec::new();
    for section in manifest::sections(yaml) {
        let root = manifest::parse(&section).unwrap().unwrap();
        let value = root.to_json();
        let source = DocumentSource { file: "in.yaml".into(), line: root.line, lines: None };
        match value["kind"].as_str().unwrap_or_default() {
            "Options" => set_options(options, &value),
            "Placement" => changes.push(placed(&value)),
            _ => changes.push(Change::Set(object(value), Some(source))),
        }
    }
    changes
}

/// A manifest as an object.
pub fn object(value: Value) -> Object {
    let kind = value["kind"].as_str().unwrap().to_owned();
    let version = value["apiVersion"].as_str().unwrap_or_default().to_owned();
    match (kind.as_str(), version.as_str()) {
        ("Ingress", version) if version != "networking.k8s.io/v1" => return Object::OldIngress(value),
        ("Certificate", _) => return from::<Secret>(certificate(&value)),
        _ => {}
    }
    let refused = value["refused"].as_str().map(str::to_owned);
    let known = KINDS.iter().find(|known| known.name == kind).expect("no such kind");
    let mut object = with_type!(known.kind, K => from::<K>(value), _ => unreachable!());
    refused.iter().for_each(|field| object.refuse(field, "cannot be read"));
    object
}

/// The placement of a Gateway: `addresses`, and `ports` with `bound`, `pending` or an error; bound ports are offset
/// by 30000. `datagramPorts` are those of UDP.
fn placed(value: &Value) -> Change {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let addresses = value["addresses"].as_array().into_iter().flatten();
    let addresses: Vec<_> =
        addresses.map(|it| Address { kind: AddressKind::Ip, value: text(it).into() }).collect();
    let port = |(number, state): (&String, &Value)| {
        let number: u16 = number.parse().unwrap();
        let bind = vec![SocketAddr::from(([0, 0, 0, 0], number % 30_000 + 30_000))];
        let placed = match state.as_str().unwrap() {
            "bound" => PortPlacement { bind, state: PortState::Bound },
            "pending" => PortPlacement { bind, state: PortState::Pending },
            why => PortPlacement { bind: Vec::new(), state: PortState::Failed(why.into()) },
        };
        (number, placed)
    };
    let ports = |field: &str| value[field].as_object().into_iter().flatten().map(port).collect();
    let addresses = match (value["notUsable"].as_str(), value["pending"].as_str()) {
        (Some(why), _) => GatewayAddresses::NotUsable { why: why.into(), usable: addresses },
        (_, Some(why)) => GatewayAddresses::Pending(why.into()),
        (None, None) => GatewayAddresses::Assigned(addresses),
    };
    let placement = Placement { addresses, ports: ports("ports"), datagram_ports: ports("datagramPorts") };
    let metadata = &value["metadata"];
    let gateway = ObjectKey::new(&text(&metadata["namespace"]), &text(&metadata["name"]));
    Change::Placed { gateway, placement: Some(Arc::new(placement)) }
}

fn from<T: serde::de::DeserializeOwned + Into<Object>>(value: Value) -> Object {
    serde_json::from_value::<T>(value).unwrap().into()
}

/// A Secret with a certificate for `names`, valid for the years `from` to `until`; with `foreignKey`, the key belongs
/// to another certificate.
fn certificate(wish: &Value) -> Value {
    let names: Vec<String> =
        wish["names"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().into()).collect();
    let year = |field: &str, default| i32::try_from(wish[field].as_i64().unwrap_or(default)).unwrap();
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.not_before = rcgen::date_time_ymd(year("from", 2020), 1, 1);
    params.not_after = rcgen::date_time_ymd(year("until", 2040), 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let foreign = wish["foreignKey"].as_bool().unwrap_or(false);
    let key = if foreign { rcgen::KeyPair::generate().unwrap() } else { key };
    let data = json!({"tls.crt": pem, "tls.key": key.serialize_pem(), "ca.crt": pem});
    json!({"kind": "Secret", "metadata": wish["metadata"], "type": "kubernetes.io/tls", "stringData": data})
}

fn set_options(options: &mut Options, value: &Value) {
    let key = |field: &str| value[field].as_str().and_then(ObjectKey::parse);
    let is = |field: &str| value[field].as_bool().unwrap_or(false);
    options.configmap = key("configmap");
    options.defaults = Defaults { certificate: key("defaultCertificate"), backend: key("defaultBackend") };
    if is("compat") {
        options.controllers.push("k8s.io/ingress-nginx".into());
        options.ingress_classes.push("nginx".into());
    }
    if is("withoutClass") {
        options.without_class = WithoutClass::Served;
    }
    if is("externalNames") {
        options.trust.external.names = ExternalNames::Resolved;
    }
    let ranges = |field: &str| -> Vec<_> {
        let list = value[field].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().map(|range| range.as_str().unwrap().parse().unwrap()).collect()
    };
    options.trust.forwarders = ranges("forwarders");
    if !value["proxyProtocol"].is_null() {
        options.trust.proxy_protocol = ProxySenders::Peers(ranges("proxyProtocol"));
    }
    options.trust.external.allowed = ranges("externalAllow");
    let own_addresses =
        value["own"].as_array().into_iter().flatten().map(|it| it.as_str().unwrap().parse().unwrap());
    let own_listeners = own_addresses.map(|address| OwnListener { address, flag: "--own" });
    options.trust.external.own_addresses.listeners = own_listeners.collect();
    if is("loopback") {
        options.loopback_endpoints = LoopbackEndpoints::Accepted;
    }
    if is("ignoreProtection") {
        options.hosts.unsupported_protection = UnsupportedProtection::Ignored;
    }
    if value["sslPassthrough"] == false {
        options.hosts.ssl_passthrough = false;
    }
    if value["compat"] == "strict" {
        options.hosts.compat = Compat::Strict;
    }
    if value["hostOwnership"] == "namespace" {
        options.hosts.ownership = HostOwnership::Namespace;
    }
    if value["logFormat"] == "flag" {
        options.hosts.log_format = LogFormatChoice::Flag;
    }
    if let Some(addresses) = value["gatewayAddress"].as_array() {
        let addresses = addresses.iter().map(|it| it.as_str().unwrap().parse().unwrap());
        let addresses: Vec<_> = addresses.collect();
        options.gateways.placement =
            if addresses.is_empty() { GatewayPlacement::Given } else { GatewayPlacement::At(addresses) };
    }
    if value["gatewayAddress"] == "nowhere" {
        options.gateways.placement = GatewayPlacement::Nowhere;
    }
    if let Some(firewall) = value["waf"].as_str() {
        options.firewall = Some(fairway_objects::service_url::firewall(firewall).unwrap());
    }
    if let Some(prefix) = value["prefix"].as_str() {
        options.annotations_prefix = prefix.into();
    }
    set_service_maps(options, value);
}

/// `tcpServices` and `udpServices` are ConfigMaps, `http` the addresses of the plain listener, and `reserved` the
/// ports of `--reserved`.
fn set_service_maps(options: &mut Options, value: &Value) {
    let key = |field: &str| value[field].as_str().and_then(ObjectKey::parse);
    let http = value["http"].as_array().into_iter().flatten();
    options.listeners.http.bind = http.map(|it| it.as_str().unwrap().parse().unwrap()).collect();
    let https = value["https"].as_array().into_iter().flatten();
    options.listeners.https.bind = https.map(|it| it.as_str().unwrap().parse().unwrap()).collect();
    let maps = &mut options.listeners.service_maps;
    (maps.tcp, maps.udp) = (key("tcpServices"), key("udpServices"));
    let reserved = value["reserved"].as_array().into_iter().flatten();
    let reserved = reserved.map(|it| u16::try_from(it.as_u64().unwrap()).unwrap());
    maps.reserved = reserved.map(|port| ReservedPorts::tcp(port, "--reserved")).collect();
    let senders = value["proxySenders"].as_array().into_iter().flatten();
    maps.proxy_senders = senders.map(|it| it.as_str().unwrap().parse().unwrap()).collect();
}

/// Compares the result for `in.yaml` of each folder below `tests/NAME` with its `out.yaml`.
pub fn every_case(name: &str, found: impl Fn(&str) -> String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let entries = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    cases.sort();
    assert!(cases.len() >= 30, "only {} cases", cases.len());
    let check = |case: &PathBuf| {
        let found = found(&fs::read_to_string(case.join("in.yaml")).unwrap());
        let difference = golden::difference(case.join("out.yaml"), &found)?;
        Some(format!("{difference}\nall that was found:\n{found}"))
    };
    let wrong: Vec<String> = cases.iter().filter_map(check).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The effects of a rule in phase order: guards one by one, everything else by phase.
pub fn phases(model: &Value) -> Vec<Value> {
    let guards = model["guards"].as_array().cloned().unwrap_or_default();
    let others =
        ["client", "request", "extensions", "forwarding", "answers", "bounds", "unlogged", "tracing"];
    let others = others.into_iter().filter_map(|name| Some(json!({ name: model.get(name)? })));
    guards.into_iter().chain(others).collect()
}
