//! Caddy with one processor for its goroutines and no admin API. Leaves nothing in a home.

use std::path::Path;
use std::process::Command;

use fairway_lab_measure::Executable;
use serde_json::{Value, json};

use super::peer::{Peer, REQUESTS_ALONE, packaged};
use crate::scenario::Tls;
use crate::site::{ANSWER_FIELDS, Certificate, HOST, IDLE_UPSTREAMS, PREFIX, Site};

pub(super) const CADDY: Peer = Peer {
    name: "caddy",
    without: &REQUESTS_ALONE,
    find: |binaries, release| packaged(binaries, release, "caddy"),
    version: Executable::version,
    prepare,
};

fn prepare(binary: &Executable, site: &mut Site, certificate: &Certificate) -> anyhow::Result<Command> {
    let chain = site.write_secret("chain.pem", &certificate.chain)?;
    let key = site.write_secret("key.pem", &certificate.key)?;
    let text = serde_json::to_string_pretty(&configuration(site, &chain, &key))?;
    let path = site.write("caddy.json", &text)?;
    let workers = site.workers.to_string();
    site.write("command-line", &format!("GOMAXPROCS={workers} caddy run --config {}\n", path.display()))?;
    let mut command = binary.command();
    command.args(["run", "--config"]).arg(path).env("GOMAXPROCS", workers);
    command.env("XDG_DATA_HOME", &site.directory).env("XDG_CONFIG_HOME", &site.directory);
    Ok(command)
}

fn configuration(site: &Site, chain: &Path, key: &Path) -> Value {
    json!({
        "admin": { "disabled": true, "config": { "persist": false } },
        "apps": {
            // TLS is spoken on every other port of the server.
            "http": {
                "http_port": site.http.port(),
                "https_port": site.https.port(),
                "servers": { "bench": server(site) },
            },
            "tls": { "certificates": { "load_files": [{ "certificate": chain, "key": key }] } },
        },
    })
}

fn server(site: &Site) -> Value {
    let mut server = json!({
        "listen": [site.http.to_string(), site.https.to_string()],
        // Certificates are configured; ACME is off.
        "automatic_https": { "disable": true },
        "tls_connection_policies": [{}],
        "routes": [{ "match": [{ "host": [HOST] }], "handle": handlers(site) }],
    });
    if site.scenario.is_recommended() {
        server["idle_timeout"] = json!("10m");
        server["protocols"] = match site.scenario.is_http3() {
            true => json!(["h1", "h2", "h3"]),
            false => json!(["h1", "h2"]),
        };
        // The cipher suites of TLS 1.3 cannot be chosen in Go; the client offers only one.
        server["tls_connection_policies"] = json!([match site.scenario.tls {
            Some(Tls::V12) => json!({
                "protocol_min": "tls1.2", "protocol_max": "tls1.2", "alpn": [site.alpn()],
                "cipher_suites": ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"],
            }),
            _ => json!({ "protocol_min": "tls1.3", "protocol_max": "tls1.3", "alpn": [site.alpn()] }),
        }]);
    }
    server
}

fn handlers(site: &Site) -> Vec<Value> {
    let mut handlers = Vec::new();
    if site.scenario.is_edited() {
        let fields: serde_json::Map<_, _> =
            ANSWER_FIELDS.into_iter().map(|(name, value)| (name.to_owned(), json!([value]))).collect();
        handlers.push(json!({ "handler": "headers", "response": { "set": fields } }));
        handlers.push(json!({ "handler": "rewrite", "strip_path_prefix": PREFIX }));
    }
    handlers.push(forwarding(site));
    handlers
}

fn forwarding(site: &Site) -> Value {
    let mut proxy =
        json!({ "handler": "reverse_proxy", "upstreams": [{ "dial": site.backend.to_string() }] });
    if site.scenario.is_recommended() {
        proxy["transport"] = json!({
            "protocol": "http",
            "versions": if site.has_h2c_upstream() { vec!["h2c", "2"] } else { vec!["1.1"] },
            // By default Caddy adds Accept-Encoding: gzip and decompresses responses.
            "compression": false,
            "dial_timeout": "5s",
            // Caddy's default of 32 is below the concurrency of the scenarios.
            "keep_alive": { "enabled": true, "max_idle_conns_per_host": IDLE_UPSTREAMS, "idle_timeout": "10m" },
        });
        // The fields of X-Forwarded come by themselves.
        proxy["headers"] = json!({ "request": { "set": {
            "X-Real-IP": ["{http.request.remote.host}"],
            "X-Request-ID": ["{http.request.uuid}"],
            "X-Forwarded-Port": ["{http.request.port}"],
        } } });
    }
    proxy
}
