//! OTLP messages: items of one signal with their sender, and the collector's response.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;

use crate::resource::ProcessIdentity;
use crate::signal::Signal;

/// The semantic conventions that attribute names follow.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.45.0";

/// The maximum size of all items in a message. Collectors refuse messages of more than 4 MiB.
pub(crate) const MAX_ITEM_BYTES: usize = 3 * 1024 * 1024;

/// An encoded message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) bytes: Bytes,
    /// The number of its spans, data points or log records.
    pub(crate) items: u64,
}

/// An item that is queued and sent with others of its signal.
pub(crate) trait Item: prost::Message + Sized {
    /// Its signal.
    const SIGNAL: Signal;

    /// Encodes a message with these items.
    fn message(items: Vec<Self>, identity: &ProcessIdentity, service: &str) -> Message;
}

impl Item for Span {
    const SIGNAL: Signal = Signal::Traces;

    fn message(items: Vec<Self>, identity: &ProcessIdentity, service: &str) -> Message {
        let count = items.len() as u64;
        let scope_spans = vec![ScopeSpans {
            scope: Some(identity.scope()),
            spans: items,
            schema_url: SCHEMA_URL.to_owned(),
        }];
        let resource = Some(identity.resource(service));
        let spans = ResourceSpans { resource, scope_spans, schema_url: SCHEMA_URL.to_owned() };
        let request = ExportTraceServiceRequest { resource_spans: vec![spans] };
        Message { bytes: request.encode_to_vec().into(), items: count }
    }
}

impl Item for LogRecord {
    const SIGNAL: Signal = Signal::Logs;

    fn message(items: Vec<Self>, identity: &ProcessIdentity, service: &str) -> Message {
        let count = items.len() as u64;
        let scope_logs = vec![ScopeLogs {
            scope: Some(identity.scope()),
            log_records: items,
            schema_url: SCHEMA_URL.to_owned(),
        }];
        let resource = Some(identity.resource(service));
        let logs = ResourceLogs { resource, scope_logs, schema_url: SCHEMA_URL.to_owned() };
        let request = ExportLogsServiceRequest { resource_logs: vec![logs] };
        Message { bytes: request.encode_to_vec().into(), items: count }
    }
}

/// Encodes a message with these metrics, which have this number of data points.
pub(crate) fn metrics_message(
    metrics: Vec<Metric>,
    points: u64,
    identity: &ProcessIdentity,
    service: &str,
) -> Message {
    let scope = Some(identity.scope());
    let scope_metrics = vec![ScopeMetrics { scope, metrics, schema_url: SCHEMA_URL.to_owned() }];
    let resource = Some(identity.resource(service));
    let metrics = ResourceMetrics { resource, scope_metrics, schema_url: SCHEMA_URL.to_owned() };
    let request = ExportMetricsServiceRequest { resource_metrics: vec![metrics] };
    Message { bytes: request.encode_to_vec().into(), items: points }
}

/// The collector's response to a message that it accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartialSuccess {
    /// Items that it rejects nevertheless; at most the number of items sent.
    pub(crate) rejected: u64,
    /// The reason, or a warning.
    pub(crate) text: String,
}

impl PartialSuccess {
    /// Decodes the response to a message with `items`. An invalid one counts as full success.
    pub(crate) fn decode(signal: Signal, response: &[u8], items: u64) -> Self {
        let rejection = match signal {
            Signal::Traces => ExportTraceServiceResponse::decode(response)
                .ok()
                .and_then(|it| it.partial_success)
                .map(|it| (it.rejected_spans, it.error_message)),
            Signal::Metrics => ExportMetricsServiceResponse::decode(response)
                .ok()
                .and_then(|it| it.partial_success)
                .map(|it| (it.rejected_data_points, it.error_message)),
            Signal::Logs => ExportLogsServiceResponse::decode(response)
                .ok()
                .and_then(|it| it.partial_success)
                .map(|it| (it.rejected_log_records, it.error_message)),
        };
        let (rejected, text) = rejection.unwrap_or_default();
        Self { rejected: u64::try_from(rejected).unwrap_or(0).min(items), text }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    fn response(rejected_spans: i64, text: &str) -> Vec<u8> {
        let partial_success =
            Some(ExportTracePartialSuccess { rejected_spans, error_message: text.to_owned() });
        ExportTraceServiceResponse { partial_success }.encode_to_vec()
    }

    #[test]
    fn no_more_items_are_rejected_than_were_sent() {
        for (said, rejected) in [(0, 0), (3, 3), (5, 5), (6, 5), (i64::MAX, 5), (-1, 0), (i64::MIN, 0)] {
            let verdict = PartialSuccess::decode(Signal::Traces, &response(said, "why"), 5);
            assert_eq!(verdict, PartialSuccess { rejected, text: "why".to_owned() }, "{said}");
        }
        for response in [&b""[..], b"\xff\xff\xff", b"<html></html>"] {
            assert_eq!(PartialSuccess::decode(Signal::Logs, response, 5), PartialSuccess::default());
        }
    }

    #[test]
    fn a_message_names_its_sender() {
        let identity = ProcessIdentity { version: "1.2.3".into(), pod: "a-1".into(), ..Default::default() };
        let span = Span { name: "GET".to_owned(), ..Span::default() };
        let message = Span::message(vec![span.clone()], &identity, "edge");
        assert_eq!(message.items, 1);
        let request = ExportTraceServiceRequest::decode(message.bytes).unwrap();
        let [spans] = &request.resource_spans[..] else { panic!("{request:?}") };
        let resource = spans.resource.as_ref().unwrap();
        let names: Vec<_> = resource.attributes.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(names, ["service.name", "service.version", "k8s.pod.name"]);
        let [scope] = &spans.scope_spans[..] else { panic!("{request:?}") };
        assert_eq!((scope.scope.as_ref().unwrap().name.as_str(), &scope.spans[..]), ("fairway", &[span][..]));
    }
}
