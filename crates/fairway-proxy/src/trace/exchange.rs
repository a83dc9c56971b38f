//! A finished sampled exchange on its way to the span exporter.

use std::fmt;
use std::time::SystemTime;

use fairway_http::{Head, Known, Method};
use fairway_model::is_layout_control;
use fairway_net::clock::Instant;

use super::sampled::{SampledTrace, SpanContext};
use crate::buffers::Buffers;
use crate::metrics::record::ExchangeRecord;
use crate::peer::Peer;
use crate::recorder::entry::RecordedEntry;
use crate::recorder::exchange::RecordedExchange;

/// Character limit of a configured span name.
const MAX_SPAN_NAME_CHARS: usize = 256;

/// A finished sampled exchange. [`TracedExchange::to_recorded`] builds its texts on the exporter's thread, not
/// on the worker.
pub struct TracedExchange {
    /// The server span.
    pub context: SpanContext,
    /// When the request head was complete.
    pub started_at: SystemTime,
    /// Name of the server span.
    pub span_name: String,
    /// Path of the rule as configured (`http.route` of the semantic conventions); `None` if no rule served the
    /// request.
    pub route: Option<String>,
    /// As the flight recorder keeps it: without credentials, queries and bodies. Boxed, because batches of
    /// exchanges are moved.
    entry: Box<RecordedEntry>,
}

impl TracedExchange {
    /// Builds it from the exchange in the buffers, served by this version of the configuration. `None` if it
    /// was not sampled.
    pub(crate) fn new(
        record: &ExchangeRecord<'_>,
        buffers: &Buffers,
        peer: &Peer,
        configuration: u64,
    ) -> Option<Self> {
        let sampled = buffers.extras.read().sampled.as_deref()?;
        let mut entry = Box::new(RecordedEntry::empty(record.started_at));
        entry.write(0, record, buffers, peer, configuration);
        entry.add_replaced_attempts(sampled);
        let route = record.served_by.rule.map(|rule| &*rule.rule().labels.path);
        let route = route.filter(|path| !path.is_empty());
        Some(Self {
            context: SpanContext {
                trace_id: sampled.trace_id,
                span_id: sampled.span_id,
                parent_span_id: sampled.parent_id,
                trace_state: trace_state(&buffers.request),
            },
            started_at: SystemTime::now()
                .checked_sub(Instant::now().saturating_duration_since(record.started_at))
                .unwrap_or(SystemTime::UNIX_EPOCH),
            span_name: span_name(sampled, &buffers.request, route),
            route: route.map(str::to_owned),
            entry,
        })
    }

    /// The recorded exchange, without a number: its trace identifies it.
    #[must_use]
    pub fn to_recorded(&self) -> RecordedExchange {
        RecordedExchange { number: String::new(), ..self.entry.to_recorded(0, self.started_at, None) }
    }
}

impl fmt::Debug for TracedExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { context, started_at, span_name, route, entry: _ } = self;
        f.debug_struct("TracedExchange")
            .field("context", context)
            .field("began", started_at)
            .field("span_name", span_name)
            .field("route", route)
            .finish_non_exhaustive()
    }
}

/// The configured name, otherwise method and route. Unknown methods become `HTTP`, as in the semantic
/// conventions.
fn span_name(sampled: &SampledTrace, request: &Head, route: Option<&str>) -> String {
    if !sampled.name.is_empty() {
        return sampled.name.clone();
    }
    let method = match request.method() {
        Method::Other => "HTTP",
        _ => std::str::from_utf8(request.method_bytes()).unwrap_or("HTTP"),
    };
    route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}"))
}

/// A template's text as a span name, safe for any client bytes in it.
pub(crate) fn sanitize_span_name(text: &[u8]) -> String {
    let shown = |c| if is_layout_control(c) { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(text).chars().map(shown).take(MAX_SPAN_NAME_CHARS).collect()
}

/// The `tracestate` sent to endpoints.
fn trace_state(request: &Head) -> Option<String> {
    let lines: Vec<_> = request.all(Known::TraceState).collect();
    let state = String::from_utf8(lines.join(&b',')).ok()?;
    (!state.is_empty()).then_some(state)
}
