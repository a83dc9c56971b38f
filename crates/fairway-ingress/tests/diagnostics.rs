//! Every diagnostic of the translation in one file: those of the golden cases, and those of each known annotation and
//! each key of the settings ConfigMap with valid and invalid values. Changed messages show up here.
//!
//! `UPDATE_GOLDEN=1 cargo test -p fairway-ingress --test integration diagnostics::` rewrites the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use fairway_ingress::{known_annotations, translate};
use fairway_objects::object::ObjectKey;
use fairway_objects::options::{HostOptions, Options, UnsupportedProtection};
use fairway_objects::resources::{Change, Resources};
use serde_json::{Value, json};

use crate::support::{NOW, object, scene};

const PREFIX: &str = "nginx.ingress.kubernetes.io";

/// Each is valid for some annotations and invalid for others.
const VALUES: &[&str] = &[
    "",
    "!",
    "*",
    "/$1",
    "/app",
    "/x?y={z}",
    "10",
    "10.0.0.0/8",
    "10.0.0.0/8,x",
    "8m",
    "GRPC",
    "HTTPS",
    "default/absent",
    "default/headers",
    "default/tls",
    "false",
    "https://$1.test",
    "https://x.test",
    "on",
    "other/tls",
    "true",
];

/// Annotations that are read only together with another one, and that other one.
const COMPANIONS: &[(&str, &[(&str, &str)])] = &[
    ("cors-", &[("enable-cors", "true")]),
    ("opentelemetry-", &[("enable-opentelemetry", "true")]),
    ("permanent-redirect-code", &[("permanent-redirect", "https://x.test")]),
    ("proxy-ssl-", &[("backend-protocol", "HTTPS"), ("proxy-ssl-secret", "default/tls")]),
    ("temporal-redirect-code", &[("temporal-redirect", "https://x.test")]),
];

/// The keys of the settings ConfigMap, and one that does not exist.
const KEYS: &[&str] = &[
    "access-log",
    "add-headers",
    "block-cidrs",
    "block-referers",
    "block-user-agents",
    "brotli-level",
    "brotli-types",
    "client-header-timeout",
    "client-max-body-size",
    "compute-full-forwarded-for",
    "denylist-source-range",
    "disable-access-log",
    "enable-brotli",
    "enable-modsecurity",
    "enable-ocsp",
    "enable-opentelemetry",
    "enable-owasp-modsecurity-crs",
    "enable-real-ip",
    "enable-underscores-in-headers",
    "enable-zstd",
    "force-ssl-redirect",
    "forwarded-for-header",
    "forwarded-path",
    "generate-request-id",
    "global-allowed-response-headers",
    "global-auth-always-set-cookie",
    "global-auth-cache-duration",
    "global-auth-cache-key",
    "global-auth-method",
    "global-auth-request-redirect",
    "global-auth-response-headers",
    "global-auth-signin",
    "global-auth-signin-redirect-param",
    "global-auth-snippet",
    "global-auth-url",
    "gzip-disable",
    "gzip-level",
    "gzip-min-length",
    "gzip-types",
    "hide-headers",
    "hsts",
    "hsts-include-subdomains",
    "hsts-max-age",
    "hsts-preload",
    "http-redirect-code",
    "http-snippet",
    "http2-max-concurrent-streams",
    "http2-max-field-size",
    "http2-max-header-size",
    "http2-max-requests",
    "ignore-invalid-headers",
    "keep-alive",
    "keep-alive-requests",
    "large-client-header-buffers",
    "log-format-escape-json",
    "log-format-escape-none",
    "log-format-escaping",
    "log-format-stream",
    "log-format-upstream",
    "main-template",
    "max-worker-connections",
    "max-worker-open-files",
    "modsecurity-snippet",
    "no-auth-locations",
    "no-such-key",
    "no-tls-redirect-locations",
    "opentelemetry-config",
    "opentelemetry-operation-name",
    "opentelemetry-trust-incoming-span",
    "otel-max-export-batch-size",
    "otel-max-queuesize",
    "otel-sampler",
    "otel-sampler-parent-based",
    "otel-sampler-ratio",
    "otel-schedule-delay-millis",
    "otel-service-name",
    "otlp-collector-host",
    "otlp-collector-port",
    "proxy-body-size",
    "proxy-connect-timeout",
    "proxy-next-upstream",
    "proxy-next-upstream-timeout",
    "proxy-next-upstream-tries",
    "proxy-read-timeout",
    "proxy-real-ip-cidr",
    "proxy-send-timeout",
    "proxy-set-headers",
    "proxy-stream-next-upstream",
    "proxy-stream-next-upstream-tries",
    "proxy-stream-responses",
    "proxy-stream-timeout",
    "retry-non-idempotent",
    "ssl-ciphers",
    "ssl-early-data",
    "ssl-protocols",
    "ssl-redirect",
    "ssl-session-cache-size",
    "upstream-keepalive-connections",
    "upstream-keepalive-requests",
    "upstream-keepalive-timeout",
    "use-forwarded-headers",
    "use-gzip",
    "use-http2",
    "use-http3",
    "use-proxy-protocol",
    "variables-hash-max-size",
    "whitelist-source-range",
    "worker-processes",
    "zstd-level",
    "zstd-types",
];

/// Diagnostics with the inputs that cause them. A repeated input value is replaced with `VALUE`.
#[derive(Default)]
struct CausedDiagnostics(BTreeMap<String, BTreeSet<String>>);

impl CausedDiagnostics {
    fn note(&mut self, resources: &Resources, options: &Options, input: &str) {
        let value = input.trim_end_matches(" alone");
        for diagnostic in translate(resources, options, NOW).diagnostics.iter() {
            let text = diagnostic.to_string().replace(value, "\"VALUE\"");
            self.0.entry(text).or_default().insert(input.to_owned());
        }
    }

    fn write(&self, title: &str, text: &mut String) {
        _ = writeln!(text, "## {title}");
        for (diagnostic, inputs) in &self.0 {
            let inputs = inputs.iter().map(String::as_str).collect::<Vec<_>>().join(" | ");
            _ = writeln!(text, "{diagnostic}\n    {inputs}");
        }
        text.push('\n');
    }
}

#[test]
fn diagnostics_match_the_golden_file() {
    let mut found = String::new();
    golden_cases().write("golden cases", &mut found);
    for known in known_annotations() {
        annotation(known.name).write(&format!("annotation {}", known.name), &mut found);
    }
    for key in KEYS {
        setting(key).write(&format!("setting {key}"), &mut found);
    }
    fairway_testkit::golden::check(golden().join("diagnostics.txt"), &found);
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn golden_cases() -> CausedDiagnostics {
    let mut diagnostics = CausedDiagnostics::default();
    let entries = fs::read_dir(golden()).unwrap().map(|entry| entry.unwrap().path());
    let cases: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    assert!(cases.len() >= 78, "only {} cases", cases.len());
    for case in cases {
        let scene = scene(&fs::read_to_string(case.join("in.yaml")).unwrap());
        diagnostics.note(&scene.resources, &scene.options, case.file_name().unwrap().to_str().unwrap());
    }
    diagnostics
}

/// Options for unsupported protection.
fn closing(unsupported_protection: UnsupportedProtection) -> HostOptions {
    HostOptions { unsupported_protection, ..HostOptions::default() }
}

/// Diagnostics of one annotation with all values, alone and with its companions.
fn annotation(name: &str) -> CausedDiagnostics {
    let beside: Vec<_> = COMPANIONS.iter().filter(|(start, _)| name.starts_with(start)).collect();
    let mut diagnostics = CausedDiagnostics::default();
    for protection in [UnsupportedProtection::Closed, UnsupportedProtection::Ignored] {
        let options = Options { hosts: closing(protection), ..Options::default() };
        for value in VALUES {
            let mut annotations: BTreeMap<&str, &str> =
                beside.iter().flat_map(|(_, companions)| companions.iter().copied()).collect();
            annotations.insert(name, value);
            diagnostics.note(&resources(&annotations, None), &options, &format!("{value:?}"));
            if !beside.is_empty() {
                diagnostics.note(
                    &resources(&[(name, *value)].into(), None),
                    &options,
                    &format!("{value:?} alone"),
                );
            }
        }
    }
    diagnostics
}

/// Diagnostics of one key with all values.
fn setting(key: &str) -> CausedDiagnostics {
    let mut diagnostics = CausedDiagnostics::default();
    let configmap = Some(ObjectKey::new("default", "settings"));
    let protected = [("allowlist-source-range", "10.0.0.0/8")].into();
    for protection in [UnsupportedProtection::Closed, UnsupportedProtection::Ignored] {
        let options =
            Options { configmap: configmap.clone(), hosts: closing(protection), ..Options::default() };
        for value in VALUES {
            diagnostics.note(&resources(&protected, Some((key, value))), &options, &format!("{value:?}"));
        }
    }
    diagnostics
}

/// An Ingress with these annotations, and everything that it may reference.
fn resources(annotations: &BTreeMap<&str, &str>, setting: Option<(&str, &str)>) -> Resources {
    let annotations: BTreeMap<String, &str> =
        annotations.iter().map(|(name, value)| (format!("{PREFIX}/{name}"), *value)).collect();
    let metadata = |name: &str| json!({"name": name, "namespace": "default"});
    let backend = json!({"service": {"name": "main", "port": {"number": 80}}});
    let paths = json!([{"path": "/path/(.*)", "pathType": "ImplementationSpecific", "backend": backend}]);
    let mut ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata("web"),
        "spec": {"ingressClassName": "fairway", "rules": [{"host": "a.test", "http": {"paths": paths}}]},
    });
    ingress["metadata"]["annotations"] = json!(annotations);
    let mut slice = metadata("main-1");
    slice["labels"] = json!({"kubernetes.io/service-name": "main"});
    let class = json!({"controller": "fairway.dev/ingress-controller"});
    let mut objects: Vec<Value> = vec![
        ingress,
        json!({"kind": "IngressClass", "metadata": {"name": "fairway"}, "spec": class}),
        json!({"kind": "Service", "metadata": metadata("main"), "spec": {"ports": [{"port": 80}]}}),
        json!({"kind": "EndpointSlice", "metadata": slice, "addressType": "IPv4", "ports": [{"port": 80}],
               "endpoints": [{"addresses": ["10.0.0.1"]}]}),
        json!({"kind": "ConfigMap", "metadata": metadata("headers"), "data": {"X-One": "1"}}),
        json!({"kind": "Secret", "metadata": metadata("tls"), "stringData": {"ca.crt": "a root"}}),
    ];
    if let Some((key, value)) = setting {
        objects.push(json!({"kind": "ConfigMap", "metadata": metadata("settings"), "data": {key: value}}));
    }
    let mut resources = Resources::default();
    for value in objects {
        resources.apply(Change::Set(object(value), None));
    }
    resources
}
