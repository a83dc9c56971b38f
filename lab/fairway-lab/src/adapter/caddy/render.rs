//! Caddy's JSON in the form in which Caddy's ingress controller lays it out: one server for HTTP and HTTPS, a route for
//! each host. Pure.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::adapter::desired::{Action, CORS_HEADERS, DesiredState, Host, PathMatch, Rule};
use crate::adapter::frame::Frame;

/// The name of the configuration in the folder.
pub(super) const CONFIGURATION: &str = "caddy.json";

/// The complete configuration, with the admin API at an address.
#[must_use]
pub(crate) fn render(frame: &Frame, desired: &DesiredState, admin: SocketAddr) -> Value {
    let certificates: Vec<_> = desired
        .certificates
        .values()
        .map(|each| json!({ "certificate": each.chain, "key": each.key }))
        .collect();
    json!({
        "admin": { "listen": admin.to_string(), "config": { "persist": false } },
        "apps": {
            "http": {
                // TLS is spoken on every other port of the server.
                "http_port": frame.listen.http.port(),
                "https_port": frame.listen.https.port(),
                "servers": { "lab": server(frame, desired) },
            },
            "tls": { "disable_ocsp_stapling": true, "certificates": { "load_pem": certificates } },
        },
    })
}

fn server(frame: &Frame, desired: &DesiredState) -> Value {
    let mut routes: Vec<_> = desired
        .hosts
        .iter()
        .map(|(name, host)| {
            let routes = host_routes(frame, desired, host);
            let handle = json!([{ "handler": "subroute", "routes": routes }]);
            json!({ "match": [{ "host": [name] }], "handle": handle, "terminal": true })
        })
        .collect();
    // Requests that match no route get an empty 200.
    routes.push(json!({ "handle": [status(404)] }));
    let mut server = json!({
        "listen": [frame.listen.http.to_string(), frame.listen.https.to_string()],
        // Certificates come from Secrets; ACME is off.
        "automatic_https": { "disable": true },
        "tls_connection_policies": [{}],
        "routes": routes,
    });
    if frame.is_recommended() {
        // Without HTTP/3, as for the other proxies.
        server["protocols"] = json!(["h1", "h2"]);
        server["idle_timeout"] = json!("10m");
    }
    server
}

fn status(code: u16) -> Value {
    json!({ "handler": "static_response", "status_code": code })
}

fn host_routes(frame: &Frame, desired: &DesiredState, host: &Host) -> Vec<Value> {
    let mut routes = Vec::new();
    let mut headers: Vec<_> =
        host.response_headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    if host.cors {
        headers.extend(CORS_HEADERS);
    }
    if !headers.is_empty() {
        let set: serde_json::Map<_, _> =
            headers.into_iter().map(|(name, value)| (name.to_owned(), json!([value]))).collect();
        // Deferred, so that it overrides the backend's header.
        let response = json!({ "set": set, "deferred": true });
        routes.push(json!({ "handle": [{ "handler": "headers", "response": response }] }));
    }
    if host.cors {
        let options = json!([{ "method": ["OPTIONS"] }]);
        routes.push(json!({ "match": options, "handle": [status(204)], "terminal": true }));
    }
    routes.extend(host.rules.iter().map(|rule| route(frame, desired, rule)));
    routes.push(json!({ "handle": [status(404)] }));
    routes
}

fn route(frame: &Frame, desired: &DesiredState, rule: &Rule) -> Value {
    json!({
        "match": [{ "path": paths(&rule.path) }],
        "handle": handlers(frame, desired, &rule.action),
        "terminal": true,
    })
}

/// A prefix matches whole path segments: the path itself and everything below it.
fn paths(path: &PathMatch) -> Vec<String> {
    match path {
        PathMatch::Exact(path) => vec![path.clone()],
        PathMatch::Prefix(path) => match PathMatch::stem(path) {
            "" => vec!["/*".to_owned()],
            stem => vec![stem.to_owned(), format!("{stem}/*")],
        },
    }
}

fn handlers(frame: &Frame, desired: &DesiredState, action: &Action) -> Vec<Value> {
    match action {
        Action::Redirect { target: to } => {
            let mut redirect = status(302);
            redirect["headers"] = json!({ "Location": [to] });
            vec![redirect]
        }
        Action::Forward { backend, strip } => {
            let rewrite = strip
                .iter()
                .map(|prefix| json!({ "handler": "rewrite", "strip_path_prefix": PathMatch::stem(prefix) }));
            let endpoints = desired.backends.get(backend).map_or(&[][..], Vec::as_slice);
            let last = if endpoints.is_empty() { status(503) } else { reverse_proxy(frame, endpoints) };
            rewrite.chain([last]).collect()
        }
    }
}

fn reverse_proxy(frame: &Frame, endpoints: &[SocketAddr]) -> Value {
    let upstreams: Vec<_> =
        endpoints.iter().map(|endpoint| json!({ "dial": endpoint.to_string() })).collect();
    let mut handler = json!({ "handler": "reverse_proxy", "upstreams": upstreams });
    if frame.is_recommended() {
        // By default a request is tried once. Tried again is what never reached a backend, and GET; elsewhere, since an
        // endpoint that failed is left alone for a moment. The interval is short because a request that waits is given up
        // when a configuration is loaded.
        handler["load_balancing"] = json!({
            "selection_policy": { "policy": "least_conn" }, "try_duration": "5s", "try_interval": "5ms",
        });
        handler["health_checks"] = json!({ "passive": { "fail_duration": "1s" } });
        handler["transport"] = json!({
            "protocol": "http",
            // By default Caddy adds Accept-Encoding: gzip and decompresses responses.
            "compression": false,
            "dial_timeout": "5s",
            // Caddy's default of 32 idle connections per endpoint is below the concurrency of the scenarios.
            "keep_alive": { "enabled": true, "max_idle_conns_per_host": 4096, "idle_timeout": "1m" },
        });
        // The headers that the other proxies send to backends; those of X-Forwarded come by themselves.
        handler["headers"] = json!({ "request": { "set": {
            "X-Real-IP": ["{http.request.remote.host}"],
            "X-Request-ID": ["{http.request.uuid}"],
            "X-Forwarded-Port": ["{http.request.port}"],
        } } });
    }
    handler
}
