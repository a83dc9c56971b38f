//! Decides whether and in which trace a request is traced and sampled: once, before its rule is applied.

use std::num::NonZeroU64;

use fairway_http::{Head, Known};
use fairway_model::{Propagation, Tracing};
use fastrand::Rng;

use super::context::{B3, B3Context, B3Sampling, B3Values, TraceParent, is_state_in_bounds};
use super::sampled::{B3Form, SampledTrace, write_b3};
use crate::buffers::Buffers;

/// Continues the client's trace or starts one, and writes the trace headers. A sampled trace is stored in the
/// buffers. Returns whether there is a trace: then the request has a `traceparent`.
pub(crate) fn begin_trace(tracing: &Tracing, buffers: &mut Buffers, random: &mut Rng) -> bool {
    let request = &mut buffers.request;
    if tracing.is_off() {
        if !tracing.trust_incoming {
            remove_contexts(request);
        }
        return false;
    }
    let incoming = if tracing.trust_incoming {
        IncomingContext::read(request, tracing.propagation)
    } else {
        IncomingContext::None
    };
    match incoming {
        IncomingContext::Parent(parent) if !is_sampled(tracing, parent.decision, parent.trace_id) => {
            forward_context(tracing, &parent, request);
        }
        IncomingContext::Parent(parent) => {
            let sampled = new_sampled(tracing, &parent, random);
            remove_oversized_state(request);
            if parent.origin != ContextFormat::TraceParent {
                request.remove_known(Known::TraceState);
            }
            sampled.propagate(request);
            buffers.extras.write().sampled = Some(Box::new(sampled));
        }
        IncomingContext::None => begin_new_trace(tracing, None, buffers, random),
        IncomingContext::Decision(decision) => begin_new_trace(tracing, Some(decision), buffers, random),
    }
    true
}

/// The trace context of a request.
enum IncomingContext {
    /// No valid or trusted context.
    None,
    /// Only a sampling decision.
    Decision(bool),
    Parent(IncomingSpan),
}

/// The span of the client.
struct IncomingSpan {
    trace_id: u128,
    span_id: u64,
    /// The sampling decision, if made.
    decision: Option<bool>,
    /// As [`TraceParent::RANDOM`].
    flags: u8,
    b3: B3Form,
    origin: ContextFormat,
}

/// The header format of a span.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContextFormat {
    TraceParent,
    B3,
}

impl IncomingContext {
    /// Reads the trace headers.
    #[inline]
    fn read(request: &Head, propagation: Propagation) -> Self {
        let mut values = request.all(Known::TraceParent);
        match (values.next(), values.next()) {
            (Some(value), None) => TraceParent::read(value).map_or(Self::None, |parent| {
                Self::Parent(IncomingSpan {
                    trace_id: parent.trace_id,
                    span_id: parent.parent_id,
                    decision: Some(parent.is_sampled()),
                    flags: parent.flags & TraceParent::RANDOM,
                    b3: B3Form { is_multiple: request.may_have(Known::X_B3), ..B3Form::default() },
                    origin: ContextFormat::TraceParent,
                })
            }),
            (None, _) if propagation == Propagation::W3cAndB3 => read_b3(request).unwrap_or(Self::None),
            _ => Self::None,
        }
    }
}

/// `b3` has precedence over the other B3 headers.
#[cold]
fn read_b3(request: &Head) -> Option<IncomingContext> {
    let (b3, is_multiple) = match single_value(request, Known::B3)? {
        Some(value) => (B3::read(value)?, request.may_have(Known::X_B3)),
        None if !request.may_have(Known::X_B3) => return None,
        None => {
            let values = B3Values {
                trace_id: single_value(request, Known::XB3TraceId)?,
                span_id: single_value(request, Known::XB3SpanId)?,
                parent_span_id: single_value(request, Known::XB3ParentSpanId)?,
                sampled: single_value(request, Known::XB3Sampled)?,
                flags: single_value(request, Known::XB3Flags)?,
            };
            (B3::read_values(&values)?, true)
        }
    };
    Some(match b3 {
        B3::Decision(sampling) => {
            sampling.decision().map_or(IncomingContext::None, IncomingContext::Decision)
        }
        B3::Context(B3Context { trace_id, is_short, span_id, sampling, .. }) => {
            IncomingContext::Parent(IncomingSpan {
                trace_id,
                span_id,
                decision: sampling.decision(),
                flags: 0,
                b3: B3Form { is_multiple, is_short, is_debug: sampling == B3Sampling::Debug },
                origin: ContextFormat::B3,
            })
        }
    })
}

/// The value of a header that must not repeat: `Some(None)` if absent, `None` if repeated.
fn single_value(request: &Head, known: Known) -> Option<Option<&[u8]>> {
    let mut values = request.all(known);
    let value = values.next();
    values.next().is_none().then_some(value)
}

/// Whether a trace is sampled. Ratio sampling uses the same bits of the trace id everywhere: services with the
/// same ratio sample all or nothing of a trace.
#[inline]
fn is_sampled(tracing: &Tracing, decision: Option<bool>, trace_id: u128) -> bool {
    match decision {
        Some(decision) if tracing.parent_based => decision,
        _ => tracing.ratio.samples(trace_id as u32),
    }
}

/// Forwards the client's trace without a span of Fairway: its headers stay as received.
#[inline]
fn forward_context(tracing: &Tracing, parent: &IncomingSpan, request: &mut Head) {
    remove_oversized_state(request);
    if tracing.propagation == Propagation::W3cAndB3 {
        add_missing_format(parent, request);
    }
}

/// Adds the context in the format the client did not send.
#[cold]
fn add_missing_format(parent: &IncomingSpan, request: &mut Head) {
    let &IncomingSpan { trace_id, span_id, decision, flags, b3: B3Form { is_short, .. }, origin } = parent;
    let is_sampled = decision.unwrap_or(false);
    match origin {
        ContextFormat::TraceParent if request.may_have(Known::B3.bit() | Known::X_B3) => {}
        ContextFormat::TraceParent => {
            let sampling = if is_sampled { B3Sampling::Accepted } else { B3Sampling::Denied };
            write_b3(request, B3Context { trace_id, is_short, span_id, parent_id: None, sampling }, false);
        }
        ContextFormat::B3 => {
            request.remove_set(Known::TRACE_CONTEXT);
            let flags = flags | if is_sampled { TraceParent::SAMPLED } else { 0 };
            let parent = TraceParent { trace_id, parent_id: span_id, flags };
            request.append_known(Known::TraceParent, |value| parent.write(value));
        }
    }
}

/// A span of Fairway in the client's trace.
fn new_sampled(tracing: &Tracing, parent: &IncomingSpan, random: &mut Rng) -> SampledTrace {
    SampledTrace {
        trace_id: parent.trace_id,
        span_id: span_id(random),
        parent_id: Some(parent.span_id),
        flags: parent.flags,
        b3: (tracing.propagation == Propagation::W3cAndB3).then_some(parent.b3),
        name: String::new(),
        replaced_attempt: None,
        attempts_before_page: 0,
    }
}

/// Removes the trace context of an untrusted client.
#[cold]
fn remove_contexts(request: &mut Head) {
    let contexts = Known::TRACE_CONTEXT | Known::B3.bit() | Known::X_B3;
    if request.may_have(contexts) {
        request.remove_set(contexts);
    }
}

/// Starts a trace. Invalid or untrusted context of the client is removed.
fn begin_new_trace(tracing: &Tracing, decision: Option<bool>, buffers: &mut Buffers, random: &mut Rng) {
    let request = &mut buffers.request;
    let both = tracing.propagation == Propagation::W3cAndB3;
    let is_multiple = request.may_have(Known::X_B3);
    let removed = match both || !tracing.trust_incoming {
        true => Known::TRACE_CONTEXT | Known::B3.bit() | Known::X_B3,
        false => Known::TRACE_CONTEXT,
    };
    if request.may_have(removed) {
        request.remove_set(removed);
    }
    let (trace_id, span_id) =
        (u128::from(span_id(random)) << 64 | u128::from(span_id(random)), span_id(random));
    let b3 = both.then_some(B3Form { is_multiple, ..B3Form::default() });
    if is_sampled(tracing, decision, trace_id) {
        let sampled = SampledTrace {
            trace_id,
            span_id,
            parent_id: None,
            flags: 0,
            b3,
            name: String::new(),
            replaced_attempt: None,
            attempts_before_page: 0,
        };
        sampled.propagate(request);
        buffers.extras.write().sampled = Some(Box::new(sampled));
        return;
    }
    let parent = TraceParent { trace_id, parent_id: span_id, flags: 0 };
    request.append_known(Known::TraceParent, |value| parent.write(value));
    if let Some(B3Form { is_short, .. }) = b3 {
        let sampling = B3Sampling::Denied;
        let context = B3Context { trace_id, is_short, span_id, parent_id: None, sampling };
        write_b3(request, context, is_multiple);
    }
}

/// Drops an oversized `tracestate`; the trace continues.
#[inline]
fn remove_oversized_state(request: &mut Head) {
    if request.may_have(Known::TraceState.bit()) && !is_state_in_bounds(request.all(Known::TraceState)) {
        request.remove_known(Known::TraceState);
    }
}

/// A random non-zero id: 0 is invalid.
#[inline]
fn span_id(random: &mut Rng) -> u64 {
    NonZeroU64::new(random.u64(..)).map_or(1, NonZeroU64::get)
}
