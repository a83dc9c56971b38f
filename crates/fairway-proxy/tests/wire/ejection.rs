//! Failing endpoints are ejected for a while, but never all of them.

use fairway_testkit::{Backend, BackendResponse, Request, ScriptStep, wait};

use crate::support::{HOST, Running, Setup};

const EJECTIONS: &str = "fairway_upstream_ejections_total";
const RETRIES: &str = "fairway_upstream_retries_total";

async fn gets(proxy: &Running, count: usize, status: u16) {
    let mut client = proxy.client().await;
    for _ in 0..count {
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, status);
    }
}

#[tokio::test]
async fn a_refusing_endpoint_is_not_used_again_within_a_second() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let proxy = Setup::to(&[wait::free_address(), backend.address()]).start();
    let began = std::time::Instant::now();
    gets(&proxy, 20, 200).await;
    let retries = proxy.metric(RETRIES).await;
    // At most one probe is due per second; on a stalled machine more of them are correct.
    assert!(retries <= 1 + began.elapsed().as_secs(), "{retries} retries");
    assert_eq!(proxy.metric(EJECTIONS).await, 1);
}

#[tokio::test]
async fn three_failures_in_a_row_eject_and_a_success_between_them_forgives() {
    let failing = Backend::scripted([ScriptStep::ReadRequest, ScriptStep::Close]).await;
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let proxy = Setup::to(&[failing.address(), backend.address()]).start();
    gets(&proxy, 20, 200).await;
    assert_eq!(proxy.metric(EJECTIONS).await, 1);
    assert!(failing.request_count() >= 3);
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec();
    let fails = vec![ScriptStep::ReadRequest, ScriptStep::Close];
    let well = vec![ScriptStep::ReadRequest, ScriptStep::Send(response), ScriptStep::Close];
    let turns = (0..40).map(|turn| if turn % 3 == 2 { well.clone() } else { fails.clone() }).collect();
    let moody = Backend::scripts(turns).await;
    let proxy = Setup::to(&[moody.address(), backend.address()]).start();
    gets(&proxy, 20, 200).await;
    assert_eq!(proxy.metric(EJECTIONS).await, 0);
}

#[tokio::test]
async fn a_status_code_never_ejects() {
    let failing = Backend::http(|_| BackendResponse::status(503, "")).await;
    let other = Backend::http(|_| BackendResponse::status(503, "")).await;
    let proxy = Setup::to(&[failing.address(), other.address()]).start();
    gets(&proxy, 20, 503).await;
    assert_eq!(proxy.metric(EJECTIONS).await, 0);
    assert_eq!((failing.request_count(), other.request_count()), (10, 10));
}

#[tokio::test]
async fn at_most_half_are_ejected_and_never_the_last_one() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let dead = [wait::free_address(), wait::free_address(), wait::free_address()];
    let proxy =
        Setup::to(&[dead[0], dead[1], dead[2], backend.address()]).policy(|it| it.retry.tries = 8).start();
    gets(&proxy, 10, 200).await;
    assert_eq!(proxy.metric(EJECTIONS).await, 2);
    let alone = Setup::to(&[wait::free_address()]).start();
    gets(&alone, 3, 502).await;
    assert_eq!(alone.metric(EJECTIONS).await, 0);
}

#[tokio::test]
async fn a_single_endpoint_is_used_as_soon_as_it_returns() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    backend.kill().await;
    gets(&proxy, 3, 502).await;
    backend.accept_again().await.unwrap();
    gets(&proxy, 1, 200).await;
}
