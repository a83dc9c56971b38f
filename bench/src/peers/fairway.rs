//! Fairway with one worker, configured as a user would: by Kubernetes YAML in a directory. Uses no flag or object that
//! `docs` does not show.

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fairway_lab_measure::Executable;
use serde_json::json;

use super::peer::{Peer, first_line};
use crate::collector;
use crate::credential;
use crate::scenario::{ForwardedUnit, Load};
use crate::site::{ANSWER_FIELDS, Certificate, HOST, IDLE_UPSTREAMS, PREFIX, Site};

pub(super) const FAIRWAY: Peer = Peer {
    name: "fairway",
    without: &[],
    find: |binaries, _| {
        let shown = binaries.fairway.file_name().unwrap_or_default().to_string_lossy();
        anyhow::ensure!(binaries.fairway.is_file(), "the binary `{shown}` is not built (see --fairway)");
        Ok(Executable::of_system(binaries.fairway.clone()))
    },
    version: |binary| first_line(binary, "version"),
    prepare,
};

/// Without the memory of the last exchanges.
pub(super) const WITHOUT_RECORDER: Peer = Peer {
    name: "fairway-without-recorder",
    prepare: |binary, site, certificate| {
        prepare_with(&["--recorder-exchanges", "0"], binary, site, certificate)
    },
    ..FAIRWAY
};

/// Samples one trace in a hundred.
pub(super) const TRACING_1: Peer = Peer {
    name: "fairway-tracing-1",
    prepare: |binary, site, certificate| prepare_tracing("0.01", binary, site, certificate),
    ..FAIRWAY
};

/// Samples every trace.
pub(super) const TRACING_100: Peer = Peer {
    name: "fairway-tracing-100",
    prepare: |binary, site, certificate| prepare_tracing("1", binary, site, certificate),
    ..FAIRWAY
};

fn prepare_tracing(
    ratio: &str,
    binary: &Executable,
    site: &mut Site,
    certificate: &Certificate,
) -> anyhow::Result<Command> {
    let endpoint = format!("http://{}", collector::listen()?);
    let flags = ["--otlp-endpoint", &endpoint, "--otlp-protocol", "http", "--trace-sample-ratio", ratio];
    prepare_with(&flags, binary, site, certificate)
}

fn prepare(binary: &Executable, site: &mut Site, certificate: &Certificate) -> anyhow::Result<Command> {
    prepare_with(&[], binary, site, certificate)
}

fn prepare_with(
    more: &[&str],
    binary: &Executable,
    site: &mut Site,
    certificate: &Certificate,
) -> anyhow::Result<Command> {
    let objects = if site.scenario.is_stream() { service_map(site) } else { objects(site) };
    site.write("manifests/bench.yaml", &objects)?;
    let mut arguments = arguments(site);
    arguments.extend(more.iter().map(|&flag| flag.to_owned()));
    site.write("command-line", &format!("fairway {}\n", arguments.join(" ")))?;
    if !site.scenario.is_stream() {
        site.write_secret("manifests/certificate.yaml", &secret(certificate))?;
    }
    let mut command = binary.command();
    command.args(arguments);
    Ok(command)
}

pub(super) fn arguments(site: &Site) -> Vec<String> {
    let (manifests, workers) = (site.directory.join("manifests"), site.workers.to_string());
    let (http, https, admin) = (site.http.to_string(), site.https.to_string(), site.admin.to_string());
    // The port of a TCP or UDP service is at the address of plain HTTP.
    let http = if site.scenario.is_stream() { "127.0.0.1:0" } else { &http };
    let manifests = manifests.display().to_string();
    let mut all =
        vec!["run", "--manifests", &manifests, "--http", http, "--https", &https, "--admin", &admin];
    all.extend(["--configmap", "bench/settings", "--workers", &workers]);
    if site.scenario.is_recommended() {
        all.extend(["--access-log", "off"]);
    }
    if site.scenario.is_stream() {
        all.extend(["--tcp-services-configmap", "bench/tcp", "--udp-services-configmap", "bench/udp"]);
    }
    all.into_iter().map(str::to_owned).collect()
}

/// A TCP or a UDP service, as ingress-nginx has them.
fn service_map(site: &Site) -> String {
    let Site { http, backend, scenario, .. } = site;
    let (address, target, port) = (backend.ip(), backend.port(), http.port());
    let entry = format!("\n  \"{port}\": bench/bench:7");
    let (tcp, udp, protocol) = match scenario.forwarded {
        ForwardedUnit::Datagrams => ("", entry.as_str(), "UDP"),
        _ => (entry.as_str(), "", "TCP"),
    };
    let idle = site.stream_idle();
    // As for nginx: where each datagram has its own source port, a session ends with its response.
    let responses = if scenario.load == Load::Once { 1 } else { 0 };
    format!(
        "apiVersion: v1
kind: ConfigMap
metadata: {{ name: settings, namespace: bench }}
data:
  proxy-stream-timeout: {idle}s
  proxy-stream-responses: \"{responses}\"
---
apiVersion: v1
kind: ConfigMap
metadata: {{ name: tcp, namespace: bench }}
data:{tcp}
---
apiVersion: v1
kind: ConfigMap
metadata: {{ name: udp, namespace: bench }}
data:{udp}
---
apiVersion: v1
kind: Service
metadata: {{ name: bench, namespace: bench }}
spec:
  selector: {{ app: bench }}
  ports:
  - {{ name: echo, port: 7, targetPort: {target}, protocol: {protocol} }}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: bench-1
  namespace: bench
  labels: {{ kubernetes.io/service-name: bench }}
addressType: IPv4
ports:
- {{ name: echo, port: {target}, protocol: {protocol} }}
endpoints:
- addresses: [\"{address}\"]
  conditions: {{ ready: true, serving: true, terminating: false }}
"
    )
}

/// The path, its type, and annotations for edits. The CORS headers are the annotation's defaults.
fn edits(site: &Site) -> (String, &'static str, &'static str) {
    if !site.scenario.is_edited() {
        return ("/".to_owned(), "Prefix", "");
    }
    let annotations = "
    nginx.ingress.kubernetes.io/enable-cors: \"true\"
    nginx.ingress.kubernetes.io/custom-headers: bench/fields
    nginx.ingress.kubernetes.io/rewrite-target: /$1";
    (format!("{PREFIX}/(.*)"), "ImplementationSpecific", annotations)
}

/// The annotation that requires a token, and the ConfigMap with the issuer's keys.
fn tokens() -> (String, String) {
    let (claim, header) = credential::CLAIM_HEADER;
    let jwt = json!({ "issuers": [{
        "issuer": credential::ISSUER,
        "audiences": [credential::AUDIENCE],
        "keys": { "ref": { "kind": "ConfigMap", "name": "keys" } },
        "claimsToHeaders": [{ "claim": claim, "header": header }],
    }] });
    let keys = format!(
        "apiVersion: v1
kind: ConfigMap
metadata: {{ name: keys, namespace: bench }}
data:
  jwks.json: '{}'
---
",
        credential::keys()
    );
    (format!("\n    fairway.dev/jwt: '{jwt}'"), keys)
}

fn objects(site: &Site) -> String {
    let (address, port) = (site.backend.ip(), site.backend.port());
    let spoken = if site.has_h2c_upstream() { ", appProtocol: kubernetes.io/h2c" } else { "" };
    let grpc = if site.is_grpc() { "\n    nginx.ingress.kubernetes.io/backend-protocol: GRPC" } else { "" };
    let ((path, kind, edits), [.., (field, value)]) = (edits(site), ANSWER_FIELDS);
    let (tokens, keys) = if site.scenario.asks_for_token() { tokens() } else { Default::default() };
    let http3 = if site.scenario.is_http3() { "\n  use-http3: \"true\"" } else { "" };
    let settings = if site.scenario.is_recommended() {
        format!(
            "{http3}
  upstream-keepalive-connections: \"{IDLE_UPSTREAMS}\"
  keep-alive-requests: \"100000000\"
  upstream-keepalive-requests: \"100000000\"
  global-allowed-response-headers: {field}"
        )
    } else {
        " {}".to_owned()
    };
    format!(
        "apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {{ name: fairway }}
spec: {{ controller: fairway.dev/ingress-controller }}
---
apiVersion: v1
kind: ConfigMap
metadata: {{ name: settings, namespace: bench }}
data:{settings}
---
apiVersion: v1
kind: ConfigMap
metadata: {{ name: fields, namespace: bench }}
data: {{ {field}: {value} }}
---
{keys}apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: bench
  namespace: bench
  annotations:
    nginx.ingress.kubernetes.io/ssl-redirect: \"false\"{grpc}{edits}{tokens}
spec:
  ingressClassName: fairway
  tls:
  - hosts: [{HOST}]
    secretName: bench
  rules:
  - host: {HOST}
    http:
      paths:
      - path: {path}
        pathType: {kind}
        backend: {{ service: {{ name: bench, port: {{ number: 80 }} }} }}
---
apiVersion: v1
kind: Service
metadata: {{ name: bench, namespace: bench }}
spec:
  selector: {{ app: bench }}
  ports:
  - {{ name: http, port: 80, targetPort: {port}, protocol: TCP{spoken} }}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: bench-1
  namespace: bench
  labels: {{ kubernetes.io/service-name: bench }}
addressType: IPv4
ports:
- {{ name: http, port: {port}, protocol: TCP }}
endpoints:
- addresses: [\"{address}\"]
  conditions: {{ ready: true, serving: true, terminating: false }}
"
    )
}

pub(super) fn secret(certificate: &Certificate) -> String {
    format!(
        "apiVersion: v1
kind: Secret
metadata: {{ name: bench, namespace: bench }}
type: kubernetes.io/tls
data:
  tls.crt: {}
  tls.key: {}
",
        STANDARD.encode(&certificate.chain),
        STANDARD.encode(&certificate.key)
    )
}
