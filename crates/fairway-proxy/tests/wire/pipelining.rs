//! Pipelined requests: responses come in order, each with its own bytes.

use fairway_testkit::{Backend, BackendResponse, Request};

use crate::support::{HOST, Running, Setup};

async fn echo() -> (Backend, Running) {
    let backend = Backend::http(|request| {
        BackendResponse::ok(format!(
            "{} {} {}",
            request.method,
            request.target,
            String::from_utf8_lossy(&request.body)
        ))
    })
    .await;
    let proxy = Setup::to(&[backend.address()]).start();
    (backend, proxy)
}

fn mixed() -> (Vec<u8>, Vec<&'static str>) {
    let mut bytes = Request::get(HOST, "/1").bytes();
    bytes.extend(Request::post(HOST, "/2", "two").bytes());
    bytes.extend(Request::new("POST", "/3").header("Host", HOST).chunks(&["th", "ree"]).bytes());
    bytes.extend(Request::new("DELETE", "/4").header("Host", HOST).bytes());
    (bytes, vec!["GET /1 ", "POST /2 two", "POST /3 three", "DELETE /4 "])
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_requests() {
    let (backend, proxy) = echo().await;
    let mut client = proxy.client().await;
    let (bytes, expected) = mixed();
    client.send(&bytes).await.unwrap();
    for expected in expected {
        assert_eq!(client.read_response().await.unwrap().text(), expected);
    }
    backend.assert_followed();
}

#[tokio::test]
async fn requests_sent_byte_by_byte_are_the_same() {
    let (_backend, proxy) = echo().await;
    let mut client = proxy.client().await;
    let (bytes, expected) = mixed();
    for byte in &bytes {
        client.send([*byte]).await.unwrap();
    }
    for expected in expected {
        assert_eq!(client.read_response().await.unwrap().text(), expected);
    }
}

#[tokio::test]
async fn a_thousand_pipelined_requests_all_get_responses() {
    let (backend, proxy) = echo().await;
    let mut client = proxy.client().await;
    let mut bytes = Vec::new();
    for number in 0..1000 {
        bytes.extend(Request::get(HOST, &format!("/{number}")).bytes());
    }
    client.send(&bytes).await.unwrap();
    for number in 0..1000 {
        assert_eq!(client.read_response().await.unwrap().text(), format!("GET /{number} "));
    }
    assert_eq!(backend.request_count(), 1000);
}

#[tokio::test]
async fn bytes_after_the_last_request_are_not_served() {
    let (backend, proxy) = echo().await;
    let mut client = proxy.client().await;
    let mut bytes = Request::get(HOST, "/last").close().bytes();
    bytes.extend(Request::get(HOST, "/behind").bytes());
    client.send(&bytes).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().text(), "GET /last ");
    assert_eq!(client.read_to_end().await.unwrap(), b"");
    assert_eq!(backend.request_count(), 1);
}

#[tokio::test]
async fn a_client_that_closes_its_direction_counts_as_gone_and_its_requests_are_dropped() {
    let backend = Backend::http(|_| BackendResponse::Silence).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let (bytes, _) = mixed();
    client.send(&bytes).await.unwrap();
    backend.wait_until("it has the first request", |backend| backend.request_count() == 1).await;
    client.half_close().await.unwrap();
    assert_eq!(client.read_to_end().await.unwrap(), b"");
    proxy.expect_fault("client_gone", 1).await;
    backend.wait_until("its connection is closed", |backend| backend.open_count() == 0).await;
    assert_eq!(backend.request_count(), 1);
}
