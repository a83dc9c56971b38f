//! A sampled exchange that is over, on its way to the exporter of its spans.

use std::fmt;
use std::time::SystemTime;

use fairway_http::{Head, Known, Method};
use fairway_model::is_layout_control;
use fairway_net::clock::Instant;

use super::sampled::{Sampled, SpanContext};
use crate::buffers::Buffers;
use crate::metrics::record::Record;
use crate::peer::Peer;
use crate::recorder::entry::Entry;
use crate::recorder::exchange::RecordedExchange;

/// The most characters of the name of a span that the configuration gives.
const MAX_NAME: usize = 256;

/// A sampled exchange that is over. Its texts are made by [`TracedExchange::exchange`], which the exporter calls off the worker.
pub struct TracedExchange {
    /// The server span.
    pub context: SpanContext,
    /// When the head of the request was there.
    pub began: SystemTime,
    /// The name of the server span.
    pub span_name: String,
    /// The path of the rule as configured (`http.route` of the semantic conventions); none where no rule served the request.
    pub route: Option<String>,
    /// As the flight recorder keeps it: without credentials, queries and bodies. Boxed, as batches of exchanges are moved.
    entry: Box<Entry>,
}

impl TracedExchange {
    /// Of the exchange in the buffers, which was served by the configuration with this version. `None` if it was not sampled.
    pub(crate) fn new(
        record: &Record<'_>,
        buffers: &Buffers,
        peer: &Peer,
        configuration: u64,
    ) -> Option<Self> {
        let sampled = buffers.forms.read().sampled.as_deref()?;
        let mut entry = Box::new(Entry::empty(record.began));
        entry.write(0, record, buffers, peer, configuration);
        entry.add_unrecorded(sampled);
        let route = record.served_by.rule.map(|rule| &*rule.rule().labels.path);
        let route = route.filter(|path| !path.is_empty());
        Some(Self {
            context: SpanContext {
                trace_id: sampled.trace_id,
                span_id: sampled.span_id,
                parent_span_id: sampled.parent_id,
                trace_state: trace_state(&buffers.request),
            },
            began: SystemTime::now()
                .checked_sub(Instant::now().saturating_duration_since(record.began))
                .unwrap_or(SystemTime::UNIX_EPOCH),
            span_name: span_name(sampled, &buffers.request, route),
            route: route.map(str::to_owned),
            entry,
        })
    }

    /// The exchange in words, without a number: its trace identifies it.
    #[must_use]
    pub fn exchange(&self) -> RecordedExchange {
        RecordedExchange { number: String::new(), ..self.entry.exchange(0, self.began, None) }
    }
}

impl fmt::Debug for TracedExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { context, began, span_name, route, entry: _ } = self;
        f.debug_struct("TracedExchange")
            .field("context", context)
            .field("began", began)
            .field("span_name", span_name)
            .field("route", route)
            .finish_non_exhaustive()
    }
}

/// As the configuration says, else method and route. Methods that clients invent are `HTTP`, as in the semantic conventions.
fn span_name(sampled: &Sampled, request: &Head, route: Option<&str>) -> String {
    if !sampled.name.is_empty() {
        return sampled.name.clone();
    }
    let method = match request.method() {
        Method::Other => "HTTP",
        _ => std::str::from_utf8(request.method_bytes()).unwrap_or("HTTP"),
    };
    route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}"))
}

/// The text of a template as the name of a span, for any bytes of clients in it.
pub(crate) fn name_of(text: &[u8]) -> String {
    let shown = |c| if is_layout_control(c) { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(text).chars().map(shown).take(MAX_NAME).collect()
}

/// The list that goes on to endpoints.
fn trace_state(request: &Head) -> Option<String> {
    let lines: Vec<_> = request.all(Known::TraceState).collect();
    let state = String::from_utf8(lines.join(&b',')).ok()?;
    (!state.is_empty()).then_some(state)
}
