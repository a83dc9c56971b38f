//! The contents of the recorder: what it keeps, for how long, and what it never keeps.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;
use std::time::Duration;

use fairway_http::HeadLimits;
use fairway_net::clock::Instant;

use super::{FAILURES_PER_SECOND, NEIGHBOURS_PER_FAILURE, RecordedExchange, RecordedQuery, Recorder};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::listener::ListenerId;
use crate::metrics::record::{AttemptOutcome, ExchangeRecord, Microseconds};
use crate::options::RecorderOptions;
use crate::peer::{Peer, Scheme, Sender};
use crate::testing::endpoint;

const RETENTION: Duration = Duration::from_secs(60);

fn recorder(exchanges_per_worker: usize) -> Recorder {
    Recorder::new(RecorderOptions { exchanges_per_worker, retention: RETENTION })
}

fn peer() -> Peer {
    let listener = ListenerId { slot: 0, generation: 1 };
    let client = "192.0.2.7".parse().unwrap();
    Peer { listener, scheme: Scheme::Https, client, sender: Sender::Client, details: None }
}

fn buffers(id: &str, headers: &str) -> Buffers {
    let mut buffers = Buffers::default();
    let head =
        format!("GET /cart?token=secret HTTP/1.1\r\nHost: a.test\r\nX-Request-ID: {id}\r\n{headers}\r\n");
    fairway_http::http1::HeadParser::new()
        .request(&mut buffers.request, head.as_bytes(), &HeadLimits::default())
        .unwrap();
    buffers.host.push_str("a.test");
    buffers
}

/// Records an exchange that ends now.
fn record_exchange(recorder: &Recorder, id: &str, fault: Option<Fault>) {
    let mut record = ExchangeRecord::new(Instant::now(), 10);
    record.fault = fault;
    record.status = fault.map_or(200, Fault::status);
    recorder.record(&record, &buffers(id, ""), &peer(), 3);
}

fn listener_name(listener: ListenerId) -> Option<Arc<str>> {
    (listener == peer().listener).then(|| "https".into())
}

fn find(recorder: &Recorder, query: RecordedQuery) -> Vec<RecordedExchange> {
    recorder.find(1, &RecordedQuery { limit: 1_000, ..query }, &listener_name)
}

fn ids(recorder: &Recorder, query: RecordedQuery) -> Vec<String> {
    find(recorder, query).into_iter().map(|it| it.request_id.unwrap()).collect()
}

fn any_exchange() -> RecordedQuery {
    RecordedQuery::default()
}

fn failed() -> RecordedQuery {
    RecordedQuery { failed: true, ..RecordedQuery::default() }
}

#[tokio::test(start_paused = true)]
async fn failures_are_kept_longer_with_their_neighbours() {
    let recorder = recorder(80);
    for number in 0..10 {
        record_exchange(&recorder, &format!("before-{number}"), None);
    }
    record_exchange(&recorder, "failed", Some(Fault::ConnectFailed));
    for number in 0..100 {
        record_exchange(&recorder, &format!("after-{number}"), None);
    }
    let kept_ids = ids(&recorder, any_exchange());
    let last: Vec<String> = (80..100).rev().map(|number| format!("after-{number}")).collect();
    assert_eq!(kept_ids[..20], last, "a quarter are the last ones");
    let around = [
        "after-3", "after-2", "after-1", "after-0", "failed", "before-9", "before-8", "before-7", "before-6",
    ];
    assert_eq!(kept_ids[20..], around);
    assert_eq!(around.len(), 2 * usize::from(NEIGHBOURS_PER_FAILURE) + 1);
    assert_eq!(ids(&recorder, failed()), ["failed"]);
}

#[tokio::test(start_paused = true)]
async fn neighbours_of_two_failures_are_kept_once() {
    let recorder = recorder(40);
    for (number, fault) in
        [None, Some(Fault::NoRoute), None, Some(Fault::NoEndpoint), None].into_iter().enumerate()
    {
        record_exchange(&recorder, &format!("x{number}"), fault);
    }
    for number in 0..10 {
        record_exchange(&recorder, &format!("y{number}"), None);
    }
    let expected = ["y9", "y8", "y7", "y6", "y5", "y4", "y3", "y2", "y1", "y0", "x4", "x3", "x2", "x1", "x0"];
    assert_eq!(ids(&recorder, any_exchange()), expected);
}

#[tokio::test(start_paused = true)]
async fn the_first_failures_of_a_burst_are_kept_and_the_rest_counted() {
    let recorder = recorder(400);
    for number in 0..200 {
        record_exchange(&recorder, &format!("burst-{number}"), Some(Fault::UpstreamClosed));
    }
    for number in 0..100 {
        record_exchange(&recorder, &format!("fine-{number}"), None);
    }
    let bound = usize::try_from(FAILURES_PER_SECOND).unwrap();
    let before = ids(&recorder, failed());
    assert_eq!(before.len(), bound);
    assert_eq!((before[0].as_str(), before[bound - 1].as_str()), ("burst-31", "burst-0"));
    assert_eq!(recorder.dropped_failures(), 200 - u64::from(FAILURES_PER_SECOND));
    recorder.tick(Instant::now());
    record_exchange(&recorder, "later", Some(Fault::UpstreamClosed));
    assert_eq!(ids(&recorder, failed())[0], "later", "the next second has a bound of its own");
}

#[tokio::test(start_paused = true)]
async fn expired_exchanges_are_neither_shown_nor_left_in_memory() {
    let recorder = recorder(40);
    record_exchange(&recorder, "old", Some(Fault::NoEndpoint));
    tokio::time::advance(RETENTION).await;
    record_exchange(&recorder, "new", None);
    assert_eq!(ids(&recorder, any_exchange()), ["new", "old"]);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(ids(&recorder, any_exchange()), ["new"], "before it is erased");
    recorder.tick(Instant::now());
    let rings = recorder.0.as_ref().unwrap().borrow();
    let sequence_numbers: Vec<u64> =
        rings.recent.newest_first().chain(rings.failed.newest_first()).map(|it| it.number).collect();
    assert_eq!(sequence_numbers, [2, 2], "the new one is a neighbour of the old one");
    drop(rings);
    recorder.clear();
    assert_eq!(ids(&recorder, any_exchange()), [""; 0]);
    record_exchange(&recorder, "again", None);
    assert_eq!(ids(&recorder, any_exchange()), ["again"]);
}

#[tokio::test(start_paused = true)]
async fn an_exchange_is_shown_without_its_query_and_its_credentials() {
    let recorder = recorder(40);
    let secrets =
        "Authorization: Bearer secret\r\nCookie: a=secret\r\nX-Api-Key: secret\r\nUser-Agent: curl/8\r\n";
    let mut buffers = buffers("4bf9", secrets);
    buffers.addresses.client = Some("203.0.113.7".parse().unwrap());
    let outcome = AttemptOutcome::Fault(Fault::ConnectFailed);
    buffers.extras.record_failed_attempt(
        endpoint(8080),
        outcome,
        Microseconds::from(Duration::from_millis(2)),
    );
    let mut record = ExchangeRecord::new(Instant::now(), 100);
    record.status = 200;
    record.body_bytes = 10;
    record.finish(record.started_at + Duration::from_millis(12));
    recorder.record(&record, &buffers, &peer(), 3);
    let found = find(&recorder, RecordedQuery { request_id: Some("4bf9".to_owned()), ..failed() });
    let json = serde_json::to_value(&found).unwrap();
    assert!(!json.to_string().contains("secret"), "{json}");
    let it = &json[0];
    let endpoint = endpoint(8080).to_string();
    for (pointer, expected) in [
        ("/number", serde_json::json!("1-1")),
        ("/configuration", 3.into()),
        ("/client", "203.0.113.7".into()),
        ("/listener", "https".into()),
        ("/scheme", "https".into()),
        ("/version", "HTTP/1.1".into()),
        ("/method", "GET".into()),
        ("/host", "a.test".into()),
        ("/path", "/cart".into()),
        ("/has_query", true.into()),
        ("/user_agent", "curl/8".into()),
        ("/took_us", 12_000.into()),
        ("/rule", serde_json::Value::Null),
        ("/failed_attempts/0/endpoint", endpoint.into()),
        ("/failed_attempts/0/reason", "connect_failed".into()),
        ("/failed_attempts/0/after_us", 2_000.into()),
    ] {
        assert_eq!(it.pointer(pointer), Some(&expected), "{pointer} of {it}");
    }
}

#[tokio::test(start_paused = true)]
async fn client_failures_do_not_evict_other_failures() {
    let recorder = recorder(400);
    record_exchange(&recorder, "endpoint", Some(Fault::UpstreamClosed));
    for second in 0..60 {
        for number in 0..100 {
            record_exchange(&recorder, &format!("scan-{second}-{number}"), Some(Fault::NoRoute));
        }
        recorder.tick(Instant::now());
    }
    let after = ids(&recorder, failed());
    assert!(after.contains(&"endpoint".to_owned()), "{after:?}");
    assert!(after.iter().any(|id| id.starts_with("scan-")), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn retention_counts_from_the_end_of_an_exchange() {
    let recorder = recorder(40);
    let mut record = ExchangeRecord::new(Instant::now(), 10);
    tokio::time::advance(2 * RETENTION).await;
    record.finish(Instant::now());
    record.fault = Some(Fault::UpstreamTimeout);
    recorder.record(&record, &buffers("long", ""), &peer(), 1);
    recorder.tick(Instant::now());
    assert_eq!(
        ids(&recorder, RecordedQuery { within: Some(Duration::from_secs(1)), ..any_exchange() }),
        ["long"]
    );
    tokio::time::advance(RETENTION + Duration::from_secs(1)).await;
    assert_eq!(ids(&recorder, any_exchange()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn only_the_path_of_a_target_is_kept() {
    for (target, origin, expected) in [
        ("/cart?token=secret", "", "/cart"),
        ("/cart#token=secret", "", "/cart"),
        ("http://alice:secret@a.test/cart", "", ""),
        ("http://a.test/cart?secret", "/cart?secret", "/cart"),
        ("a.test:443", "", ""),
        ("*", "", "*"),
    ] {
        let recorder = recorder(4);
        let mut buffers = buffers("x", "");
        let id = buffers.request.first(fairway_http::Known::XRequestId).unwrap().to_owned();
        buffers.request.start_request(b"GET", target.as_bytes());
        buffers.request.append(b"X-Request-ID", &id);
        buffers.extras.write().origin.extend_from_slice(origin.as_bytes());
        recorder.record(&ExchangeRecord::new(Instant::now(), 10), &buffers, &peer(), 1);
        let found = find(&recorder, any_exchange());
        assert_eq!(found[0].path, expected, "{target}");
    }
}

#[tokio::test(start_paused = true)]
async fn texts_of_any_length_are_truncated() {
    let recorder = recorder(40);
    let (id, agent) = ("i".repeat(300), "u".repeat(8_000));
    let mut buffers = buffers(&id, &format!("User-Agent: {agent}\r\n"));
    buffers.host = "h".repeat(255);
    let (method, path) = ("M".repeat(100), format!("/{}", "p".repeat(4_000)));
    let head = buffers.request.clone();
    buffers.request.start_request(method.as_bytes(), path.as_bytes());
    head.fields().for_each(|field| buffers.request.append(field.name, field.value));
    let record = ExchangeRecord::new(Instant::now(), 100);
    recorder.record(&record, &buffers, &peer(), 1);
    let query = RecordedQuery { request_id: Some(id), host: Some("h".repeat(255)), ..any_exchange() };
    let found = find(&recorder, query);
    let lengths = |it: &RecordedExchange| {
        let texts = [
            &it.method,
            &it.host,
            &it.path,
            it.request_id.as_ref().unwrap(),
            it.user_agent.as_ref().unwrap(),
        ];
        texts.map(|text| text.chars().count())
    };
    assert_eq!(found.iter().map(lengths).collect::<Vec<_>>(), [[25, 129, 193, 65, 81]], "each with a mark");
}

#[tokio::test(start_paused = true)]
async fn queries_find_matching_exchanges() {
    let recorder = recorder(40);
    record_exchange(&recorder, "a", None);
    tokio::time::advance(Duration::from_secs(20)).await;
    record_exchange(&recorder, "b", Some(Fault::NoRoute));
    record_exchange(&recorder, "c", Some(Fault::Overloaded));
    let read = |text: &str| {
        let parameters = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        RecordedQuery::from_parameters(parameters)
    };
    for (query, expected) in [
        ("id=b", vec!["b"]),
        ("status=404", vec!["b"]),
        ("status=5xx", vec!["c"]),
        ("status=200", vec!["a"]),
        ("host=A.test&limit=2", vec!["c", "b"]),
        ("host=b.test", vec![]),
        ("failed", vec!["c", "b"]),
        ("within=10", vec!["c", "b"]),
        ("within=20", vec!["c", "b", "a"]),
        ("before=0-3", vec!["b", "a"]),
        ("before=0-3&limit=1", vec!["b"]),
        ("before=0-", vec!["c", "b", "a"]),
    ] {
        let found = recorder.find(0, &read(query).unwrap(), &listener_name);
        let found: Vec<_> = found.iter().filter_map(|it| it.request_id.as_deref()).collect();
        assert_eq!(found, expected, "{query}");
    }
    for wrong in ["status=9xx", "status=x", "within=x", "limit=x", "before=3", "before=a-3", "ID=a"] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_disabled_recorder_keeps_nothing() {
    let recorder = recorder(0);
    record_exchange(&recorder, "a", Some(Fault::NoRoute));
    recorder.tick(Instant::now());
    recorder.clear();
    assert!(find(&recorder, any_exchange()).is_empty());
}
