//! Client spans: one per attempt, with the connect and the TLS handshake of the last one.
//!
//! There is no `url.full`: the URL sent to an endpoint may be rewritten, and is not recorded.

use std::net::SocketAddr;

use fairway_proxy::{RecordedAttempt, RecordedUpstream};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use super::call::status_name;
use super::ids;
use super::observed::{ObservedExchange, SpanPeriod, mark_failed};
use crate::attributes::{flag, number, text};

impl ObservedExchange<'_> {
    /// Adds the spans of all attempts.
    pub(super) fn add_attempts(&self, spans: &mut Vec<Span>) {
        let failed = &self.exchange.failed_attempts;
        for (attempt, number) in failed.iter().zip(1..) {
            spans.push(self.failed_attempt_span(attempt, number));
        }
        // If no response arrived, the last attempt is among the failed ones; not every attempt is recorded if there are very
        // many.
        let Some(last) = &self.exchange.upstream else { return };
        if usize::from(last.attempts) > failed.len() {
            self.add_last_attempt(last, spans);
        }
    }

    fn failed_attempt_span(&self, attempt: &RecordedAttempt, number: u8) -> Span {
        let began = self.exchange.waited_us;
        let period = SpanPeriod {
            start: began.saturating_add(attempt.began_us),
            end: began.saturating_add(attempt.after_us.max(attempt.began_us)),
        };
        let mut span = self.attempt_span(attempt.endpoint, number, period);
        if let Some(status) = attempt.status {
            span.attributes.push(status_code(status));
        }
        let error = attempt.reason.clone().or_else(|| attempt.status.map(|status| status.to_string()));
        mark_failed(&mut span, text("error.type", error.unwrap_or_else(|| "_OTHER".to_owned())));
        span
    }

    fn add_last_attempt(&self, last: &RecordedUpstream, spans: &mut Vec<Span>) {
        let start = self.exchange.waited_us.saturating_add(last.began_us);
        // The connect that was used may have started after the attempt, as a hedge for a slow one.
        let connected = last.began_us.saturating_add(last.connect_us).max(last.sent_us);
        let sent = self.exchange.waited_us.saturating_add(connected);
        let mut period = SpanPeriod { start, end: sent.saturating_add(last.response_us) };
        // Each time is rounded separately: together they may end a little after the exchange.
        period.end = period.end.min(self.exchange.took_us.max(start));
        let mut span = self.attempt_span(last.endpoint, last.attempts, period);
        if last.hedged {
            span.attributes.push(flag("fairway.hedged", true));
        }
        if let Some(status) = last.status {
            span.attributes.push(status_code(status));
        }
        if last.status.is_some() {
            span.attributes.extend(self.rpc_attributes());
        }
        if let Some(error) = self.client_error(last) {
            mark_failed(&mut span, text("error.type", error));
        }
        let id = self.context.attempt_span_id(last.attempts);
        spans.push(span);
        let secured = sent.saturating_sub(last.tls_us);
        let steps = [
            (
                "connect",
                ids::CONNECT_SPAN,
                SpanPeriod { start: sent.saturating_sub(last.connect_us), end: secured },
            ),
            ("tls", ids::TLS_SPAN, SpanPeriod { start: secured, end: sent }),
        ];
        for (name, kind, step) in steps.into_iter().filter(|(.., step)| step.end > step.start) {
            let step = self.span(ids::child_id(id, kind), id, step);
            spans.push(Span { name: name.to_owned(), kind: SpanKind::Internal as i32, ..step });
        }
    }

    /// The span of an attempt, without its outcome.
    fn attempt_span(&self, endpoint: SocketAddr, attempt: u8, period: SpanPeriod) -> Span {
        let mut span = self.span(self.context.attempt_span_id(attempt), self.context.span_id, period);
        span.kind = SpanKind::Client as i32;
        // No low-cardinality name is known for the request that the endpoint gets.
        span.attributes = self.method_attributes();
        span.name = match self.exchange.grpc_status {
            Some(_) => self.exchange.path.trim_start_matches('/').to_owned(),
            None if span.attributes.len() == 1 => self.exchange.method.clone(),
            None => "HTTP".to_owned(),
        };
        let (address, port) = (endpoint.ip().to_string(), endpoint.port());
        span.attributes.extend([
            text("server.address", address.clone()),
            number("server.port", port),
            text("network.peer.address", address),
            number("network.peer.port", port),
        ]);
        if attempt > 1 {
            span.attributes.push(number("http.request.resend_count", attempt - 1));
        }
        span
    }

    /// The status of the last attempt's span if it failed.
    fn client_error(&self, last: &RecordedUpstream) -> Option<String> {
        let exchange = self.exchange;
        let is_endpoints = exchange.caused_by.as_deref() == Some("endpoint");
        let reason = exchange.reason.clone().filter(|_| is_endpoints || last.status.is_none());
        if reason.is_some() {
            return reason;
        }
        if let Some(status) = exchange.grpc_status {
            return (status != 0).then(|| status_name(status));
        }
        match last.status {
            None => Some("_OTHER".to_owned()),
            Some(status @ 400..) => Some(status.to_string()),
            Some(_) => None,
        }
    }
}

fn status_code(status: u16) -> KeyValue {
    number("http.response.status_code", status)
}
