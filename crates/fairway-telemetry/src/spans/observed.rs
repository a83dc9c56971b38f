//! A traced exchange, and what all of its spans share.

use std::time::{Duration, SystemTime};

use fairway_proxy::{RecordedExchange, SpanContext};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags, Status};

use crate::times::unix_nanos;

/// What is known about a traced exchange.
pub(crate) struct ObservedExchange<'a> {
    pub(crate) context: &'a SpanContext,
    pub(crate) began: SystemTime,
    /// The name of the server span.
    pub(crate) name: &'a str,
    /// The path of the rule, as written in its object.
    pub(crate) route: Option<&'a str>,
    pub(crate) exchange: &'a RecordedExchange,
}

/// The flag of W3C Trace Context: only sampled exchanges are exported.
pub(super) const SAMPLED_FLAG: u32 = 1;

impl ObservedExchange<'_> {
    /// A span of this trace with a parent in this process.
    pub(super) fn span(&self, id: u64, parent: u64, period: SpanPeriod) -> Span {
        let at =
            |micros| unix_nanos(self.began.checked_add(Duration::from_micros(micros)).unwrap_or(self.began));
        Span {
            trace_id: self.context.trace_id.to_be_bytes().to_vec(),
            span_id: id.to_be_bytes().to_vec(),
            parent_span_id: parent.to_be_bytes().to_vec(),
            trace_state: self.context.trace_state.clone().unwrap_or_default(),
            // Sampled, and the parent is in this process.
            flags: SAMPLED_FLAG | SpanFlags::ContextHasIsRemoteMask as u32,
            start_time_unix_nano: at(period.start),
            end_time_unix_nano: at(period.end),
            ..Span::default()
        }
    }
}

/// A period, in microseconds since the start of the exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpanPeriod {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl SpanPeriod {
    /// From the start of the exchange.
    pub(super) fn from_start(end: u64) -> Self {
        Self { start: 0, end }
    }
}

/// Marks a span as failed, with this reason.
pub(super) fn mark_failed(span: &mut Span, error_type: KeyValue) {
    span.status = Some(Status { code: StatusCode::Error as i32, message: String::new() });
    span.attributes.push(error_type);
}
