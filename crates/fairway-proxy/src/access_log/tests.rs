//! Lines of all formats, and that clients cannot forge one.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;
use std::time::Duration;

use fairway_connection::sides::Upgrade;
use fairway_http::HeadLimits;
use fairway_model::{
    Backend, LogEscape, LogFormat, Phases, SampleRatio, ServiceName, Settings, Tracing, ValueTest,
};
use fairway_net::clock::Instant;
use fairway_net::output::OutputSender;
use fairway_routing::{CompiledRule, Matched, Request};
use serde_json::json;

use super::{ADDRESS_FIELDS, AccessLog, LoggedPeer, log_values};
use crate::buffers::{Buffers, LoggedAddresses};
use crate::fault::Fault;
use crate::listener::ListenerId;
use crate::log::{ProcessInfo, WallClock};
use crate::metrics::record::{ExchangeRecord, UpstreamRecord};
use crate::options::AccessLogFormat;
use crate::peer::{ConnectionDetails, ConnectionLogDetails, Peer, Scheme, Sender};
use crate::request::validation::RoutedHeaders;
use crate::testing::{endpoint, snapshot};
use crate::tls::NegotiatedTls;

const PLAIN_REQUEST: &[u8] =
    b"GET /a?b=c HTTP/1.1\r\nHost: Example.com\r\nReferer: http://r/\r\nUser-Agent: curl/8\r\n\
                       X-Request-ID: 4bf9\r\n\r\n";

fn peer() -> Peer {
    let listener = ListenerId { slot: 0, generation: 1 };
    let client = "2001:db8::7".parse().unwrap();
    Peer { listener, scheme: Scheme::Http, client, sender: Sender::Client, details: None }
}

fn buffers(head: &[u8]) -> Buffers {
    let mut buffers = Buffers::default();
    fairway_http::http1::HeadParser::new()
        .request(&mut buffers.request, head, &HeadLimits::default())
        .unwrap();
    buffers.host.push_str("example.com");
    buffers.addresses = LoggedAddresses {
        client: Some("203.0.113.7".parse().unwrap()),
        sender: Some("10.0.0.1".parse().unwrap()),
    };
    buffers
}

/// An exchange of 12 milliseconds with a response of ten bytes.
fn record<'a>(rule: Option<&'a CompiledRule>, fault: Option<Fault>) -> ExchangeRecord<'a> {
    let mut record = ExchangeRecord::new(Instant::now(), 100);
    record.finish(record.started_at + Duration::from_micros(12_345));
    record.status = fault.map_or(200, Fault::status);
    record.body_bytes = 10;
    record.sent_bytes = 99;
    record.served_by.rule = rule;
    record.fault = fault;
    if fault.is_none() {
        record.upstream = Some(UpstreamRecord {
            endpoint: endpoint(8080),
            status: 200,
            sent: Duration::ZERO.into(),
            connect: Duration::from_micros(100).into(),
            header: Duration::from_millis(10).into(),
            response: Duration::from_millis(11).into(),
            attempts: 2,
            hedged: true,
        });
    }
    record
}

fn nginx_line(record: &ExchangeRecord<'_>, buffers: &Buffers) -> String {
    line_in(LogFormat::BUILT_IN, LogEscape::Nginx, record, buffers)
}

fn line_in(format: &str, escape: LogEscape, record: &ExchangeRecord<'_>, buffers: &Buffers) -> String {
    let read = LogFormat::read(format, escape).unwrap();
    assert!(read.unknown.is_empty(), "{:?}", read.unknown);
    let mut clock = WallClock::default();
    clock.set(std::time::UNIX_EPOCH + Duration::from_millis(1_795_229_297_042));
    let (peer, process) = (peer(), ProcessInfo { id: 7, hostname: "pod-1".to_owned() });
    let peer_address = LoggedPeer { peer: &peer, port: Some(80), is_introduced: false, earlier_requests: 4 };
    let mut out = Vec::new();
    log_values::build_line(record, buffers, peer_address, &clock, &process).write(&read.format, &mut out);
    String::from_utf8(out).unwrap()
}

fn json_line(record: &ExchangeRecord<'_>, buffers: &Buffers) -> serde_json::Value {
    let mut clock = WallClock::default();
    clock.set(std::time::UNIX_EPOCH + Duration::from_millis(1_795_229_297_042));
    let (peer, process, mut out) = (peer(), ProcessInfo::default(), Vec::new());
    let seen = LoggedPeer { peer: &peer, port: Some(80), is_introduced: false, earlier_requests: 4 };
    log_values::build_line(record, buffers, seen, &clock, &process).write_json(&mut out);
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
    serde_json::from_slice(&out).unwrap()
}

/// Calls `with` with the rule of the test configuration.
fn with_rule(with: impl FnOnce(&CompiledRule)) {
    with_rule_of(Vec::new(), with);
}

fn with_rule_of(filters: Vec<Phases>, with: impl FnOnce(&CompiledRule)) {
    let (snapshot, buffers) = (snapshot(filters), buffers(PLAIN_REQUEST));
    let request = Request {
        host: "example.com",
        method: b"GET",
        normalised: b"/a",
        decoded: b"/a",
        query: b"",
        fields: &RoutedHeaders(&buffers.request, Upgrade::None),
    };
    let table = snapshot.table("ingress").unwrap();
    let Matched::Rule { rule, .. } = snapshot.lookup(table, &request) else {
        panic!("the rule takes everything")
    };
    with(rule);
}

#[test]
fn the_nginx_format_is_that_of_ingress_nginx_plus_the_flag() {
    with_rule(|rule| {
        assert_eq!(
            nginx_line(&record(Some(rule), None), &buffers(PLAIN_REQUEST)),
            "2001:db8::7 - - [21/Nov/2026:02:48:17 +0000] \"GET /a?b=c HTTP/1.1\" 200 10 \"http://r/\" \"curl/8\" \
             100 0.012 [default-web-80] [] 192.0.2.1:8080 10 0.011 200 4bf9 -\n"
        );
    });
}

#[test]
fn the_alternative_upstream_is_the_canary_that_got_the_request() {
    with_rule(|rule| {
        let mut record = record(Some(rule), None);
        let names = "$proxy_upstream_name $proxy_alternative_upstream_name";
        assert_eq!(line_in(names, LogEscape::Nginx, &record, &buffers(PLAIN_REQUEST)), "default-web-80 \n");
        let snapshot = snapshot(Vec::new());
        let mut backend = Backend::clone(snapshot.config().backends.values().next().unwrap());
        backend.service =
            ServiceName { namespace: "default".into(), name: "web-new".into(), port: "http".into() };
        record.served_by.canary = Some(Arc::new(backend));
        let line = line_in(names, LogEscape::Nginx, &record, &buffers(PLAIN_REQUEST));
        assert_eq!(line, "default-web-80 default-web-new-http\n");
        let built_in = nginx_line(&record, &buffers(PLAIN_REQUEST));
        assert!(built_in.contains(" [default-web-80] [default-web-new-http] "), "{built_in}");
    });
}

#[test]
fn the_nginx_format_can_end_with_the_resolved_client_and_the_peer() {
    let (record, mut buffers) = (record(None, Some(Fault::NoRoute)), buffers(PLAIN_REQUEST));
    let plain = nginx_line(&record, &buffers);
    let mut with = |sender| {
        buffers.addresses.sender = sender;
        line_in(&[LogFormat::BUILT_IN, ADDRESS_FIELDS].concat(), LogEscape::Nginx, &record, &buffers)
    };
    let plain = plain.trim_end();
    assert_eq!(with(Some("10.0.0.1".parse().unwrap())), format!("{plain} 203.0.113.7 10.0.0.1\n"));
    assert_eq!(with(None), format!("{plain} 203.0.113.7 -\n"), "a socket that is gone tells nothing");
}

#[test]
fn a_local_response_has_a_reason() {
    let line = nginx_line(&record(None, Some(Fault::NoRoute)), &buffers(b"GET / HTTP/1.0\r\n\r\n"));
    assert_eq!(
        line,
        "2001:db8::7 - - [21/Nov/2026:02:48:17 +0000] \"GET / HTTP/1.0\" 404 10 \"-\" \"-\" 100 0.012 [] [] - - - - - \
         no_route\n"
    );
    assert_eq!(json_line(&record(None, Some(Fault::NoRoute)), &buffers(PLAIN_REQUEST))["flag"], "no_route");
}

#[test]
fn the_json_format_has_every_member() {
    with_rule(|rule| {
        assert_eq!(
            json_line(&record(Some(rule), None), &buffers(PLAIN_REQUEST)),
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
fn no_value_can_end_its_quotes_or_its_line() {
    // The parser refuses a quote in the target; headers are what a client can choose freely.
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
fn lines_that_cannot_be_written_are_dropped_and_counted() {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let log = AccessLog::new(AccessLogFormat::Nginx, OutputSender::to(sender));
    let (record, buffers, peer) = (record(None, Some(Fault::NoRoute)), buffers(PLAIN_REQUEST), peer());
    let seen = LoggedPeer { peer: &peer, port: None, is_introduced: false, earlier_requests: 4 };
    for _ in 0..3 {
        log.write(&record, &buffers, seen);
        log.flush();
    }
    assert_eq!(log.dropped(), 2, "a worker never waits");
    assert_eq!(receiver.recv().unwrap().iter().filter(|byte| **byte == b'\n').count(), 1);
    log.adopt(&Settings { access_log: Some(fairway_model::AccessLog::Off), ..Settings::default() });
    log.write(&record, &buffers, seen);
    log.flush();
    assert!(receiver.try_recv().is_err(), "switched off by the configuration");
}

#[test]
fn a_rule_can_disable_the_log() {
    let (sender, receiver) = std::sync::mpsc::sync_channel(4);
    let log = AccessLog::new(AccessLogFormat::Nginx, OutputSender::to(sender));
    let peer = peer();
    let seen = LoggedPeer { peer: &peer, port: None, is_introduced: false, earlier_requests: 4 };
    for (filters, lines) in [(vec![Phases { unlogged: true, ..Phases::default() }], 0), (Vec::new(), 1)] {
        with_rule_of(filters, |rule| log.write(&record(Some(rule), None), &buffers(PLAIN_REQUEST), seen));
        log.flush();
        assert_eq!(receiver.try_iter().count(), lines);
    }
}

#[test]
fn unlogged_targets_have_no_line() {
    let (sender, receiver) = std::sync::mpsc::sync_channel(4);
    let log = AccessLog::new(AccessLogFormat::Nginx, OutputSender::to(sender));
    let found = |pattern: &str| ValueTest::Found { pattern: pattern.into(), ignore_case: false };
    let unlogged_targets = [ValueTest::AnyCase("/HealthZ".into()), found("^/probe[?]"), found("(")].into();
    log.adopt(&Settings { unlogged_targets, ..Settings::default() });
    let peer = peer();
    let seen = LoggedPeer { peer: &peer, port: None, is_introduced: false, earlier_requests: 4 };
    for (target, lines) in [("/healthz", 0), ("/healthz?x", 1), ("/probe?x=1", 0), ("/probe", 1), ("/(", 1)] {
        let buffers = buffers(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        log.write(&record(None, None), &buffers, seen);
        log.flush();
        assert_eq!(receiver.try_iter().count(), lines, "{target}");
    }
}

/// The default of ingress-nginx as documented.
const INGRESS_NGINX_FORMAT: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
                             \"$http_referer\" \"$http_user_agent\" $request_length $request_time \
                             [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr \
                             $upstream_response_length $upstream_response_time $upstream_status $req_id";

#[test]
fn the_documented_default_equals_the_built_in_format_except_for_the_reason() {
    with_rule(|rule| {
        for (record, reason) in
            [(record(Some(rule), None), " -"), (record(None, Some(Fault::NoRoute)), " no_route")]
        {
            for head in [PLAIN_REQUEST, b"GET / HTTP/1.0\r\n\r\n"] {
                let buffers = buffers(head);
                let line = line_in(INGRESS_NGINX_FORMAT, LogEscape::Nginx, &record, &buffers);
                let built_in = nginx_line(&record, &buffers);
                assert_eq!(line.trim_end(), built_in.trim_end().strip_suffix(reason).unwrap());
            }
        }
    });
}

#[test]
fn every_variable_has_its_value() {
    let mut buffers = buffers(
        b"GET http://example.com/a%20b?x=1&Page=2 HTTP/1.1\r\nHost: Example.com:80\r\nX-A: 1\r\nx-a: 2\r\n\
          Cookie: b=3; Route=4\r\nX-Request-ID: 4bf9\r\nAuthorization: Basic YW5uOnNlY3JldA==\r\n\r\n",
    );
    buffers.extras.write().origin = b"/a%20b?x=1&Page=2".to_vec();
    buffers.extras.write().decoded = b"/a b".to_vec();
    buffers.response.start_response(200);
    buffers.response.append(b"X-Served-By", b"me");
    let host = fairway_model::HostPattern::parse("*.com", fairway_model::WildcardSpan::OneLabel).unwrap();
    with_rule(|rule| {
        let mut record = record(Some(rule), None);
        record.served_by.host = Some(&host);
        let line = |format: &str| line_in(format, LogEscape::Nginx, &record, &buffers).trim_end().to_owned();
        for (format, value) in [
            ("$ssl_client_verify $ssl_client_s_dn $ssl_client_i_dn", "- - -"),
            ("$remote_user", "ann"),
            ("$the_real_ip $realip_remote_addr $proxy_protocol_addr", "203.0.113.7 10.0.0.1 -"),
            ("$time_iso8601 $msec", "2026-11-21T02:48:17+00:00 1795229297.042"),
            ("$request_uri,$uri,$args,$query_string", "/a%20b?x=1&Page=2,/a b,x=1&Page=2,x=1&Page=2"),
            ("$uri$is_args$args", "/a b?x=1&Page=2"),
            ("$arg_x $arg_page $arg_none", "1 2 -"),
            ("$cookie_b $cookie_route $cookie_none", "3 4 -"),
            ("$scheme $https|$server_port $server_protocol", "http |80 HTTP/1.1"),
            ("$host $http_host $server_name", "example.com Example.com:80 *.com"),
            ("$http_x_a|$http_none|$sent_http_x_served_by|$sent_http_none", "1, 2|-|me|-"),
            ("$status $body_bytes_sent $bytes_sent $request_length $request_time", "200 10 99 100 0.012"),
            ("$upstream_connect_time $upstream_header_time $upstream_response_time", "0.000 0.010 0.011"),
            ("$upstream_addr $upstream_status $upstream_response_length", "192.0.2.1:8080 200 10"),
            ("$namespace $ingress_name $service_name $service_port $location_path", "default shop web 80 /"),
            ("$hostname $pid $request_id $fairway_reason $request_method", "pod-1 7 4bf9 - GET"),
        ] {
            assert_eq!(line(format), value, "{format}");
        }
    });
}

#[test]
fn client_certificates_are_logged_with_their_verdict() {
    let of_line = |certificate: Option<Result<(), &'static str>>| {
        let format = LogFormat::read(
            "$ssl_client_verify|$ssl_client_s_dn|$ssl_client_i_dn|$ssl_client_serial $ssl_client_fingerprint",
            LogEscape::Nginx,
        );
        let (record, buffers) = (record(None, Some(Fault::NoRoute)), buffers(PLAIN_REQUEST));
        let (clock, process, mut out) = (WallClock::default(), ProcessInfo::default(), Vec::new());
        let peer = Peer { scheme: Scheme::Https, ..peer() };
        let seen = LoggedPeer { peer: &peer, port: None, is_introduced: false, earlier_requests: 4 };
        let mut line = log_values::build_line(&record, &buffers, seen, &clock, &process);
        line.connection.certificate = certificate.map(|verdict| crate::log::Certificate {
            subject: "CN=a|b",
            issuer: "CN=c",
            serial: "A102",
            fingerprint: "00ff",
            verdict,
        });
        line.write(&format.unwrap().format, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(of_line(Some(Ok(()))), "SUCCESS|CN=a\\x7Cb|CN=c|A102 00ff\n");
    assert_eq!(
        of_line(Some(Err("certificate has expired"))),
        "FAILED:certificate has expired|CN=a\\x7Cb|CN=c|A102 00ff\n"
    );
    assert_eq!(of_line(None), "NONE|-|-|- -\n");
}

#[test]
fn connection_details_are_logged_if_collected() {
    let format = "$remote_port $connection $connection_requests|$ssl_protocol $ssl_cipher $ssl_curve \
                  $ssl_server_name $ssl_session_reused $ssl_alpn_protocol|$http2|$proxy_protocol_port";
    let line = |peer: &Peer, is_introduced| {
        let read = LogFormat::read(format, LogEscape::Nginx).unwrap();
        assert!(read.unknown.is_empty() && read.format.uses_connection_values());
        let (record, buffers) = (record(None, Some(Fault::NoRoute)), buffers(PLAIN_REQUEST));
        let (clock, process, mut out) = (WallClock::default(), ProcessInfo::default(), Vec::new());
        let seen = LoggedPeer { peer, port: None, is_introduced, earlier_requests: 4 };
        log_values::build_line(&record, &buffers, seen, &clock, &process).write(&read.format, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(line(&peer(), true), "- - 5|- - - - - -||-\n");
    let tls = NegotiatedTls {
        version: "TLSv1.2",
        suite: "ECDHE-RSA-AES128-GCM-SHA256",
        group: Some("prime256v1"),
        name: Some("a b".into()),
        resumed: true,
        protocol: None,
    };
    let noted = |tls| {
        ConnectionDetails::from_parts(
            None,
            Some(ConnectionLogDetails { number: 9, port: 4711, tls }),
            None,
            None,
            None,
        )
    };
    let secured = Peer { scheme: Scheme::Https, details: noted(Some(tls)), ..peer() };
    assert_eq!(
        line(&secured, false),
        "4711 9 5|TLSv1.2 ECDHE-RSA-AES128-GCM-SHA256 prime256v1 a\\x20b r -||-\n"
    );
    assert_eq!(line(&Peer { details: noted(None), ..peer() }, true), "4711 9 5|- - - - - -||4711\n");
}

#[test]
fn received_response_headers_are_kept_only_if_the_format_uses_them() {
    let adopted = |format: AccessLogFormat, text: &str| {
        let (sender, receiver) = std::sync::mpsc::sync_channel(4);
        let log = AccessLog::new(format, OutputSender::to(sender));
        let format = LogFormat::read(text, LogEscape::Nginx).unwrap().format;
        log.adopt(&Settings { log_format: Some(Arc::new(format)), ..Settings::default() });
        (log, receiver)
    };
    let text = "$upstream_http_x_a|$upstream_http_none|$upstream_cookie_sid|$sent_http_x_a";
    let (log, receiver) = adopted(AccessLogFormat::Nginx, text);
    let mut buffers = buffers(PLAIN_REQUEST);
    buffers.response.start_response(200);
    for (name, value) in
        [("X-A", "1"), ("Set-Cookie", "other=2"), ("Set-Cookie", "SID=3; Path=/"), ("x-a", "4")]
    {
        buffers.response.append(name.as_bytes(), value.as_bytes());
    }
    log.keep_received(&mut buffers);
    buffers.response.remove(b"x-a");
    let (peer, record) = (peer(), record(None, None));
    log.write(
        &record,
        &buffers,
        LoggedPeer { peer: &peer, port: None, is_introduced: false, earlier_requests: 0 },
    );
    log.flush();
    assert_eq!(String::from_utf8(receiver.try_recv().unwrap()).unwrap(), "1, 4|-|3|-\n");
    buffers.extras.reset();
    for (format, text) in [(AccessLogFormat::Json, text), (AccessLogFormat::Nginx, "$sent_http_x_a")] {
        let (log, _receiver) = adopted(format, text);
        log.keep_received(&mut buffers);
        assert_eq!(buffers.extras.read().received.field_count(), 0);
    }
}

#[test]
fn connections_are_numbered_only_if_the_format_uses_it() {
    let number = |text: &str| {
        let (sender, _receiver) = std::sync::mpsc::sync_channel(4);
        let log = AccessLog::new(AccessLogFormat::Nginx, OutputSender::to(sender));
        let format = LogFormat::read(text, LogEscape::Nginx).unwrap().format;
        log.adopt(&Settings { log_format: Some(Arc::new(format)), ..Settings::default() });
        log.next_connection()
    };
    assert_eq!(number("$remote_addr"), None);
    let (one, other) = (number("$ssl_protocol").unwrap(), number("$connection").unwrap());
    assert!(one < other, "of the process");
}

#[test]
fn headers_of_an_unsent_response_are_absent() {
    let (mut record, mut buffers) = (record(None, Some(Fault::NoRoute)), buffers(PLAIN_REQUEST));
    buffers.response.start_response(200);
    buffers.response.append(b"X-A", b"me");
    let mut line = |sent| {
        record.sent_bytes = sent;
        line_in("$sent_http_x_a", LogEscape::Nginx, &record, &buffers)
    };
    assert_eq!((line(1), line(0)), ("me\n".to_owned(), "-\n".to_owned()));
}

#[test]
fn the_user_of_the_credentials_cannot_end_the_line() {
    let line = |authorization: &str| {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: {authorization}\r\n\r\n");
        let (record, buffers) = (record(None, Some(Fault::NoRoute)), buffers(head.as_bytes()));
        line_in("$remote_user -", LogEscape::Nginx, &record, &buffers).trim_end().to_owned()
    };
    assert_eq!(line("Basic YQpiADpj"), "a\\x0Ab\\x00 -", "of a, line feed, b, NUL");
    assert_eq!(line("basic  YW5uOnNlY3JldA"), "ann -");
    for none in ["Basic OnNlY3JldA==", "Basic !!!!", "Basic", "Bearer YW5uOnNlY3JldA==", "Basic bm9jb2xvbg=="]
    {
        assert_eq!(line(none), "- -", "{none}");
    }
    let long = |bytes: usize| format!("Basic {}", "YWFh".repeat(bytes / 3) + "OmFh");
    assert_eq!(line(&long(765)), format!("{} -", "a".repeat(765)));
    assert_eq!(line(&long(768)), "- -", "too long to be read");
}

#[test]
fn absent_values_are_a_dash_and_empty_in_json() {
    let buffers = buffers(b"GET /? HTTP/1.1\r\nAuthorization: Basic bm9jb2xvbg==\r\n\r\n");
    let record = record(None, Some(Fault::NoRoute));
    let format =
        "<$remote_user|$http_a|$arg_a|$upstream_addr|$server_name|$cookie_a|$sent_http_a|$is_args$args>";
    assert_eq!(line_in(format, LogEscape::Nginx, &record, &buffers), "<-|-|-|-|-|-|-|>\n");
    assert_eq!(line_in(format, LogEscape::Json, &record, &buffers), "<|||||||>\n");
}

#[test]
fn no_value_can_end_its_line_or_leave_its_place() {
    let buffers = buffers(
        b"GET /?x=1|2 HTTP/1.1\r\nHost: a\r\nUser-Agent: x 200 |\" \\\t\x80\xc3\xa9\r\n\
          Authorization: Basic YSBbYl06Yw==\r\n\r\n",
    );
    let record = record(None, Some(Fault::NoRoute));
    let line = |format: &str| line_in(format, LogEscape::Nginx, &record, &buffers);
    assert_eq!(line("$http_user_agent $status"), "x\\x20200\\x20|\\x22\\x20\\x5C\\x09\\x80\\xC3\\xA9 404\n");
    assert_eq!(line("$http_user_agent|$status"), "x 200 \\x7C\\x22 \\x5C\\x09\\x80\\xC3\\xA9|404\n");
    assert_eq!(line("\"$http_user_agent\""), "\"x 200 |\\x22 \\x5C\\x09\\x80\\xC3\\xA9\"\n");
    assert_eq!(line("$arg_x|$request_uri$status|"), "1\\x7C2|/?x=1\\x7C2404|\n");
    assert_eq!(line("$remote_user [$remote_user]"), "a\\x20[b] [a [b\\x5D]\n");
}

#[test]
fn lines_of_json_stay_lines_of_json_whatever_a_client_sends() {
    let buffers = buffers(
        b"GET /a HTTP/1.1\r\nHost: a\r\nUser-Agent: \",\"status\":\"200 \\ \t \xff\xc3\xa9 \xe2\x80\xa8 \xc2\x9b\r\n\
          Referer: 1,\"status\":200\r\n\r\n",
    );
    let record = record(None, Some(Fault::NoRoute));
    let line = line_in(
        "{\"agent\": \"$http_user_agent\", \"status\": \"$status\", \"none\": \"$http_none\"}",
        LogEscape::Json,
        &record,
        &buffers,
    );
    assert!(line.contains("\\\\ \\t \u{fffd}\u{e9} \\u2028 \\u009B\","), "{line}");
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    let agent = "\",\"status\":\"200 \\ \t \u{fffd}\u{e9} \u{2028} \u{9b}";
    assert_eq!(value, json!({ "agent": agent, "status": "404", "none": "" }));
    let bare = line_in("{\"a\": $http_referer, \"b\": 1}", LogEscape::Json, &record, &buffers);
    assert_eq!(bare, "{\"a\": 1\\u002C\\\"status\\\":200, \"b\": 1}\n", "no member can be added");
}

#[test]
fn a_client_cannot_make_a_line_grow_without_limit() {
    let head = [b"GET / HTTP/1.1\r\nX-A: ", &*vec![b'"'; 20_000], b"\r\n\r\n"].concat();
    let line = line_in(&"$http_x_a".repeat(128), LogEscape::Nginx, &record(None, None), &buffers(&head));
    assert!(line.len() <= 4 * 80_000 + 125, "{}", line.len());
    assert!(line.ends_with(&format!("\\x22{}\n", "-".repeat(124))), "the rest is absent");
}

#[test]
fn a_configured_format_is_adopted_live_and_json_stays_json() {
    let (record, buffers, peer) = (record(None, Some(Fault::NoRoute)), buffers(PLAIN_REQUEST), peer());
    let seen = LoggedPeer { peer: &peer, port: None, is_introduced: true, earlier_requests: 4 };
    let format =
        LogFormat::read("$proxy_protocol_addr $realip_remote_addr $fairway_reason", LogEscape::Nginx)
            .unwrap();
    let custom = Settings { log_format: Some(Arc::new(format.format)), ..Settings::default() };
    for format in [AccessLogFormat::Nginx, AccessLogFormat::NginxAddresses, AccessLogFormat::Json] {
        let (sender, receiver) = std::sync::mpsc::sync_channel(4);
        let log = AccessLog::new(format, OutputSender::to(sender));
        let line = || {
            log.write(&record, &buffers, seen);
            log.flush();
            String::from_utf8(receiver.try_recv().unwrap()).unwrap()
        };
        let (before, shown) = (line(), log.logs_sender());
        log.adopt(&custom);
        assert!(log.logs_sender());
        if format == AccessLogFormat::Json {
            assert!(line().starts_with("{\"time\""));
        } else {
            assert_eq!(line(), "2001:db8::7 10.0.0.1 no_route\n");
        }
        log.adopt(&Settings::default());
        assert_eq!((line().len(), log.logs_sender()), (before.len(), shown), "{format:?}");
    }
}

#[test]
fn a_line_has_its_trace_whether_sampled_or_not() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";
    let by_parent = Tracing { parent_based: true, trust_incoming: true, ..Tracing::default() };
    let traced = |flags: &str, tracing: &Tracing| {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\ntraceparent: 00-{TRACE}-{SPAN}-{flags}\r\n\r\n");
        let (mut record, mut buffers) = (record(None, None), buffers(head.as_bytes()));
        record.is_traced = crate::trace::begin_trace(tracing, &mut buffers, &mut fastrand::Rng::with_seed(7));
        let line =
            line_in("$opentelemetry_trace_id $opentelemetry_span_id", LogEscape::Nginx, &record, &buffers);
        let span = buffers.extras.read().sampled.as_ref().map(|it| format!("{:016x}", it.span_id));
        (line, json_line(&record, &buffers), span)
    };
    let (line, json, own) = traced("01", &by_parent);
    let span_text = own.unwrap();
    assert_eq!(line, format!("{TRACE} {span_text}\n"));
    assert_eq!((&json["trace_id"], &json["span_id"]), (&json!(TRACE), &json!(span_text)));
    assert_ne!(span_text, SPAN);
    let (line, json, own) = traced("00", &by_parent);
    assert_eq!((line, own), (format!("{TRACE} {SPAN}\n"), None), "the span that the endpoint sees");
    assert!(json.get("trace_id").is_none() && json.get("span_id").is_none(), "{json}");
    let (line, json, _) = traced("01", &Tracing { ratio: SampleRatio::NONE, ..Tracing::default() });
    assert_eq!(line, "- -\n");
    assert!(json.get("trace_id").is_none(), "{json}");
}
