//! The default line of ingress-nginx (`log-format-upstream`), with the reason flag of an answer of Fairway's own behind
//! it.
//!
//! `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"
//! $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr
//! $upstream_response_length $upstream_response_time $upstream_status $req_id`

use std::io::Write;
use std::time::Duration;

use fairway_message::Known;

use super::words::{flag, upstream_name};
use crate::buffers::Buffers;
use crate::peer::Peer;
use crate::record::Record;

pub(super) fn line(out: &mut Vec<u8>, record: &Record<'_>, buffers: &Buffers, at: (&Peer, &str)) {
    words(out, record, buffers, at);
    out.push(b'\n');
}

/// The same with ` CLIENT PEER` at the end.
pub(super) fn line_with_addresses(
    out: &mut Vec<u8>,
    record: &Record<'_>,
    buffers: &Buffers,
    at: (&Peer, &str),
) {
    words(out, record, buffers, at);
    for address in [buffers.parties.client, buffers.parties.sender] {
        match address {
            Some(address) => write!(out, " {address}"),
            None => write!(out, " -"),
        }
        .expect("a vector takes every write");
    }
    out.push(b'\n');
}

fn words(out: &mut Vec<u8>, record: &Record<'_>, buffers: &Buffers, (peer, time): (&Peer, &str)) {
    let request = &buffers.request;
    let client = peer.client;
    write!(out, "{client} - - [{time}] \"").expect("a vector takes every write");
    escaped(out, request.method_bytes());
    out.push(b' ');
    escaped(out, request.target());
    let version: &[u8] = match request.version() {
        fairway_message::Version::Http10 => b" HTTP/1.0",
        fairway_message::Version::Http11 => b" HTTP/1.1",
        fairway_message::Version::Http2 => b" HTTP/2.0",
    };
    out.extend_from_slice(version);
    write!(out, "\" {} {} ", record.status, record.body_bytes).expect("a vector takes every write");
    quoted(out, request.first(Known::Referer));
    out.push(b' ');
    quoted(out, request.first(Known::UserAgent));
    write!(out, " {} {} [", record.request_bytes, Seconds(record.took()))
        .expect("a vector takes every write");
    upstream_name(record, out);
    out.extend_from_slice(b"] [] ");
    match &record.upstream {
        Some(up) => {
            write!(
                out,
                "{} {} {} {} ",
                up.endpoint,
                record.body_bytes,
                Seconds(up.response.duration()),
                up.status
            )
        }
        None => write!(out, "- - - - "),
    }
    .expect("a vector takes every write");
    escaped(out, request.first(Known::XRequestId).unwrap_or(b"-"));
    write!(out, " {}", flag(record)).expect("a vector takes every write");
}

/// Seconds with milliseconds.
struct Seconds(Duration);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0.as_secs(), self.0.subsec_millis())
    }
}

fn quoted(out: &mut Vec<u8>, value: Option<&[u8]>) {
    out.push(b'"');
    escaped(out, value.unwrap_or(b"-"));
    out.push(b'"');
}

/// As nginx escapes: what could break the line is written `\xHH`.
fn escaped(out: &mut Vec<u8>, value: &[u8]) {
    for byte in value {
        if (0x20..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\') {
            out.push(*byte);
        } else {
            write!(out, "\\x{byte:02X}").expect("a vector takes every write");
        }
    }
}
