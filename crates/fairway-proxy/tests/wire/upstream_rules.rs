//! The rules for responses: an invalid response becomes 502, or a failure that the client notices.

use std::io::ErrorKind;

use fairway_testkit::wire::Framing;
use fairway_testkit::{Backend, BackendResponse, Request, ScriptStep};

use crate::support::{HOST, Setup};

/// A backend that responds to every request with these bytes and closes.
async fn answering(bytes: impl Into<Vec<u8>>) -> Backend {
    let bytes = bytes.into();
    Backend::http(move |_| BackendResponse::ThenClose(bytes.clone())).await
}

async fn becomes_502(response: &str) {
    let backend = answering(response).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let got = client
        .exchange(&Request::get(HOST, "/"))
        .await
        .unwrap_or_else(|error| panic!("{response:?}: {error}"));
    assert_eq!(got.status, 502, "{response:?}");
    proxy.expect_fault("upstream_malformed", 1).await;
    assert_eq!(
        backend.request_count(),
        1,
        "a malformed answer is an answer: {response:?} is not asked for again"
    );
}

#[tokio::test]
async fn a_malformed_head_is_502_and_not_retried() {
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\n\r\n",
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=\x01b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "SSH-2.0-OpenSSH_9\r\n\r\n",
    ] {
        becomes_502(response).await;
    }
}

#[tokio::test]
async fn a_bad_chunk_truncates_the_response_visibly() {
    for chunk in ["zz\r\n", "3 \r\nabc\r\n0\r\n\r\n", "3\t\r\nabc\r\n0\r\n\r\n", "3\nabc\r\n0\r\n\r\n"] {
        let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n{chunk}");
        let backend = answering(response).await;
        let proxy = Setup::to(&[backend.address()]).start();
        let mut client = proxy.client().await;
        let broken = client.exchange(&Request::get(HOST, "/")).await;
        assert!(broken.is_err(), "{chunk:?}: a broken answer is no answer");
        proxy.expect_fault("upstream_malformed", 1).await;
    }
}

#[tokio::test]
async fn a_truncated_response_is_no_short_success() {
    for (response, request) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", Request::get(HOST, "/")),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", Request::get(HOST, "/")),
        // Without a length only the end of the connection reveals it: it must be a reset.
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            Request::get(HOST, "/").http10(),
        ),
    ] {
        let backend = answering(response).await;
        let proxy = Setup::to(&[backend.address()]).start();
        let mut client = proxy.client().await;
        let error = client.exchange(&request).await.expect_err(response);
        assert!(
            matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof),
            "{response:?}: {error}"
        );
        assert_eq!(backend.request_count(), 1, "never again after the first byte of an answer");
        proxy.expect_fault("upstream_truncated", 1).await;
    }
}

#[tokio::test]
async fn a_reset_in_a_close_delimited_response_is_forwarded_as_a_failure() {
    let backend = Backend::scripted([
        ScriptStep::ReadRequest,
        ScriptStep::Send(b"HTTP/1.1 200 OK\r\n\r\nabc".to_vec()),
        ScriptStep::Wait,
        ScriptStep::Reset,
    ])
    .await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    client.send(Request::get(HOST, "/").http10().bytes()).await.unwrap();
    backend.wait_until("the answer's first part", |backend| backend.waiting_count() == 1).await;
    backend.release();
    let error = client.read_response().await.expect_err("the rest is missing");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_response_truncated_within_its_head_is_not_retried() {
    let backend = answering("HTTP/1.1 200 OK\r\nContent-Le").await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 502);
    assert_eq!(backend.request_count(), 1, "a byte of an answer had come");
}

#[tokio::test]
async fn interim_responses_reach_only_http_1_1_clients() {
    let response = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                  HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let backend = Backend::http(move |_| BackendResponse::Bytes(response.into())).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    client.send(Request::get(HOST, "/").bytes()).await.unwrap();
    let first = client.read_response().await.unwrap();
    assert_eq!((first.status, first.header("Link")), (103, Some("</a>")), "100 is the proxy's own word");
    assert_eq!(client.read_response().await.unwrap().text(), "ok");
    let mut old = proxy.client().await;
    old.send(Request::get(HOST, "/").http10().bytes()).await.unwrap();
    assert_eq!(old.read_response().await.unwrap().status, 200);
}

#[tokio::test]
async fn an_interim_response_does_not_wait_for_the_final_one() {
    let backend = Backend::scripted([
        ScriptStep::ReadRequest,
        ScriptStep::Send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_vec()),
        ScriptStep::Wait,
        ScriptStep::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
    ])
    .await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    client.send(Request::get(HOST, "/").bytes()).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 103);
    backend.release();
    assert_eq!(client.read_response().await.unwrap().status, 200);
}

#[tokio::test]
async fn an_unrequested_protocol_switch_is_502() {
    let response =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nsecret";
    let backend = Backend::http(move |_| BackendResponse::Bytes(response.into())).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let got = client.exchange(&Request::get(HOST, "/")).await.unwrap();
    assert_eq!(got.status, 502);
    assert_eq!(backend.request_count(), 1);
}

#[tokio::test]
async fn bytes_after_a_response_belong_to_no_response() {
    let backend = Backend::http(|_| {
        BackendResponse::Bytes(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 EVIL\r\n\r\n".into(),
        )
    })
    .await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    for _ in 0..3 {
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().text(), "ok");
    }
    assert_eq!(backend.connection_count(), 3, "a connection with leftovers is not used again");
}

#[tokio::test]
async fn hop_by_hop_headers_of_responses_are_removed() {
    let headers = [
        ("Connection", "X-Hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "timeout=5"),
        ("Server", "secret/1"),
        ("X-End", "2"),
    ];
    let backend = Backend::http(move |_| BackendResponse::with_headers(200, &headers, "ok")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let response = proxy.client().await.exchange(&Request::get(HOST, "/")).await.unwrap();
    for name in ["Connection", "X-Hop", "Keep-Alive", "Server"] {
        assert_eq!(response.header(name), None, "{name}");
    }
    assert_eq!((response.header("X-End"), response.framing), (Some("2"), Framing::Length(2)));
}
