//! Envoy with extensions: the filters `ext_proc` and `ext_authz`, and the cluster of the service that they ask.

use std::process::Command;

use fairway_lab_measure::Executable;
use serde_json::{Value, json};

use super::envoy::{ENVOY, address, prepare_with};
use super::extended::{Extended, MAX_BUFFERED_BYTES, PLAIN_REQUESTS_ALONE, TIMEOUT_MS};
use super::peer::Peer;
use crate::extension;
use crate::site::{Certificate, Site};

/// With `ext_proc` that sees headers.
pub(super) const HEADERS: Peer = Peer {
    name: "envoy-ext-headers",
    without: &PLAIN_REQUESTS_ALONE,
    prepare: |binary, site, certificate| prepare(Extended::Headers, binary, site, certificate),
    ..ENVOY
};

/// With an `ext_proc` service that gets headers, and bodies in pieces.
pub(super) const STREAMED: Peer = Peer {
    name: "envoy-ext-streamed",
    prepare: |binary, site, certificate| prepare(Extended::Streamed, binary, site, certificate),
    ..HEADERS
};

/// With `ext_proc` that sees headers, and whole bodies.
pub(super) const BUFFERED: Peer = Peer {
    name: "envoy-ext-buffered",
    prepare: |binary, site, certificate| prepare(Extended::Buffered, binary, site, certificate),
    ..HEADERS
};

/// With `ext_authz`.
pub(super) const AUTHORIZATION: Peer = Peer {
    name: "envoy-ext-authz",
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
    prepare_with(|resources| extend(resources, extended, service), binary, site, certificate)
}

/// Puts the filter in front of the others of all listeners.
fn extend(resources: &mut Value, extended: Extended, service: u16) {
    for listener in resources["listeners"].as_array_mut().into_iter().flatten() {
        if extended == Extended::Buffered {
            listener["per_connection_buffer_limit_bytes"] = json!(MAX_BUFFERED_BYTES);
        }
        let connections = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
        if let Some(filters) = connections["http_filters"].as_array_mut() {
            filters.insert(0, filter(extended));
        }
    }
    if let Some(clusters) = resources["clusters"].as_array_mut() {
        if extended == Extended::Buffered {
            clusters[0]["per_connection_buffer_limit_bytes"] = json!(MAX_BUFFERED_BYTES);
        }
        clusters.push(cluster(service));
    }
}

fn cluster(service: u16) -> Value {
    json!({
        "name": "extension",
        "type": "STATIC",
        "circuit_breakers": { "thresholds": [{
            "max_connections": 8192, "max_pending_requests": 8192, "max_requests": 8192,
        }] },
        "load_assignment": {
            "cluster_name": "extension",
            "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": address(service) } }] }],
        },
        "typed_extension_protocol_options": { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": { "http2_protocol_options": {} },
        } },
    })
}

fn filter(extended: Extended) -> Value {
    let service = json!({ "envoy_grpc": { "cluster_name": "extension" } });
    let timeout = format!("{}.{:03}s", TIMEOUT_MS / 1000, TIMEOUT_MS % 1000);
    let body = match extended {
        Extended::Headers => "NONE",
        Extended::Streamed => "STREAMED",
        Extended::Buffered => "BUFFERED",
        Extended::Authorization => {
            let mut service = service;
            service["timeout"] = json!(timeout);
            return json!({
                "name": "envoy.filters.http.ext_authz",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
                    "transport_api_version": "V3",
                    "grpc_service": service,
                },
            });
        }
    };
    json!({
        "name": "envoy.filters.http.ext_proc",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": service,
            "message_timeout": timeout,
            "processing_mode": {
                "request_header_mode": "SEND", "response_header_mode": "SEND",
                "request_body_mode": body, "response_body_mode": body,
                "request_trailer_mode": "SKIP", "response_trailer_mode": "SKIP",
            },
        },
    })
}
