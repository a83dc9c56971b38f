//! The span tree of an exchange (OpenTelemetry semantic conventions 1.45 for HTTP and RPC).
//!
//! ```text
//! SERVER  the exchange
//! ├ INTERNAL guards   the wait for other services, such as authentication
//! ├ CLIENT   each attempt
//! └ CLIENT   the last attempt
//!   ├ INTERNAL connect
//!   └ INTERNAL tls
//! ```
//!
//! Spans contain what the flight recorder keeps of an exchange, and nothing else: no query, no credentials, no bodies.

mod attempts;
mod call;
mod ids;
mod observed;
mod server;
#[cfg(test)]
mod tests;

use fairway_proxy::TracedExchange;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use observed::{ObservedExchange, SpanPeriod};

/// The spans of a finished exchange, the server span first.
#[must_use]
pub fn spans_of(traced: &TracedExchange) -> Vec<Span> {
    let exchange = traced.to_recorded();
    ObservedExchange {
        context: &traced.context,
        began: traced.started_at,
        name: &traced.span_name,
        route: traced.route.as_deref(),
        exchange: &exchange,
    }
    .spans()
}

impl ObservedExchange<'_> {
    /// The spans, the server span first.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans = vec![self.server_span()];
        if self.exchange.waited_us > 0 {
            let guard_span = ids::child_id(self.context.span_id, ids::GUARDS_SPAN);
            let guards =
                self.span(guard_span, self.context.span_id, SpanPeriod::from_start(self.exchange.waited_us));
            spans.push(Span { name: "guards".to_owned(), kind: SpanKind::Internal as i32, ..guards });
        }
        self.add_attempts(&mut spans);
        spans
    }
}
