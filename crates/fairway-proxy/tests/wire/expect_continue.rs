//! `Expect: 100-continue` (RFC 9110 §10.1.1): the proxy sends 100 once, and only if it wants the body.

use fairway_testkit::{Backend, BackendResponse, Client, Request, ScriptStep, wait};

use crate::support::{HOST, Setup};

const HEAD: &str =
    "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";

async fn waits_and_sends(client: &mut Client) -> u16 {
    client.send(HEAD).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 100);
    client.send("body").await.unwrap();
    client.read_response().await.unwrap().status
}

#[tokio::test]
async fn the_client_gets_100_continue_and_the_endpoint_no_expectation() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    for _ in 0..2 {
        assert_eq!(waits_and_sends(&mut client).await, 200);
    }
    for request in backend.requests() {
        assert_eq!((request.header("Expect"), request.body.as_slice()), (None, &b"body"[..]));
    }
}

#[tokio::test]
async fn a_single_100_continue_is_sent_even_if_the_endpoint_sends_one_too() {
    let backend = Backend::scripted([
        ScriptStep::ReadRequest,
        ScriptStep::Send(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
        ),
    ])
    .await;
    let proxy = Setup::to(&[backend.address()]).start();
    assert_eq!(
        waits_and_sends(&mut proxy.client().await).await,
        200,
        "the answer after one 100 is the final one"
    );
}

#[tokio::test]
async fn a_single_100_continue_is_sent_for_any_number_of_attempts() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[wait::free_address(), backend.address()]).start();
    for _ in 0..2 {
        assert_eq!(waits_and_sends(&mut proxy.client().await).await, 200);
    }
}

#[tokio::test]
async fn a_client_that_does_not_wait_is_served() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let request = Request::post(HOST, "/", "body").header("Expect", "100-continue");
    assert_eq!(client.exchange(&request).await.unwrap().status, 200);
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
}

#[tokio::test]
async fn an_unwanted_body_gets_a_final_response_and_the_connection_ends() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let dead = Setup::to(&[wait::free_address()]);
    let limited = Setup::to(&[backend.address()]).policy(|policy| policy.max_body = Some(3));
    for (setup, status) in [(limited, 413), (Setup::to(&[]), 503), (dead, 502)] {
        let proxy = setup.start();
        let mut client = proxy.client().await;
        client.send(HEAD).await.unwrap();
        let response = client.read_response().await.unwrap();
        assert_eq!((response.status, response.header("Connection")), (status, Some("close")));
        client.expect_closed().await;
    }
    assert_eq!(backend.connection_count(), 0);
}

#[tokio::test]
async fn without_a_body_or_in_http_1_0_no_100_continue_is_sent() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    client.send(Request::get(HOST, "/").header("Expect", "100-continue").bytes()).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 200);
    let old = Request::post(HOST, "/", "body").header("Expect", "100-continue").http10();
    client.send(old.bytes()).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 200);
}
