//! An exchange in traces: which setting applies to it, how its span is named, and when it is handed to the exporter.

use std::sync::Arc;

use fairway_connection::sides::Hop;
use fairway_model::Tracing;
use fairway_routing::{ClientLimits, CompiledRule};

use super::environment::{Environment, Exchange, Unroutable};
use crate::buffers::Buffers;
use crate::filter;
use crate::metrics::record::Record;
use crate::network::Network;
use crate::options::ProxyOptions;
use crate::peer::Peer;
use crate::trace::{self, TracedExchange};
use crate::worker::{Adopted, Worker};

/// How an exchange is traced: as its rule says, else its listener, else the process.
#[inline]
fn setting<'s>(
    rule: Option<&'s CompiledRule>,
    limits: &'s ClientLimits,
    options: &'s ProxyOptions,
) -> Option<&'s Arc<Tracing>> {
    let of_rule = rule.and_then(|rule| rule.steps().tracing.as_ref());
    of_rule.or(limits.tracing.as_ref()).or(options.tracing.as_ref())
}

/// Continues or begins the trace of the request in the buffers, where its rule, its listener or the process says so.
#[inline]
pub(super) fn begin<N: Network>(
    env: &Environment<'_, N>,
    limits: &ClientLimits,
    buffers: &mut Buffers,
    record: &mut Record<'_>,
) {
    if let Some(tracing) = setting(Some(env.rule()), limits, &env.worker.options) {
        record.is_traced = env.worker.random(|random| trace::begin(tracing, buffers, random));
    }
}

/// The same for a request without a rule. One that is malformed has nothing that could be believed.
pub(super) fn begin_unserved<N: Network, H: Hop>(
    worker: &Worker<N>,
    adopted: &Adopted<H>,
    peer: &Peer,
    unroutable: &Unroutable,
    buffers: &mut Buffers,
    record: &mut Record<'_>,
) {
    let Unroutable::Unserved(..) = unroutable else { return };
    if let Some(tracing) = setting(None, adopted.clients(peer.listener), &worker.options) {
        record.is_traced = worker.random(|random| trace::begin(tracing, buffers, random));
    }
}

/// Names the span of a sampled exchange that is over, where the configuration names it.
#[inline(never)]
pub(super) fn name<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>) {
    let Exchange { env, client_side, buffers, .. } = exchange;
    if buffers.forms.read().sampled.is_none() {
        return;
    }
    let limits = env.adopted.clients(client_side.peer.listener);
    let tracing = setting(Some(env.rule()), limits, &env.worker.options);
    let Some(template) = tracing.and_then(|tracing| tracing.span_name.as_ref()) else { return };
    let name = trace::name_of(&filter::text(template, env.sources(), buffers));
    if let Some(sampled) = buffers.forms.sampled_mut() {
        sampled.name = name;
    }
}

/// Hands a sampled exchange that is over, and was served by the configuration with this version, to the exporter. Where memory is short,
/// it is dropped and counted.
#[inline(never)]
pub(super) fn hand_over<N: Network>(
    worker: &Worker<N>,
    record: &Record<'_>,
    buffers: &Buffers,
    peer: &Peer,
    configuration: u64,
) {
    if buffers.forms.read().sampled.is_none() || !worker.traces.is_exported() {
        return;
    }
    if worker.is_shedding() {
        return worker.traces.lose();
    }
    if let Some(traced) = TracedExchange::new(record, buffers, peer, configuration) {
        worker.traces.add(traced);
    }
}
