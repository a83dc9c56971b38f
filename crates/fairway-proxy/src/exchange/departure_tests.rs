//! Clients that leave, and exchanges that are dropped: whatever is waited for, the endpoint's side ends and every count
//! comes to rest.

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
    self, CANCEL, DATA, END, HEADERS, RESET, Raw, SETTINGS, WHOLE, frame, head, setting,
};
use super::{ClientSide, exchange};
use crate::network::TcpNetwork;
use crate::testing::{Client, GET, Meeting, Stage, answering, endpoint, on_stage, read_head};

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
    /// It says that it has nothing more to say, as `nc -N` does.
    EndsItsDirection,
    /// After requests that were not asked for yet.
    BehindPipelinedRequests,
}

const WAITS: [Wait; 5] =
    [Wait::Connect, Wait::Head, Wait::HeadOfASecondEndpoint, Wait::RestOfTheAnswer, Wait::RoomForTheBody];

/// How long an endpoint that takes no body reads nothing.
const PAUSE: Duration = Duration::from_millis(15);

/// Counts the connections that an endpoint has open.
#[derive(Clone, Default)]
struct Held(Rc<Cell<usize>>);

impl Held {
    /// Serves until the proxy closes the connection.
    async fn serve(self, wait: Wait, mut stream: DuplexStream) {
        self.0.set(self.0.get() + 1);
        if wait == Wait::RestOfTheAnswer {
            read_head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await.unwrap();
        }
        if wait == Wait::RoomForTheBody {
            sleep(PAUSE).await;
        }
        let _ = stream.read_to_end(&mut Vec::new()).await;
        self.0.set(self.0.get() - 1);
    }
}

fn script(wait: Wait, held: &Held) -> impl Fn(SocketAddr) -> Meeting + 'static {
    let held = held.clone();
    move |to| match wait {
        Wait::Connect => Meeting::Silence,
        Wait::HeadOfASecondEndpoint if to == endpoint(0) => Meeting::with(|mut stream| async move {
            read_head(&mut stream).await;
        }),
        _ => {
            let held = held.clone();
            Meeting::with(move |stream| held.serve(wait, stream))
        }
    }
}

async fn leave(mut client: Client, how: Leaving) -> Option<Client> {
    match how {
        Leaving::Closes => None,
        Leaving::EndsItsDirection => {
            client.stream.shutdown().await.unwrap();
            Some(client)
        }
        Leaving::BehindPipelinedRequests => {
            client.send([GET; 3].concat()).await;
            client.stream.shutdown().await.unwrap();
            Some(client)
        }
    }
}

/// Lets everybody run who can without time passing.
async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

async fn gone(wait: Wait, request: &[u8], how: Leaving) {
    let held = Held::default();
    let stage =
        Stage::new(2, |policy, _| policy.timeouts.connect = Duration::from_secs(60), script(wait, &held));
    let mut client = stage.client();
    client.send(request).await;
    settle().await;
    sleep(Duration::from_millis(5)).await;
    let began = Instant::now();
    let _client = leave(client, how).await;
    settle().await;
    let case = format!("{wait:?}, {how:?}, {} bytes", request.len());
    assert!(stage.counts("fairway_faults_total{reason=\"client_gone\"} 1"), "{case}");
    assert_eq!(stage.value("fairway_connections_open"), 0, "{case}");
    sleep(Duration::from_millis(20)).await;
    assert_eq!(held.0.get(), 0, "{case}: the endpoint's side is closed");
    assert!(began.elapsed() < Duration::from_millis(100), "{case}: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_exchange_whose_client_leaves_ends_at_once_whatever_it_waits_for() {
    for wait in WAITS.into_iter().filter(|wait| *wait != Wait::RoomForTheBody) {
        for how in [Leaving::Closes, Leaving::EndsItsDirection, Leaving::BehindPipelinedRequests] {
            for request in [GET, POST.as_bytes()] {
                // A request that must not be repeated has no second endpoint.
                if wait != Wait::HeadOfASecondEndpoint || request == GET {
                    on_stage(gone(wait, request, how)).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_the_endpoint_takes_no_more_of_its_body_is_gone() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
    // More than the pipe to the endpoint and the proxy hold, less than with the pipe from the client.
    let request = [head.as_bytes(), &[b'b'; 120_000]].concat();
    on_stage(gone(Wait::RoomForTheBody, &request, Leaving::Closes)).await;
}

/// An endpoint of HTTP/2 that has no room for bodies, and answers requests without one.
async fn without_a_window(mut raw: Raw) {
    raw.say(setting(4, 0)).await;
    while let Some((kind, flags, stream, _)) = raw.next().await {
        match kind {
            HEADERS if flags & END > 0 => raw.say(head(stream, END, &[])).await,
            SETTINGS if flags & END == 0 => raw.say(frame(SETTINGS, END, 0, &[])).await,
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_the_window_of_the_endpoint_is_closed_is_gone() {
    let text = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n";
    let of_http1 = [&text[..], &[b'b'; 10_000]].concat();
    // `POST http://a/`: fields of the static table, and a literal that enters no table (RFC 7541 §6).
    let asked = frame(HEADERS, WHOLE, 1, b"\x83\x86\x84\x01\x01a");
    let settings = [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, END, 0, &[])].concat();
    let body = frame(DATA, 0, 1, &[b'b'; 10_000]);
    let of_http2 = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &asked, &body].concat();
    for request in [of_http1, of_http2] {
        on_stage(async {
            let (stage, said) = hostile_tests::stage(1, |_, raw| without_a_window(raw));
            // With the answer the endpoint's settings are known.
            assert_eq!(stage.client().ask(GET).await.unwrap().status, 200);
            let mut client = stage.client();
            client.send(&request).await;
            sleep(Duration::from_millis(5)).await;
            assert_eq!(stage.worker.exchanges(), 1);
            drop(client);
            sleep(Duration::from_millis(5)).await;
            assert!(stage.counts("fairway_faults_total{reason=\"client_gone\"} 1"));
            assert_eq!(stage.value("fairway_connections_open"), 0);
            let cancelled = said.borrow().iter().filter(|one| (one.0, one.2) == (RESET, CANCEL)).count();
            assert_eq!(cancelled, 1);
            assert_eq!(stage.at_rest(), Ok(()));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_exchange_may_be_dropped_wherever_it_waits() {
    for wait in WAITS {
        for polls in 0..40 {
            on_stage(dropped_after(polls, wait)).await;
        }
    }
}

/// Polls the client's connection so many times, drops it, and counts.
async fn dropped_after(polls: usize, wait: Wait) {
    let held = Held::default();
    let stage = Stage::new(2, |_, _| {}, script(wait, &held));
    let (mut client, serving) = stage.unserved();
    client.send([GET, POST.as_bytes(), GET].concat()).await;
    {
        let mut serving = pin!(serving);
        for _ in 0..polls {
            let mut cx = Context::from_waker(Waker::noop());
            if serving.as_mut().poll(&mut cx) == Poll::Ready(()) {
                break;
            }
            // Hedges, looks at silent endpoints and whole time-outs pass in between.
            sleep(Duration::from_millis(170)).await;
        }
    }
    drop(client);
    // What races left behind comes to its end, too.
    sleep(Duration::from_secs(120)).await;
    assert_eq!(stage.at_rest(), Ok(()), "{wait:?} after {polls} polls");
    assert_eq!(held.0.get(), 0, "{wait:?} after {polls} polls: connections to endpoints are closed");
}

#[tokio::test(start_paused = true)]
async fn what_was_dropped_leaves_the_endpoints_as_good_as_new() {
    on_stage(async {
        let stage = Stage::new(2, |_, _| {}, |_| Meeting::with(answering));
        for polls in 0..10 {
            let (mut client, serving) = stage.unserved();
            client.send(GET).await;
            let mut serving = Box::pin(serving);
            for _ in 0..polls {
                let _ = serving.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                yield_now().await;
            }
            drop(serving);
            assert_eq!(stage.client().ask(GET).await.unwrap().status, 200);
        }
        settle().await;
        assert_eq!(stage.value("fairway_upstream_ejections_total"), 0);
    })
    .await;
}

/// What tokio adds to a task.
const TASK: usize = 104;

/// The memory of a connection in the clear, besides its socket's and its timer's: each allocation takes the next
/// size class of the allocator.
#[tokio::test(start_paused = true)]
async fn a_connection_fits_its_size_classes() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(answering));
        let (_client, serving) = stage.unserved();
        let task = size_of_val(&serving) + TASK;
        assert!(task <= 384, "{task} bytes of a task");
        let side = size_of::<ClientSide<H1<TcpStream>>>();
        assert!(side <= 320, "{side} bytes of the client's side");
        let frame = size_of_output(&exchange::<TcpNetwork, H1<TcpStream>>);
        assert!(frame <= 1_152, "{frame} bytes of an exchange's frame");
    })
    .await;
}

/// The size of the future that a function makes.
fn size_of_output<A, F>(_: &impl Fn(A) -> F) -> usize {
    size_of::<F>()
}
