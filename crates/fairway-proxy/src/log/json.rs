//! Lines as JSON objects; docs/metrics.md lists the members.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

use fairway_http::Known;
use fairway_model::is_layout_control;
use serde::{Serialize, Serializer};
use serde_json::ser::Formatter;

use crate::log::line::{LogLine, SpanId, Trace, TraceId};

/// Serializes a value by its `Display`.
struct DisplayAsString<T>(T);

impl<T: Display> Serialize for DisplayAsString<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

/// Escapes in strings, besides what JSON requires, everything a terminal or another reader may take for a line
/// end, a change of direction, or not show.
struct SingleLineFormatter;

impl Formatter for SingleLineFormatter {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        // Nearly all text is ASCII, of which only DEL is left to find.
        if text.bytes().fold(0, u8::max) < 0x7f {
            return out.write_all(text.as_bytes());
        }
        let mut rest = text;
        while let Some(at) = rest.find(is_layout_control) {
            let (plain, from) = rest.split_at(at);
            let mut chars = from.chars();
            write!(out, "{plain}")?;
            for unit in chars.next().unwrap_or_default().encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = chars.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

#[derive(Serialize)]
struct LineMembers<'a> {
    time: &'a str,
    client: Option<DisplayAsString<IpAddr>>,
    peer: Option<DisplayAsString<IpAddr>>,
    request: RequestPart<'a>,
    status: u16,
    flag: &'a str,
    grpc_status: Option<u32>,
    answer_body_bytes: u64,
    sent_bytes: u64,
    took_us: u128,
    rule: Option<RulePart<'a>>,
    upstream: Option<UpstreamPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<DisplayAsString<TraceId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<DisplayAsString<SpanId>>,
}

#[derive(Serialize)]
struct RequestPart<'a> {
    method: Cow<'a, str>,
    target: Cow<'a, str>,
    host: &'a str,
    bytes: u64,
    referer: Option<Cow<'a, str>>,
    user_agent: Option<Cow<'a, str>>,
    id: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct RulePart<'a> {
    namespace: &'a str,
    ingress: &'a str,
    service: &'a str,
    path: &'a str,
}

#[derive(Serialize)]
struct UpstreamPart {
    endpoint: DisplayAsString<SocketAddr>,
    status: u16,
    attempts: u8,
    hedged: bool,
    connect_us: u128,
    header_us: u128,
    response_us: u128,
}

impl LogLine<'_> {
    /// Writes the line as a JSON object followed by a line feed. Invalid UTF-8 becomes U+FFFD.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let LogLine { request, amounts, identities: parties, .. } = self;
        let field = |known| request.first(known).map(String::from_utf8_lossy);
        let (trace_id, span_id) = match self.trace {
            Trace::Sampled { trace_id, span_id } => {
                (Some(DisplayAsString(TraceId(trace_id))), Some(DisplayAsString(SpanId(span_id))))
            }
            Trace::None | Trace::Unsampled => (None, None),
        };
        let members = LineMembers {
            time: self.clock.iso(),
            client: parties.client.map(DisplayAsString),
            peer: parties.sender.map(DisplayAsString),
            request: RequestPart {
                method: String::from_utf8_lossy(request.method_bytes()),
                target: String::from_utf8_lossy(request.target()),
                host: self.target.host,
                bytes: amounts.request,
                referer: field(Known::Referer),
                user_agent: field(Known::UserAgent),
                id: field(Known::XRequestId),
            },
            status: amounts.status,
            flag: self.reason.unwrap_or("-"),
            grpc_status: amounts.grpc_status,
            answer_body_bytes: amounts.body,
            sent_bytes: amounts.sent,
            took_us: amounts.duration.as_micros(),
            rule: self.served_by.rule.map(|labels| RulePart {
                namespace: &labels.namespace,
                ingress: &labels.ingress,
                service: &labels.service,
                path: &labels.path,
            }),
            upstream: self.upstream.map(|up| UpstreamPart {
                endpoint: DisplayAsString(up.endpoint),
                status: up.status,
                attempts: up.attempts,
                hedged: up.hedged,
                connect_us: up.connect.as_micros(),
                header_us: up.header.as_micros(),
                response_us: up.response.as_micros(),
            }),
            trace_id,
            span_id,
        };
        let mut serializer = serde_json::Serializer::with_formatter(&mut *out, SingleLineFormatter);
        members.serialize(&mut serializer).expect("the line has only text and numbers");
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_round_trip_without_line_ends_or_direction_changes() {
        let text =
            "a\n\r\u{7f}\u{85}\u{2028}\u{2029}\u{202e}\u{2066}\u{200f}\u{200b}\u{ad}\u{e0041}é😀\"\\ b";
        let mut out = Vec::new();
        text.serialize(&mut serde_json::Serializer::with_formatter(&mut out, SingleLineFormatter)).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert!(!line.contains(is_layout_control), "{line:?}");
        assert!(line.contains("é😀"), "{line}");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }
}
