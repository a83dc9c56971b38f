//! Traefik with its file provider.

use std::process::Command;

use fairway_lab_measure::Program;
use fairway_lab_measure::results::{NamedText, Settings};
use fairway_lab_traffic::backend::Spoken;
use serde_json::{Value, json};

use super::super::artifacts::Artifacts;
use super::super::programs;
use super::super::traefik::settings;
use super::peer::{BACKEND, LocalPeer, LocalSite};
use super::running;
use crate::adapter::TlsChoice;

/// Traefik.
pub(super) struct Traefik;

impl LocalPeer for Traefik {
    fn start(&self, artifacts: &Artifacts, site: &LocalSite) -> anyhow::Result<Program> {
        let (_, program) = programs::tool(artifacts, "traefik")?;
        let file = |name: &str| site.folder.join(name);
        crate::adapter::write(&file("chain.pem"), &site.chain_pem)?;
        crate::adapter::write(&file("key.pem"), &site.key_pem)?;
        // YAML, of which JSON is a part.
        crate::adapter::write(&file("dynamic.yaml"), &dynamic(site).to_string())?;
        let mut command = Command::new(program);
        command.args(arguments(site)).env("GOMAXPROCS", site.workers.to_string());
        running::start(&mut command, site)
    }

    fn configuration(&self, site: &LocalSite) -> anyhow::Result<Vec<NamedText>> {
        Ok(vec![
            NamedText { name: "dynamic.yaml".to_owned(), text: format!("{:#}", dynamic(site)) },
            NamedText {
                name: "command line".to_owned(),
                text: format!("GOMAXPROCS={} traefik {}", site.workers, arguments(site).join(" ")),
            },
        ])
    }
}

fn arguments(site: &LocalSite) -> Vec<String> {
    let mut arguments = vec![
        format!("--entryPoints.web.address={}", site.http),
        format!("--entryPoints.websecure.address={}", site.https),
        "--entryPoints.websecure.http.tls=true".to_owned(),
        format!("--providers.file.filename={}", site.folder.join("dynamic.yaml").display()),
        "--providers.file.watch=false".to_owned(),
    ];
    arguments.extend(settings(site.settings).into_iter().map(str::to_owned));
    arguments
}

fn dynamic(site: &LocalSite) -> Value {
    let scheme = if site.upstream == Spoken::Grpc { "h2c" } else { "http" };
    let servers: Vec<_> =
        site.backends.iter().map(|backend| json!({ "url": format!("{scheme}://{backend}") })).collect();
    let routers: serde_json::Map<_, _> = site
        .hosts
        .iter()
        .enumerate()
        .map(|(index, host)| {
            let router = json!({ "rule": format!("Host(`{host}`)"), "service": BACKEND });
            (format!("host-{index}"), router)
        })
        .collect();
    let file = |name: &str| site.folder.join(name).display().to_string();
    let mut dynamic = json!({
        "http": { "routers": routers, "services": { BACKEND: { "loadBalancer": { "servers": servers } } } },
        "tls": { "certificates": [{ "certFile": file("chain.pem"), "keyFile": file("key.pem") }] },
    });
    let options = match site.tls {
        TlsChoice::Both => None,
        TlsChoice::Tls12 => Some(json!({
            "minVersion": "VersionTLS12", "maxVersion": "VersionTLS12",
            "cipherSuites": ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"],
        })),
        // Go does not let one choose the cipher suites of 1.3.
        TlsChoice::Tls13 => Some(json!({ "minVersion": "VersionTLS13" })),
    };
    if let Some(options) = options {
        dynamic["tls"]["options"] = json!({ "default": options });
    }
    if site.settings == Settings::Recommended {
        // Traefik's limit of 200 idle connections for each server is below what the scenarios hold open.
        dynamic["http"]["serversTransports"] = json!({
            "lab": { "maxIdleConnsPerHost": 4096, "forwardingTimeouts": { "dialTimeout": "5s" } },
        });
        dynamic["http"]["services"][BACKEND]["loadBalancer"]["serversTransport"] = json!("lab");
    }
    dynamic
}
