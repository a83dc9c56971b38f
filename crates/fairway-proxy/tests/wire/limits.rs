//! Limits on clients: the status, the close, and that other clients are not affected.

use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::{Backend, BackendResponse, Client, Request};

use crate::support::{HOST, Running, Setup, TIMEOUT};

async fn start_with(edit: impl FnOnce(Setup) -> Setup) -> (Backend, Running) {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let proxy = edit(Setup::to(&[backend.address()])).start();
    (backend, proxy)
}

async fn refused(proxy: &Running, request: Vec<u8>, status: u16) {
    let mut client = proxy.client().await;
    client.send(request).await.unwrap();
    let response = client.read_response().await.unwrap();
    assert_eq!((response.status, response.header("Connection")), (status, Some("close")));
    client.expect_closed().await;
}

#[tokio::test]
async fn an_oversized_head_is_431() {
    let (backend, proxy) = start_with(|setup| setup).await;
    let fits = Request::get(HOST, "/").header("X-Long", &"a".repeat(31 * 1024));
    assert_eq!(proxy.client().await.exchange(&fits).await.unwrap().status, 200);
    refused(&proxy, Request::get(HOST, "/").header("X-Long", &"a".repeat(33 * 1024)).bytes(), 431).await;
    proxy.expect_fault("head_too_large", 1).await;
    let many =
        (0..101).fold(Request::get(HOST, "/"), |request, number| request.header(&format!("X-{number}"), "a"));
    refused(&proxy, many.bytes(), 431).await;
    proxy.expect_fault("too_many_fields", 1).await;
    assert_eq!(backend.request_count(), 1);
}

#[tokio::test]
async fn an_oversized_request_line_is_414() {
    let (backend, proxy) = start_with(|setup| setup).await;
    let fits = Request::get(HOST, &format!("/{}", "a".repeat(8000)));
    assert_eq!(proxy.client().await.exchange(&fits).await.unwrap().status, 200);
    refused(&proxy, Request::get(HOST, &format!("/{}", "a".repeat(9000))).bytes(), 414).await;
    proxy.expect_fault("start_line_too_long", 1).await;
    assert_eq!(backend.request_count(), 1);
}

#[tokio::test]
async fn an_oversized_body_is_413_by_length_and_by_count() {
    let (backend, proxy) = start_with(|setup| setup.policy(|policy| policy.max_body = Some(1000))).await;
    let mut client = proxy.client().await;
    for request in [
        Request::post(HOST, "/", vec![b'a'; 1000]),
        Request::new("POST", "/").header("Host", HOST).chunks(&[vec![b'a'; 500], vec![b'a'; 500]]),
    ] {
        assert_eq!(client.exchange(&request).await.unwrap().status, 200);
    }
    assert_eq!(client.exchange(&Request::post(HOST, "/", vec![b'a'; 1001])).await.unwrap().status, 413);
    let chunked = Request::new("POST", "/").header("Host", HOST).chunks(&[vec![b'a'; 500], vec![b'a'; 501]]);
    refused(&proxy, chunked.bytes(), 413).await;
    refused(&proxy, Request::post(HOST, "/", vec![b'a'; 1_000_000]).bytes(), 413).await;
    proxy.expect_fault("body_too_large", 3).await;
    assert_eq!(backend.request_count(), 2, "no whole request that is too large reached the endpoint");
}

#[tokio::test]
async fn a_client_that_sends_a_whole_refused_body_receives_the_response() {
    let (_backend, proxy) = start_with(|setup| setup.policy(|policy| policy.max_body = Some(1 << 20))).await;
    // More than the buffers of both sockets can hold.
    let upload = Request::post(HOST, "/", vec![b'a'; 16 << 20]).bytes();
    for round in 0..3 {
        let offer = TlsOffer::new(unverified_client_config(), HOST);
        let over_tls = Client::connect_tls(proxy.https, &offer).await.unwrap();
        for mut client in [proxy.client().await, over_tls] {
            // A reset would be an error here, and discard the response.
            client.send(&upload).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
            assert_eq!(client.read_response().await.unwrap().status, 413, "round {round}");
            client.expect_closed().await;
        }
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_in_time_is_408() {
    let (_backend, proxy) =
        start_with(|setup| setup.settings(|settings| settings.downstream.head_timeout = TIMEOUT)).await;
    refused(&proxy, b"GET / HTTP/1.1\r\nHost:".to_vec(), 408).await;
    proxy.expect_refused("client_timeout", 1).await;
}

#[tokio::test]
async fn a_body_that_stops_coming_is_408() {
    let (backend, proxy) =
        start_with(|setup| setup.options(|options| options.limits.body_idle = TIMEOUT)).await;
    for head in ["Content-Length: 10\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"] {
        refused(&proxy, format!("POST / HTTP/1.1\r\nHost: a\r\n{head}").into_bytes(), 408).await;
    }
    proxy.expect_fault("client_timeout", 2).await;
    assert_eq!(backend.request_count(), 0);
}

#[tokio::test]
async fn one_connection_too_many_is_503_and_the_next_one_after_a_close_is_served() {
    let (_backend, proxy) =
        start_with(|setup| setup.options(|options| options.limits.connections = Some(2))).await;
    let mut first = proxy.client().await;
    let mut second = proxy.client().await;
    for client in [&mut first, &mut second] {
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    }
    let mut third = proxy.client().await;
    let response = third.read_response().await.unwrap();
    assert_eq!((response.status, response.header("Retry-After")), (503, Some("1")));
    proxy.expect_refused("overloaded", 1).await;
    drop(first);
    proxy.expect_metric("fairway_connections_open", 1).await;
    assert_eq!(proxy.client().await.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut() {
    let body = vec![b'a'; 32 * 1024 * 1024];
    let backend = Backend::http(move |_| BackendResponse::ok(&body)).await;
    let setup =
        Setup::to(&[backend.address()]).settings(|settings| settings.downstream.write_timeout = TIMEOUT);
    let proxy = setup.start();
    let mut client = proxy.client().await;
    client.send(Request::get(HOST, "/").bytes()).await.unwrap();
    proxy.expect_fault("client_stalled", 1).await;
    proxy.expect_metric("fairway_connections_open", 0).await;
    client.read_response().await.expect_err("the rest is missing");
    backend.wait_until("the endpoint is let go", |backend| backend.open_count() == 0).await;
}
