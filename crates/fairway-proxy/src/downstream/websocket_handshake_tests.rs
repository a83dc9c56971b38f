//! How a WebSocket is asked for and agreed on, or refused, in each of the four pairings of versions.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::Duration;

use fairway_connection::websocket::accept;
use fairway_http2::frame::{END_HEADERS, Kind, write_frame};
use fairway_model::{Deny, FieldMatch, Guard, Match, Phases, TextMatch};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use super::http2_tests::{Browser, comes_to_rest};
use super::websocket_tests::{
    Asker, Fields, H1, H2, KEY, PAIRINGS, SHORT, Shared, connect, field, http1_endpoint, stage, stage_with,
};
use crate::testing::{Meeting, Stage, on_stage};

#[tokio::test(start_paused = true)]
async fn each_side_has_the_handshake_of_its_version() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            for _ in 0..2 {
                let mut asker = Asker::ask(&stage, client, "/echo?a=b", b"").await;
                let (status, answer) = asker.answer().await;
                let what = format!("{client:?} {endpoint:?}: {answer}");
                assert_eq!(field(&answer, "sec-websocket-protocol").as_deref(), Some("chat"), "{what}");
                assert_eq!(field(&answer, "content-length"), None, "{what}");
                let proof = field(&answer, "sec-websocket-accept");
                match client {
                    H1 => assert_eq!((status, proof), (101, Some(accept(KEY.as_bytes()))), "{what}"),
                    H2 => assert_eq!((status, proof), (200, None), "{what}"),
                }
                assert_eq!(field(&answer, "upgrade").is_some(), client == H1, "{what}");
            }
            let heads = seen.borrow().heads.clone();
            let key = |at: usize| field(&heads[at], "sec-websocket-key");
            assert_eq!(field(&heads[0], "sec-websocket-version").as_deref(), Some("13"));
            assert_eq!(field(&heads[0], "sec-websocket-protocol").as_deref(), Some("chat"));
            match endpoint {
                H1 => {
                    assert!(heads[0].starts_with("GET /echo?a=b HTTP/1.1\r\n"), "{}", heads[0]);
                    assert_eq!(field(&heads[0], "upgrade").as_deref(), Some("websocket"));
                    assert_eq!(field(&heads[0], "connection").as_deref(), Some("upgrade"));
                    assert_eq!(key(0).unwrap().len(), 24, "16 bytes");
                    assert_eq!(key(0) == key(1), client == H1, "a key of ours is used once");
                }
                H2 => {
                    assert!(heads[0].starts_with("CONNECT /echo?a=b websocket\n"), "{}", heads[0]);
                    assert_eq!((key(0), field(&heads[0], "host").as_deref()), (None, Some("a")));
                    assert_eq!(field(&heads[0], "upgrade"), None);
                }
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_an_answer_like_any_other() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = Asker::ask(&stage, client, "/no", b"early").await;
            assert_eq!(asker.answer().await.0, 403, "{client:?} {endpoint:?}");
            assert_eq!(asker.bytes(4).await, b"nope");
            drop(asker);
            comes_to_rest(&stage).await;
            assert_eq!(seen.borrow().taken, 0, "what came too early went nowhere");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_upgrades_takes_those_of_both_versions() {
    on_stage(async {
        let header = FieldMatch { name: "upgrade".into(), value: TextMatch::Regex("websocket".into()) };
        let when = vec![Match { headers: vec![header], ..Match::default() }];
        let seen = Shared::default();
        let shared = Shared::clone(&seen);
        let stage =
            Stage::filtered(1, vec![Phases::from(Guard::Deny(Deny { status: 403, when }))], move |_| {
                let seen = Shared::clone(&shared);
                Meeting::with(|stream| http1_endpoint(stream, seen))
            });
        for client in [H1, H2] {
            let mut asker = Asker::ask(&stage, client, "/echo", b"").await;
            assert_eq!(asker.answer().await.0, 403, "{client:?}");
        }
        assert_eq!(seen.borrow().heads.len(), 0, "no endpoint was asked");
        let mut browser = Browser::new(&stage);
        let id = browser.ask_with(b"GET", b"/plain", &[], true);
        assert_eq!(browser.answered(id).await.status, 200);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_of_http2_is_not_told_that_a_page_is_a_websocket() {
    for (path, reason) in [("/plain", "upstream_no_websocket"), ("/wrong", "upstream_malformed")] {
        on_stage(async {
            let (stage, _) = stage(H1);
            let mut asker = Asker::ask(&stage, H2, path, b"early").await;
            assert_eq!(asker.answer().await.0, 502, "{path}");
            let body = String::from_utf8(asker.rest().await.0).unwrap();
            assert!(body.contains(reason), "{body}");
            drop(asker);
            comes_to_rest(&stage).await;
            // A client of HTTP/1 sees for itself.
            let mut asker = Asker::ask(&stage, H1, path, b"").await;
            assert_eq!(asker.answer().await.0, if path == "/plain" { 200 } else { 101 });
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_of_http2_that_does_not_offer_it_is_not_asked() {
    for client in [H1, H2] {
        on_stage(async {
            let (stage, seen) = stage_with(H2, false, Duration::ZERO);
            for round in 1..3 {
                let mut asker = Asker::ask(&stage, client, "/echo", b"").await;
                assert_eq!(asker.answer().await.0, 502, "{client:?}");
                let reason = "fairway_faults_total{reason=\"upstream_no_websocket\"}";
                assert_eq!(stage.value(reason), round, "{client:?}");
            }
            assert_eq!(seen.borrow().heads.len(), 0, "it got no request");
            assert_eq!(
                stage.connects().len(),
                1,
                "its connection is as good as before, and nothing is tried again"
            );
            let mut browser = Browser::new(&stage);
            let id = browser.ask_with(b"GET", b"/page", &[], true);
            assert_eq!(browser.answered(id).await.body, b"page");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_endpoint_offers_is_waited_for() {
    for client in [H1, H2] {
        on_stage(async {
            let late = Duration::from_secs(2);
            let (stage, _) = stage_with(H2, true, late);
            let began = Instant::now();
            let mut asker = Asker::ask(&stage, client, "/echo", b"early").await;
            asker.answer().await;
            assert!(began.elapsed() >= late);
            assert_eq!(asker.bytes(5).await, b"early");
            // Never is too late, and a client that leaves does not wait.
            let (stage, _) = stage_with(H2, true, Duration::from_secs(5000));
            let mut asker = Asker::ask(&stage, client, "/echo", b"").await;
            assert_eq!(asker.answer().await.0, 504, "{client:?}");
            let asker = Asker::ask(&stage, client, "/echo", b"").await;
            sleep(SHORT).await;
            asker.leave().await;
            sleep(SHORT).await;
            assert_eq!(stage.worker.exchanges(), 0);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_handshake_is_refused() {
    on_stage(async {
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
            let mut browser = Browser::new(&stage);
            let id = connect(&mut browser, protocol, "/echo", fields);
            let answer = browser.answered(id).await;
            let body = String::from_utf8_lossy(&answer.body);
            assert!(answer.status == status && body.contains(reason), "{protocol} {fields:?}: {body}");
            if status == 426 {
                assert!(answer.fields.contains(&(b"sec-websocket-version".to_vec(), b"13".to_vec())));
            }
        }
        let mut browser = Browser::new(&stage);
        let id = browser.ask_with(b"CONNECT", b"a:1", &[], false);
        assert_eq!(browser.answered(id).await.status, 501);
        assert_eq!(seen.borrow().heads.len(), 0, "no endpoint was asked");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_with_a_body_is_refused_and_one_with_an_empty_body_is_not() {
    on_stage(async {
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
            write_frame(Kind::Settings, 0, 0, &[], &mut bytes);
            write_frame(Kind::Headers, END_HEADERS, 1, &block, &mut bytes);
            write_frame(Kind::Data, 0, 1, b"echoed", &mut bytes);
            let mut stream = stage.client().stream;
            stream.write_all(&bytes).await.unwrap();
            let mut came = Vec::new();
            while !came.windows(found.len()).any(|part| part == found) {
                assert!(stream.read_buf(&mut came).await.unwrap() > 0, "{length}: {came:?}");
            }
        }
    })
    .await;
}
