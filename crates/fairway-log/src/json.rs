//! The line as one JSON object; docs/metrics.md lists the members.

use std::borrow::Cow;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

use fairway_message::Known;
use serde::{Serialize, Serializer};

use crate::line::Line;

/// What is written as it is shown.
struct Text<T>(T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

#[derive(Serialize)]
struct Members<'a> {
    time: &'a str,
    client: Option<Text<IpAddr>>,
    peer: Option<Text<IpAddr>>,
    request: RequestPart<'a>,
    status: u16,
    flag: &'a str,
    grpc_status: Option<u32>,
    answer_body_bytes: u64,
    sent_bytes: u64,
    took_us: u128,
    rule: Option<RulePart<'a>>,
    upstream: Option<UpstreamPart>,
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
    endpoint: Text<SocketAddr>,
    status: u16,
    attempts: u8,
    hedged: bool,
    connect_us: u128,
    header_us: u128,
    response_us: u128,
}

impl Line<'_> {
    /// Writes the line as a JSON object, and the line feed behind it. Bytes that are no UTF-8 become U+FFFD.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let Line { request, amounts, parties, .. } = self;
        let field = |known| request.first(known).map(String::from_utf8_lossy);
        let members = Members {
            time: self.clock.iso(),
            client: parties.client.map(Text),
            peer: parties.sender.map(Text),
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
            took_us: amounts.took.as_micros(),
            rule: self.served_by.rule.map(|labels| RulePart {
                namespace: &labels.namespace,
                ingress: &labels.ingress,
                service: &labels.service,
                path: &labels.path,
            }),
            upstream: self.upstream.map(|up| UpstreamPart {
                endpoint: Text(up.endpoint),
                status: up.status,
                attempts: up.attempts,
                hedged: up.hedged,
                connect_us: up.connect.as_micros(),
                header_us: up.header.as_micros(),
                response_us: up.response.as_micros(),
            }),
        };
        serde_json::to_writer(&mut *out, &members).expect("the line has only text and numbers");
        out.push(b'\n');
    }
}
