//! Traefik with one processor for its goroutines, as the laboratory builds it from its Go module.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use fairway_lab_measure::{Executable, Release};
use serde_json::{Value, json};

use super::peer::{Binaries, Peer, REQUESTS_ALONE};
use crate::scenario::Tls;
use crate::site::{ANSWER_FIELDS, Certificate, HOST, IDLE_UPSTREAMS, PREFIX, Site};

pub(super) const TRAEFIK: Peer = Peer { name: "traefik", without: &REQUESTS_ALONE, find, version, prepare };

/// The newest that is in the laboratory's cache.
fn find(binaries: &Binaries, _: &Release) -> anyhow::Result<Executable> {
    let entries = std::fs::read_dir(&binaries.current).into_iter().flatten().flatten();
    let name_of = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let built = entries.map(|entry| entry.path()).filter(|path| name_of(path).starts_with("traefik-v"));
    let newest: Option<PathBuf> = built.max_by_key(|path| numbers(&name_of(path)));
    let program = newest.context("it was not built yet: lab/peers/tool traefik, once, four minutes")?;
    Ok(Executable::of_system(program))
}

/// The numbers in a name, for ordering versions.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|character: char| !character.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn version(binary: &Executable) -> anyhow::Result<String> {
    let output = binary.command().arg("version").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.lines().find_map(|line| line.strip_prefix("Version:")).context("it says no version")?;
    Ok(format!("traefik {}", number.trim()))
}

/// It adds the X-Forwarded fields and X-Real-Ip by itself; X-Request-ID cannot be had of it.
fn prepare(binary: &Executable, site: &mut Site, certificate: &Certificate) -> anyhow::Result<Command> {
    let chain = site.write_secret("chain.pem", &certificate.chain)?;
    let key = site.write_secret("key.pem", &certificate.key)?;
    // YAML files; JSON is valid YAML.
    let routes = serde_json::to_string_pretty(&dynamic(site, &chain, &key))?;
    let routes = site.write("dynamic.yaml", &routes)?;
    let arguments = arguments(site, &routes);
    let workers = site.workers.to_string();
    site.write("command-line", &format!("GOMAXPROCS={workers} traefik {}\n", arguments.join(" ")))?;
    let mut command = binary.command();
    command.args(arguments).env("GOMAXPROCS", workers);
    Ok(command)
}

fn arguments(site: &Site, routes: &Path) -> Vec<String> {
    let mut arguments: Vec<_> = [
        "--global.checkNewVersion=false",
        "--global.sendAnonymousUsage=false",
        "--providers.file.watch=false",
        "--entryPoints.websecure.http.tls=true",
    ]
    .map(str::to_owned)
    .to_vec();
    arguments.extend([
        format!("--entryPoints.web.address={}", site.http),
        format!("--entryPoints.websecure.address={}", site.https),
        format!("--providers.file.filename={}", routes.display()),
    ]);
    if site.scenario.is_http3() {
        arguments.push("--entryPoints.websecure.http3=true".to_owned());
    }
    if site.scenario.is_recommended() {
        // Traefik's default of 200 is below the concurrency of the scenarios.
        arguments.push(format!("--serversTransport.maxIdleConnsPerHost={IDLE_UPSTREAMS}"));
        // Connections stay open for as long as those of the other peers.
        for entry in ["web", "websecure"] {
            arguments.push(format!("--entryPoints.{entry}.transport.respondingTimeouts.idleTimeout=600s"));
        }
    }
    arguments
}

fn dynamic(site: &Site, chain: &Path, key: &Path) -> Value {
    let scheme = if site.has_h2c_upstream() { "h2c" } else { "http" };
    let mut routes = json!({
        "http": {
            "routers": { "all": { "rule": format!("Host(`{HOST}`)"), "service": "backend" } },
            "services": { "backend": { "loadBalancer": {
                "servers": [{ "url": format!("{scheme}://{}", site.backend) }],
            } } },
        },
        "tls": {
            "certificates": [{ "certFile": chain, "keyFile": key }],
        },
    });
    if site.scenario.is_recommended() {
        // The cipher suites of TLS 1.3 cannot be chosen in Go; the client offers only one.
        routes["tls"]["options"] = json!({ "default": match site.scenario.tls {
            Some(Tls::V12) => json!({
                "minVersion": "VersionTLS12", "maxVersion": "VersionTLS12", "alpnProtocols": [site.alpn()],
                "cipherSuites": ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"],
            }),
            _ => json!({ "minVersion": "VersionTLS13", "alpnProtocols": [site.alpn()] }),
        } });
    }
    if site.scenario.is_edited() {
        let path = json!({ "regex": format!("^{PREFIX}/(.*)"), "replacement": "/$1" });
        let fields: serde_json::Map<_, _> =
            ANSWER_FIELDS.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        routes["http"]["routers"]["all"]["middlewares"] = json!(["path", "fields"]);
        routes["http"]["middlewares"] = json!({
            "path": { "replacePathRegex": path },
            "fields": { "headers": { "customResponseHeaders": fields } },
        });
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        assert!(numbers("traefik-v3.10.0-1") > numbers("traefik-v3.9.9-2"));
    }
}
