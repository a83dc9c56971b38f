//! Counts allocations: a log line allocates nothing but its own memory.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::alloc::System;
use std::time::{Duration, SystemTime};

use fairway_http::Head;
use fairway_model::{HostPattern, LogEscape, LogFormat, RuleLabels, ServiceName};
use fairway_proxy::log::{
    ClientIdentities, Connection, ExchangeAmounts, LogLine, LoggedConnection, ProcessInfo, RequestTarget,
    ServedBy, Tls, Trace, Upstream, WallClock,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn a_log_line_allocates_nothing_if_it_fits() {
    let mut request = Head::new();
    request.start_request(b"GET", b"/a?b=c");
    request.append(b"User-Agent", b"one \" two \xff");
    request.append(b"Authorization", b"Basic YW5uOnNlY3JldA==");
    let (mut clock, process) = (WallClock::default(), ProcessInfo { id: 1, hostname: "pod".to_owned() });
    clock.set(SystemTime::now());
    let address = "192.0.2.1".parse().unwrap();
    let time = Duration::from_millis(1);
    let mut received = Head::new();
    received.append(b"set-cookie", b"sid=1; Path=/");
    let tls = Tls {
        version: "TLSv1.3",
        suite: "TLS_AES_256_GCM_SHA384",
        group: Some("X25519"),
        name: Some("a.test"),
        resumed: false,
        protocol: None,
    };
    let rule = RuleLabels { service: "web".into(), ..RuleLabels::default() };
    let canary = ServiceName { name: "canary".into(), ..ServiceName::default() };
    let line = LogLine {
        request: &request,
        response: None,
        target: RequestTarget {
            scheme: "http",
            port: Some(80),
            host: "a.test",
            received_host: b"",
            origin: b"",
            decoded: b"",
        },
        identities: ClientIdentities {
            remote: address,
            client: Some(address),
            sender: None,
            named: None,
            subject: Some("alice"),
            api_client: None,
            location: None,
        },
        connection: Connection {
            requests: 1,
            logged: Some(LoggedConnection { port: 2, number: 3 }),
            tls: Some(tls),
            certificate: None,
        },
        amounts: ExchangeAmounts {
            status: 200,
            request: 1,
            body: 2,
            sent: 3,
            duration: time,
            grpc_status: None,
        },
        served_by: ServedBy { rule: Some(&rule), host: Some(&HostPattern::Any), canary: Some(&canary) },
        upstream: Some(Upstream {
            endpoint: (address, 80).into(),
            status: 200,
            connect: time,
            header: time,
            response: time,
            received: &received,
            attempts: 1,
            hedged: false,
        }),
        trace: Trace::Sampled { trace_id: 1, span_id: 2 },
        reason: None,
        clock: &clock,
        process: &process,
    };
    let variables = " $msec $time_iso8601 $arg_b $uri $cookie_a $hostname $geoip_city $remote_port $connection $jwt_claim_sub \
                $opentelemetry_trace_id $opentelemetry_span_id \
                $connection_requests $ssl_protocol $ssl_cipher $ssl_server_name $upstream_http_a $upstream_cookie_sid";
    let mut out = Vec::with_capacity(4096);
    for escape in [LogEscape::Nginx, LogEscape::Json] {
        let format = LogFormat::read(&[LogFormat::BUILT_IN, variables].concat(), escape).unwrap().format;
        let region = Region::new(COUNTED);
        line.write(&format, &mut out);
        let counted = region.change();
        assert_eq!((counted.allocations, counted.reallocations), (0, 0), "{escape:?}");
    }
    let region = Region::new(COUNTED);
    line.write_json(&mut out);
    let counted = region.change();
    assert!(counted.allocations <= 1, "the agent, which is no UTF-8: {counted:?}");
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 3);
}
