//! An exchange as a tree of spans (OpenTelemetry semantic conventions 1.45 for HTTP and RPC).
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
//! Spans have what the flight recorder keeps of an exchange, and nothing else: no query, no credentials, no bodies.

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

use observed::{Observed, Period};

/// The spans of an exchange that is over, the server span first.
#[must_use]
pub fn spans_of(traced: &TracedExchange) -> Vec<Span> {
    let exchange = traced.exchange();
    Observed {
        context: &traced.context,
        began: traced.began,
        name: &traced.span_name,
        route: traced.route.as_deref(),
        exchange: &exchange,
    }
    .spans()
}

impl Observed<'_> {
    /// The spans, the server span first.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans = vec![self.server()];
        if self.exchange.waited_us > 0 {
            let own = ids::below(self.context.span_id, ids::GUARDS);
            let guards = self.span(own, self.context.span_id, Period::from_start(self.exchange.waited_us));
            spans.push(Span { name: "guards".to_owned(), kind: SpanKind::Internal as i32, ..guards });
        }
        self.add_attempts(&mut spans);
        spans
    }
}
