//! Fairway from a folder of manifests, as its documents show it.

use std::process::Command;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fairway_lab_measure::Program;
use fairway_lab_measure::results::{NamedText, Settings};
use fairway_lab_traffic::backend::Spoken;
use serde_json::{Value, json};

use super::super::artifacts::Artifacts;
use super::super::fairway::{calls, recommended_settings, ssl_redirect_off};
use super::super::names::CERTIFICATE;
use super::peer::{LocalPeer, LocalSite};
use super::running;

/// Fairway.
pub(super) struct Fairway;

impl LocalPeer for Fairway {
    fn start(&self, artifacts: &Artifacts, site: &LocalSite) -> anyhow::Result<Program> {
        let manifests = site.folder.join("manifests");
        std::fs::create_dir_all(&manifests).with_context(|| format!("make {}", manifests.display()))?;
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects(site, &site.key_pem) });
        crate::adapter::write(&manifests.join("site.json"), &list.to_string())?;
        let mut command = Command::new(&artifacts.fairway);
        command.arg("run").arg("--manifests").arg(manifests).args(["--admin", &site.admin.to_string()]);
        command.args(flags(site));
        running::start(&mut command, site)
    }

    fn configuration(&self, site: &LocalSite) -> anyhow::Result<Vec<NamedText>> {
        let objects = Value::Array(objects(site, "(not shown)"));
        Ok(vec![
            NamedText { name: "manifests".to_owned(), text: format!("{objects:#}") },
            NamedText {
                name: "command line".to_owned(),
                text: format!("fairway run --manifests manifests {}", flags(site).join(" ")),
            },
        ])
    }
}

fn flags(site: &LocalSite) -> Vec<String> {
    let (http, https, workers) = (site.http.to_string(), site.https.to_string(), site.workers.to_string());
    let mut flags = vec!["--http", &http, "--https", &https, "--workers", &workers];
    flags.extend(["--configmap", "lab/settings", "--drain-delay", "0"]);
    if site.settings == Settings::Recommended {
        flags.extend(["--access-log", "off"]);
    }
    flags.into_iter().map(str::to_owned).collect()
}

fn objects(site: &LocalSite, key: &str) -> Vec<Value> {
    let named = |name: &str| json!({ "name": name, "namespace": "lab" });
    let settings = if site.settings == Settings::Recommended { recommended_settings() } else { json!({}) };
    let mut objects = vec![
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
            "metadata": { "name": "fairway" }, "spec": { "controller": "fairway.dev/ingress-controller" },
        }),
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": named("settings"), "data": settings }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": named(CERTIFICATE),
            "data": { "tls.crt": STANDARD.encode(&site.chain_pem), "tls.key": STANDARD.encode(key) },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": named("backend"),
            "spec": { "ports": [port(site.upstream)] },
        }),
    ];
    objects.extend(site.backends.iter().enumerate().map(|(index, backend)| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": format!("backend-{index}"), "namespace": "lab",
                "labels": { "kubernetes.io/service-name": "backend" },
            },
            "ports": [{ "name": "http", "port": backend.port(), "protocol": "TCP" }],
            "endpoints": [{ "addresses": [backend.ip()], "conditions": { "ready": true } }],
        })
    }));
    objects.extend(site.hosts.iter().map(|host| ingress(host, site.upstream)));
    objects
}

fn port(upstream: Spoken) -> Value {
    let mut port = json!({ "name": "http", "port": 80, "targetPort": "http", "protocol": "TCP" });
    if upstream == Spoken::Grpc {
        port["appProtocol"] = json!("kubernetes.io/h2c");
    }
    port
}

fn ingress(host: &str, upstream: Spoken) -> Value {
    let mut annotations = ssl_redirect_off();
    if upstream == Spoken::Grpc {
        annotations.extend(calls());
    }
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": host, "namespace": "lab", "annotations": annotations },
        "spec": {
            "ingressClassName": "fairway",
            "tls": [{ "hosts": [host], "secretName": CERTIFICATE }],
            "rules": [{ "host": host, "http": { "paths": [{
                "path": "/", "pathType": "Prefix",
                "backend": { "service": { "name": "backend", "port": { "number": 80 } } },
            }] } }],
        },
    })
}
