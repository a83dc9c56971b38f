//! The raw client and the scripted backend against each other: what wire tests of the proxy rely on.

use std::io::ErrorKind;

use fairway_testkit::certificates::{Validity, unverified_client_config};
use fairway_testkit::client::TlsOffer;
use fairway_testkit::wire::Framing;
use fairway_testkit::{Authority, Backend, BackendResponse, Client, KeyKind, Request, ScriptStep};

#[tokio::test]
async fn a_connection_is_reused_for_many_requests() {
    let backend =
        Backend::http(|request| BackendResponse::ok(format!("{} {}", request.method, request.target))).await;
    let mut client = Client::connect(backend.address()).await.unwrap();
    for turn in 0..3 {
        let response = client.exchange(&Request::get("a", &format!("/{turn}"))).await.unwrap();
        assert_eq!((response.status, response.text()), (200, format!("GET /{turn}")));
    }
    let response = client.exchange(&Request::new("PUT", "/").chunks(&["ab", "c"])).await.unwrap();
    assert_eq!(response.text(), "PUT /");
    assert_eq!(backend.requests()[3].body, b"abc");
    assert_eq!((backend.connection_count(), backend.request_count()), (1, 4));
    backend.assert_followed();
}

#[tokio::test]
async fn a_script_is_followed_step_by_step() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
    let script = [
        ScriptStep::Expect(head.clone()),
        ScriptStep::Send(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        ),
        ScriptStep::Wait,
        ScriptStep::Send(b"3\r\nabc\r\n0\r\n\r\n".to_vec()),
        ScriptStep::Close,
    ];
    let backend = Backend::scripted(script).await;
    let mut client = Client::connect(backend.address()).await.unwrap();
    client.send(&head).await.unwrap();
    assert!(client.read_response().await.unwrap().is_interim());
    backend.wait_until("the script waits", |backend| backend.waiting_count() == 1).await;
    backend.release();
    let response = client.read_response().await.unwrap();
    assert_eq!((response.body.as_slice(), response.framing), (&b"abc"[..], Framing::Chunked));
    client.expect_closed().await;
    assert_eq!(backend.connections()[0].bytes, head);
    backend.assert_followed();
}

#[tokio::test]
#[should_panic(expected = "expected \"GET\"")]
async fn an_unexpected_byte_fails_the_script() {
    let backend = Backend::scripted([ScriptStep::Expect(b"GET".to_vec())]).await;
    let mut client = Client::connect(backend.address()).await.unwrap();
    client.send("PUT").await.unwrap();
    client.expect_closed().await;
    backend.wait_until("the connection failed", |backend| backend.open_count() == 0).await;
    backend.assert_followed();
}

#[tokio::test]
async fn a_request_in_another_form_ends_the_connection() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let mut client = Client::connect(backend.address()).await.unwrap();
    client.send("GET / HTTP/1.1\nHost: a\n\n").await.unwrap();
    client.expect_closed().await;
    assert_eq!(backend.request_count(), 0);
}

#[tokio::test]
async fn a_truncated_response_is_an_error() {
    for cut in [10, 45, 60] {
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", "x".repeat(100));
        let backend =
            Backend::http(move |_| BackendResponse::ThenReset(response.as_bytes()[..cut].to_vec())).await;
        let mut client = Client::connect(backend.address()).await.unwrap();
        let error = client.exchange(&Request::get("a", "/")).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof), "{error}");
    }
}

#[tokio::test]
async fn a_refusing_backend_returns_on_the_same_port() {
    let backend = Backend::http(|_| BackendResponse::ok("here")).await;
    let mut kept_client = Client::connect(backend.address()).await.unwrap();
    backend.wait_until("accepted", |backend| backend.connection_count() == 1).await;
    backend.refuse().await;
    let error = Client::connect(backend.address()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(kept_client.exchange(&Request::get("a", "/")).await.unwrap().text(), "here");
    backend.accept_again().await.unwrap();
    let mut client = Client::connect(backend.address()).await.unwrap();
    assert_eq!(client.exchange(&Request::get("a", "/")).await.unwrap().text(), "here");
}

#[tokio::test]
async fn killing_resets_a_connection_within_its_response() {
    let backend = Backend::http(|_| BackendResponse::ok("never").hold()).await;
    let mut client = Client::connect(backend.address()).await.unwrap();
    client.send(Request::get("a", "/").bytes()).await.unwrap();
    backend.wait_until("the answer is held", |backend| backend.waiting_count() == 1).await;
    backend.kill().await;
    assert_eq!(client.read_response().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    backend.wait_until("no connection is open", |backend| backend.open_count() == 0).await;
}

#[tokio::test]
async fn a_repeated_request_number_is_a_duplicate() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let mut client = Client::connect(backend.address()).await.unwrap();
    for number in ["1", "2", "1"] {
        client.exchange(&Request::post("a", "/", "x").header("X-Request-Number", number)).await.unwrap();
    }
    assert_eq!(backend.deliveries().len(), 2);
    assert_eq!(backend.duplicates(), [("1".to_owned(), 2)].into());
}

#[tokio::test]
async fn a_wrong_or_expired_certificate_is_refused_unless_anything_is_trusted() {
    let (authority, other) = (Authority::new("Test"), Authority::new("Other"));
    let expired = authority.issue(&["a.test"], KeyKind::EcdsaP256, Validity::Expired);
    let backend = Backend::https(expired.server_config(&[]), |_| BackendResponse::ok("inside")).await;
    for config in [authority.client_config(), other.client_config()] {
        let offer = TlsOffer::new(config, "a.test").alpn(&[]);
        assert!(Client::connect_tls(backend.address(), &offer).await.is_err());
    }
    let offer = TlsOffer::new(unverified_client_config(), "whatever.test").alpn(&[]);
    let mut client = Client::connect_tls(backend.address(), &offer).await.unwrap();
    assert_eq!(client.exchange(&Request::get("a", "/")).await.unwrap().text(), "inside");
}
