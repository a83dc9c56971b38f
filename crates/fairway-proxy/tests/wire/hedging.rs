//! Endpoints that swallow everything: connects are raced, and unacknowledged requests go to another endpoint.

use std::time::{Duration, Instant};

use fairway_testkit::{Backend, BackendResponse, Request, ScriptStep};

use crate::support::{HOST, Running, Setup};

/// Longer than any of these tests, so that the kernel does not notice first.
const NEVER: Duration = Duration::from_secs(600);

async fn hedges(proxy: &Running, outcome: &str) -> u64 {
    proxy.metric(&format!("fairway_upstream_hedges_total{{outcome=\"{outcome}\"}}")).await
}

fn patient(setup: Setup) -> Setup {
    setup
        .policy(|policy| {
            policy.timeouts.connect = NEVER;
            policy.retry.connect_total = NEVER;
        })
        .options(|options| options.limits.upstream_unacknowledged = NEVER)
}

#[tokio::test]
async fn no_method_waits_for_the_connect_time_out_of_a_black_hole() {
    let (hole, backend) = (
        Backend::http(|_| BackendResponse::ok("")).await,
        Backend::http(|_| BackendResponse::ok("ok")).await,
    );
    hole.vanish().await;
    let proxy = patient(Setup::to(&[hole.address(), backend.address()])).start();
    let mut client = proxy.client().await;
    for number in 0..10 {
        let post = Request::post(HOST, "/", "body").header("X-Request-Number", &number.to_string());
        assert_eq!(client.exchange(&post).await.unwrap().status, 200);
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    }
    assert!(backend.duplicates().is_empty());
    assert_eq!(hedges(&proxy, "won").await + hedges(&proxy, "reused").await, 1, "then it is suspect");
    assert_eq!(proxy.metric("fairway_upstream_retries_total").await, 0);
}

#[tokio::test]
async fn a_request_lost_on_a_dead_idle_connection_goes_to_another_endpoint() {
    let (first, second) = (
        Backend::http(|_| BackendResponse::ok("1")).await,
        Backend::http(|_| BackendResponse::ok("2")).await,
    );
    let proxy = patient(Setup::to(&[first.address(), second.address()])).start();
    let mut client = proxy.client().await;
    for _ in 0..4 {
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    }
    first.vanish().await;
    for _ in 0..4 {
        let response = client.exchange(&Request::get(HOST, "/")).await.unwrap();
        assert_eq!((response.status, response.text().as_str()), (200, "2"));
    }
    assert!(proxy.metric("fairway_upstream_unacknowledged_total").await >= 1);
    assert_eq!(proxy.metric("fairway_upstream_ejections_total").await, 1);
}

#[tokio::test]
async fn a_request_sent_to_a_vanished_endpoint_goes_to_another_one() {
    let slow = Backend::http(|_| BackendResponse::ok("held").hold()).await;
    let other = Backend::http(|_| BackendResponse::ok("other")).await;
    let proxy = Setup::to(&[slow.address(), other.address()]).start();
    let mut client = proxy.client().await;
    client.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n")).await.unwrap();
    slow.wait_until("it has the request", |held| held.waiting_count() == 1).await;
    slow.vanish().await;
    let began = Instant::now();
    let response = client.read_response().await.unwrap();
    assert_eq!((response.status, response.text().as_str()), (200, "other"));
    // Without close watching it would first be probed after 10 s.
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
}

/// How long an endpoint may leave data unacknowledged in the tests below.
const SOON_GONE: Duration = Duration::from_secs(1);

fn soon_gone(endpoint: &Backend) -> Setup {
    Setup::to(&[endpoint.address()]).options(|options| options.limits.upstream_unacknowledged = SOON_GONE)
}

/// More than all buffers on the path can hold.
const LARGE: usize = 24 * 1024 * 1024;

#[tokio::test]
async fn an_endpoint_that_only_pauses_reading_is_waited_for() {
    let pausing = Backend::scripted([
        ScriptStep::ReadHead,
        ScriptStep::ReadBody(1),
        ScriptStep::Pause(SOON_GONE * 4),
        ScriptStep::ReadBody(LARGE - 1),
        ScriptStep::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
    ])
    .await;
    let proxy = soon_gone(&pausing).start();
    let mut client = proxy.client().await;
    let upload = Request::post(HOST, "/", vec![b'u'; LARGE]);
    assert_eq!(client.exchange(&upload).await.unwrap().status, 200);
}

#[tokio::test]
async fn an_endpoint_that_vanishes_within_an_upload_is_given_up() {
    let mortal = Backend::scripted([ScriptStep::ReadHead, ScriptStep::ReadBody(1)]).await;
    let proxy = soon_gone(&mortal).start();
    let mut client = proxy.client().await;
    client.send(format!("POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 9\r\n\r\nbody")).await.unwrap();
    mortal
        .wait_until("it has the beginning", |mortal| {
            mortal.connections().iter().any(|open| !open.bytes.is_empty())
        })
        .await;
    mortal.vanish().await;
    client.send(" part").await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 504);
}

#[tokio::test]
async fn a_tunnel_to_an_endpoint_that_vanishes_is_closed() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let mortal = Backend::scripted([
        ScriptStep::ReadRequest,
        ScriptStep::Send(switch.into()),
        ScriptStep::Expect(b"ping".to_vec()),
        ScriptStep::Send(b"pong".to_vec()),
    ])
    .await;
    let proxy = soon_gone(&mortal).start();
    let mut client = proxy.client().await;
    let upgrade = Request::get(HOST, "/").header("Connection", "upgrade").header("Upgrade", "websocket");
    let upgrade = upgrade.header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    let upgrade = upgrade.header("Sec-WebSocket-Version", "13");
    assert_eq!(client.exchange(&upgrade).await.unwrap().status, 101);
    client.send("ping").await.unwrap();
    assert_eq!(client.read_bytes(4).await.unwrap(), b"pong");
    mortal.vanish().await;
    client.send("ping").await.unwrap();
    assert_eq!(client.read_to_end().await.unwrap(), b"");
}
