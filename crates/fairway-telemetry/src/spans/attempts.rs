//! Client spans: one for each attempt, with the connect and the TLS handshake of the last one.
//!
//! There is no `url.full`: what an endpoint is asked for may be rewritten, and is not recorded.

use std::net::SocketAddr;

use fairway_proxy::{RecordedAttempt, RecordedUpstream};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use super::call::status_name;
use super::ids;
use super::observed::{Observed, Period, fail};
use crate::attributes::{flag, number, text};

impl Observed<'_> {
    /// Adds the spans of all attempts.
    pub(super) fn add_attempts(&self, spans: &mut Vec<Span>) {
        let failed = &self.exchange.failed_attempts;
        for (attempt, number) in failed.iter().zip(1..) {
            spans.push(self.failed_attempt(attempt, number));
        }
        // The last attempt is among the failed ones where no response came; very many of them are not noted one by one.
        let Some(last) = &self.exchange.upstream else { return };
        if usize::from(last.attempts) > failed.len() {
            self.add_last_attempt(last, spans);
        }
    }

    fn failed_attempt(&self, attempt: &RecordedAttempt, number: u8) -> Span {
        let began = self.exchange.waited_us;
        let period = Period {
            start: began.saturating_add(attempt.began_us),
            end: began.saturating_add(attempt.after_us.max(attempt.began_us)),
        };
        let mut span = self.attempt(attempt.endpoint, number, period);
        if let Some(status) = attempt.status {
            span.attributes.push(status_code(status));
        }
        let error = attempt.reason.clone().or_else(|| attempt.status.map(|status| status.to_string()));
        fail(&mut span, text("error.type", error.unwrap_or_else(|| "_OTHER".to_owned())));
        span
    }

    fn add_last_attempt(&self, last: &RecordedUpstream, spans: &mut Vec<Span>) {
        let start = self.exchange.waited_us.saturating_add(last.began_us);
        // The connect that was used may have begun later than the attempt, behind one that was too slow.
        let connected = last.began_us.saturating_add(last.connect_us).max(last.sent_us);
        let sent = self.exchange.waited_us.saturating_add(connected);
        let mut period = Period { start, end: sent.saturating_add(last.response_us) };
        // Each time is rounded by itself: together they may end a little after the exchange.
        period.end = period.end.min(self.exchange.took_us.max(start));
        let mut span = self.attempt(last.endpoint, last.attempts, period);
        if last.hedged {
            span.attributes.push(flag("fairway.hedged", true));
        }
        if let Some(status) = last.status {
            span.attributes.push(status_code(status));
        }
        if last.status.is_some() {
            span.attributes.extend(self.rpc());
        }
        if let Some(error) = self.client_error(last) {
            fail(&mut span, text("error.type", error));
        }
        let id = self.context.attempt_span_id(last.attempts);
        spans.push(span);
        let secured = sent.saturating_sub(last.tls_us);
        let steps = [
            ("connect", ids::CONNECT, Period { start: sent.saturating_sub(last.connect_us), end: secured }),
            ("tls", ids::TLS, Period { start: secured, end: sent }),
        ];
        for (name, kind, step) in steps.into_iter().filter(|(.., step)| step.end > step.start) {
            let step = self.span(ids::below(id, kind), id, step);
            spans.push(Span { name: name.to_owned(), kind: SpanKind::Internal as i32, ..step });
        }
    }

    /// The span of an attempt, without what became of it.
    fn attempt(&self, endpoint: SocketAddr, attempt: u8, period: Period) -> Span {
        let mut span = self.span(self.context.attempt_span_id(attempt), self.context.span_id, period);
        span.kind = SpanKind::Client as i32;
        // There is no name for what an endpoint is asked for that would not be different for every path.
        span.attributes = self.method();
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

    /// Why the last attempt failed, for the status of its span.
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
