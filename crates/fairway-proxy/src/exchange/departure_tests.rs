//! Clients that leave, and exchanges that are dropped: whatever the exchange waits for, the endpoint's side ends and every
//! count returns to zero.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fairway_connection::h1::H1;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::hostile_tests::{
    self, CANCEL, DATA, FLAG_END_HEADERS, FLAG_END_STREAM, HEADERS, RST_STREAM, Raw, SETTINGS, frame, head,
    setting,
};
use super::{ClientSide, exchange};
use crate::network::TcpNetwork;
use crate::testing::{
    Client, GET_REQUEST, ScriptedConnect, TestWorker, endpoint, read_head, run_local, serve_ok,
};

const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";

/// What the exchange waits for when its client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Connect,
    Head,
    HeadOfASecondEndpoint,
    RestOfTheAnswer,
    RoomForTheBody,
}

/// How the client leaves.
#[derive(Clone, Copy, Debug)]
enum Leaving {
    Closes,
    /// It closes its sending direction, as `nc -N` does.
    EndsItsDirection,
    /// After pipelined requests that were not read yet.
    BehindPipelinedRequests,
}

const WAITS: [Wait; 5] =
    [Wait::Connect, Wait::Head, Wait::HeadOfASecondEndpoint, Wait::RestOfTheAnswer, Wait::RoomForTheBody];

/// How long an endpoint that reads no body reads nothing.
const READ_PAUSE: Duration = Duration::from_millis(15);

/// Counts the connections that an endpoint has open.
#[derive(Clone, Default)]
struct OpenConnectionCount(Rc<Cell<usize>>);

impl OpenConnectionCount {
    /// Serves until the proxy closes the connection.
    async fn serve(self, wait: Wait, mut stream: DuplexStream) {
        self.0.set(self.0.get() + 1);
        if wait == Wait::RestOfTheAnswer {
            read_head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await.unwrap();
        }
        if wait == Wait::RoomForTheBody {
            sleep(READ_PAUSE).await;
        }
        let _ = stream.read_to_end(&mut Vec::new()).await;
        self.0.set(self.0.get() - 1);
    }
}

fn script(wait: Wait, connections: &OpenConnectionCount) -> impl Fn(SocketAddr) -> ScriptedConnect + 'static {
    let connections = connections.clone();
    move |to| match wait {
        Wait::Connect => ScriptedConnect::Silence,
        Wait::HeadOfASecondEndpoint if to == endpoint(0) => {
            ScriptedConnect::served_by(|mut stream| async move {
                read_head(&mut stream).await;
            })
        }
        _ => {
            let connections = connections.clone();
            ScriptedConnect::served_by(move |stream| connections.serve(wait, stream))
        }
    }
}

async fn depart(mut client: Client, how: Leaving) -> Option<Client> {
    match how {
        Leaving::Closes => None,
        Leaving::EndsItsDirection => {
            client.stream.shutdown().await.unwrap();
            Some(client)
        }
        Leaving::BehindPipelinedRequests => {
            client.send([GET_REQUEST; 3].concat()).await;
            client.stream.shutdown().await.unwrap();
            Some(client)
        }
    }
}

/// Lets all tasks run that can without time passing.
async fn run_ready_tasks() {
    for _ in 0..50 {
        yield_now().await;
    }
}

async fn check_departure(wait: Wait, request: &[u8], how: Leaving) {
    let connections = OpenConnectionCount::default();
    let stage = TestWorker::new(
        2,
        |policy, _| policy.timeouts.connect = Duration::from_secs(60),
        script(wait, &connections),
    );
    let mut client = stage.client();
    client.send(request).await;
    run_ready_tasks().await;
    sleep(Duration::from_millis(5)).await;
    let began = Instant::now();
    let _client = depart(client, how).await;
    run_ready_tasks().await;
    let case = format!("{wait:?}, {how:?}, {} bytes", request.len());
    assert!(stage.has_metric_line("fairway_faults_total{reason=\"client_gone\"} 1"), "{case}");
    assert_eq!(stage.metric_value("fairway_connections_open"), 0, "{case}");
    sleep(Duration::from_millis(20)).await;
    assert_eq!(connections.0.get(), 0, "{case}: the endpoint's side is closed");
    assert!(began.elapsed() < Duration::from_millis(100), "{case}: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_exchange_ends_at_once_when_its_client_leaves() {
    for wait in WAITS.into_iter().filter(|wait| *wait != Wait::RoomForTheBody) {
        for how in [Leaving::Closes, Leaving::EndsItsDirection, Leaving::BehindPipelinedRequests] {
            for request in [GET_REQUEST, POST.as_bytes()] {
                // A request that must not be repeated is not sent to a second endpoint.
                if wait != Wait::HeadOfASecondEndpoint || request == GET_REQUEST {
                    run_local(check_departure(wait, request, how)).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_the_endpoint_does_not_read_is_detected() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
    // More than the pipe to the endpoint and the proxy hold, but less than with the pipe from the client.
    let request = [head.as_bytes(), &[b'b'; 120_000]].concat();
    run_local(check_departure(Wait::RoomForTheBody, &request, Leaving::Closes)).await;
}

/// An HTTP/2 endpoint that gives no window for bodies, and responds to requests without one.
async fn without_a_window(mut raw: Raw) {
    raw.send(setting(4, 0)).await;
    while let Some((kind, flags, stream, _)) = raw.next().await {
        match kind {
            HEADERS if flags & FLAG_END_STREAM > 0 => raw.send(head(stream, FLAG_END_STREAM, &[])).await,
            SETTINGS if flags & FLAG_END_STREAM == 0 => {
                raw.send(frame(SETTINGS, FLAG_END_STREAM, 0, &[])).await;
            }
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_the_endpoints_window_is_closed_is_detected() {
    let text = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n";
    let of_http1 = [&text[..], &[b'b'; 10_000]].concat();
    // `POST http://a/`: fields of the static table, and a literal that enters no table (RFC 7541 §6).
    let request_head = frame(HEADERS, FLAG_END_HEADERS, 1, b"\x83\x86\x84\x01\x01a");
    let settings = [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, FLAG_END_STREAM, 0, &[])].concat();
    let body = frame(DATA, 0, 1, &[b'b'; 10_000]);
    let of_http2 = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &request_head, &body].concat();
    for request in [of_http1, of_http2] {
        run_local(async {
            let (stage, sent_frames) = hostile_tests::stage(1, |_, raw| without_a_window(raw));
            // Once it has responded, the endpoint's settings are known.
            assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 200);
            let mut client = stage.client();
            client.send(&request).await;
            sleep(Duration::from_millis(5)).await;
            assert_eq!(stage.worker.exchanges(), 1);
            drop(client);
            sleep(Duration::from_millis(5)).await;
            assert!(stage.has_metric_line("fairway_faults_total{reason=\"client_gone\"} 1"));
            assert_eq!(stage.metric_value("fairway_connections_open"), 0);
            let cancelled = sent_frames
                .borrow()
                .iter()
                .filter(|frame| (frame.0, frame.2) == (RST_STREAM, CANCEL))
                .count();
            assert_eq!(cancelled, 1);
            assert_eq!(stage.check_idle(), Ok(()));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_exchange_may_be_dropped_wherever_it_waits() {
    for wait in WAITS {
        for polls in 0..40 {
            run_local(dropped_after(polls, wait)).await;
        }
    }
}

/// Polls the client's connection this many times, drops it, and checks the counts.
async fn dropped_after(polls: usize, wait: Wait) {
    let open_connections = OpenConnectionCount::default();
    let stage = TestWorker::new(2, |_, _| {}, script(wait, &open_connections));
    let (mut client, serving) = stage.unserved_client();
    client.send([GET_REQUEST, POST.as_bytes(), GET_REQUEST].concat()).await;
    {
        let mut serving = pin!(serving);
        for _ in 0..polls {
            let mut cx = Context::from_waker(Waker::noop());
            if serving.as_mut().poll(&mut cx) == Poll::Ready(()) {
                break;
            }
            // Hedges, checks of silent endpoints and complete timeouts happen in between.
            sleep(Duration::from_millis(170)).await;
        }
    }
    drop(client);
    // The connects that races left behind end, too.
    sleep(Duration::from_secs(120)).await;
    assert_eq!(stage.check_idle(), Ok(()), "{wait:?} after {polls} polls");
    assert_eq!(
        open_connections.0.get(),
        0,
        "{wait:?} after {polls} polls: connections to endpoints are closed"
    );
}

#[tokio::test(start_paused = true)]
async fn dropped_exchanges_do_not_affect_endpoints() {
    run_local(async {
        let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_ok));
        for polls in 0..10 {
            let (mut client, serving) = stage.unserved_client();
            client.send(GET_REQUEST).await;
            let mut serving = Box::pin(serving);
            for _ in 0..polls {
                let _ = serving.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                yield_now().await;
            }
            drop(serving);
            assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 200);
        }
        run_ready_tasks().await;
        assert_eq!(stage.metric_value("fairway_upstream_ejections_total"), 0);
    })
    .await;
}

/// The overhead of tokio per task, in bytes.
const TASK_OVERHEAD: usize = 104;

/// The memory of a plain connection, without its socket's and its timer's: each allocation is rounded up to the allocator's
/// size class.
#[tokio::test(start_paused = true)]
async fn a_connection_fits_its_size_classes() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_ok));
        let (_client, serving) = stage.unserved_client();
        let task = size_of_val(&serving) + TASK_OVERHEAD;
        assert!(task <= 384, "{task} bytes of a task");
        let side = size_of::<ClientSide<H1<TcpStream>>>();
        assert!(side <= 320, "{side} bytes of the client's side");
        let frame = size_of_output(&exchange::<TcpNetwork, H1<TcpStream>>);
        assert!(frame <= 1_152, "{frame} bytes of an exchange's frame");
    })
    .await;
}

/// The size of the future that a function returns.
fn size_of_output<A, F>(_: &impl Fn(A) -> F) -> usize {
    size_of::<F>()
}
