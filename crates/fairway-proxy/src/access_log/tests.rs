//! Lines of both formats, and that nothing a client sends can forge one.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::Duration;

use fairway_message::HeadLimits;
use fairway_model::Filter;
use fairway_routing::{CompiledRule, Matched, Request};
use fairway_runtime::clock::Instant;
use serde_json::json;

use super::{AccessLog, LogSender, Switch, json, nginx};
use crate::buffers::{Buffers, Parties};
use crate::fault::Fault;
use crate::listener::ListenerId;
use crate::options::AccessLogFormat;
use crate::peer::{Peer, Scheme};
use crate::record::Detour;
use crate::record::{Record, UpstreamRecord};
use crate::request::intake::Fields;
use crate::testing::{endpoint, snapshot};

const PLAIN: &[u8] =
    b"GET /a?b=c HTTP/1.1\r\nHost: Example.com\r\nReferer: http://r/\r\nUser-Agent: curl/8\r\n\
                       X-Request-ID: 4bf9\r\n\r\n";

fn peer() -> Peer {
    let listener = ListenerId { slot: 0, generation: 1 };
    Peer { listener, scheme: Scheme::Http, client: "2001:db8::7".parse().unwrap(), proof: None }
}

fn buffers(head: &[u8]) -> Buffers {
    let mut buffers = Buffers::default();
    fairway_http1::HeadParser::new().request(&mut buffers.request, head, &HeadLimits::default()).unwrap();
    buffers.host.push_str("example.com");
    buffers.parties =
        Parties { client: Some("203.0.113.7".parse().unwrap()), sender: Some("10.0.0.1".parse().unwrap()) };
    buffers
}

/// An exchange of 12 milliseconds with an answer of ten bytes.
fn record<'a>(rule: Option<&'a CompiledRule>, fault: Option<Fault>) -> Record<'a> {
    let mut record = Record::new(Instant::now(), 100);
    record.ended = Some(record.began + Duration::from_micros(12_345));
    record.status = fault.map_or(200, Fault::status);
    record.body_bytes = 10;
    record.sent_bytes = 99;
    record.rule = rule;
    record.fault = fault;
    if fault.is_none() {
        record.upstream = Some(UpstreamRecord {
            endpoint: endpoint(8080),
            status: 200,
            connect: Duration::from_micros(100).into(),
            header: Duration::from_millis(10).into(),
            response: Duration::from_millis(11).into(),
            attempts: 2,
            detour: Detour::Hedged,
        });
    }
    record
}

fn nginx_line(record: &Record<'_>, buffers: &Buffers) -> String {
    let mut out = Vec::new();
    nginx::line(&mut out, record, buffers, (&peer(), "21/Nov/2026:02:48:17 +0000"));
    String::from_utf8(out).unwrap()
}

fn json_line(record: &Record<'_>, buffers: &Buffers) -> serde_json::Value {
    let mut out = Vec::new();
    json::line(&mut out, record, buffers, "2026-11-21T02:48:17Z");
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
    serde_json::from_slice(&out).unwrap()
}

/// Calls `with` with the rule of the stage's configuration.
fn with_rule(with: impl FnOnce(&CompiledRule)) {
    with_rule_of(Vec::new(), with);
}

fn with_rule_of(filters: Vec<Filter>, with: impl FnOnce(&CompiledRule)) {
    let (snapshot, buffers) = (snapshot(filters), buffers(PLAIN));
    let request = Request {
        host: "example.com",
        method: b"GET",
        normalised: b"/a",
        decoded: b"/a",
        query: b"",
        fields: &Fields(&buffers.request),
    };
    let table = snapshot.table("ingress").unwrap();
    let Matched::Rule { rule, .. } = snapshot.lookup(table, &request) else {
        panic!("the rule takes everything")
    };
    with(rule);
}

#[test]
fn the_nginx_format_is_that_of_ingress_nginx_with_a_flag_behind() {
    with_rule(|rule| {
        assert_eq!(
            nginx_line(&record(Some(rule), None), &buffers(PLAIN)),
            "2001:db8::7 - - [21/Nov/2026:02:48:17 +0000] \"GET /a?b=c HTTP/1.1\" 200 10 \"http://r/\" \"curl/8\" \
             100 0.012 [default-web-80] [] 192.0.2.1:8080 10 0.011 200 4bf9 -\n"
        );
    });
}

#[test]
fn the_nginx_format_can_end_with_the_resolved_client_and_the_peer() {
    let (record, mut buffers) = (record(None, Some(Fault::NoRoute)), buffers(PLAIN));
    let plain = nginx_line(&record, &buffers);
    let mut with = |sender| {
        buffers.parties.sender = sender;
        let mut out = Vec::new();
        nginx::line_with_addresses(&mut out, &record, &buffers, (&peer(), "21/Nov/2026:02:48:17 +0000"));
        String::from_utf8(out).unwrap()
    };
    let plain = plain.trim_end();
    assert_eq!(with(Some("10.0.0.1".parse().unwrap())), format!("{plain} 203.0.113.7 10.0.0.1\n"));
    assert_eq!(with(None), format!("{plain} 203.0.113.7 -\n"), "a socket that is gone tells nothing");
}

#[test]
fn an_answer_of_our_own_says_why() {
    let line = nginx_line(&record(None, Some(Fault::NoRoute)), &buffers(b"GET / HTTP/1.0\r\n\r\n"));
    assert_eq!(
        line,
        "2001:db8::7 - - [21/Nov/2026:02:48:17 +0000] \"GET / HTTP/1.0\" 404 10 \"-\" \"-\" 100 0.012 [] [] - - - - - \
         no_route\n"
    );
    assert_eq!(json_line(&record(None, Some(Fault::NoRoute)), &buffers(PLAIN))["flag"], "no_route");
}

#[test]
fn the_json_format_has_every_member() {
    with_rule(|rule| {
        assert_eq!(
            json_line(&record(Some(rule), None), &buffers(PLAIN)),
            json!({
                "time": "2026-11-21T02:48:17Z",
                "client": "203.0.113.7",
                "peer": "10.0.0.1",
                "request": {
                    "method": "GET", "target": "/a?b=c", "host": "example.com", "bytes": 100,
                    "referer": "http://r/", "user_agent": "curl/8", "id": "4bf9",
                },
                "status": 200,
                "flag": "-",
                "grpc_status": null,
                "answer_body_bytes": 10,
                "sent_bytes": 99,
                "took_us": 12_345,
                "rule": { "namespace": "default", "ingress": "shop", "service": "web", "path": "/" },
                "upstream": {
                    "endpoint": "192.0.2.1:8080", "status": 200, "attempts": 2, "hedged": true,
                    "connect_us": 100, "header_us": 10_000, "response_us": 11_000,
                },
            })
        );
    });
}

#[test]
fn no_value_ends_its_quotes_or_its_line() {
    // A quote in the target is refused by the parser; the fields are what a client can choose freely.
    let buffers = buffers(
        b"GET / HTTP/1.1\r\nHost: a\r\nReferer: \" 200 \\ \xff\t\xc3\xa9\r\nUser-Agent: {\"a\":\"b\"}\r\n\r\n",
    );
    let line = nginx_line(&record(None, Some(Fault::NoRoute)), &buffers);
    assert!(line.contains("\"\\x22 200 \\x5C \\xFF\\x09\\xC3\\xA9\""), "{line}");
    assert!(line.contains("\"{\\x22a\\x22:\\x22b\\x22}\""), "{line}");
    assert!(line.bytes().all(|byte| byte == b'\n' || (0x20..0x7f).contains(&byte)));
    assert_eq!(line.matches('"').count(), 6, "{line}");
    let value = json_line(&record(None, None), &buffers);
    assert_eq!(value["request"]["user_agent"], "{\"a\":\"b\"}");
    assert_eq!(value["request"]["referer"], "\" 200 \\ \u{fffd}\t\u{e9}");
}

#[test]
fn what_cannot_be_written_is_dropped_and_counted() {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let log = AccessLog::new(AccessLogFormat::Nginx, LogSender::to(sender));
    let (record, buffers) = (record(None, Some(Fault::NoRoute)), buffers(PLAIN));
    for _ in 0..3 {
        log.write(&record, &buffers, &peer());
        log.flush();
    }
    assert_eq!(log.dropped(), 2, "a worker never waits");
    assert_eq!(receiver.recv().unwrap().iter().filter(|byte| **byte == b'\n').count(), 1);
    log.switch(Switch::Off);
    log.write(&record, &buffers, &peer());
    log.flush();
    assert!(receiver.try_recv().is_err(), "switched off by the configuration");
}

#[test]
fn an_exchange_whose_rule_wants_no_line_has_none() {
    let (sender, receiver) = std::sync::mpsc::sync_channel(4);
    let log = AccessLog::new(AccessLogFormat::Nginx, LogSender::to(sender));
    for (filters, lines) in [(vec![Filter::Unlogged], 0), (Vec::new(), 1)] {
        with_rule_of(filters, |rule| log.write(&record(Some(rule), None), &buffers(PLAIN), &peer()));
        log.flush();
        assert_eq!(receiver.try_iter().count(), lines);
    }
}
