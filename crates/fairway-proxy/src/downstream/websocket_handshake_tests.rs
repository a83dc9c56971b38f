//! WebSocket handshakes and refusals in each of the four pairings of versions.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::Duration;

use fairway_connection::websocket::accept;
use fairway_http2::frame::{FLAG_END_HEADERS, FrameKind, write_frame};
use fairway_model::{Deny, Guard, Match, NamedValueMatch, Phases, TextMatch};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use super::http2_tests::{Http2TestClient, wait_until_idle};
use super::websocket_tests::{
    Fields, H1, H2, KEY, PAIRINGS, SHORT_PAUSE, SharedLog, WebSocketClient, connect, header, http1_endpoint,
    stage, stage_with,
};
use crate::testing::{ScriptedConnect, TestWorker, run_local};

#[tokio::test(start_paused = true)]
async fn each_side_uses_the_handshake_of_its_version() {
    for (client, endpoint) in PAIRINGS {
        run_local(async {
            let (stage, seen) = stage(endpoint);
            for _ in 0..2 {
                let mut asker = WebSocketClient::connect(&stage, client, "/echo?a=b", b"").await;
                let (status, response) = asker.response().await;
                let context = format!("{client:?} {endpoint:?}: {response}");
                assert_eq!(header(&response, "sec-websocket-protocol").as_deref(), Some("chat"), "{context}");
                assert_eq!(header(&response, "content-length"), None, "{context}");
                let proof = header(&response, "sec-websocket-accept");
                match client {
                    H1 => assert_eq!((status, proof), (101, Some(accept(KEY.as_bytes()))), "{context}"),
                    H2 => assert_eq!((status, proof), (200, None), "{context}"),
                }
                assert_eq!(header(&response, "upgrade").is_some(), client == H1, "{context}");
            }
            let heads = seen.borrow().request_heads.clone();
            let key = |at: usize| header(&heads[at], "sec-websocket-key");
            assert_eq!(header(&heads[0], "sec-websocket-version").as_deref(), Some("13"));
            assert_eq!(header(&heads[0], "sec-websocket-protocol").as_deref(), Some("chat"));
            match endpoint {
                H1 => {
                    assert!(heads[0].starts_with("GET /echo?a=b HTTP/1.1\r\n"), "{}", heads[0]);
                    assert_eq!(header(&heads[0], "upgrade").as_deref(), Some("websocket"));
                    assert_eq!(header(&heads[0], "connection").as_deref(), Some("upgrade"));
                    assert_eq!(key(0).unwrap().len(), 24, "16 bytes");
                    assert_eq!(key(0) == key(1), client == H1, "a key of ours is used once");
                }
                H2 => {
                    assert!(heads[0].starts_with("CONNECT /echo?a=b websocket\n"), "{}", heads[0]);
                    assert_eq!((key(0), header(&heads[0], "host").as_deref()), (None, Some("a")));
                    assert_eq!(header(&heads[0], "upgrade"), None);
                }
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_an_ordinary_response() {
    for (client, endpoint) in PAIRINGS {
        run_local(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = WebSocketClient::connect(&stage, client, "/no", b"early").await;
            assert_eq!(asker.response().await.0, 403, "{client:?} {endpoint:?}");
            assert_eq!(asker.bytes(4).await, b"nope");
            drop(asker);
            wait_until_idle(&stage).await;
            assert_eq!(seen.borrow().bytes_read, 0, "what came too early went nowhere");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn refusing_upgrades_applies_to_both_versions() {
    run_local(async {
        let header = NamedValueMatch { name: "upgrade".into(), value: TextMatch::Regex("websocket".into()) };
        let when = vec![Match { headers: vec![header], ..Match::default() }];
        let log = SharedLog::default();
        let shared = SharedLog::clone(&log);
        let stage = TestWorker::with_phases(
            1,
            vec![Phases::from(Guard::Deny(Deny { status: 403, when }))],
            move |_| {
                let log = SharedLog::clone(&shared);
                ScriptedConnect::served_by(|stream| http1_endpoint(stream, log))
            },
        );
        for client in [H1, H2] {
            let mut asker = WebSocketClient::connect(&stage, client, "/echo", b"").await;
            assert_eq!(asker.response().await.0, 403, "{client:?}");
        }
        assert_eq!(log.borrow().request_heads.len(), 0, "no endpoint was asked");
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.request_with_headers(b"GET", b"/plain", &[], true);
        assert_eq!(browser.response(id).await.status, 200);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_200_of_an_http1_endpoint_opens_no_tunnel_for_an_http2_client() {
    for (path, reason) in [("/plain", "upstream_no_websocket"), ("/wrong", "upstream_malformed")] {
        run_local(async {
            let (stage, _) = stage(H1);
            let mut asker = WebSocketClient::connect(&stage, H2, path, b"early").await;
            assert_eq!(asker.response().await.0, 502, "{path}");
            let body = String::from_utf8(asker.read_to_end().await.0).unwrap();
            assert!(body.contains(reason), "{body}");
            drop(asker);
            wait_until_idle(&stage).await;
            // An HTTP/1 client sees that itself.
            let mut asker = WebSocketClient::connect(&stage, H1, path, b"").await;
            assert_eq!(asker.response().await.0, if path == "/plain" { 200 } else { 101 });
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_extended_connect_is_sent_to_an_http2_endpoint_without_it() {
    for client in [H1, H2] {
        run_local(async {
            let (stage, seen) = stage_with(H2, false, Duration::ZERO);
            for round in 1..3 {
                let mut asker = WebSocketClient::connect(&stage, client, "/echo", b"").await;
                assert_eq!(asker.response().await.0, 502, "{client:?}");
                let reason = "fairway_faults_total{reason=\"upstream_no_websocket\"}";
                assert_eq!(stage.metric_value(reason), round, "{client:?}");
            }
            assert_eq!(seen.borrow().request_heads.len(), 0, "it got no request");
            assert_eq!(
                stage.connects().len(),
                1,
                "its connection is as good as before, and nothing is tried again"
            );
            let mut browser = Http2TestClient::new(&stage);
            let id = browser.request_with_headers(b"GET", b"/page", &[], true);
            assert_eq!(browser.response(id).await.body, b"page");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_settings_of_an_http2_endpoint_are_awaited() {
    for client in [H1, H2] {
        run_local(async {
            let late = Duration::from_secs(2);
            let (stage, _) = stage_with(H2, true, late);
            let began = Instant::now();
            let mut asker = WebSocketClient::connect(&stage, client, "/echo", b"early").await;
            asker.response().await;
            assert!(began.elapsed() >= late);
            assert_eq!(asker.bytes(5).await, b"early");
            // Without settings it times out, and a client that leaves does not wait.
            let (stage, _) = stage_with(H2, true, Duration::from_secs(5000));
            let mut asker = WebSocketClient::connect(&stage, client, "/echo", b"").await;
            assert_eq!(asker.response().await.0, 504, "{client:?}");
            let asker = WebSocketClient::connect(&stage, client, "/echo", b"").await;
            sleep(SHORT_PAUSE).await;
            asker.abandon().await;
            sleep(SHORT_PAUSE).await;
            assert_eq!(stage.worker.exchanges(), 0);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_handshakes_are_refused() {
    run_local(async {
        let (stage, seen) = stage(H1);
        const VERSION: (&str, &str) = ("sec-websocket-version", "13");
        let cases: [(&str, Fields, u16, &str); 6] = [
            ("connect-udp", &[VERSION], 501, "unsupported"),
            ("h2c", &[VERSION], 501, "unsupported"),
            ("websocket", &[], 426, "websocket_version"),
            ("websocket", &[("sec-websocket-version", "8")], 426, "websocket_version"),
            ("websocket", &[VERSION, VERSION], 426, "websocket_version"),
            ("websocket", &[VERSION, ("expect", "magic")], 417, "expectation"),
        ];
        for (protocol, fields, status, reason) in cases {
            let mut browser = Http2TestClient::new(&stage);
            let id = connect(&mut browser, protocol, "/echo", fields);
            let response = browser.response(id).await;
            let body = String::from_utf8_lossy(&response.body);
            assert!(response.status == status && body.contains(reason), "{protocol} {fields:?}: {body}");
            if status == 426 {
                assert!(response.headers.contains(&(b"sec-websocket-version".to_vec(), b"13".to_vec())));
            }
        }
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.request_with_headers(b"CONNECT", b"a:1", &[], false);
        assert_eq!(browser.response(id).await.status, 501);
        assert_eq!(seen.borrow().request_heads.len(), 0, "no endpoint was asked");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_with_a_body_is_refused_unless_the_body_is_empty() {
    run_local(async {
        let (stage, _) = stage(H1);
        for (length, found) in [("5", &b"unsupported"[..]), ("0", b"echoed")] {
            let fields = [
                (":method", "CONNECT"),
                (":protocol", "websocket"),
                (":scheme", "http"),
                (":path", "/echo"),
                (":authority", "a"),
                ("sec-websocket-version", "13"),
                ("content-length", length),
            ];
            let literal = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
            let lines = fields.iter().map(|(name, value)| [vec![0], literal(name), literal(value)].concat());
            let block = lines.collect::<Vec<_>>().concat();
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            write_frame(FrameKind::Settings, 0, 0, &[], &mut bytes);
            write_frame(FrameKind::Headers, FLAG_END_HEADERS, 1, &block, &mut bytes);
            write_frame(FrameKind::Data, 0, 1, b"echoed", &mut bytes);
            let mut stream = stage.client().stream;
            stream.write_all(&bytes).await.unwrap();
            let mut received = Vec::new();
            while !received.windows(found.len()).any(|part| part == found) {
                assert!(stream.read_buf(&mut received).await.unwrap() > 0, "{length}: {received:?}");
            }
        }
    })
    .await;
}
