//! Retries: only if repeating is safe, and never more than the policy allows.

use std::net::SocketAddr;
use std::time::Duration;

use fairway_testkit::{Backend, BackendResponse, Request, ScriptStep, wait};

use crate::support::{HOST, Setup};

fn ok() -> ScriptStep {
    ScriptStep::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
}

/// Responds once, then reads the next request and closes, like a process that dies.
fn dies_on_the_second() -> Vec<ScriptStep> {
    vec![ScriptStep::ReadRequest, ok(), ScriptStep::ReadRequest, ScriptStep::Close]
}

fn always_well() -> Vec<ScriptStep> {
    vec![ScriptStep::ReadRequest, ok(), ScriptStep::Repeat]
}

fn put(length: usize) -> Request {
    Request::new("PUT", "/").header("Host", HOST).body(vec![b'a'; length])
}

#[tokio::test]
async fn a_refused_connect_is_followed_by_another_endpoint_for_every_method() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let proxy = Setup::to(&[wait::free_address(), backend.address()]).start();
    let mut client = proxy.client().await;
    for number in 0..10 {
        let request = Request::post(HOST, "/", "body").header("X-Request-Number", &number.to_string());
        assert_eq!(client.exchange(&request).await.unwrap().status, 200);
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    }
    assert!(backend.duplicates().is_empty());
    assert!(proxy.metric("fairway_upstream_retries_total").await >= 1);
}

#[tokio::test]
async fn an_idempotent_request_survives_a_reused_connection_that_dies_under_it() {
    for request in [Request::get(HOST, "/"), put(1000), Request::new("DELETE", "/").header("Host", HOST)] {
        let backend = Backend::scripts(vec![dies_on_the_second(), always_well()]).await;
        let proxy = Setup::to(&[backend.address()]).policy(|policy| policy.retry.tries = 1).start();
        let mut client = proxy.client().await;
        for _ in 0..2 {
            assert_eq!(client.exchange(&request).await.unwrap().status, 200, "{}", request.method());
        }
        proxy.expect_metric("fairway_upstream_stale_connections_total", 1).await;
        assert_eq!(
            proxy.metric("fairway_upstream_ejections_total").await,
            0,
            "a stale connection blames nobody"
        );
        let last = backend.requests().pop().unwrap();
        assert_eq!(last.body, request.body_bytes(), "the body was sent again, whole");
    }
}

#[tokio::test]
async fn a_reused_connection_that_dies_costs_none_of_the_tries() {
    let (dying, well) =
        (Backend::scripted(dies_on_the_second()).await, Backend::http(|_| BackendResponse::ok("ok")).await);
    let two_tries = |endpoints: &[SocketAddr]| Setup::to(endpoints).policy(|policy| policy.retry.tries = 2);
    let mut proxy = two_tries(&[dying.address()]).start();
    let mut client = proxy.client().await;
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    // Round robin continues with the second endpoint: its idle connection dies, the third refuses, the first responds.
    proxy.publish(&two_tries(&[well.address(), dying.address(), wait::free_address()])).await;
    let response = client.exchange(&Request::get(HOST, "/")).await.unwrap();
    assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    proxy.expect_metric("fairway_upstream_stale_connections_total", 1).await;
    assert_eq!(proxy.metric("fairway_upstream_retries_total").await, 2);
}

#[tokio::test]
async fn a_chunked_body_is_replayed_whole_with_its_trailers() {
    let backend = Backend::scripts(vec![dies_on_the_second(), always_well()]).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    let chunks = "3\r\nabc\r\n3\r\ndef\r\n0\r\nX-Sum: 6\r\n\r\n";
    client
        .send(format!("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"))
        .await
        .unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 200);
    let last = backend.requests().pop().unwrap();
    assert_eq!((last.body.as_slice(), last.trailers.len()), (&b"abcdef"[..], 1));
}

#[tokio::test]
async fn a_written_non_idempotent_request_is_never_sent_twice() {
    let backend = Backend::scripts(vec![dies_on_the_second(), always_well()]).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let post = |number: &str| Request::post(HOST, "/", "body").header("X-Request-Number", number);
    assert_eq!(client.exchange(&post("1")).await.unwrap().status, 200);
    assert_eq!(client.exchange(&post("2")).await.unwrap().status, 502);
    assert_eq!(client.exchange(&post("3")).await.unwrap().status, 200);
    assert!(backend.duplicates().is_empty(), "{:?}", backend.deliveries());
    proxy.expect_metric("fairway_upstream_lost_non_idempotent_total", 1).await;
}

#[tokio::test]
async fn a_body_that_is_no_longer_buffered_is_not_sent_again() {
    let backend = Backend::scripts(vec![dies_on_the_second(), always_well()]).await;
    let proxy = Setup::to(&[backend.address()]).options(|options| options.limits.replay_bytes = 500).start();
    let mut client = proxy.client().await;
    assert_eq!(client.exchange(&put(400)).await.unwrap().status, 200);
    assert_eq!(client.exchange(&put(600)).await.unwrap().status, 502);
    assert_eq!(backend.request_count(), 2);
}

#[tokio::test]
async fn tries_are_bounded() {
    let mut backends = Vec::new();
    for _ in 0..5 {
        backends.push(Backend::scripted([ScriptStep::ReadRequest, ScriptStep::Close]).await);
    }
    let endpoints: Vec<SocketAddr> = backends.iter().map(Backend::address).collect();
    for (tries, request) in
        [(3, Request::get(HOST, "/")), (1, Request::get(HOST, "/")), (3, Request::post(HOST, "/", ""))]
    {
        let before: usize = backends.iter().map(Backend::request_count).sum();
        let proxy = Setup::to(&endpoints).policy(|policy| policy.retry.tries = tries).start();
        assert_eq!(proxy.client().await.exchange(&request).await.unwrap().status, 502);
        let after: usize = backends.iter().map(Backend::request_count).sum();
        let expected = if request.method() == "POST" { 1 } else { usize::from(tries) };
        assert_eq!(after - before, expected, "{} {tries}", request.method());
        assert!(backends.iter().all(|backend| backend.request_count() <= 3), "another endpoint each time");
    }
}

#[tokio::test]
async fn without_a_living_endpoint_a_request_is_502_and_without_any_503() {
    for (endpoints, status, reason) in [
        (vec![wait::free_address(), wait::free_address()], 502, "connect_failed"),
        (vec![], 503, "no_endpoint"),
    ] {
        let proxy = Setup::to(&endpoints).start();
        let mut client = proxy.client().await;
        for round in 1..=2 {
            assert_eq!(client.exchange(&Request::post(HOST, "/", "body")).await.unwrap().status, status);
            proxy.expect_fault(reason, round).await;
        }
    }
}

#[tokio::test]
async fn a_silent_endpoint_is_504() {
    let backend = Backend::http(|_| BackendResponse::Silence).await;
    let setup = Setup::to(&[backend.address()]).policy(|policy| {
        policy.timeouts.read = Duration::from_millis(50);
        policy.retry.tries = 2;
    });
    let proxy = setup.start();
    let mut client = proxy.client().await;
    assert_eq!(client.exchange(&Request::post(HOST, "/", "body")).await.unwrap().status, 504);
    backend.wait_until("the POST", |backend| backend.request_count() > 0).await;
    assert_eq!(backend.request_count(), 1, "a POST is not sent twice");
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 504);
    backend.wait_until("both attempts of the GET", |backend| backend.request_count() == 3).await;
    proxy.expect_fault("upstream_timeout", 2).await;
}
