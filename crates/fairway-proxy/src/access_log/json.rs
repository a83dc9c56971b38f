//! One JSON object per line; docs/metrics.md lists the members.

use serde::Serialize;

use fairway_message::Known;

use super::words::flag;
use crate::buffers::Buffers;
use crate::record::Detour;
use crate::record::Record;

#[derive(Serialize)]
struct Line<'a> {
    time: &'a str,
    client: Option<String>,
    peer: Option<String>,
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
    method: std::borrow::Cow<'a, str>,
    target: std::borrow::Cow<'a, str>,
    host: &'a str,
    bytes: u64,
    referer: Option<std::borrow::Cow<'a, str>>,
    user_agent: Option<std::borrow::Cow<'a, str>>,
    id: Option<std::borrow::Cow<'a, str>>,
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
    endpoint: String,
    status: u16,
    attempts: u8,
    hedged: bool,
    connect_us: u128,
    header_us: u128,
    response_us: u128,
}

pub(super) fn line(out: &mut Vec<u8>, record: &Record<'_>, buffers: &Buffers, time: &str) {
    let request = &buffers.request;
    let field = |known| request.first(known).map(String::from_utf8_lossy);
    let line = Line {
        time,
        client: buffers.parties.client.map(|address| address.to_string()),
        peer: buffers.parties.sender.map(|address| address.to_string()),
        request: RequestPart {
            method: String::from_utf8_lossy(request.method_bytes()),
            target: String::from_utf8_lossy(request.target()),
            host: &buffers.host,
            bytes: record.request_bytes,
            referer: field(Known::Referer),
            user_agent: field(Known::UserAgent),
            id: field(Known::XRequestId),
        },
        status: record.status,
        flag: flag(record),
        grpc_status: record.call.status,
        answer_body_bytes: record.body_bytes,
        sent_bytes: record.sent_bytes,
        took_us: record.took().as_micros(),
        rule: record.served_by.rule.map(|rule| {
            let labels = &rule.rule().labels;
            RulePart {
                namespace: &labels.namespace,
                ingress: &labels.ingress,
                service: &labels.service,
                path: &labels.path,
            }
        }),
        upstream: record.upstream.map(|up| UpstreamPart {
            endpoint: up.endpoint.to_string(),
            status: up.status,
            attempts: up.attempts,
            hedged: up.detour == Detour::Hedged,
            connect_us: up.connect.duration().as_micros(),
            header_us: up.header.duration().as_micros(),
            response_us: up.response.duration().as_micros(),
        }),
    };
    serde_json::to_writer(&mut *out, &line).expect("the line has only text and numbers");
    out.push(b'\n');
}
