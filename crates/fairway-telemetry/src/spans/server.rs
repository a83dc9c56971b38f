//! The server span: the exchange as seen by its client.

use fairway_http::grpc::Code;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags};

use super::call::status_name;
use super::observed::{ObservedExchange, SAMPLED_FLAG, SpanPeriod, mark_failed};
use crate::attributes::{list, number, text};

/// The client closed the connection before it had a response.
const CLIENT_CLOSED_REQUEST: u16 = 499;

impl ObservedExchange<'_> {
    pub(super) fn server_span(&self) -> Span {
        let context = self.context;
        let mut span = self.span(context.span_id, 0, SpanPeriod::from_start(self.exchange.took_us));
        span.name = self.name.to_owned();
        span.kind = SpanKind::Server as i32;
        // The parent, if any, belongs to another service.
        span.parent_span_id = context.parent_span_id.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default();
        span.flags = SAMPLED_FLAG | SpanFlags::ContextHasIsRemoteMask as u32;
        if context.parent_span_id.is_some() {
            span.flags |= SpanFlags::ContextIsRemoteMask as u32;
        }
        span.attributes = self.server_attributes();
        if let Some(error) = self.server_error() {
            mark_failed(&mut span, text("error.type", error));
        }
        span
    }

    fn server_attributes(&self) -> Vec<KeyValue> {
        let exchange = self.exchange;
        let mut attributes = self.method_attributes();
        let mut add = |key: &str, value: &str| {
            if !value.is_empty() {
                attributes.push(text(key, value));
            }
        };
        add("url.scheme", &exchange.scheme);
        add("url.path", &exchange.path);
        add("server.address", &exchange.host);
        add("http.route", self.route.unwrap_or_default());
        add("client.address", &exchange.client.map(|it| it.to_string()).unwrap_or_default());
        add("network.protocol.name", "http");
        add("network.protocol.version", protocol_version(&exchange.version));
        add("user_agent.original", exchange.user_agent.as_deref().unwrap_or_default());
        add("fairway.reason", exchange.reason.as_deref().unwrap_or_default());
        add("fairway.caused_by", exchange.caused_by.as_deref().unwrap_or_default());
        if let Some(rule) = &exchange.rule {
            add("fairway.route.kind", &rule.kind);
            add("fairway.route.namespace", &rule.namespace);
            add("fairway.route.name", &rule.name);
            add("fairway.route.field", &rule.field);
            add("fairway.service.name", rule.service.as_deref().unwrap_or_default());
        }
        if exchange.status != 0 {
            attributes.push(number("http.response.status_code", exchange.status));
        }
        attributes.push(number("http.request.size", exchange.request_bytes));
        attributes.push(number("http.response.body.size", exchange.response_bytes));
        attributes.push(number("http.response.size", exchange.sent_bytes));
        attributes.push(number("fairway.configuration.version", exchange.configuration));
        if let Some(id) = &exchange.request_id {
            attributes.push(list("http.request.header.x-request-id", id));
        }
        attributes.extend(self.rpc_attributes());
        attributes
    }

    /// Why the exchange failed, for the status of the server span: client errors are no errors of the server.
    fn server_error(&self) -> Option<String> {
        let exchange = self.exchange;
        let reason = || exchange.reason.clone();
        if let Some(status) = exchange.grpc_status {
            let is_error = [
                Code::Unknown,
                Code::DeadlineExceeded,
                Code::Unimplemented,
                Code::Internal,
                Code::Unavailable,
                Code::DataLoss,
            ];
            let is_error = is_error.iter().any(|code| code.number() == status);
            return is_error.then(|| reason().unwrap_or_else(|| status_name(status)));
        }
        match exchange.status {
            // There was no response, or the client did not get all of it.
            0 | CLIENT_CLOSED_REQUEST => Some(reason().unwrap_or_else(|| "_OTHER".to_owned())),
            500.. => Some(reason().unwrap_or_else(|| exchange.status.to_string())),
            400.. => None,
            _ => reason(),
        }
    }
}

/// `2` of `HTTP/2.0`, `3` of `HTTP/3.0`, `1.1` of `HTTP/1.1`.
fn protocol_version(version: &str) -> &str {
    match version.strip_prefix("HTTP/").unwrap_or(version) {
        "2.0" => "2",
        "3.0" => "3",
        other => other,
    }
}
