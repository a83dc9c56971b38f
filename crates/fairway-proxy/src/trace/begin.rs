//! Whether a request is traced and sampled, and in which trace: decided once, before its rule is applied.

use std::num::NonZeroU64;

use fairway_http::{Head, Known};
use fairway_model::{Propagation, Tracing};
use fastrand::Rng;

use super::context::{B3, B3Context, B3Sampling, B3Values, TraceParent, is_state_in_bounds};
use super::sampled::{B3Form, Sampled, write_b3};
use crate::buffers::Buffers;

/// Continues the trace of the client of the request in the buffers, or begins one, and writes its headers. Where it is sampled, the
/// buffers say so. Says whether there is a trace at all: then `traceparent` stands in the request.
pub(crate) fn begin(tracing: &Tracing, buffers: &mut Buffers, random: &mut Rng) -> bool {
    let request = &mut buffers.request;
    if tracing.is_off() {
        if !tracing.trust_incoming {
            remove_contexts(request);
        }
        return false;
    }
    let client = if tracing.trust_incoming { Claim::read(request, tracing.propagation) } else { Claim::None };
    match client {
        Claim::Parent(parent) if !decide(tracing, parent.decision, parent.trace_id) => {
            pass_on(tracing, &parent, request);
        }
        Claim::Parent(parent) => {
            let sampled = sample(tracing, &parent, random);
            remove_unbounded_state(request);
            if parent.origin != Origin::TraceParent {
                request.remove_known(Known::TraceState);
            }
            sampled.propagate(request);
            buffers.forms.write().sampled = Some(Box::new(sampled));
        }
        Claim::None => begin_anew(tracing, None, buffers, random),
        Claim::Decision(decision) => begin_anew(tracing, Some(decision), buffers, random),
    }
    true
}

/// What a request says of the trace that it is part of.
enum Claim {
    /// Nothing that can be read and believed.
    None,
    /// Only whether its trace is sampled.
    Decision(bool),
    Parent(Parent),
}

/// The client's span.
struct Parent {
    trace_id: u128,
    span_id: u64,
    /// Whether its trace is sampled, where that is decided.
    decision: Option<bool>,
    /// As [`TraceParent::RANDOM`].
    flags: u8,
    b3: B3Form,
    origin: Origin,
}

/// Where a span was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    TraceParent,
    B3,
}

impl Claim {
    /// What the headers say that are read.
    #[inline]
    fn read(request: &Head, propagation: Propagation) -> Self {
        let mut values = request.all(Known::TraceParent);
        match (values.next(), values.next()) {
            (Some(value), None) => TraceParent::read(value).map_or(Self::None, |parent| {
                Self::Parent(Parent {
                    trace_id: parent.trace_id,
                    span_id: parent.parent_id,
                    decision: Some(parent.is_sampled()),
                    flags: parent.flags & TraceParent::RANDOM,
                    b3: B3Form { is_multiple: request.may_have(Known::X_B3), ..B3Form::default() },
                    origin: Origin::TraceParent,
                })
            }),
            (None, _) if propagation == Propagation::W3cAndB3 => read_b3(request).unwrap_or(Self::None),
            _ => Self::None,
        }
    }
}

/// "b3" comes before the other headers where a request has both.
#[cold]
fn read_b3(request: &Head) -> Option<Claim> {
    let (b3, is_multiple) = match only(request, Known::B3)? {
        Some(value) => (B3::read(value)?, request.may_have(Known::X_B3)),
        None if !request.may_have(Known::X_B3) => return None,
        None => {
            let values = B3Values {
                trace_id: only(request, Known::XB3TraceId)?,
                span_id: only(request, Known::XB3SpanId)?,
                parent_span_id: only(request, Known::XB3ParentSpanId)?,
                sampled: only(request, Known::XB3Sampled)?,
                flags: only(request, Known::XB3Flags)?,
            };
            (B3::read_values(&values)?, true)
        }
    };
    Some(match b3 {
        B3::Decision(sampling) => sampling.decision().map_or(Claim::None, Claim::Decision),
        B3::Context(B3Context { trace_id, is_short, span_id, sampling, .. }) => Claim::Parent(Parent {
            trace_id,
            span_id,
            decision: sampling.decision(),
            flags: 0,
            b3: B3Form { is_multiple, is_short, is_debug: sampling == B3Sampling::Debug },
            origin: Origin::B3,
        }),
    })
}

/// The value of a header that may come once: `Some(None)` where it does not come, and `None` where it comes again.
fn only(request: &Head, known: Known) -> Option<Option<&[u8]>> {
    let mut values = request.all(known);
    let value = values.next();
    values.next().is_none().then_some(value)
}

/// Whether a trace is sampled. What decides by itself decides by the same bits of the trace id everywhere: of one trace, services with
/// the same ratio sample all or nothing.
#[inline]
fn decide(tracing: &Tracing, decision: Option<bool>, trace_id: u128) -> bool {
    match decision {
        Some(decision) if tracing.parent_based => decision,
        _ => tracing.ratio.samples(trace_id as u32),
    }
}

/// The trace of the client goes on without a span of Fairway: its headers stay as they came.
#[inline]
fn pass_on(tracing: &Tracing, parent: &Parent, request: &mut Head) {
    remove_unbounded_state(request);
    if tracing.propagation == Propagation::W3cAndB3 {
        complete(parent, request);
    }
}

/// Adds the form of the context that the client did not send.
#[cold]
fn complete(parent: &Parent, request: &mut Head) {
    let &Parent { trace_id, span_id, decision, flags, b3: B3Form { is_short, .. }, origin } = parent;
    let is_sampled = decision.unwrap_or(false);
    match origin {
        Origin::TraceParent if request.may_have(Known::B3.bit() | Known::X_B3) => {}
        Origin::TraceParent => {
            let sampling = if is_sampled { B3Sampling::Accepted } else { B3Sampling::Denied };
            write_b3(request, B3Context { trace_id, is_short, span_id, parent_id: None, sampling }, false);
        }
        Origin::B3 => {
            request.remove_set(Known::TRACE_CONTEXT);
            let flags = flags | if is_sampled { TraceParent::SAMPLED } else { 0 };
            let parent = TraceParent { trace_id, parent_id: span_id, flags };
            request.append_known(Known::TraceParent, |value| parent.write(value));
        }
    }
}

/// A span of Fairway in the trace of the client.
fn sample(tracing: &Tracing, parent: &Parent, random: &mut Rng) -> Sampled {
    Sampled {
        trace_id: parent.trace_id,
        span_id: span_id(random),
        parent_id: Some(parent.span_id),
        flags: parent.flags,
        b3: (tracing.propagation == Propagation::W3cAndB3).then_some(parent.b3),
        name: String::new(),
        unused: None,
        attempts_before_page: 0,
    }
}

/// What a client says of its trace goes no further.
#[cold]
fn remove_contexts(request: &mut Head) {
    let contexts = Known::TRACE_CONTEXT | Known::B3.bit() | Known::X_B3;
    if request.may_have(contexts) {
        request.remove_set(contexts);
    }
}

/// Begins a trace. What the client said of one, and cannot be read or is not believed, is removed.
fn begin_anew(tracing: &Tracing, decision: Option<bool>, buffers: &mut Buffers, random: &mut Rng) {
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
    if decide(tracing, decision, trace_id) {
        let sampled = Sampled {
            trace_id,
            span_id,
            parent_id: None,
            flags: 0,
            b3,
            name: String::new(),
            unused: None,
            attempts_before_page: 0,
        };
        sampled.propagate(request);
        buffers.forms.write().sampled = Some(Box::new(sampled));
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

/// A `tracestate` that is too long goes no further; the trace does.
#[inline]
fn remove_unbounded_state(request: &mut Head) {
    if request.may_have(Known::TraceState.bit()) && !is_state_in_bounds(request.all(Known::TraceState)) {
        request.remove_known(Known::TraceState);
    }
}

/// A random number that is not 0: the identifier 0 is invalid.
#[inline]
fn span_id(random: &mut Rng) -> u64 {
    NonZeroU64::new(random.u64(..)).map_or(1, NonZeroU64::get)
}
