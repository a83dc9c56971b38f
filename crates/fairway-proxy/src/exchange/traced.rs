//! Tracing of an exchange: which settings apply, the name of its span, and its export.

use std::sync::Arc;

use fairway_connection::sides::Hop;
use fairway_model::Tracing;
use fairway_routing::{ClientLimits, CompiledRule};

use super::environment::{Environment, Exchange, Unroutable};
use crate::buffers::Buffers;
use crate::filter;
use crate::metrics::record::ExchangeRecord;
use crate::network::Network;
use crate::options::ProxyOptions;
use crate::peer::Peer;
use crate::trace::{self, TracedExchange};
use crate::worker::{Adopted, Worker};

/// The tracing settings of an exchange: the rule's, else the listener's, else the process's.
#[inline]
fn tracing_setting<'s>(
    rule: Option<&'s CompiledRule>,
    limits: &'s ClientLimits,
    options: &'s ProxyOptions,
) -> Option<&'s Arc<Tracing>> {
    let of_rule = rule.and_then(|rule| rule.steps().tracing.as_ref());
    of_rule.or(limits.tracing.as_ref()).or(options.tracing.as_ref())
}

/// Continues or starts the trace of the request, if its rule, its listener or the process enables tracing.
#[inline]
pub(super) fn begin_trace<N: Network>(
    env: &Environment<'_, N>,
    limits: &ClientLimits,
    buffers: &mut Buffers,
    record: &mut ExchangeRecord<'_>,
) {
    if let Some(tracing) = tracing_setting(Some(env.rule()), limits, &env.worker.options) {
        record.is_traced = env.worker.random(|random| trace::begin_trace(tracing, buffers, random));
    }
}

/// The same for a request without a rule. A malformed request is not traced: its headers cannot be trusted.
pub(super) fn begin_unserved<N: Network, H: Hop>(
    worker: &Worker<N>,
    adopted: &Adopted<H>,
    peer: &Peer,
    unroutable: &Unroutable,
    buffers: &mut Buffers,
    record: &mut ExchangeRecord<'_>,
) {
    let Unroutable::Unserved(..) = unroutable else { return };
    if let Some(tracing) = tracing_setting(None, adopted.client_limits(peer.listener), &worker.options) {
        record.is_traced = worker.random(|random| trace::begin_trace(tracing, buffers, random));
    }
}

/// Sets the name of the span of a finished sampled exchange, if the configuration has a template for it.
#[inline(never)]
pub(super) fn name_span<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>) {
    let Exchange { env, client_side, buffers, .. } = exchange;
    if buffers.extras.read().sampled.is_none() {
        return;
    }
    let limits = env.adopted.client_limits(client_side.peer.listener);
    let tracing = tracing_setting(Some(env.rule()), limits, &env.worker.options);
    let Some(template) = tracing.and_then(|tracing| tracing.span_name.as_ref()) else { return };
    let name = trace::sanitize_span_name(&filter::render(template, env.sources(), buffers));
    if let Some(sampled) = buffers.extras.sampled_mut() {
        sampled.name = name;
    }
}

/// Exports a finished sampled exchange that was served by this version of the configuration. If memory is short, it is dropped
/// and counted.
#[inline(never)]
pub(super) fn export<N: Network>(
    worker: &Worker<N>,
    record: &ExchangeRecord<'_>,
    buffers: &Buffers,
    peer: &Peer,
    configuration: u64,
) {
    if buffers.extras.read().sampled.is_none() || !worker.traces.has_exporter() {
        return;
    }
    if worker.is_shedding() {
        return worker.traces.count_dropped();
    }
    if let Some(traced) = TracedExchange::new(record, buffers, peer, configuration) {
        worker.traces.add(traced);
    }
}
