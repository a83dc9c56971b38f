//! HTTP/3 clients in virtual time: a client over in-memory QUIC, scripted HTTP/1 endpoints.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{Policy, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep, timeout};

use super::http2_tests::{serve_echo, wait_until_idle};
use super::http3_browser::{Http3TestClient, QUIC_IDLE, Windows};
use super::http3_client::{Http3Response, pseudo_headers};
use super::websocket_tests::{self, H1};
use crate::testing::{OK_RESPONSE, ScriptedConnect, TestWorker, read_head, run_local};
use crate::worker::StopPhase;

/// Error codes (RFC 9114 §8.1).
pub(super) const NO_ERROR: u64 = 0x100;
const INTERNAL_ERROR: u64 = 0x102;
pub(super) const EXCESSIVE_LOAD: u64 = 0x107;
const REQUEST_REJECTED: u64 = 0x10b;

pub(super) const SHORT_PAUSE: Duration = Duration::from_millis(100);

/// Value of an event counter.
pub(super) fn event_count(stage: &TestWorker, event: &str, reason: &str) -> u64 {
    stage.metric_value(&format!("fairway_http3_events_total{{event=\"{event}\",reason=\"{reason}\"}}"))
}

/// Responds to one request with its body as it arrives, and one more trailer.
async fn serve_body_back(mut stream: DuplexStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).map(|rest| rest.split('\r').next().unwrap());
    let framing = match length {
        Some(length) => format!("Content-Length: {length}"),
        None => "Transfer-Encoding: chunked\r\nTrailer: Checksum".to_owned(),
    };
    stream.write_all(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n").as_bytes()).await.unwrap();
    let mut remaining = length.map_or(usize::MAX, |length| length.parse().unwrap());
    let mut chunk = vec![0; 16 * 1024];
    let mut last = Vec::new();
    while remaining > 0 && !last.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut chunk).await.unwrap();
        assert!(count > 0, "the request is complete");
        remaining -= count;
        // Chunks and trailers are returned as they arrive.
        stream.write_all(&chunk[..count]).await.unwrap();
        if length.is_none() {
            last.extend_from_slice(&chunk[..count]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_concurrent_requests_get_their_own_responses() {
    run_local(async {
        let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http3TestClient::new(&stage);
        let began = Instant::now();
        let ids: Vec<u64> = (0..100).map(|at| browser.get(&format!("/{}", 1000 - 7 * at))).collect();
        browser.run_for(SHORT_PAUSE).await;
        assert_eq!(stage.metric_value("fairway_http3_streams_open"), 100);
        assert_eq!(stage.metric_value("fairway_http3_connections_open"), 1);
        browser
            .run_until("all responses", |browser| browser.responses.values().all(Http3Response::is_finished))
            .await;
        assert!(began.elapsed() < Duration::from_millis(1200), "they wait side by side");
        browser.run_for(SHORT_PAUSE).await;
        assert_eq!(stage.metric_value("fairway_http3_streams_open"), 0);
        for (at, id) in ids.into_iter().enumerate() {
            let response = &browser.responses[&id];
            assert_eq!(
                (response.status, &response.body[..]),
                (200, format!("/{}", 1000 - 7 * at).as_bytes())
            );
        }
        let id = browser.get("/again");
        assert_eq!(browser.response(id).await.body, b"/again", "a slot is used again");
        browser.close();
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn bodies_pass_in_both_directions_with_and_without_a_length() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_body_back));
        let mut browser = Http3TestClient::new(&stage);
        let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        for length in [Some(body.len().to_string()), None] {
            let fields: Vec<_> = length.iter().map(|length| ("content-length", &**length)).collect();
            let id = browser.post("/", &fields);
            let (first, rest) = body.split_at(10);
            browser.send(id, first, false);
            browser.run_for(SHORT_PAUSE).await;
            browser.send(id, rest, length.is_some());
            if length.is_none() {
                browser.send_trailers(id, &[("checksum", "17")]);
            }
            let response = browser.response(id).await;
            assert_eq!((response.status, response.reset), (200, None));
            assert!(response.body == body, "{} bytes of {}", response.body.len(), body.len());
            let expected = length.is_none().then(|| ("checksum".to_owned(), "17".to_owned()));
            assert_eq!(response.trailers, Vec::from_iter(expected));
        }
        browser.close();
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn trailers_and_interim_responses_pass() {
    async fn with_trailers(mut stream: DuplexStream) {
        assert!(read_head(&mut stream).await);
        let response = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Checksum\r\n\r\n\
            3\r\nabc\r\n0\r\nChecksum: 17\r\n\r\n";
        stream.write_all(response).await.unwrap();
    }
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(with_trailers));
        let mut browser = Http3TestClient::new(&stage);
        let id = browser.get("/");
        let response = browser.response(id).await;
        assert_eq!(
            (response.status, &response.interim[..], &response.body[..]),
            (200, &[103][..], &b"abc"[..])
        );
        assert_eq!(response.trailers, [("checksum".to_owned(), "17".to_owned())]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_ends_its_exchange_and_no_other() {
    run_local(async {
        let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http3TestClient::new(&stage);
        let (first, second) = (browser.get("/5000"), browser.get("/6000"));
        browser.run_for(SHORT_PAUSE).await;
        assert_eq!(stage.worker.exchanges(), 2);
        browser.cancel(first);
        browser.run_for(SHORT_PAUSE).await;
        assert_eq!(stage.worker.exchanges(), 1, "it ended at once");
        assert_eq!(stage.metric_value("fairway_http3_streams_open"), 1);
        assert_eq!(event_count(&stage, "reset_received", "request_cancelled"), 1);
        assert_eq!(browser.response(second).await.body, b"/6000");
        assert_eq!(browser.responses[&first].status, 0);
        browser.close();
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closes_ends_its_exchanges() {
    run_local(async {
        let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http3TestClient::new(&stage);
        (0..20).for_each(|_| _ = browser.get("/5000"));
        browser.run_for(SHORT_PAUSE).await;
        assert_eq!(stage.worker.exchanges(), 20);
        browser.close();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(stage.worker.exchanges(), 0);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_vanished_client_is_closed_after_a_long_silence() {
    run_local(async {
        let patient = |policy: &mut Policy, settings: &mut Settings| {
            policy.timeouts.read = Duration::from_secs(3600);
            settings.downstream.idle_timeout = Duration::from_secs(3600);
        };
        let stage = TestWorker::new(2, patient, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http3TestClient::new(&stage);
        (0..20).for_each(|_| _ = browser.get("/5000000"));
        browser.run_for(SHORT_PAUSE).await;
        assert_eq!(stage.worker.exchanges(), 20);
        browser.disconnect();
        sleep(QUIC_IDLE - Duration::from_secs(1)).await;
        assert_eq!(stage.worker.exchanges(), 20);
        sleep(Duration::from_secs(2)).await;
        wait_until_idle(&stage).await;
    })
    .await;
}

/// Either QUIC endpoint alone would close the connection long before.
#[tokio::test(start_paused = true)]
async fn a_response_slower_than_the_idle_timeout_arrives() {
    run_local(async {
        let patient = |policy: &mut Policy, settings: &mut Settings| {
            policy.timeouts.read = Duration::from_secs(3600);
            settings.downstream.idle_timeout = QUIC_IDLE;
        };
        let stage = TestWorker::new(1, patient, |_| {
            ScriptedConnect::served_by(|mut stream: DuplexStream| async move {
                assert!(read_head(&mut stream).await);
                sleep(5 * QUIC_IDLE).await;
                stream.write_all(OK_RESPONSE).await.unwrap();
            })
        });
        let mut browser = Http3TestClient::new(&stage);
        let id = browser.get("/");
        browser.run_for(5 * QUIC_IDLE).await;
        assert_eq!(browser.response(id).await.body, b"ok");
        browser.close();
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_client_stops_the_endpoint_and_is_closed() {
    run_local(async {
        let written = Rc::new(Cell::new(0));
        let counter = Rc::clone(&written);
        let stage = TestWorker::new(
            1,
            |_, _| {},
            move |_| {
                let counter = Rc::clone(&counter);
                ScriptedConnect::served_by(move |mut stream| async move {
                    assert!(read_head(&mut stream).await);
                    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n";
                    stream.write_all(head).await.unwrap();
                    while stream.write_all(&[b'x'; 1000]).await.is_ok() {
                        counter.set(counter.get() + 1000);
                    }
                })
            },
        );
        let window = 16 * 1024;
        let mut browser =
            Http3TestClient::with_windows(&stage, Windows { client: window, ..Windows::default() });
        browser.reads_responses = false;
        let id = browser.get("/");
        let began = Instant::now();
        browser.run_for(Duration::from_secs(1)).await;
        // What is read at once, the client's window, and the pipe to the endpoint.
        let written_before = written.get();
        assert!(
            (window as usize..2 * 64 * 1024 + 1000).contains(&written_before),
            "{written_before} bytes were taken"
        );
        assert_eq!(browser.reset_unread(id).await, INTERNAL_ERROR);
        assert!(began.elapsed() >= Duration::from_secs(30), "after {:?}", began.elapsed());
        browser.close();
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_endpoint_stops_the_client() {
    run_local(async {
        let patient = |policy: &mut Policy, _: &mut Settings| {
            policy.timeouts.send = Duration::from_secs(60);
            policy.timeouts.read = Duration::from_secs(60);
        };
        let stage = TestWorker::new(1, patient, |_| {
            ScriptedConnect::served_by(|mut stream: DuplexStream| async move {
                assert!(read_head(&mut stream).await);
                sleep(Duration::from_secs(20)).await;
                let mut remaining = 2_000_000;
                let mut chunk = vec![0; 16 * 1024];
                while remaining > 0 {
                    remaining -= stream.read(&mut chunk).await.unwrap();
                }
                stream.write_all(OK_RESPONSE).await.unwrap();
            })
        });
        let mut browser =
            Http3TestClient::with_windows(&stage, Windows { server: 100_000, ..Windows::default() });
        let id = browser.post("/", &[("content-length", "2000000")]);
        browser.send(id, &vec![b'x'; 2_000_000], true);
        browser.run_for(Duration::from_secs(10)).await;
        // A QUIC window, the pipe to the endpoint, and data held by an exchange.
        let unsent = browser.responses[&id].unsent();
        assert!(unsent > 2_000_000 - 100_000 - 64 * 1024 - 64 * 1024, "{unsent} bytes wait at the client");
        assert_eq!(browser.response(id).await.body, b"ok");
        browser.close();
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_early_response_stops_the_rest_of_the_request() {
    run_local(async {
        let stage = TestWorker::new(
            1,
            |_, _| {},
            |_| {
                ScriptedConnect::served_by(|mut stream: DuplexStream| async move {
                    assert!(read_head(&mut stream).await);
                    stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").await.unwrap();
                    sleep(Duration::from_secs(1)).await;
                })
            },
        );
        let mut browser = Http3TestClient::new(&stage);
        let id = browser.post("/", &[("content-length", "1000000")]);
        browser.send(id, b"some", false);
        let response = browser.response(id).await;
        assert_eq!((response.status, &response.body[..], response.reset), (403, &b"no"[..], None));
        browser.run_until("STOP_SENDING", |browser| browser.responses[&id].stopped == Some(NO_ERROR)).await;
        let id = browser.get("/");
        assert_eq!(browser.response(id).await.status, 403, "the connection goes on");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_truncated_response_is_a_reset() {
    async fn breaking(mut stream: DuplexStream) {
        assert!(read_head(&mut stream).await);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome").await.unwrap();
    }
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(breaking));
        let mut browser = Http3TestClient::new(&stage);
        let id = browser.get("/");
        let response = browser.response(id).await;
        assert_eq!((response.is_complete, response.reset), (false, Some(INTERNAL_ERROR)));
        let id = browser.get("/");
        browser.response(id).await;
        assert!(browser.connection_error.is_none(), "the connection goes on");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_draining_worker_closes_the_connection_after_the_last_response() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http3TestClient::new(&stage);
        let id = browser.get("/30000");
        browser.run_for(SHORT_PAUSE).await;
        stage.worker.enter_phase(StopPhase::Draining);
        browser.run_until("GOAWAY", |browser| !browser.goaway_ids.is_empty()).await;
        let late = browser.get("/0");
        assert_eq!(browser.response(late).await.body, b"/0", "the first GOAWAY still takes requests");
        browser.run_until("the last GOAWAY", |browser| browser.goaway_ids.len() == 2).await;
        // Requests below this one are served (RFC 9114 §5.2).
        assert_eq!(browser.goaway_ids[1], 4 * (late + 1));
        assert_eq!(browser.response(id).await.body, b"/30000");
        assert_eq!(browser.closed().await, NO_ERROR);
        for reason in ["announced", "final"] {
            assert_eq!(event_count(&stage, "goaway_sent", reason), 1);
        }
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn streams_open_at_the_drain_timeout_are_reset() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::Silence);
        let mut browser = Http3TestClient::new(&stage);
        _ = [browser.get("/1"), browser.get("/2")];
        browser.run_for(SHORT_PAUSE).await;
        stage.worker.enter_phase(StopPhase::Draining);
        browser.run_for(SHORT_PAUSE).await;
        assert_eq!(stage.worker.exchanges(), 2);
        stage.worker.enter_phase(StopPhase::Cutting);
        assert_eq!(browser.closed().await, NO_ERROR);
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"drained\"}"), 2);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_connects_during_the_drain_delay_is_served_before_goaway() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        stage.worker.enter_phase(StopPhase::Leaving);
        let mut browser = Http3TestClient::new(&stage);
        browser.run_for(Duration::from_secs(2)).await;
        assert!(browser.goaway_ids.is_empty());
        let id = browser.get("/0");
        assert_eq!(browser.response(id).await.status, 200);
        assert_eq!(browser.closed().await, NO_ERROR);
        assert_eq!(browser.goaway_ids.len(), 2);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_serves_requests_up_to_its_limit() {
    run_local(async {
        let stage = TestWorker::new(
            1,
            |_, settings| settings.downstream.requests_per_connection = 3,
            |_| ScriptedConnect::served_by(serve_echo),
        );
        let mut browser = Http3TestClient::new(&stage);
        for _ in 0..3 {
            let id = browser.get("/0");
            assert_eq!(browser.response(id).await.status, 200);
        }
        assert_eq!(browser.closed().await, NO_ERROR);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_ends_after_the_idle_timeout() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let idle = stage.worker.adopted().settings().downstream.idle_timeout;
        for asks in [true, false] {
            let mut browser = Http3TestClient::new(&stage);
            if asks {
                let id = browser.get("/0");
                browser.response(id).await;
            }
            let began = Instant::now();
            while browser.connection_error.is_none() {
                // Packets without a request keep no connection open.
                browser.quic.ping();
                browser.run_for(Duration::from_secs(1)).await;
            }
            assert_eq!(browser.closed().await, NO_ERROR);
            let took = began.elapsed();
            assert!(took >= idle && took < idle + Duration::from_secs(5), "{took:?}");
            assert_eq!(browser.goaway_ids.len(), 2, "it gets GOAWAY");
            wait_until_idle(&stage).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_head_ends_with_the_head_timeout() {
    run_local(async {
        let patience = Duration::from_secs(7);
        let stage = TestWorker::new(
            1,
            |_, settings| settings.downstream.head_timeout = patience,
            |_| ScriptedConnect::served_by(serve_echo),
        );
        let mut browser = Http3TestClient::new(&stage);
        let id = browser.get("/0");
        assert_eq!(browser.response(id).await.status, 200);
        let began = Instant::now();
        // HEADERS of 50 bytes, of which three are sent.
        browser.send_raw(&[1, 50, 0, 0, 0xd1]);
        assert_eq!(browser.closed().await, EXCESSIVE_LOAD);
        let took = began.elapsed();
        assert!((patience..patience + Duration::from_secs(1)).contains(&took), "{took:?}");
        assert_eq!(event_count(&stage, "connection_fault", "head_timeout"), 1);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn incomplete_heads_are_rejected_one_by_one_while_other_requests_continue() {
    run_local(async {
        let patience = Duration::from_secs(7);
        let stage = TestWorker::new(
            1,
            |_, settings| settings.downstream.head_timeout = patience,
            |_| ScriptedConnect::served_by(serve_echo),
        );
        let mut browser = Http3TestClient::new(&stage);
        let served = browser.get("/20000");
        browser.run_for(SHORT_PAUSE).await;
        let mut late = Vec::new();
        for _ in 0..3 {
            // HEADERS of 50 bytes, of which three are sent.
            late.push((browser.send_raw(&[1, 50, 0, 0, 0xd1]), Instant::now()));
            browser.run_for(Duration::from_secs(2)).await;
        }
        for (id, began) in late {
            let response = browser.response(id).await;
            assert_eq!((response.status, response.reset), (0, Some(REQUEST_REJECTED)));
            assert!(response.stopped == Some(REQUEST_REJECTED), "nothing more of it is read");
            let took = began.elapsed();
            assert!((patience..patience + Duration::from_secs(1)).contains(&took), "{took:?}");
        }
        assert_eq!(browser.response(served).await.body, b"/20000");
        let id = browser.get("/0");
        assert_eq!(browser.response(id).await.status, 200, "the connection goes on");
        assert_eq!(event_count(&stage, "stream_fault", "head_timeout"), 3);
        assert_eq!(event_count(&stage, "connection_fault", "head_timeout"), 0);
        browser.close();
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_oversized_head_gets_431_and_the_connection_continues() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http3TestClient::new(&stage);
        let long = "x".repeat(60_000);
        let id = browser.request(&pseudo_headers("GET", "/"), &[("long", &long)], true);
        assert_eq!(browser.response(id).await.status, 431);
        let id = browser.get("/0");
        assert_eq!(browser.response(id).await.status, 200);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_protocol_violation_closes_the_connection_with_its_code() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http3TestClient::new(&stage);
        browser.get("/5000");
        browser.run_for(SHORT_PAUSE).await;
        // SETTINGS on a request stream: H3_FRAME_UNEXPECTED (RFC 9114 §7.2.4).
        browser.send_raw(&[4, 0]);
        assert_eq!(browser.closed().await, 0x105);
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"client_gone\"}"), 1);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_websocket_over_extended_connect_ends_each_direction_independently() {
    run_local(async {
        let (stage, seen) = websocket_tests::stage(H1);
        let mut browser = Http3TestClient::new(&stage);
        let mut pseudo = pseudo_headers("CONNECT", "/chat").to_vec();
        pseudo.push((":protocol", "websocket"));
        let fields = [("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat")];
        let id = browser.request(&pseudo, &fields, false);
        browser.run_until("a head", |browser| browser.responses[&id].status != 0).await;
        let response = &browser.responses[&id];
        assert_eq!((response.status, response.is_complete), (200, false));
        let named =
            |name| response.headers.iter().find(|(other, _)| other == name).map(|(_, value)| &**value);
        assert_eq!((named("sec-websocket-protocol"), named("sec-websocket-accept")), (Some("chat"), None));
        for piece in ["one", "two", "three"] {
            browser.send(id, piece.as_bytes(), false);
            browser
                .run_until("an echo", |browser| browser.responses[&id].body.ends_with(piece.as_bytes()))
                .await;
        }
        browser.send(id, &[b'x'; 300_000], true);
        let response = browser.response(id).await;
        assert_eq!((response.is_complete, response.body.len()), (true, 11 + 300_000 + 3));
        assert!(response.body.ends_with(b"xbye"), "the endpoint's last word came behind our end");
        assert_eq!(seen.borrow().tunnel_ends, ["end"]);
        let head = seen.borrow().request_heads[0].to_ascii_lowercase();
        assert!(
            head.starts_with("get /chat http/1.1") && head.contains("\r\nupgrade: websocket\r\n"),
            "{head}"
        );
        browser.close();
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn connect_with_an_unknown_protocol_is_refused() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http3TestClient::new(&stage);
        let mut pseudo = pseudo_headers("CONNECT", "/chat").to_vec();
        pseudo.push((":protocol", "connect-udp"));
        let id = browser.request(&pseudo, &[], true);
        assert_eq!(browser.response(id).await.status, 501);
    })
    .await;
}

/// Wherever a connection is dropped, all counts return to zero.
#[tokio::test(start_paused = true)]
async fn a_connection_can_be_dropped_at_any_point() {
    run_local(async {
        for step in 0..40 {
            let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
            let (mut browser, serving) = Http3TestClient::unserved_client(&stage, Windows::default());
            (0..4).for_each(|at| _ = browser.get(&format!("/{at}")));
            browser.pump();
            let polls = RefCell::new(0);
            let mut serving = Box::pin(serving);
            let reader = poll_fn(|cx| {
                *polls.borrow_mut() += 1;
                if *polls.borrow() > step {
                    return std::task::Poll::Ready(());
                }
                browser.pump();
                serving.as_mut().poll(cx)
            });
            let _ = timeout(Duration::from_secs(1), reader).await;
            drop(serving);
            drop(browser);
            wait_until_idle(&stage).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_releases_its_memory_and_continues() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http3TestClient::new(&stage);
        for _ in 0..3 {
            let ids: Vec<u64> = (0..50).map(|_| browser.get("/1")).collect();
            browser
                .run_until("all", |browser| ids.iter().all(|id| browser.responses[id].is_finished()))
                .await;
            assert!(ids.iter().all(|id| browser.responses[id].body == b"/1"));
            // Longer than memory is kept.
            browser.run_for(Duration::from_secs(5)).await;
        }
        browser.close();
        wait_until_idle(&stage).await;
    })
    .await;
}

/// Responds with the client address it was sent, after as many milliseconds as the path says.
async fn serve_client_address(mut stream: DuplexStream) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let between = |before: &str, after: &str| {
            let rest = head.split(before).nth(1).unwrap();
            rest.split(after).next().unwrap().to_owned()
        };
        sleep(Duration::from_millis(between("get /", " ").parse().unwrap())).await;
        let address = between("x-forwarded-for: ", "\r");
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{address}", address.len());
        stream.write_all(response.as_bytes()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_migrated_client_has_its_new_address_in_later_requests() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_client_address));
        let mut browser = Http3TestClient::new(&stage);
        let before = [browser.get("/0"), browser.get("/1000")];
        assert_eq!(browser.response(before[0]).await.body, b"192.0.2.1");
        browser.move_to("198.51.100.7:7".parse().unwrap());
        // In the slot of a finished request, in a new one, and then in that of the request in flight.
        let [first, second] = [browser.get("/0"), browser.get("/0")];
        assert_eq!(browser.response(first).await.body, b"198.51.100.7");
        assert_eq!(browser.response(second).await.body, b"198.51.100.7");
        assert_eq!(browser.response(before[1]).await.body, b"192.0.2.1", "it came from there");
        let ids: Vec<u64> = (0..4).map(|_| browser.get("/10")).collect();
        for id in ids {
            assert_eq!(browser.response(id).await.body, b"198.51.100.7");
        }
        browser.close();
        wait_until_idle(&stage).await;
    })
    .await;
}
