//! Envoy's bootstrap and resources, in the form in which Envoy Gateway lays them out. Pure.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::adapter::desired::{Action, CORS_HEADERS, DesiredState, Host, PathMatch, Rule};
use crate::adapter::frame::Frame;

/// The name of the bootstrap in the folder.
pub(super) const BOOTSTRAP: &str = "bootstrap.json";
const TYPE: &str = "type.googleapis.com/envoy";
const HTTP: &str = "envoy.extensions.filters.http";

/// All files by name, in the order of writing: referenced files come first.
#[must_use]
pub(crate) fn render(frame: &Frame, desired: &DesiredState) -> Vec<(String, Value)> {
    let backends = &desired.backends;
    // A file each: Envoy refuses a file of endpoints that has more than those of the cluster that reads it.
    let endpoints = backends
        .iter()
        .map(|(name, endpoints)| (endpoints_of(name), resources([assignment(name, endpoints)])));
    let rest = [
        (
            "secrets.json",
            resources(desired.certificates.iter().map(|(name, each)| {
                json!({
                    "@type": format!("{TYPE}.extensions.transport_sockets.tls.v3.Secret"),
                    "name": name,
                    "tls_certificate": {
                        "certificate_chain": { "inline_string": each.chain },
                        "private_key": { "inline_string": each.key },
                    },
                })
            })),
        ),
        ("clusters.json", resources(backends.keys().map(|name| cluster(frame, name)))),
        ("routes.json", resources([routes(frame, desired)])),
        ("listeners.json", resources(listeners(frame, desired))),
        (BOOTSTRAP, bootstrap(frame)),
    ];
    endpoints.chain(rest.map(|(name, value)| (name.to_owned(), value))).collect()
}

fn endpoints_of(backend: &str) -> String {
    format!("endpoints-{backend}.json")
}

fn resources(resources: impl IntoIterator<Item = Value>) -> Value {
    json!({ "resources": resources.into_iter().collect::<Vec<_>>() })
}

fn bootstrap(frame: &Frame) -> Value {
    json!({
        "node": { "id": "lab", "cluster": "lab" },
        "admin": { "address": { "pipe": { "path": frame.file("admin.sock") } } },
        "dynamic_resources": {
            "lds_config": source(frame, "listeners.json"), "cds_config": source(frame, "clusters.json"),
        },
    })
}

fn source(frame: &Frame, file: &str) -> Value {
    json!({ "resource_api_version": "V3", "path_config_source": { "path": frame.file(file) } })
}

fn assignment(name: &str, endpoints: &[SocketAddr]) -> Value {
    let each: Vec<_> =
        endpoints.iter().map(|endpoint| json!({ "endpoint": { "address": address(*endpoint) } })).collect();
    json!({
        "@type": format!("{TYPE}.config.endpoint.v3.ClusterLoadAssignment"),
        "cluster_name": name,
        "endpoints": [{ "lb_endpoints": each }],
    })
}

fn address(address: SocketAddr) -> Value {
    json!({ "socket_address": { "address": address.ip(), "port_value": address.port() } })
}

fn cluster(frame: &Frame, name: &str) -> Value {
    let mut cluster = json!({
        "@type": format!("{TYPE}.config.cluster.v3.Cluster"),
        "name": name,
        "type": "EDS",
        "eds_cluster_config": { "eds_config": source(frame, &endpoints_of(name)) },
        // Envoy Gateway's default is 10 s; recommended is what all peers have.
        "connect_timeout": if frame.is_recommended() { "5s" } else { "10s" },
        "lb_policy": "LEAST_REQUEST",
        "per_connection_buffer_limit_bytes": 32768,
    });
    if frame.is_recommended() {
        // The built-in limit of 1,024 connections and waiting requests is for one backend that must not be drowned.
        let max = 1_000_000;
        cluster["circuit_breakers"] = json!({ "thresholds": [{
            "max_connections": max, "max_pending_requests": max, "max_requests": max, "max_retries": max,
        }] });
    }
    cluster
}

fn routes(frame: &Frame, desired: &DesiredState) -> Value {
    let hosts: Vec<_> = desired.hosts.iter().map(|(name, host)| virtual_host(frame, name, host)).collect();
    json!({
        "@type": format!("{TYPE}.config.route.v3.RouteConfiguration"),
        "name": "lab",
        "ignore_port_in_host_matching": true,
        "virtual_hosts": hosts,
    })
}

fn virtual_host(frame: &Frame, name: &str, host: &Host) -> Value {
    let routes: Vec<_> = host.rules.iter().flat_map(|rule| routes_of(frame, rule)).collect();
    let mut virtual_host = json!({ "name": name, "domains": [name], "routes": routes });
    if host.cors {
        virtual_host["typed_per_filter_config"] = json!({ "envoy.filters.http.cors": {
            "@type": format!("{TYPE}.extensions.filters.http.cors.v3.CorsPolicy"),
            "allow_origin_string_match": [{ "safe_regex": { "regex": ".*" } }],
            "allow_methods": CORS_HEADERS[1].1,
            "allow_headers": CORS_HEADERS[2].1,
            "max_age": CORS_HEADERS[3].1,
        } });
    }
    let headers: Vec<_> = host.response_headers.iter().map(|(key, value)| header(key, value)).collect();
    virtual_host["response_headers_to_add"] = json!(headers);
    virtual_host
}

fn header(key: &str, value: &str) -> Value {
    json!({ "header": { "key": key, "value": value }, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD" })
}

/// A prefix matches whole path segments: the path itself and everything below it.
fn routes_of(frame: &Frame, rule: &Rule) -> Vec<Value> {
    match &rule.path {
        PathMatch::Exact(path) => vec![route(frame, &json!({ "path": path }), &rule.action)],
        PathMatch::Prefix(path) => {
            let stem = PathMatch::stem(path);
            let mut all = vec![route(frame, &json!({ "prefix": format!("{stem}/") }), &rule.action)];
            if !stem.is_empty() {
                all.push(route(frame, &json!({ "path": stem }), &rule.action));
            }
            all
        }
    }
}

fn route(frame: &Frame, matching: &Value, action: &Action) -> Value {
    match action {
        Action::Redirect { target: to } => json!({
            "match": matching,
            "direct_response": { "status": 302 },
            "response_headers_to_add": [header("location", to)],
        }),
        Action::Forward { backend, strip } => {
            let mut forward = json!({ "cluster": backend });
            if strip.is_some() {
                forward["prefix_rewrite"] = json!("/");
            }
            if frame.is_recommended() {
                // Retries of requests that never reached the backend; Envoy's default is none.
                forward["retry_policy"] = json!({
                    "retry_on": "connect-failure,refused-stream", "num_retries": 2,
                    "retry_host_predicate": [{
                        "name": "envoy.retry_host_predicates.previous_hosts",
                        "typed_config": {
                            "@type": format!("{TYPE}.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"),
                        },
                    }],
                    "host_selection_retry_max_attempts": 5,
                });
                forward["timeout"] = json!("0s");
            }
            json!({ "match": matching, "route": forward })
        }
    }
}

fn listeners(frame: &Frame, desired: &DesiredState) -> Vec<Value> {
    let mut all = vec![listener(frame, "http", frame.listen.http, None)];
    if !desired.certificates.is_empty() {
        let names: Vec<_> = desired.certificates.keys().collect();
        all.push(listener(frame, "https", frame.listen.https, Some(tls(frame, &names))));
    }
    all
}

fn listener(frame: &Frame, name: &str, bound: SocketAddr, tls: Option<Value>) -> Value {
    let mut chain = json!({ "filters": [{
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": http_connections(frame, name),
    }] });
    if let Some(tls) = tls {
        chain["transport_socket"] = json!({ "name": "envoy.transport_sockets.tls", "typed_config": tls });
    }
    json!({
        "@type": format!("{TYPE}.config.listener.v3.Listener"),
        "name": name,
        "address": address(bound),
        "per_connection_buffer_limit_bytes": 32768,
        "filter_chains": [chain],
    })
}

fn http_connections(frame: &Frame, name: &str) -> Value {
    let filter = |name: &str, kind: &str| {
        json!({
            "name": format!("envoy.filters.http.{name}"),
            "typed_config": { "@type": format!("type.googleapis.com/{HTTP}.{name}.v3.{kind}") },
        })
    };
    let mut manager = json!({
        "@type": format!("{TYPE}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": name,
        "codec_type": "AUTO",
        "use_remote_address": true,
        "normalize_path": true,
        "merge_slashes": true,
        "rds": { "route_config_name": "lab", "config_source": source(frame, "routes.json") },
        "http_filters": [filter("cors", "Cors"), filter("router", "Router")],
    });
    if !frame.is_recommended() {
        manager["access_log"] = json!([{
            "name": "envoy.access_loggers.file",
            "typed_config": {
                "@type": format!("{TYPE}.extensions.access_loggers.file.v3.FileAccessLog"),
                "path": "/dev/stdout",
            },
        }]);
    }
    manager
}

fn tls(frame: &Frame, certificates: &[&String]) -> Value {
    let secrets: Vec<_> = certificates
        .iter()
        .map(|name| json!({ "name": name, "sds_config": source(frame, "secrets.json") }))
        .collect();
    json!({
        "@type": format!("{TYPE}.extensions.transport_sockets.tls.v3.DownstreamTlsContext"),
        "common_tls_context": {
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_params": { "tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3" },
            "tls_certificate_sds_secret_configs": secrets,
        },
    })
}
