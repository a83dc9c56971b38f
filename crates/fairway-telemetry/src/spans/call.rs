//! What server and client spans have in common: the method, and what a call of gRPC has besides.

use fairway_http::grpc::Code;
use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::observed::Observed;
use crate::attributes::text;

/// The methods that conventions know (RFC 9110, RFC 5789).
const METHODS: [&str; 9] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

impl Observed<'_> {
    /// `http.request.method`, which has known values only, and the method as it came where it is none of them.
    pub(super) fn method(&self) -> Vec<KeyValue> {
        let method = self.exchange.method.as_str();
        match METHODS.contains(&method) {
            true => vec![text("http.request.method", method)],
            false => {
                vec![text("http.request.method", "_OTHER"), text("http.request.method_original", method)]
            }
        }
    }

    /// What a call of gRPC has besides: its method is its path.
    pub(super) fn rpc(&self) -> Vec<KeyValue> {
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

/// The name of a status, or its number where gRPC knows none.
pub(super) fn status_name(status: u32) -> String {
    match Code::name_of(status) {
        "OTHER" => status.to_string(),
        name => name.to_owned(),
    }
}
