//! Shutdown: it serves for a while, then accepts no new connections, and ends after the last response.

use std::io::ErrorKind;
use std::time::Duration;

use fairway_proxy::DrainOptions;
use fairway_testkit::wait::WAIT_TIMEOUT;
use fairway_testkit::{Backend, BackendResponse, Client, Request, eventually};

use crate::support::{HOST, Running, Setup, TIMEOUT};

const LONG: Duration = Duration::from_secs(3600);

async fn draining(delay: Duration, timeout: Duration) -> (Backend, Running) {
    let backend = Backend::http(|request| match request.target.as_str() {
        "/held" => BackendResponse::ok("late").hold(),
        _ => BackendResponse::ok("ok"),
    })
    .await;
    let proxy = Setup::to(&[backend.address()])
        .options(|options| options.drain = DrainOptions { delay, timeout })
        .start();
    (backend, proxy)
}

#[tokio::test]
async fn during_the_delay_clients_are_served_and_asked_to_leave() {
    let (_backend, proxy) = draining(LONG, LONG).await;
    let mut open = proxy.client().await;
    assert_eq!(open.exchange(&Request::get(HOST, "/")).await.unwrap().header("Connection"), None);
    proxy.handle.drain();
    eventually("the order is known", WAIT_TIMEOUT, || async {
        let response = proxy.client().await.exchange(&Request::get(HOST, "/")).await.unwrap();
        response.header("Connection") == Some("close")
    })
    .await;
    let response = open.exchange(&Request::get(HOST, "/")).await.unwrap();
    assert_eq!((response.status, response.header("Connection")), (200, Some("close")));
    open.expect_closed().await;
}

#[tokio::test]
async fn after_the_delay_idle_connections_close_and_new_ones_are_refused() {
    let (backend, proxy) = draining(Duration::ZERO, LONG).await;
    let mut idle = proxy.client().await;
    assert_eq!(idle.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    let mut fresh = proxy.client().await;
    let mut busy = proxy.client().await;
    busy.send(Request::get(HOST, "/held").bytes()).await.unwrap();
    backend.wait_until("the exchange in flight", |backend| backend.waiting_count() == 1).await;
    proxy.handle.drain();
    assert_eq!(idle.read_to_end().await.unwrap(), b"");
    assert_eq!(fresh.read_to_end().await.unwrap(), b"");
    eventually("nobody listens", WAIT_TIMEOUT, || async {
        Client::connect(proxy.http).await.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    })
    .await;
    backend.release();
    let response = busy.read_response().await.unwrap();
    assert_eq!((response.text().as_str(), response.header("Connection")), ("late", Some("close")));
    proxy.join().await.unwrap();
}

#[tokio::test]
async fn unfinished_exchanges_are_cut_after_the_timeout() {
    let (backend, proxy) = draining(Duration::ZERO, TIMEOUT).await;
    let mut busy = proxy.client().await;
    busy.send(Request::get(HOST, "/held").bytes()).await.unwrap();
    backend.wait_until("the exchange in flight", |backend| backend.waiting_count() == 1).await;
    proxy.handle.drain();
    proxy.join().await.unwrap();
    busy.read_response().await.expect_err("it was cut");
}

#[tokio::test]
async fn a_second_signal_and_metrics_do_not_disturb_a_drain() {
    let (backend, proxy) = draining(Duration::ZERO, LONG).await;
    let mut busy = proxy.client().await;
    busy.send(Request::get(HOST, "/held").bytes()).await.unwrap();
    backend.wait_until("the exchange in flight", |backend| backend.waiting_count() == 1).await;
    proxy.handle.drain();
    proxy.handle.drain();
    proxy.expect_metric("fairway_connections_open", 1).await;
    backend.release();
    assert_eq!(busy.read_response().await.unwrap().text(), "late");
    proxy.join().await.unwrap();
}

#[tokio::test]
async fn a_proxy_without_connections_stops_at_once() {
    let (_backend, proxy) = draining(Duration::ZERO, LONG).await;
    proxy.handle.drain();
    proxy.join().await.unwrap();
}
