//! Connections that carry several requests, on either side, and when they end.

use std::time::Duration;

use fairway_testkit::{Backend, BackendResponse, Request, ScriptStep};

use crate::support::{HOST, Setup};

fn ok() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
}

#[tokio::test]
async fn one_connection_to_the_endpoint_serves_many_clients_in_turn() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    for _ in 0..5 {
        let mut client = proxy.client().await;
        for request in [
            Request::get(HOST, "/"),
            Request::post(HOST, "/", "body"),
            Request::new("DELETE", "/").header("Host", HOST),
        ] {
            assert_eq!(client.exchange(&request).await.unwrap().status, 200);
        }
    }
    assert_eq!((backend.connection_count(), backend.request_count()), (1, 15));
}

#[tokio::test]
async fn a_client_does_not_notice_an_idle_connection_that_the_endpoint_closed() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    for round in 1..=5 {
        assert_eq!(client.exchange(&Request::post(HOST, "/", "body")).await.unwrap().status, 200);
        backend.close_connections();
        backend.wait_until("the connection is closed", |backend| backend.open_count() == 0).await;
        assert_eq!(backend.connection_count(), round);
    }
    assert_eq!(backend.request_count(), 5);
}

#[tokio::test]
async fn a_connection_ends_politely_after_its_share_of_requests() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let setup =
        Setup::to(&[backend.address()]).settings(|settings| settings.downstream.requests_per_connection = 3);
    let proxy = setup.start();
    let mut client = proxy.client().await;
    for connection in [None, None, Some("close")] {
        let response = client.exchange(&Request::get(HOST, "/")).await.unwrap();
        assert_eq!(response.header("Connection"), connection);
    }
    client.expect_closed().await;
}

#[tokio::test]
async fn a_connection_to_an_endpoint_ends_after_its_share_of_requests() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let setup =
        Setup::to(&[backend.address()]).settings(|settings| settings.upstream.requests_per_connection = 2);
    let proxy = setup.start();
    let mut client = proxy.client().await;
    for _ in 0..6 {
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    }
    assert_eq!(backend.connection_count(), 3);
}

#[tokio::test]
async fn idle_connections_are_limited_by_the_settings() {
    let backend = Backend::http(|_| BackendResponse::ok("ok").hold()).await;
    let setup =
        Setup::to(&[backend.address()]).settings(|settings| settings.upstream.idle_connections = Some(2));
    let proxy = setup.start();
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut client = proxy.client().await;
        client.send(Request::get(HOST, "/").bytes()).await.unwrap();
        clients.push(client);
    }
    backend.wait_until("five requests at once", |backend| backend.waiting_count() == 5).await;
    (0..5).for_each(|_| backend.release());
    for client in &mut clients {
        assert_eq!(client.read_response().await.unwrap().status, 200);
    }
    proxy.expect_metric("fairway_upstream_idle_connections", 2).await;
    backend.wait_until("the others are closed", |backend| backend.open_count() == 2).await;
}

#[tokio::test]
async fn close_from_the_client_ends_its_connection_and_not_the_endpoints() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    for _ in 0..2 {
        let mut client = proxy.client().await;
        let response = client.exchange(&Request::get(HOST, "/").close()).await.unwrap();
        assert_eq!(response.header("Connection"), Some("close"));
        assert_eq!(client.read_to_end().await.unwrap(), b"");
    }
    assert_eq!(backend.connection_count(), 1);
    assert!(backend.requests().iter().all(|request| request.header("Connection").is_none()));
}

#[tokio::test]
async fn close_from_the_endpoint_ends_its_connection_and_not_the_clients() {
    let backend =
        Backend::http(|_| BackendResponse::with_headers(200, &[("Connection", "close")], "ok")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    for _ in 0..2 {
        let response = client.exchange(&Request::get(HOST, "/")).await.unwrap();
        assert_eq!(response.header("Connection"), None);
    }
    assert_eq!(backend.connection_count(), 2);
}

#[tokio::test]
async fn an_idle_client_is_let_go() {
    let backend = Backend::http(|_| BackendResponse::ok("ok").hold()).await;
    let setup = Setup::to(&[backend.address()]);
    let mut proxy = setup.start();
    let mut client = proxy.client().await;
    client.send(Request::get(HOST, "/").bytes()).await.unwrap();
    backend.wait_until("the request", |backend| backend.waiting_count() == 1).await;
    // The timeout is only shortened once nothing else must happen before it.
    let short = |setup: Setup| setup.settings(|it| it.downstream.idle_timeout = Duration::from_millis(30));
    proxy.publish(&short(setup)).await;
    backend.release();
    assert_eq!(client.read_response().await.unwrap().status, 200);
    assert_eq!(client.read_to_end().await.unwrap(), b"");
    proxy.expect_metric("fairway_connections_open", 0).await;
}

#[tokio::test]
async fn the_unread_rest_of_a_small_body_is_no_next_request() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let setup = Setup::to(&[backend.address()]).policy(|policy| policy.max_body = Some(3));
    let proxy = setup.start();
    let mut client = proxy.client().await;
    client.send(Request::post(HOST, "/", "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n").bytes()).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 413);
    assert_eq!(client.exchange(&Request::get(HOST, "/next")).await.unwrap().status, 200);
    let targets: Vec<_> = backend.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/next"]);
}

#[tokio::test]
async fn a_connection_with_an_unread_request_is_not_reused() {
    let backend = Backend::scripts(vec![
        vec![ScriptStep::ReadHead, ScriptStep::Send(ok())],
        vec![ScriptStep::ReadRequest, ScriptStep::Send(ok())],
    ])
    .await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut first = proxy.client().await;
    first.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nstart").await.unwrap();
    assert_eq!(first.read_response().await.unwrap().status, 200);
    let mut second = proxy.client().await;
    assert_eq!(second.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    assert_eq!(backend.connection_count(), 2);
}
