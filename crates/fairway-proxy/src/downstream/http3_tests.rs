//! Connections of HTTP/3 clients in virtual time: a client over QUIC in memory asks, scripted endpoints of HTTP/1 answer.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{Policy, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep, timeout};

use super::http2_tests::{comes_to_rest, echoing};
use super::http3_browser::{Browser, QUIC_IDLE, Windows};
use super::http3_client::{Answer, head};
use super::websocket_tests::{self, H1};
use crate::testing::{Meeting, OK, Stage, on_stage, read_head};
use crate::worker::Phase;

/// Error codes (RFC 9114 §8.1).
pub(super) const NO_ERROR: u64 = 0x100;
const INTERNAL_ERROR: u64 = 0x102;
pub(super) const EXCESSIVE_LOAD: u64 = 0x107;
const REQUEST_REJECTED: u64 = 0x10b;

pub(super) const A_MOMENT: Duration = Duration::from_millis(100);

/// How often something happened on connections.
pub(super) fn events(stage: &Stage, event: &str, reason: &str) -> u64 {
    stage.value(&format!("fairway_http3_events_total{{event=\"{event}\",reason=\"{reason}\"}}"))
}

/// Answers one request with its body and one more trailer, as it comes.
async fn returning(mut stream: DuplexStream) {
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
    let mut left = length.map_or(usize::MAX, |length| length.parse().unwrap());
    let mut piece = vec![0; 16 * 1024];
    let mut last = Vec::new();
    while left > 0 && !last.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut piece).await.unwrap();
        assert!(count > 0, "the request is whole");
        left -= count;
        // Chunks and trailers go back as they come.
        stream.write_all(&piece[..count]).await.unwrap();
        if length.is_none() {
            last.extend_from_slice(&piece[..count]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_requests_at_once_get_their_own_responses_as_they_come() {
    on_stage(async {
        let stage = Stage::new(2, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        let began = Instant::now();
        let ids: Vec<u64> = (0..100).map(|at| browser.get(&format!("/{}", 1000 - 7 * at))).collect();
        browser.go_on_for(A_MOMENT).await;
        assert_eq!(stage.value("fairway_http3_streams_open"), 100);
        assert_eq!(stage.value("fairway_http3_connections_open"), 1);
        browser.until("all answers", |browser| browser.answers.values().all(Answer::is_over)).await;
        assert!(began.elapsed() < Duration::from_millis(1200), "they wait side by side");
        browser.go_on_for(A_MOMENT).await;
        assert_eq!(stage.value("fairway_http3_streams_open"), 0);
        for (at, id) in ids.into_iter().enumerate() {
            let answer = &browser.answers[&id];
            assert_eq!((answer.status, &answer.body[..]), (200, format!("/{}", 1000 - 7 * at).as_bytes()));
        }
        let id = browser.get("/again");
        assert_eq!(browser.answered(id).await.body, b"/again", "a slot is used again");
        browser.close();
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn bodies_pass_in_both_directions_with_and_without_a_length() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(returning));
        let mut browser = Browser::new(&stage);
        let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        for length in [Some(body.len().to_string()), None] {
            let fields: Vec<_> = length.iter().map(|length| ("content-length", &**length)).collect();
            let id = browser.post("/", &fields);
            let (first, rest) = body.split_at(10);
            browser.send(id, first, false);
            browser.go_on_for(A_MOMENT).await;
            browser.send(id, rest, length.is_some());
            if length.is_none() {
                browser.send_trailers(id, &[("checksum", "17")]);
            }
            let answer = browser.answered(id).await;
            assert_eq!((answer.status, answer.reset), (200, None));
            assert!(answer.body == body, "{} bytes of {}", answer.body.len(), body.len());
            let expected = length.is_none().then(|| ("checksum".to_owned(), "17".to_owned()));
            assert_eq!(answer.trailers, Vec::from_iter(expected));
        }
        browser.close();
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn trailers_and_interim_responses_pass() {
    async fn with_trailers(mut stream: DuplexStream) {
        assert!(read_head(&mut stream).await);
        let answer = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Checksum\r\n\r\n\
            3\r\nabc\r\n0\r\nChecksum: 17\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    }
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(with_trailers));
        let mut browser = Browser::new(&stage);
        let id = browser.get("/");
        let answer = browser.answered(id).await;
        assert_eq!((answer.status, &answer.interim[..], &answer.body[..]), (200, &[103][..], &b"abc"[..]));
        assert_eq!(answer.trailers, [("checksum".to_owned(), "17".to_owned())]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_cancelled_ends_its_exchange_and_no_other() {
    on_stage(async {
        let stage = Stage::new(2, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        let (first, second) = (browser.get("/5000"), browser.get("/6000"));
        browser.go_on_for(A_MOMENT).await;
        assert_eq!(stage.worker.exchanges(), 2);
        browser.cancel(first);
        browser.go_on_for(A_MOMENT).await;
        assert_eq!(stage.worker.exchanges(), 1, "it ended at once");
        assert_eq!(stage.value("fairway_http3_streams_open"), 1);
        assert_eq!(events(&stage, "reset_received", "request_cancelled"), 1);
        assert_eq!(browser.answered(second).await.body, b"/6000");
        assert_eq!(browser.answers[&first].status, 0);
        browser.close();
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closes_takes_its_exchanges_with_it() {
    on_stage(async {
        let stage = Stage::new(2, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        (0..20).for_each(|_| _ = browser.get("/5000"));
        browser.go_on_for(A_MOMENT).await;
        assert_eq!(stage.worker.exchanges(), 20);
        browser.close();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(stage.worker.exchanges(), 0);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_vanishes_is_given_up_when_it_was_silent_for_long() {
    on_stage(async {
        let patient = |policy: &mut Policy, settings: &mut Settings| {
            policy.timeouts.read = Duration::from_secs(3600);
            settings.downstream.idle_timeout = Duration::from_secs(3600);
        };
        let stage = Stage::new(2, patient, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        (0..20).for_each(|_| _ = browser.get("/5000000"));
        browser.go_on_for(A_MOMENT).await;
        assert_eq!(stage.worker.exchanges(), 20);
        browser.cut();
        sleep(QUIC_IDLE - Duration::from_secs(1)).await;
        assert_eq!(stage.worker.exchanges(), 20);
        sleep(Duration::from_secs(2)).await;
        comes_to_rest(&stage).await;
    })
    .await;
}

/// Both ends of QUIC would end the connection long before.
#[tokio::test(start_paused = true)]
async fn a_response_that_takes_longer_than_the_idle_timeout_arrives() {
    on_stage(async {
        let patient = |policy: &mut Policy, settings: &mut Settings| {
            policy.timeouts.read = Duration::from_secs(3600);
            settings.downstream.idle_timeout = QUIC_IDLE;
        };
        let stage = Stage::new(1, patient, |_| {
            Meeting::with(|mut stream: DuplexStream| async move {
                assert!(read_head(&mut stream).await);
                sleep(5 * QUIC_IDLE).await;
                stream.write_all(OK).await.unwrap();
            })
        });
        let mut browser = Browser::new(&stage);
        let id = browser.get("/");
        browser.go_on_for(5 * QUIC_IDLE).await;
        assert_eq!(browser.answered(id).await.body, b"ok");
        browser.close();
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_stops_the_endpoint_and_is_given_up() {
    on_stage(async {
        let written = Rc::new(Cell::new(0));
        let counter = Rc::clone(&written);
        let stage = Stage::new(
            1,
            |_, _| {},
            move |_| {
                let counter = Rc::clone(&counter);
                Meeting::with(move |mut stream| async move {
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
        let mut browser = Browser::with(&stage, Windows { client: window, ..Windows::default() });
        browser.consumes = false;
        let id = browser.get("/");
        let began = Instant::now();
        browser.go_on_for(Duration::from_secs(1)).await;
        // What is taken at once, of which the client has a window, and what the pipe to the endpoint holds.
        let taken = written.get();
        assert!((window as usize..2 * 64 * 1024 + 1000).contains(&taken), "{taken} bytes were taken");
        assert_eq!(browser.reset_unread(id).await, INTERNAL_ERROR);
        assert!(began.elapsed() >= Duration::from_secs(30), "after {:?}", began.elapsed());
        browser.close();
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_takes_nothing_stops_the_client() {
    on_stage(async {
        let patient = |policy: &mut Policy, _: &mut Settings| {
            policy.timeouts.send = Duration::from_secs(60);
            policy.timeouts.read = Duration::from_secs(60);
        };
        let stage = Stage::new(1, patient, |_| {
            Meeting::with(|mut stream: DuplexStream| async move {
                assert!(read_head(&mut stream).await);
                sleep(Duration::from_secs(20)).await;
                let mut left = 2_000_000;
                let mut piece = vec![0; 16 * 1024];
                while left > 0 {
                    left -= stream.read(&mut piece).await.unwrap();
                }
                stream.write_all(OK).await.unwrap();
            })
        });
        let mut browser = Browser::with(&stage, Windows { server: 100_000, ..Windows::default() });
        let id = browser.post("/", &[("content-length", "2000000")]);
        browser.send(id, &vec![b'x'; 2_000_000], true);
        browser.go_on_for(Duration::from_secs(10)).await;
        // A window of QUIC, what the pipe to the endpoint holds, and what an exchange has in hand.
        let unsent = browser.answers[&id].unsent();
        assert!(unsent > 2_000_000 - 100_000 - 64 * 1024 - 64 * 1024, "{unsent} bytes wait at the client");
        assert_eq!(browser.answered(id).await.body, b"ok");
        browser.close();
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_response_before_the_request_is_whole_stops_the_rest() {
    on_stage(async {
        let stage = Stage::new(
            1,
            |_, _| {},
            |_| {
                Meeting::with(|mut stream: DuplexStream| async move {
                    assert!(read_head(&mut stream).await);
                    stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").await.unwrap();
                    sleep(Duration::from_secs(1)).await;
                })
            },
        );
        let mut browser = Browser::new(&stage);
        let id = browser.post("/", &[("content-length", "1000000")]);
        browser.send(id, b"some", false);
        let answer = browser.answered(id).await;
        assert_eq!((answer.status, &answer.body[..], answer.reset), (403, &b"no"[..], None));
        browser.until("STOP_SENDING", |browser| browser.answers[&id].stopped == Some(NO_ERROR)).await;
        let id = browser.get("/");
        assert_eq!(browser.answered(id).await.status, 403, "the connection goes on");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_response_that_breaks_off_is_a_reset() {
    async fn breaking(mut stream: DuplexStream) {
        assert!(read_head(&mut stream).await);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome").await.unwrap();
    }
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(breaking));
        let mut browser = Browser::new(&stage);
        let id = browser.get("/");
        let answer = browser.answered(id).await;
        assert_eq!((answer.is_whole, answer.reset), (false, Some(INTERNAL_ERROR)));
        let id = browser.get("/");
        browser.answered(id).await;
        assert!(browser.lost.is_none(), "the connection goes on");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_drains_ends_the_connection_behind_the_last_response() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        let id = browser.get("/30000");
        browser.go_on_for(A_MOMENT).await;
        stage.worker.enter(Phase::Draining);
        browser.until("GOAWAY", |browser| !browser.goes_away.is_empty()).await;
        let late = browser.get("/0");
        assert_eq!(browser.answered(late).await.body, b"/0", "the first GOAWAY still takes requests");
        browser.until("the last GOAWAY", |browser| browser.goes_away.len() == 2).await;
        // Requests below this one are served (RFC 9114 §5.2).
        assert_eq!(browser.goes_away[1], 4 * (late + 1));
        assert_eq!(browser.answered(id).await.body, b"/30000");
        assert_eq!(browser.closed().await, NO_ERROR);
        for reason in ["announced", "final"] {
            assert_eq!(events(&stage, "goaway_sent", reason), 1);
        }
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_open_when_the_time_of_a_drain_is_over_is_reset() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::Silence);
        let mut browser = Browser::new(&stage);
        _ = [browser.get("/1"), browser.get("/2")];
        browser.go_on_for(A_MOMENT).await;
        stage.worker.enter(Phase::Draining);
        browser.go_on_for(A_MOMENT).await;
        assert_eq!(stage.worker.exchanges(), 2);
        stage.worker.enter(Phase::Cutting);
        assert_eq!(browser.closed().await, NO_ERROR);
        assert_eq!(stage.value("fairway_faults_total{reason=\"drained\"}"), 2);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_comes_while_a_worker_leaves_is_served_before_it_is_told_to_go() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        stage.worker.enter(Phase::Leaving);
        let mut browser = Browser::new(&stage);
        browser.go_on_for(Duration::from_secs(2)).await;
        assert!(browser.goes_away.is_empty());
        let id = browser.get("/0");
        assert_eq!(browser.answered(id).await.status, 200);
        assert_eq!(browser.closed().await, NO_ERROR);
        assert_eq!(browser.goes_away.len(), 2);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_takes_as_many_requests_as_it_may() {
    on_stage(async {
        let stage = Stage::new(
            1,
            |_, settings| settings.downstream.requests_per_connection = 3,
            |_| Meeting::with(echoing),
        );
        let mut browser = Browser::new(&stage);
        for _ in 0..3 {
            let id = browser.get("/0");
            assert_eq!(browser.answered(id).await.status, 200);
        }
        assert_eq!(browser.closed().await, NO_ERROR);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_requests_ends_after_the_idle_time() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        let idle = stage.worker.adopted().settings().downstream.idle_timeout;
        for asks in [true, false] {
            let mut browser = Browser::new(&stage);
            if asks {
                let id = browser.get("/0");
                browser.answered(id).await;
            }
            let began = Instant::now();
            while browser.lost.is_none() {
                // Packets without a request keep no connection open.
                browser.quic.ping();
                browser.go_on_for(Duration::from_secs(1)).await;
            }
            assert_eq!(browser.closed().await, NO_ERROR);
            let took = began.elapsed();
            assert!(took >= idle && took < idle + Duration::from_secs(5), "{took:?}");
            assert_eq!(browser.goes_away.len(), 2, "it is told");
            comes_to_rest(&stage).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_head_without_end_is_given_up_with_the_time_for_a_head() {
    on_stage(async {
        let patience = Duration::from_secs(7);
        let stage = Stage::new(
            1,
            |_, settings| settings.downstream.head_timeout = patience,
            |_| Meeting::with(echoing),
        );
        let mut browser = Browser::new(&stage);
        let id = browser.get("/0");
        assert_eq!(browser.answered(id).await.status, 200);
        let began = Instant::now();
        // HEADERS of 50 bytes, of which three come.
        browser.send_raw(&[1, 50, 0, 0, 0xd1]);
        assert_eq!(browser.closed().await, EXCESSIVE_LOAD);
        let took = began.elapsed();
        assert!((patience..patience + Duration::from_secs(1)).contains(&took), "{took:?}");
        assert_eq!(events(&stage, "connection_fault", "head_timeout"), 1);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn heads_without_end_are_given_up_one_by_one_while_other_requests_are_served() {
    on_stage(async {
        let patience = Duration::from_secs(7);
        let stage = Stage::new(
            1,
            |_, settings| settings.downstream.head_timeout = patience,
            |_| Meeting::with(echoing),
        );
        let mut browser = Browser::new(&stage);
        let served = browser.get("/20000");
        browser.go_on_for(A_MOMENT).await;
        let mut late = Vec::new();
        for _ in 0..3 {
            // HEADERS of 50 bytes, of which three come.
            late.push((browser.send_raw(&[1, 50, 0, 0, 0xd1]), Instant::now()));
            browser.go_on_for(Duration::from_secs(2)).await;
        }
        for (id, began) in late {
            let answer = browser.answered(id).await;
            assert_eq!((answer.status, answer.reset), (0, Some(REQUEST_REJECTED)));
            assert!(answer.stopped == Some(REQUEST_REJECTED), "nothing more of it is read");
            let took = began.elapsed();
            assert!((patience..patience + Duration::from_secs(1)).contains(&took), "{took:?}");
        }
        assert_eq!(browser.answered(served).await.body, b"/20000");
        let id = browser.get("/0");
        assert_eq!(browser.answered(id).await.status, 200, "the connection goes on");
        assert_eq!(events(&stage, "stream_fault", "head_timeout"), 3);
        assert_eq!(events(&stage, "connection_fault", "head_timeout"), 0);
        browser.close();
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_head_over_the_limit_gets_431_and_the_connection_goes_on() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        let long = "x".repeat(60_000);
        let id = browser.ask(&head("GET", "/"), &[("long", &long)], true);
        assert_eq!(browser.answered(id).await.status, 431);
        let id = browser.get("/0");
        assert_eq!(browser.answered(id).await.status, 200);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_rule_closes_the_connection_with_its_code_and_ends_all_exchanges() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        browser.get("/5000");
        browser.go_on_for(A_MOMENT).await;
        // SETTINGS on the stream of a request: H3_FRAME_UNEXPECTED (RFC 9114 §7.2.4).
        browser.send_raw(&[4, 0]);
        assert_eq!(browser.closed().await, 0x105);
        assert_eq!(stage.value("fairway_faults_total{reason=\"client_gone\"}"), 1);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_websocket_begins_with_extended_connect_and_each_direction_ends_for_itself() {
    on_stage(async {
        let (stage, seen) = websocket_tests::stage(H1);
        let mut browser = Browser::new(&stage);
        let mut pseudo = head("CONNECT", "/chat").to_vec();
        pseudo.push((":protocol", "websocket"));
        let fields = [("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat")];
        let id = browser.ask(&pseudo, &fields, false);
        browser.until("a head", |browser| browser.answers[&id].status != 0).await;
        let answer = &browser.answers[&id];
        assert_eq!((answer.status, answer.is_whole), (200, false));
        let named = |name| answer.fields.iter().find(|(other, _)| other == name).map(|(_, value)| &**value);
        assert_eq!((named("sec-websocket-protocol"), named("sec-websocket-accept")), (Some("chat"), None));
        for piece in ["one", "two", "three"] {
            browser.send(id, piece.as_bytes(), false);
            browser.until("an echo", |browser| browser.answers[&id].body.ends_with(piece.as_bytes())).await;
        }
        browser.send(id, &[b'x'; 300_000], true);
        let answer = browser.answered(id).await;
        assert_eq!((answer.is_whole, answer.body.len()), (true, 11 + 300_000 + 3));
        assert!(answer.body.ends_with(b"xbye"), "the endpoint's last word came behind our end");
        assert_eq!(seen.borrow().ends, ["end"]);
        let head = seen.borrow().heads[0].to_ascii_lowercase();
        assert!(
            head.starts_with("get /chat http/1.1") && head.contains("\r\nupgrade: websocket\r\n"),
            "{head}"
        );
        browser.close();
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn connect_without_a_protocol_that_is_known_is_refused() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        let mut pseudo = head("CONNECT", "/chat").to_vec();
        pseudo.push((":protocol", "connect-udp"));
        let id = browser.ask(&pseudo, &[], true);
        assert_eq!(browser.answered(id).await.status, 501);
    })
    .await;
}

/// Wherever a connection is dropped, every count comes to rest.
#[tokio::test(start_paused = true)]
async fn a_connection_can_be_dropped_at_any_point() {
    on_stage(async {
        for step in 0..40 {
            let stage = Stage::new(2, |_, _| {}, |_| Meeting::with(echoing));
            let (mut browser, serving) = Browser::unserved(&stage, Windows::default());
            (0..4).for_each(|at| _ = browser.get(&format!("/{at}")));
            browser.pump();
            let polls = RefCell::new(0);
            let mut serving = Box::pin(serving);
            let some = poll_fn(|cx| {
                *polls.borrow_mut() += 1;
                if *polls.borrow() > step {
                    return std::task::Poll::Ready(());
                }
                browser.pump();
                serving.as_mut().poll(cx)
            });
            let _ = timeout(Duration::from_secs(1), some).await;
            drop(serving);
            drop(browser);
            comes_to_rest(&stage).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_gives_its_memory_back_and_goes_on() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        for _ in 0..3 {
            let ids: Vec<u64> = (0..50).map(|_| browser.get("/1")).collect();
            browser.until("all", |browser| ids.iter().all(|id| browser.answers[id].is_over())).await;
            assert!(ids.iter().all(|id| browser.answers[id].body == b"/1"));
            // Longer than memory is kept.
            browser.go_on_for(Duration::from_secs(5)).await;
        }
        browser.close();
        comes_to_rest(&stage).await;
    })
    .await;
}

/// Answers with the address of the client that it is told, each after as many milliseconds as the path says.
async fn telling(mut stream: DuplexStream) {
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
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{address}", address.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_moves_has_its_new_address_in_every_request_from_then_on() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(telling));
        let mut browser = Browser::new(&stage);
        let before = [browser.get("/0"), browser.get("/1000")];
        assert_eq!(browser.answered(before[0]).await.body, b"192.0.2.1");
        browser.move_to("198.51.100.7:7".parse().unwrap());
        // In the slot of a request that is over, in a new one, and then in that of the one that was under way.
        let [first, second] = [browser.get("/0"), browser.get("/0")];
        assert_eq!(browser.answered(first).await.body, b"198.51.100.7");
        assert_eq!(browser.answered(second).await.body, b"198.51.100.7");
        assert_eq!(browser.answered(before[1]).await.body, b"192.0.2.1", "it came from there");
        let ids: Vec<u64> = (0..4).map(|_| browser.get("/10")).collect();
        for id in ids {
            assert_eq!(browser.answered(id).await.body, b"198.51.100.7");
        }
        browser.close();
        comes_to_rest(&stage).await;
    })
    .await;
}
