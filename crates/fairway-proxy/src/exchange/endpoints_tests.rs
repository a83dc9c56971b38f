//! HTTP/2 endpoints with HTTP/1 clients, in virtual time. The endpoint uses the codec's server side.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use fairway_http::Head;
use fairway_http2::{Code, Config, Event, Server};
use fairway_model::{BackendProtocol, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{Instant, sleep};

use crate::testing::{GET_REQUEST, ScriptedConnect, TestWorker, UnacknowledgedFor, endpoint, run_local};

/// What an endpoint received.
#[derive(Default)]
struct EndpointLog {
    /// Method, path and `te` of each request.
    requests: Vec<(String, String, Option<String>)>,
    bodies: Vec<u8>,
    resets: Vec<Code>,
    most_at_once: usize,
}

/// What an endpoint does with a request, depending on its path.
#[derive(Clone, Copy)]
enum Behaviour {
    /// 200, the path as body, and trailers.
    Answer,
    /// It resets the stream with this code.
    Reset(Code),
    /// It sends GOAWAY without having processed it.
    GoAway,
    /// It never responds.
    Nothing,
    /// It closes the connection.
    Close,
}

type SharedLog = Rc<RefCell<EndpointLog>>;

/// Serves a connection.
async fn serve(mut stream: DuplexStream, log: SharedLog, does: impl Fn(&str) -> Behaviour) {
    let mut codec = Server::new(Config::default(), 0);
    let (mut head, mut input) = (Head::new(), Vec::new());
    let mut ready: Vec<(u32, Behaviour, Vec<u8>)> = Vec::new();
    loop {
        let mut used = 0;
        loop {
            let (count, event) = codec.receive(0, &input[used..], &mut head);
            used += count;
            match event {
                Event::NeedMore | Event::Wait(_) => break,
                Event::Head { stream, end, .. } => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let path = text(head.target());
                    let (method, te) = (text(head.method_bytes()), head.named(b"te").map(text));
                    let mut log = log.borrow_mut();
                    log.requests.push((method, path.clone(), te));
                    log.most_at_once = log.most_at_once.max(codec.open_streams());
                    if end {
                        ready.push((stream, does(&path), path.into_bytes()));
                    } else {
                        codec.queue_for_sending(0, stream);
                        codec.unqueue(stream);
                        ready.push((stream, Behaviour::Nothing, path.into_bytes()));
                    }
                }
                Event::Data { stream, bytes, end } => {
                    log.borrow_mut().bodies.extend_from_slice(bytes);
                    codec.consume(stream, bytes.len() as u32);
                    if end && let Some(one) = ready.iter_mut().find(|entry| entry.0 == stream) {
                        one.1 = does(std::str::from_utf8(&one.2).unwrap());
                    }
                }
                Event::Reset { stream, code, .. } => {
                    log.borrow_mut().resets.push(code);
                    ready.retain(|entry| entry.0 != stream);
                    codec.release(stream);
                }
                Event::Closed(fault) => panic!("the proxy broke a rule: {fault:?}"),
                _ => {}
            }
        }
        input.drain(..used);
        let mut closes = false;
        ready.retain(|(id, does, path)| {
            match does {
                Behaviour::Nothing => return true,
                Behaviour::Answer => {
                    let mut response = Head::new();
                    response.start_response(200);
                    codec.send_head(*id, &response, false);
                    codec.send_data(*id, path, false);
                    codec.send_trailers(*id, [(&b"grpc-status"[..], &b"0"[..])].into_iter());
                }
                Behaviour::Reset(code) => codec.reset(*id, *code),
                Behaviour::GoAway => {
                    // Like a server that ended before it processed the stream.
                    closes = true;
                }
                Behaviour::Close => closes = true,
            }
            codec.release(*id);
            false
        });
        let mut pending = codec.pending().to_vec();
        if closes && does("/goaway").is_goaway() {
            pending.extend_from_slice(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
        if stream.write_all(&pending).await.is_err() {
            return;
        }
        codec.mark_written(pending.len());
        if closes {
            return;
        }
        if stream.read_buf(&mut input).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

impl Behaviour {
    fn is_goaway(self) -> bool {
        matches!(self, Self::GoAway)
    }
}

/// A stage whose endpoints behave like this, by connection number and path.
fn stage(endpoints: usize, does: impl Fn(usize, &str) -> Behaviour + 'static) -> (TestWorker, SharedLog) {
    let log = SharedLog::default();
    let (shared, does, count) = (Rc::clone(&log), Rc::new(does), Rc::new(RefCell::new(0)));
    let stage = TestWorker::with_protocol(BackendProtocol::H2c, endpoints, move |_| {
        let (seen, does) = (Rc::clone(&shared), Rc::clone(&does));
        *count.borrow_mut() += 1;
        let number = *count.borrow();
        ScriptedConnect::served_by(move |stream| serve(stream, seen, move |path| does(number, path)))
    });
    (stage, log)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[tokio::test(start_paused = true)]
async fn requests_and_bodies_and_trailers_pass() {
    run_local(async {
        let (stage, seen) = stage(1, |_, _| Behaviour::Answer);
        let mut client = stage.client();
        client.send(get("/one?q=1")).await;
        let text = client.response_text().await;
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        assert!(text.contains("Transfer-Encoding: chunked") && text.contains("/one?q=1"), "{text}");
        assert!(text.to_lowercase().ends_with("grpc-status: 0\r\n\r\n"), "{text}");
        client
            .send("POST /two HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\nContent-Length: 5\r\n\r\nhello")
            .await;
        assert!(client.response_text().await.contains("/two"));
        let log = seen.borrow();
        assert_eq!(log.bodies, b"hello");
        let te = |at: usize| log.requests[at].2.as_deref();
        assert_eq!((te(0), te(1)), (None, Some("trailers")), "only gRPC is told that trailers are welcome");
        assert_eq!(stage.connects().len(), 1, "one connection carries both");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn many_concurrent_requests_share_connections_of_a_hundred_streams() {
    run_local(async {
        let (stage, seen) = stage(1, |_, _| Behaviour::Answer);
        let mut clients = JoinSet::new();
        for at in 0..250 {
            let mut client = stage.client();
            clients.spawn_local(async move {
                client.send(get(&format!("/{at}"))).await;
                assert!(client.response_text().await.contains(&format!("/{at}")));
            });
        }
        while let Some(one) = clients.join_next().await {
            one.unwrap();
        }
        assert_eq!(seen.borrow().requests.len(), 250, "each was sent once");
        assert!(seen.borrow().most_at_once <= 100);
        let connects = stage.connects().len();
        assert!((1..=3).contains(&connects), "{connects} connections");
    })
    .await;
}

/// The statuses of `count` concurrent requests, and how long each took.
async fn send_concurrently(stage: &TestWorker, count: u32) -> Vec<(u16, Duration)> {
    let requested: Vec<_> = (0..count)
        .map(|_| {
            let (mut client, began) = (stage.client(), Instant::now());
            spawn_local(async move { (client.request(GET_REQUEST).await.unwrap().status, began.elapsed()) })
        })
        .collect();
    let mut responses = Vec::new();
    for response in requested {
        responses.push(response.await.unwrap());
    }
    responses
}

#[tokio::test(start_paused = true)]
async fn all_that_wait_for_a_silent_endpoint_go_to_another_one_when_its_connect_is_late() {
    run_local(async {
        let log = SharedLog::default();
        let script = {
            let log = Rc::clone(&log);
            move |to: SocketAddr| {
                let log = Rc::clone(&log);
                match to == endpoint(0) {
                    true => ScriptedConnect::Silence,
                    false => {
                        ScriptedConnect::served_by(move |stream| serve(stream, log, |_| Behaviour::Answer))
                    }
                }
            }
        };
        let stage = TestWorker::with_protocol(BackendProtocol::H2c, 2, script);
        for (status, took) in send_concurrently(&stage, 150).await {
            assert_eq!(status, 200);
            assert!(took <= Duration::from_millis(270), "{took:?}");
        }
        assert_eq!(log.borrow().requests.len(), 150, "each was sent once");
        sleep(Duration::from_secs(2)).await;
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_request_ends_while_it_waits_for_the_connect_of_another() {
    run_local(async {
        let limit = Duration::from_millis(300);
        let mut policy = Policy::default();
        policy.timeouts.request = Some(limit);
        let stage = TestWorker::with_protocol_and_policy(policy, BackendProtocol::H2c, 1, |_| {
            ScriptedConnect::Silence
        });
        for (status, took) in send_concurrently(&stage, 20).await {
            assert_eq!(status, 504);
            assert!(took >= limit && took <= limit + Duration::from_millis(20), "{took:?}");
        }
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"request_timeout\"}"), 20);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn all_that_wait_for_the_only_endpoint_have_the_time_of_its_connects_together() {
    run_local(async {
        let stage = TestWorker::with_protocol(BackendProtocol::H2c, 1, |_| ScriptedConnect::Silence);
        for (status, took) in send_concurrently(&stage, 20).await {
            assert_eq!(status, 504);
            assert!(took <= Duration::from_millis(5100), "{took:?}");
        }
        sleep(Duration::from_secs(2)).await;
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn data_just_sent_by_another_exchange_is_no_silence_of_the_endpoint() {
    run_local(async {
        let (owed, seen) = (UnacknowledgedFor::default(), SharedLog::default());
        let script = {
            let (owed, seen) = (Rc::clone(&owed), Rc::clone(&seen));
            move |_| {
                let log = Rc::clone(&seen);
                let does = |path: &str| if path == "/slow" { Behaviour::Nothing } else { Behaviour::Answer };
                ScriptedConnect::unacknowledging(&owed, move |stream| serve(stream, log, does))
            }
        };
        let stage = TestWorker::with_protocol(BackendProtocol::H2c, 1, script);
        let (mut slow, mut fast) = (stage.client(), stage.client());
        slow.send(get("/slow")).await;
        sleep(Duration::from_millis(240)).await;
        owed.set(Some(Duration::from_millis(300)));
        fast.send(get("/fast")).await;
        assert!(fast.response_text().await.starts_with("HTTP/1.1 200"));
        sleep(Duration::from_millis(100)).await;
        owed.set(None);
        sleep(Duration::from_millis(500)).await;
        assert_eq!(seen.borrow().requests.len(), 2, "none was sent again");
        assert!(stage.has_metric_line("fairway_upstream_unacknowledged_total 0"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_shared_connection_that_went_dead_is_given_up_however_often_it_is_written_to() {
    run_local(async {
        let gone = Rc::new(Cell::new(false));
        let script = {
            let gone = Rc::clone(&gone);
            move |to: SocketAddr| {
                let serving = |stream| serve(stream, SharedLog::default(), |_| Behaviour::Answer);
                match to == endpoint(0) {
                    true => ScriptedConnect::vanishing(&gone, serving),
                    false => ScriptedConnect::served_by(serving),
                }
            }
        };
        let stage = TestWorker::with_protocol(BackendProtocol::H2c, 2, script);
        assert!(send_concurrently(&stage, 2).await.iter().all(|(status, _)| *status == 200));
        gone.set(true);
        let mut calls = JoinSet::new();
        for at in 0..10 {
            let mut client = stage.client();
            calls.spawn_local(async move {
                sleep(Duration::from_millis(60 * at)).await;
                let began = Instant::now();
                assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
                began.elapsed()
            });
        }
        while let Some(took) = calls.join_next().await {
            let took = took.unwrap();
            assert!(took <= Duration::from_millis(650), "{took:?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_refused_by_an_endpoint_goes_to_another_one_even_a_post() {
    for refusal in [Behaviour::Reset(Code::Refused), Behaviour::GoAway] {
        run_local(async {
            let (stage, seen) =
                stage(2, move |number, _| if number == 1 { refusal } else { Behaviour::Answer });
            let mut client = stage.client();
            client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await;
            assert!(client.response_text().await.starts_with("HTTP/1.1 200"));
            assert_eq!(seen.borrow().requests.len(), 2);
            assert_eq!(seen.borrow().bodies, b"hihi");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_post_that_an_endpoint_may_have_acted_on_is_not_sent_again() {
    for end in [Behaviour::Close, Behaviour::Reset(Code::Internal)] {
        run_local(async {
            let (stage, seen) = stage(2, move |_, _| end);
            let mut client = stage.client();
            let response = client.request("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await;
            assert_eq!(response.unwrap().status, 502);
            assert_eq!(seen.borrow().requests.len(), 1);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_post_like_the_one_before_it_on_its_connection_is_not_sent_again() {
    run_local(async {
        let requested = Rc::new(Cell::new(0));
        let (stage, seen) = stage(2, move |_, path| {
            if path == "/goaway" {
                return Behaviour::Close;
            }
            requested.set(requested.get() + 1);
            if requested.get() % 8 == 0 { Behaviour::Close } else { Behaviour::Answer }
        });
        // The later requests on a connection have the same size, and reuse the same place.
        for number in 1..=16 {
            let mut client = stage.client();
            let response =
                client.request("POST /same HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await;
            let expected = if number % 8 == 0 { 502 } else { 200 };
            assert_eq!((number, response.unwrap().status), (number, expected));
            assert_eq!(seen.borrow().requests.len(), number);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_get_is_tried_elsewhere_when_the_connection_breaks() {
    run_local(async {
        let (stage, seen) =
            stage(2, |number, _| if number == 1 { Behaviour::Close } else { Behaviour::Answer });
        assert!({
            let mut client = stage.client();
            client.send(GET_REQUEST).await;
            client.response_text().await.starts_with("HTTP/1.1 200")
        });
        assert_eq!(seen.borrow().requests.len(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_cancels_its_stream_and_no_other() {
    run_local(async {
        let (stage, seen) =
            stage(1, |_, path| if path == "/never" { Behaviour::Nothing } else { Behaviour::Answer });
        let mut leaving = stage.client();
        leaving.send(get("/never")).await;
        sleep(Duration::from_millis(10)).await;
        assert_eq!(stage.worker.exchanges(), 1);
        drop(leaving);
        sleep(Duration::from_millis(10)).await;
        assert_eq!(seen.borrow().resets, [Code::Cancel]);
        stage.check_idle().unwrap();
        let mut client = stage.client();
        client.send(get("/again")).await;
        assert!(client.response_text().await.contains("/again"));
        assert_eq!(stage.connects().len(), 1, "the connection goes on");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_http2_endpoint_times_out_as_with_http1() {
    run_local(async {
        let (stage, seen) = stage(1, |_, _| Behaviour::Nothing);
        let response = spawn_local({
            let mut client = stage.client();
            async move { client.request(GET_REQUEST).await.unwrap().status }
        });
        assert_eq!(response.await.unwrap(), 504);
        assert!(seen.borrow().resets.contains(&Code::Cancel));
    })
    .await;
}
