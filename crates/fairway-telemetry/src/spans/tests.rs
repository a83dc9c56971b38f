//! Span trees for every possible outcome of an exchange.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use fairway_proxy::{RecordedAttempt, RecordedExchange, RecordedRule, RecordedUpstream, SpanContext};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use super::observed::ObservedExchange;

const TRACE: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;

fn context(parent: Option<u64>) -> SpanContext {
    SpanContext { trace_id: TRACE, span_id: 7, parent_span_id: parent, trace_state: Some("a=b".to_owned()) }
}

/// A GET with a 200 response from an endpoint after 10 ms.
fn plain() -> RecordedExchange {
    RecordedExchange {
        configuration: 17,
        client: Some("203.0.113.7".parse().unwrap()),
        scheme: "https".to_owned(),
        version: "HTTP/2.0".to_owned(),
        method: "GET".to_owned(),
        host: "shop.example.com".to_owned(),
        path: "/cart/1".to_owned(),
        has_query: true,
        request_id: Some("5b1f".to_owned()),
        user_agent: Some("curl/8".to_owned()),
        status: 200,
        request_bytes: 187,
        response_bytes: 11,
        sent_bytes: 230,
        took_us: 10_000,
        rule: Some(RecordedRule {
            kind: "Ingress".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            field: "spec.rules[0].http.paths[0]".to_owned(),
            service: Some("cart".to_owned()),
        }),
        upstream: Some(RecordedUpstream {
            endpoint: "10.1.0.7:8080".parse().unwrap(),
            status: Some(200),
            attempts: 1,
            hedged: false,
            began_us: 0,
            sent_us: 0,
            connect_us: 0,
            tls_us: 0,
            header_us: 8_000,
            response_us: 9_000,
        }),
        ..RecordedExchange::default()
    }
}

/// Changes the last attempt.
fn with_last(mut exchange: RecordedExchange, change: impl FnOnce(&mut RecordedUpstream)) -> RecordedExchange {
    change(exchange.upstream.as_mut().unwrap());
    exchange
}

fn failed(reason: Option<&str>, status: Option<u16>, began_us: u64, after_us: u64) -> RecordedAttempt {
    let endpoint = "10.1.0.6:8080".parse().unwrap();
    RecordedAttempt { endpoint, reason: reason.map(str::to_owned), status, began_us, after_us }
}

/// The tree as text: each span below its parent, with kind, name, times in milliseconds and error.
fn tree(exchange: &RecordedExchange) -> String {
    let spans = spans(exchange);
    check(&spans);
    let mut text = String::new();
    write(&spans, &spans[0].span_id, 0, &mut text);
    assert_eq!(text.lines().count(), spans.len(), "each is below another:\n{text}");
    text
}

fn spans(exchange: &RecordedExchange) -> Vec<Span> {
    let context = context(None);
    let began = SystemTime::UNIX_EPOCH;
    ObservedExchange { context: &context, began, name: "GET /cart", route: Some("/cart"), exchange }.spans()
}

fn write(spans: &[Span], id: &[u8], depth: usize, out: &mut String) {
    let span = spans.iter().find(|span| span.span_id == id).unwrap();
    let ms = |nanos: u64| nanos / 1_000_000;
    let kind = SpanKind::try_from(span.kind).unwrap();
    let error = span.status.as_ref().map_or_else(String::new, |_| format!(" ! {}", error_of(span)));
    let (start, end) = (ms(span.start_time_unix_nano), ms(span.end_time_unix_nano));
    *out += &format!("{:depth$}{kind:?} {} {start}-{end}{error}\n", "", span.name);
    for child in spans.iter().filter(|child| child.parent_span_id == id) {
        write(spans, &child.span_id, depth + 2, out);
    }
}

fn error_of(span: &Span) -> String {
    attributes(span).remove("error.type").unwrap()
}

/// Invariants of every tree.
fn check(spans: &[Span]) {
    let (start, end) = (spans[0].start_time_unix_nano, spans[0].end_time_unix_nano);
    for span in spans {
        assert_eq!(span.trace_id, TRACE.to_be_bytes());
        assert_eq!(span.trace_state, "a=b");
        assert_eq!(span.span_id.len(), 8);
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        assert!(start <= span.start_time_unix_nano && span.end_time_unix_nano <= end, "{span:?}");
        let is_error = span.status.as_ref().is_some_and(|status| status.code == 2);
        assert_eq!(is_error, attributes(span).contains_key("error.type"), "{span:?}");
        let text = format!("{span:?}");
        assert!(!text.contains('?'), "a query: {text}");
    }
}

/// Attributes as text.
fn attributes(span: &Span) -> BTreeMap<&str, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        Value::ArrayValue(list) => format!("{} values", list.values.len()),
        other => panic!("{other:?}"),
    };
    let attribute = |it: &'_ opentelemetry_proto::tonic::common::v1::KeyValue| {
        text(it.value.as_ref().and_then(|value| value.value.as_ref()).unwrap())
    };
    let all: BTreeMap<_, _> = span.attributes.iter().map(|it| (it.key.as_str(), attribute(it))).collect();
    assert_eq!(all.len(), span.attributes.len(), "each once: {span:?}");
    all
}

#[test]
fn a_plain_exchange_is_a_server_span_with_a_client_span() {
    assert_eq!(tree(&plain()), "Server GET /cart 0-10\n  Client GET 0-9\n");
    let spans = spans(&plain());
    let expected = [
        ("client.address", "203.0.113.7"),
        ("fairway.configuration.version", "17"),
        ("fairway.route.field", "spec.rules[0].http.paths[0]"),
        ("fairway.route.kind", "Ingress"),
        ("fairway.route.name", "web"),
        ("fairway.route.namespace", "shop"),
        ("fairway.service.name", "cart"),
        ("http.request.header.x-request-id", "1 values"),
        ("http.request.method", "GET"),
        ("http.request.size", "187"),
        ("http.response.body.size", "11"),
        ("http.response.size", "230"),
        ("http.response.status_code", "200"),
        ("http.route", "/cart"),
        ("network.protocol.name", "http"),
        ("network.protocol.version", "2"),
        ("server.address", "shop.example.com"),
        ("url.path", "/cart/1"),
        ("url.scheme", "https"),
        ("user_agent.original", "curl/8"),
    ];
    let found: Vec<_> = attributes(&spans[0]).into_iter().collect();
    assert_eq!(found, expected.map(|(key, value)| (key, value.to_owned())));
    let expected = [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("network.peer.address", "10.1.0.7"),
        ("network.peer.port", "8080"),
        ("server.address", "10.1.0.7"),
        ("server.port", "8080"),
    ];
    let found: Vec<_> = attributes(&spans[1]).into_iter().collect();
    assert_eq!(found, expected.map(|(key, value)| (key, value.to_owned())));
    assert_eq!(spans[1].span_id, context(None).attempt_span_id(1).to_be_bytes());
}

#[test]
fn the_span_of_a_client_is_the_parent() {
    let exchange = plain();
    let span = |parent| {
        let context = context(parent);
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        ObservedExchange { context: &context, began, name: "x", route: None, exchange: &exchange }
            .spans()
            .remove(0)
    };
    let root_span = span(None);
    assert_eq!((root_span.parent_span_id.len(), root_span.flags), (0, 0x101));
    let continued = span(Some(9));
    assert_eq!((&continued.parent_span_id[..], continued.flags), (&9_u64.to_be_bytes()[..], 0x301));
    assert_eq!(continued.start_time_unix_nano, 1_000_000_000);
}

#[test]
fn a_retried_request_has_a_span_for_each_attempt() {
    let mut exchange = with_last(plain(), |last| {
        (last.attempts, last.began_us, last.connect_us, last.tls_us, last.response_us) =
            (3, 4_000, 2_000, 1_000, 3_000);
    });
    exchange.failed_attempts =
        vec![failed(Some("upstream_closed"), None, 0, 1_000), failed(None, Some(503), 2_000, 3_000)];
    assert_eq!(
        tree(&exchange),
        "Server GET /cart 0-10\n  Client GET 0-1 ! upstream_closed\n  Client GET 2-3 ! 503\n  Client GET 4-9\n    \
         Internal connect 4-5\n    Internal tls 5-6\n"
    );
    let spans = spans(&exchange);
    let resent: Vec<_> = spans.iter().map(|it| attributes(it).remove("http.request.resend_count")).collect();
    let resent: Vec<_> = resent.iter().map(Option::as_deref).collect();
    assert_eq!(resent, [None, None, Some("1"), Some("2"), None, None]);
    for (span, attempt) in spans[1..4].iter().zip(1..) {
        assert_eq!(span.span_id, context(None).attempt_span_id(attempt).to_be_bytes());
    }
}

#[test]
fn a_failed_last_attempt_has_one_span() {
    let mut exchange = with_last(plain(), |last| {
        (last.attempts, last.status, last.began_us, last.response_us) = (2, None, 1_000, 9_000);
    });
    exchange.status = 502;
    exchange.reason = Some("connect_failed".to_owned());
    exchange.caused_by = Some("endpoint".to_owned());
    exchange.failed_attempts = vec![
        failed(Some("connect_failed"), None, 0, 1_000),
        failed(Some("connect_failed"), None, 1_000, 9_000),
    ];
    assert_eq!(
        tree(&exchange),
        "Server GET /cart 0-10 ! connect_failed\n  Client GET 0-1 ! connect_failed\n  Client GET 1-9 ! connect_failed\n"
    );
}

#[test]
fn a_hedged_connect_is_marked() {
    let exchange = with_last(plain(), |last| {
        (last.hedged, last.connect_us, last.response_us) = (true, 3_000, 6_000);
    });
    let text = "Server GET /cart 0-10\n  Client GET 0-9\n    Internal connect 0-3\n";
    assert_eq!(tree(&exchange), text);
    assert_eq!(attributes(&spans(&exchange)[1])["fairway.hedged"], "true");
}

#[test]
fn the_span_of_guards_precedes_the_attempts() {
    let exchange =
        RecordedExchange { waited_us: 4_000, ..with_last(plain(), |last| last.response_us = 5_000) };
    assert_eq!(tree(&exchange), "Server GET /cart 0-10\n  Internal guards 0-4\n  Client GET 4-9\n");
    // Refused by the guard.
    let exchange = RecordedExchange {
        status: 401,
        reason: Some("denied".to_owned()),
        caused_by: Some("client".to_owned()),
        upstream: None,
        ..exchange
    };
    assert_eq!(tree(&exchange), "Server GET /cart 0-10\n  Internal guards 0-4\n");
    assert_eq!(attributes(&spans(&exchange)[0])["fairway.reason"], "denied");
}

#[test]
fn a_request_without_a_rule_is_a_server_span_alone() {
    let exchange = RecordedExchange {
        status: 404,
        reason: Some("no_route".to_owned()),
        caused_by: Some("configuration".to_owned()),
        rule: None,
        upstream: None,
        ..plain()
    };
    assert_eq!(tree(&exchange), "Server GET /cart 0-10\n");
}

#[test]
fn the_status_of_a_server_span_is_an_error_when_the_server_failed() {
    let error = |status, reason: Option<&str>| {
        let reason = reason.map(str::to_owned);
        let exchange = RecordedExchange { status, reason, upstream: None, ..plain() };
        let mut spans = spans(&exchange);
        attributes(&spans.remove(0)).remove("error.type")
    };
    for (status, reason, expected) in [
        (200, None, None),
        (302, None, None),
        (404, None, None),
        (429, Some("too_many_requests"), None),
        (500, None, Some("500")),
        (503, Some("overloaded"), Some("overloaded")),
        (499, Some("client_gone"), Some("client_gone")),
        (0, Some("client_gone"), Some("client_gone")),
        (0, None, Some("_OTHER")),
        (200, Some("upstream_truncated"), Some("upstream_truncated")),
    ] {
        assert_eq!(error(status, reason).as_deref(), expected, "{status} {reason:?}");
    }
}

#[test]
fn the_status_of_a_client_span_is_an_error_for_4xx_too() {
    let error = |status, reason: Option<&str>, caused_by: Option<&str>| {
        let exchange = RecordedExchange {
            reason: reason.map(str::to_owned),
            caused_by: caused_by.map(str::to_owned),
            ..with_last(plain(), |last| last.status = status)
        };
        attributes(&spans(&exchange)[1]).remove("error.type")
    };
    for (status, reason, caused_by, expected) in [
        (Some(200), None, None, None),
        (Some(301), None, None, None),
        (Some(404), None, None, Some("404")),
        (Some(500), None, None, Some("500")),
        (Some(200), Some("upstream_truncated"), Some("endpoint"), Some("upstream_truncated")),
        (Some(200), Some("client_gone"), Some("client"), None),
        (None, Some("client_gone"), Some("client"), Some("client_gone")),
        (None, None, None, Some("_OTHER")),
    ] {
        assert_eq!(error(status, reason, caused_by).as_deref(), expected, "{status:?} {reason:?}");
    }
}

#[test]
fn a_call_of_grpc_has_its_method_and_its_status() {
    let call = |status| RecordedExchange {
        method: "POST".to_owned(),
        path: "/shop.Cart/Add".to_owned(),
        grpc_status: Some(status),
        ..plain()
    };
    assert_eq!(tree(&call(0)), "Server GET /cart 0-10\n  Client shop.Cart/Add 0-9\n");
    // An error that the client caused is an error of the client span only.
    assert_eq!(tree(&call(5)), "Server GET /cart 0-10\n  Client shop.Cart/Add 0-9 ! NOT_FOUND\n");
    let unavailable = "Server GET /cart 0-10 ! UNAVAILABLE\n  Client shop.Cart/Add 0-9 ! UNAVAILABLE\n";
    assert_eq!(tree(&call(14)), unavailable);
    for span in &spans(&call(99)) {
        let attributes = attributes(span);
        assert_eq!(attributes["rpc.system.name"], "grpc");
        assert_eq!(attributes["rpc.method"], "shop.Cart/Add");
        assert_eq!(attributes["rpc.response.status_code"], "99");
    }
}

#[test]
fn an_unknown_method_is_not_used_as_a_name() {
    let spans = spans(&RecordedExchange { method: "BREW".to_owned(), ..plain() });
    let found = attributes(&spans[0]);
    assert_eq!(found["http.request.method"], "_OTHER");
    assert_eq!(found["http.request.method_original"], "BREW");
    assert_eq!(spans[1].name, "HTTP");
}

#[test]
fn inconsistent_times_make_no_span_with_a_negative_duration() {
    let limit = u64::MAX;
    let exchange = RecordedExchange {
        waited_us: limit,
        took_us: 5,
        failed_attempts: vec![failed(None, None, limit, 0)],
        ..with_last(plain(), |last| {
            (last.attempts, last.began_us, last.connect_us, last.tls_us, last.response_us) =
                (200, limit, limit, limit, limit);
        })
    };
    for span in spans(&exchange) {
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
    }
}
