//! Manifests as text to resources, with certificates made on the spot. Owns no expectations.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a manifest of a test that cannot be read is a wrong test")]

use std::sync::Arc;

use fairway_translate::{
    Change, DocumentSource, ExternalNames, HostOwnership, LogFormatChoice, LoopbackEndpoints, Object,
    ObjectKey, Options, ProxySenders, Resources, UnsupportedProtection, WithoutClass,
};
use serde_json::{Value, json};

/// The moment of all tests: 2026-01-01.
pub const NOW: i64 = 1_767_225_600;

/// A set of manifests with the options that they bring in a document of kind `Options`.
#[derive(Default)]
pub struct Scene {
    pub resources: Resources,
    pub options: Options,
}

/// Reads documents. Beside Kubernetes kinds: `Options`, and `Certificate` for a TLS Secret with a new certificate.
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
    let mut line = 1;
    for text in yaml.split_inclusive("\n---\n") {
        let at = line;
        line += u32::try_from(text.matches('\n').count()).unwrap();
        // A quoted "off" is a text.
        let yaml = serde_saphyr::options! { strict_booleans: true };
        let text = text.trim_end_matches("---\n");
        let value: Value = serde_saphyr::from_str_with_options(text, yaml).unwrap();
        let source = DocumentSource { file: "in.yaml".into(), line: at, lines: None };
        match value["kind"].as_str().unwrap_or_default() {
            "Options" => set_options(options, &value),
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
        ("Ingress", "networking.k8s.io/v1") => Object::Ingress(from(value)),
        ("Ingress", _) => Object::OldIngress(value),
        ("IngressClass", _) => Object::IngressClass(from(value)),
        ("Service", _) => Object::Service(from(value)),
        ("EndpointSlice", _) => Object::EndpointSlice(from(value)),
        ("Secret", _) => Object::Secret(from(value)),
        ("ConfigMap", _) => Object::ConfigMap(from(value)),
        ("Certificate", _) => Object::Secret(from(certificate(&value))),
        other => panic!("no such kind: {other:?}"),
    }
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

/// A Secret with a certificate for `names`, valid for the years `from` to `until`, with the key of another one where
/// `foreignKey` says so.
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
    options.default_certificate = key("defaultCertificate");
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
    let own = value["own"].as_array().into_iter().flatten().map(|it| it.as_str().unwrap().parse().unwrap());
    options.trust.external.own.listeners = own.collect();
    if is("loopback") {
        options.loopback_endpoints = LoopbackEndpoints::Accepted;
    }
    if is("ignoreProtection") {
        options.unsupported_protection = UnsupportedProtection::Ignored;
    }
    if value["hostOwnership"] == "namespace" {
        options.hosts.ownership = HostOwnership::Namespace;
    }
    if value["logFormat"] == "flag" {
        options.hosts.log_format = LogFormatChoice::Flag;
    }
    if let Some(prefix) = value["prefix"].as_str() {
        options.annotations_prefix = prefix.into();
    }
}
