//! The trace of a sampled exchange in flight, and the headers endpoints and services get.

use fairway_http::{Head, Known};

use super::context::{B3, B3Context, B3Sampling, TraceParent};
use crate::metrics::record::FailedAttempt;

/// The server span of an exchange and its position in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// Trace id. Never 0.
    pub trace_id: u128,
    /// Span id. Never 0.
    pub span_id: u64,
    /// The client's span, if its trace was continued.
    pub parent_span_id: Option<u64>,
    /// The value of `tracestate`.
    pub trace_state: Option<String>,
}

impl SpanContext {
    /// The client span of an attempt, counted from 1: the parent of the endpoint's spans.
    #[must_use]
    pub fn attempt_span_id(&self, attempt: u8) -> u64 {
        attempt_span_id(self.span_id, attempt)
    }
}

/// Derived, so that nothing is stored per attempt. The finalizer of SplitMix64 is a bijection: attempts of one
/// exchange never share an id.
fn attempt_span_id(span_id: u64, attempt: u8) -> u64 {
    let mut id = span_id.wrapping_add(u64::from(attempt).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    id = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    id ^= id >> 31;
    // The id 0 is invalid.
    if id == 0 { !span_id } else { id }
}

/// The trace of a sampled exchange.
#[derive(Clone, Debug)]
pub(crate) struct SampledTrace {
    pub(crate) trace_id: u128,
    /// The server span.
    pub(crate) span_id: u64,
    /// The client's span.
    pub(crate) parent_id: Option<u64>,
    /// The `traceparent` flag of random trace ids, propagated.
    pub(super) flags: u8,
    /// Form of the B3 headers, if written.
    pub(super) b3: Option<B3Form>,
    /// Configured span name; empty for the default.
    pub(crate) name: String,
    /// An attempt whose response was replaced by that of another backend or of Fairway.
    pub(crate) replaced_attempt: Option<ReplacedAttempt>,
    /// Attempts made before those for an error page of another backend.
    pub(crate) attempts_before_page: u8,
}

/// Form of the B3 headers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct B3Form {
    /// Whether `X-B3-*` headers are written in addition to `b3`, because the client sent them.
    pub(super) is_multiple: bool,
    /// Whether the trace id has 64 bits.
    pub(super) is_short: bool,
    pub(super) is_debug: bool,
}

/// See [`SampledTrace::replaced_attempt`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplacedAttempt {
    pub(crate) attempt: FailedAttempt,
    /// Number of the attempt, from 1.
    pub(crate) number: u8,
}

impl SampledTrace {
    /// Writes the headers for services called before the endpoint: their spans are children of the server span.
    pub(super) fn propagate(&self, request: &mut Head) {
        self.write(request, self.span_id, self.parent_id);
    }

    /// Writes the headers for the endpoint of an attempt of this request, counted from 1.
    pub(crate) fn propagate_attempt(&self, request: &mut Head, attempt: u8) {
        let attempt = self.attempts_before_page.saturating_add(attempt);
        self.write(request, attempt_span_id(self.span_id, attempt), Some(self.span_id));
    }

    fn write(&self, request: &mut Head, span_id: u64, parent_id: Option<u64>) {
        let &Self { trace_id, flags, b3, .. } = self;
        request.remove_known(Known::TraceParent);
        let flags = flags | TraceParent::SAMPLED;
        let parent = TraceParent { trace_id, parent_id: span_id, flags };
        request.append_known(Known::TraceParent, |value| parent.write(value));
        if let Some(B3Form { is_multiple, is_short, is_debug }) = b3 {
            let sampling = if is_debug { B3Sampling::Debug } else { B3Sampling::Accepted };
            write_b3(request, B3Context { trace_id, is_short, span_id, parent_id, sampling }, is_multiple);
        }
    }
}

/// Replaces the B3 headers of a request.
pub(super) fn write_b3(request: &mut Head, context: B3Context, is_multiple: bool) {
    request.remove_set(Known::B3.bit() | Known::X_B3);
    request.append_known(Known::B3, |value| B3::Context(context).write(value));
    if !is_multiple {
        return;
    }
    let id = |id: u64| move |value: &mut Vec<u8>| fairway_http::bytes::push_hex(id.to_be_bytes(), value);
    request.append_known(Known::XB3TraceId, |value| context.write_trace_id(value));
    request.append_known(Known::XB3SpanId, id(context.span_id));
    if let Some(parent) = context.parent_id {
        request.append_known(Known::XB3ParentSpanId, id(parent));
    }
    match context.sampling {
        B3Sampling::Deferred => {}
        // "Debug implies an accept decision, so don't also send the X-B3-Sampled header."
        B3Sampling::Debug => request.append_known(Known::XB3Flags, |value| value.push(b'1')),
        B3Sampling::Denied => request.append_known(Known::XB3Sampled, |value| value.push(b'0')),
        B3Sampling::Accepted => request.append_known(Known::XB3Sampled, |value| value.push(b'1')),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_attempt_has_its_own_span() {
        for span_id in [1, 7, u64::MAX, 0x00f0_67aa_0ba9_02b7] {
            let context = SpanContext { trace_id: 1, span_id, parent_span_id: None, trace_state: None };
            let ids: BTreeSet<_> = (1..=u8::MAX).map(|attempt| context.attempt_span_id(attempt)).collect();
            assert_eq!(ids.len(), usize::from(u8::MAX));
            assert!(!ids.contains(&0) && !ids.contains(&span_id));
        }
    }
}
