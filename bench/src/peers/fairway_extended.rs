//! Fairway with extensions: a Gateway with a route, and a policy that has a service see what passes.

use std::process::Command;

use fairway_lab_measure::Executable;
use serde_json::{Value, json};

use super::extended::{Extended, MAX_BUFFERED_BYTES, PLAIN_REQUESTS_ALONE, TIMEOUT_MS};
use super::fairway::{FAIRWAY, arguments, secret};
use super::peer::Peer;
use crate::extension;
use crate::site::{Certificate, HOST, IDLE_UPSTREAMS, Site};

/// With `ext_proc` that sees headers.
pub(super) const HEADERS: Peer = Peer {
    name: "fairway-ext-headers",
    without: &PLAIN_REQUESTS_ALONE,
    prepare: |binary, site, certificate| prepare(Extended::Headers, binary, site, certificate),
    ..FAIRWAY
};

/// With an `ext_proc` service that gets headers, and bodies in pieces.
pub(super) const STREAMED: Peer = Peer {
    name: "fairway-ext-streamed",
    prepare: |binary, site, certificate| prepare(Extended::Streamed, binary, site, certificate),
    ..HEADERS
};

/// With `ext_proc` that sees headers, and whole bodies.
pub(super) const BUFFERED: Peer = Peer {
    name: "fairway-ext-buffered",
    prepare: |binary, site, certificate| prepare(Extended::Buffered, binary, site, certificate),
    ..HEADERS
};

/// With `ext_authz`.
pub(super) const AUTHORIZATION: Peer = Peer {
    name: "fairway-ext-authz",
    prepare: |binary, site, certificate| prepare(Extended::Authorization, binary, site, certificate),
    ..HEADERS
};

fn prepare(
    extended: Extended,
    binary: &Executable,
    site: &mut Site,
    certificate: &Certificate,
) -> anyhow::Result<Command> {
    let service = extension::listen()?.port();
    site.announces_length = extended != Extended::Streamed;
    let objects = objects(extended, service, site);
    let documents = objects.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    site.write("manifests/bench.yaml", &documents.join("\n---\n"))?;
    site.write_secret("manifests/certificate.yaml", &secret(certificate))?;
    let mut arguments = arguments(site);
    // The Gateway's listeners are at the ports that are measured.
    for flag in ["--http", "--https"] {
        if let Some(at) = arguments.iter().position(|argument| argument == flag) {
            "127.0.0.1:0".clone_into(&mut arguments[at + 1]);
        }
    }
    arguments.extend(["--gateway-address", "127.0.0.1"].map(str::to_owned));
    site.write("command-line", &format!("fairway {}\n", arguments.join(" ")))?;
    let mut command = binary.command();
    command.args(arguments);
    Ok(command)
}

fn metadata(name: &str) -> Value {
    json!({ "namespace": "bench", "name": name })
}

fn objects(extended: Extended, service_port: u16, site: &Site) -> Vec<Value> {
    let backend_protocol = site.has_h2c_upstream().then_some("kubernetes.io/h2c");
    let settings = if site.scenario.is_recommended() {
        json!({
            "upstream-keepalive-connections": IDLE_UPSTREAMS.to_string(),
            "keep-alive-requests": "100000000",
            "upstream-keepalive-requests": "100000000",
        })
    } else {
        json!({})
    };
    let mut all = vec![
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("settings"), "data": settings,
        }),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
            "metadata": { "name": "fairway" },
            "spec": { "controllerName": "fairway.dev/gateway-controller" },
        }),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": metadata("bench"),
            "spec": { "gatewayClassName": "fairway", "listeners": [
                { "name": "http", "port": site.http.port(), "protocol": "HTTP" },
                { "name": "https", "port": site.https.port(), "protocol": "HTTPS", "tls": {
                    "certificateRefs": [{ "name": "bench" }],
                } },
            ] },
        }),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": metadata("bench"),
            "spec": {
                "parentRefs": [{ "name": "bench" }],
                "hostnames": [HOST],
                "rules": [{ "backendRefs": [{ "name": "bench", "port": 80 }] }],
            },
        }),
        policy(extended),
    ];
    all.extend(service("bench", site.backend.port(), backend_protocol));
    all.extend(service("extension", service_port, Some("kubernetes.io/h2c")));
    all
}

fn service(name: &str, target: u16, protocol: Option<&str>) -> [Value; 2] {
    let mut port = json!({ "name": "main", "port": 80 });
    if let Some(protocol) = protocol {
        port["appProtocol"] = json!(protocol);
    }
    let mut slice = metadata(&format!("{name}-1"));
    slice["labels"] = json!({ "kubernetes.io/service-name": name });
    [
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata(name), "spec": { "ports": [port] } }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": slice,
            "addressType": "IPv4",
            "ports": [{ "name": "main", "port": target }],
            "endpoints": [{ "addresses": ["127.0.0.1"] }],
        }),
    ]
}

fn policy(extended: Extended) -> Value {
    let targets = json!([{ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "bench" }]);
    let service = json!({ "name": "extension", "port": 80 });
    let timeout = format!("{TIMEOUT_MS}ms");
    let body = match extended {
        Extended::Headers => "None",
        Extended::Streamed => "Streamed",
        Extended::Buffered => "Buffered",
        Extended::Authorization => {
            return json!({
                "apiVersion": "fairway.dev/v1alpha1", "kind": "SecurityPolicy", "metadata": metadata("bench"),
                "spec": { "targetRefs": targets, "externalAuth": {
                    "backendRef": service, "timeout": timeout, "grpc": { "failureMode": "Closed" },
                } },
            });
        }
    };
    let phases = json!({ "headers": "Send", "body": body, "trailers": "Skip" });
    json!({
        "apiVersion": "fairway.dev/v1alpha1", "kind": "ExtensionPolicy", "metadata": metadata("bench"),
        "spec": { "targetRefs": targets, "extProc": [{
            "backendRef": service,
            "messageTimeout": timeout,
            "failureMode": "Closed",
            "processingMode": { "request": phases, "response": phases },
            "maxBufferedBytes": MAX_BUFFERED_BYTES,
        }] },
    })
}
