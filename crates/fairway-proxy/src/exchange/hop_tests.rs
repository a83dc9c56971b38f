//! Pooled HTTP/2 connections to endpoints, in virtual time: when they are checked with PING, when they are closed, and the
//! effect of resets.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use fairway_http::Head;
use fairway_http2::{Code, Config, Event, Server, Timeouts};
use fairway_model::{BackendProtocol, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep, timeout};

use crate::testing::{ScriptedConnect, TestWorker, run_local};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// What endpoints received.
#[derive(Default)]
struct EndpointLog {
    /// The connection number of each request.
    requests: Vec<usize>,
    /// When PINGs arrived.
    pings: Vec<Instant>,
    resets: Vec<Code>,
    /// Whether they send nothing at all, neither to PINGs nor to requests.
    is_dumb: bool,
}

type SharedLog = Rc<RefCell<EndpointLog>>;

/// How an endpoint responds to a request.
#[derive(Clone, Copy)]
enum ResponseMode {
    AtOnce,
    /// With a response head, and nothing else.
    Head,
    Never,
    /// With a body whose rest, of this many bytes, follows after a second.
    Late(usize),
}

async fn serve(mut stream: DuplexStream, number: usize, log: SharedLog, responses: ResponseMode) {
    let timeouts = Timeouts { silence: 3_600_000_000, ..Timeouts::default() };
    let mut codec = Server::new(Config { timeouts, ..Config::default() }, 0);
    let (mut head, mut input) = (Head::new(), Vec::new());
    let mut late: Vec<(u32, usize, Instant)> = Vec::new();
    loop {
        let mut used = 0;
        loop {
            record_pings(&input[used..], &log);
            let (count, event) = codec.receive(0, &input[used..], &mut head);
            used += count;
            match event {
                Event::Head { stream, .. } => {
                    log.borrow_mut().requests.push(number);
                    if matches!(responses, ResponseMode::Never) {
                        continue;
                    }
                    let mut response = Head::new();
                    response.start_response(200);
                    let length = if let ResponseMode::Late(rest) = responses { rest + 1 } else { 2 };
                    response.append(b"Content-Length", length.to_string().as_bytes());
                    codec.send_head(stream, &response, false);
                    match responses {
                        ResponseMode::AtOnce => {
                            codec.send_data(stream, b"ok", true);
                            codec.release(stream);
                        }
                        ResponseMode::Head | ResponseMode::Never => {}
                        ResponseMode::Late(rest) => {
                            codec.send_data(stream, b"x", false);
                            late.push((stream, rest, Instant::now() + Duration::from_secs(1)));
                        }
                    }
                }
                Event::Reset { stream, code, .. } => {
                    log.borrow_mut().resets.push(code);
                    late.retain(|index| index.0 != stream);
                    codec.release(stream);
                }
                Event::NeedMore | Event::Wait(_) | Event::Closed(_) => break,
                _ => {}
            }
        }
        input.drain(..used);
        late.retain(|(id, rest, at)| {
            if *at > Instant::now() {
                return true;
            }
            codec.send_data(*id, &vec![b'x'; *rest], true);
            codec.release(*id);
            false
        });
        let pending = codec.pending().to_vec();
        if !log.borrow().is_dumb {
            if stream.write_all(&pending).await.is_err() {
                return;
            }
            codec.mark_written(pending.len());
        }
        if let Ok(Ok(0) | Err(_)) = timeout(Duration::from_millis(100), stream.read_buf(&mut input)).await {
            return;
        }
    }
}

/// Notes PINGs that are not acknowledgements: each arrives in a read of its own, or after other frames.
fn record_pings(mut input: &[u8], log: &SharedLog) {
    if input.starts_with(b"PRI") {
        input = &input[24..];
    }
    while let Some(header) = input.first_chunk::<9>() {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let Some(rest) = input.get(9 + length..) else { return };
        if header[3] == 6 && header[4] == 0 && log.borrow().pings.last() != Some(&Instant::now()) {
            log.borrow_mut().pings.push(Instant::now());
        }
        input = rest;
    }
}

fn stage(responses: ResponseMode) -> (TestWorker, SharedLog) {
    within(responses, Policy::default())
}

/// The same with a read timeout of an hour.
fn patient(responses: ResponseMode) -> (TestWorker, SharedLog) {
    let mut policy = Policy::default();
    policy.timeouts.read = Duration::from_secs(3600);
    within(responses, policy)
}

fn within(responses: ResponseMode, policy: Policy) -> (TestWorker, SharedLog) {
    let (seen, count) = (SharedLog::default(), Cell::new(0));
    let theirs = Rc::clone(&seen);
    let stage = TestWorker::with_protocol_and_policy(policy, BackendProtocol::H2c, 1, move |_| {
        count.set(count.get() + 1);
        let (number, seen) = (count.get(), Rc::clone(&theirs));
        ScriptedConnect::served_by(move |stream| serve(stream, number, seen, responses))
    });
    (stage, seen)
}

/// Lets time pass with a worker's periodic work.
async fn pass_time(stage: &TestWorker, seconds: u64) {
    for _ in 0..seconds {
        sleep(Duration::from_secs(1)).await;
        stage.worker.tick();
    }
}

#[tokio::test(start_paused = true)]
async fn after_ten_seconds_of_silence_a_connection_is_checked_before_a_request() {
    run_local(async {
        let (stage, seen) = stage(ResponseMode::AtOnce);
        let mut client = stage.client();
        for (wait, pings) in [(0, 0), (9, 0), (11, 1), (30, 2), (1, 2)] {
            pass_time(&stage, wait).await;
            assert_eq!(client.request(GET).await.unwrap().status, 200);
            assert_eq!(seen.borrow().pings.len(), pings, "after {wait} s");
        }
        assert_eq!(stage.connects().len(), 1, "it was there each time");
        drop(client);
        sleep(Duration::from_millis(10)).await;
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_connection_is_replaced_before_anything_is_sent() {
    run_local(async {
        let (stage, seen) = stage(ResponseMode::AtOnce);
        let mut client = stage.client();
        assert_eq!(client.request(GET).await.unwrap().status, 200);
        seen.borrow_mut().is_dumb = true;
        pass_time(&stage, 20).await;
        let theirs = Rc::clone(&seen);
        tokio::task::spawn_local(async move {
            sleep(Duration::from_millis(260)).await;
            theirs.borrow_mut().is_dumb = false;
        });
        let began = Instant::now();
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(client.request(post).await.unwrap().status, 200);
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
        assert_eq!((stage.connects().len(), &seen.borrow().requests[..]), (2, &[1, 2][..]));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_pinged_no_more_often_than_grpc_servers_allow() {
    run_local(async {
        let (stage, seen) = patient(ResponseMode::Head);
        let mut client = stage.client();
        let fields = "Content-Type: application/grpc\r\nContent-Length: 0";
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n")).await;
        pass_time(&stage, 1300).await;
        let pings = seen.borrow().pings.clone();
        let between = |two: &[Instant]| two[1].duration_since(two[0]);
        assert!(pings.windows(2).all(|two| between(two) >= Duration::from_secs(300)), "{pings:?}");
        assert!((3..=4).contains(&pings.len()), "{pings:?}");
        // A connection that does not respond is closed, and the client sees a truncated response.
        seen.borrow_mut().is_dumb = true;
        let began = Instant::now();
        assert!(!client.read_to_end().await.ends_with(b"ok"));
        assert!(began.elapsed() < Duration::from_secs(330), "{:?}", began.elapsed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_let_go_before_servers_do() {
    run_local(async {
        let (stage, seen) = stage(ResponseMode::AtOnce);
        let mut client = stage.client();
        for _ in 0..2000 {
            assert_eq!(client.request(GET).await.unwrap().status, 200);
        }
        let requests_with =
            |number: usize| seen.borrow().requests.iter().filter(|index| **index == number).count();
        assert_eq!((requests_with(1), requests_with(2), requests_with(3)), (900, 900, 200));
        // By age: it is used every few seconds, so that it is not idle.
        for _ in 0..1000 {
            pass_time(&stage, 5).await;
            assert_eq!(client.request(GET).await.unwrap().status, 200);
        }
        assert!(requests_with(4) >= 400, "{} {}", requests_with(3), requests_with(4));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn clients_that_leave_early_wear_a_connection() {
    run_local(async {
        let (stage, seen) = stage(ResponseMode::Never);
        for _ in 0..60 {
            let mut client = stage.client();
            client.send(GET.replace("GET", "DELETE")).await;
            sleep(Duration::from_millis(1)).await;
            drop(client);
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_millis(300)).await;
        let cancelled = seen.borrow().resets.iter().filter(|code| **code == Code::Cancel).count();
        let on_first = seen.borrow().requests.iter().filter(|index| **index == 1).count();
        assert_eq!((on_first, stage.connects().len()), (20, 3), "{cancelled} were cancelled");
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_small_rest_is_read_rather_than_cancelled_and_a_large_one_is_not() {
    for (rest, resets) in [(1000, 0), (100_000, 1)] {
        run_local(async {
            let (stage, seen) = stage(ResponseMode::Late(rest));
            let mut client = stage.client();
            client.send(GET).await;
            sleep(Duration::from_millis(200)).await;
            drop(client);
            sleep(Duration::from_secs(3)).await;
            assert_eq!(seen.borrow().resets.len(), resets, "{rest}");
            assert_eq!(stage.check_idle(), Ok(()));
            assert_eq!(stage.connects().len(), 1);
        })
        .await;
    }
}
