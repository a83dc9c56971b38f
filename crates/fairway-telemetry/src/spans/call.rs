//! Attributes that server and client spans share: the method, and those of gRPC calls.

use fairway_http::grpc::Code;
use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::observed::ObservedExchange;
use crate::attributes::text;

/// The methods in the semantic conventions (RFC 9110, RFC 5789).
const KNOWN_METHODS: [&str; 9] =
    ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

impl ObservedExchange<'_> {
    /// `http.request.method`, which allows known values only, and the original method if it is another one.
    pub(super) fn method_attributes(&self) -> Vec<KeyValue> {
        let method = self.exchange.method.as_str();
        match KNOWN_METHODS.contains(&method) {
            true => vec![text("http.request.method", method)],
            false => {
                vec![text("http.request.method", "_OTHER"), text("http.request.method_original", method)]
            }
        }
    }

    /// The attributes of a gRPC call: its method is its path.
    pub(super) fn rpc_attributes(&self) -> Vec<KeyValue> {
        let Some(status) = self.exchange.grpc_status else { return Vec::new() };
        let method = self.exchange.path.trim_start_matches('/');
        let mut attributes =
            vec![text("rpc.system.name", "grpc"), text("rpc.response.status_code", status_name(status))];
        if !method.is_empty() {
            attributes.push(text("rpc.method", method));
        }
        attributes
    }
}

/// The name of a gRPC status, or its number if it is unknown.
pub(super) fn status_name(status: u32) -> String {
    match Code::name_of(status) {
        "OTHER" => status.to_string(),
        name => name.to_owned(),
    }
}
