//! How a rule says that endpoints are spoken to.

use fairway_model::{AnswerBounds, EndpointHop, Forwarding, HopConnection, HopVersion, Phases};
use fairway_testkit::{Answer, Backend, Client, RecordedRequest, Request, certificates, client::TlsOffer};

use crate::support::{HOST, Setup};

/// What the endpoint saw of two requests, and over how many connections they came.
async fn told(version: HopVersion, connection: HopConnection, request: Request) -> (RecordedRequest, usize) {
    let backend = Backend::http(|_| Answer::ok("ok")).await;
    let hop = EndpointHop { version, connection };
    let proxy = Setup::to(&[backend.address()])
        .filter(Phases::from(Forwarding { hop, ..Forwarding::default() }))
        .start();
    let mut client = proxy.client().await;
    for _ in 0..2 {
        assert_eq!(client.exchange(&request).await.unwrap().text(), "ok");
    }
    (backend.requests().remove(0), backend.connection_count())
}

#[tokio::test]
async fn an_endpoint_is_told_what_becomes_of_the_connection() {
    use HopConnection::{Close, KeepAlive, Unsaid};
    use HopVersion::{Http10, Http11};
    for (version, connection, said, connections) in [
        (Http11, Unsaid, None, 1),
        (Http11, KeepAlive, Some("keep-alive"), 1),
        (Http11, Close, Some("close"), 2),
        (Http10, Unsaid, None, 2),
        (Http10, Close, Some("close"), 2),
    ] {
        let (seen, made) = told(version, connection, Request::post(HOST, "/", "body")).await;
        let name = if version == Http10 { "HTTP/1.0" } else { "HTTP/1.1" };
        assert_eq!((&*seen.version, seen.header("Connection"), made), (name, said, connections));
        assert_eq!(seen.body, b"body");
    }
}

#[tokio::test]
async fn a_body_of_unknown_length_is_never_sent_with_http_1_0() {
    let bytes = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
    let backend = Backend::http(|_| Answer::ok("ok")).await;
    let hop = EndpointHop { version: HopVersion::Http10, connection: HopConnection::Unsaid };
    let proxy = Setup::to(&[backend.address()])
        .filter(Phases::from(Forwarding { hop, ..Forwarding::default() }))
        .start();
    let mut client = proxy.client().await;
    client.send(bytes.as_bytes()).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 200);
    let seen = backend.requests().remove(0);
    assert_eq!((&*seen.version, &*seen.body), ("HTTP/1.1", &b"body"[..]));
}

#[tokio::test]
async fn requests_over_tls_go_to_a_backend_of_their_own() {
    let plain = Backend::http(|_| Answer::ok("plain")).await;
    let secured = Backend::http(|_| Answer::ok("secured")).await;
    let mut setup = Setup::to(&[plain.address()])
        .filter(Phases::from(Forwarding { secured: Some("other".into()), ..Forwarding::default() }));
    setup.other = Some(secured.address());
    let proxy = setup.start();
    let request = Request::get(HOST, "/");
    assert_eq!(proxy.client().await.exchange(&request).await.unwrap().text(), "plain");
    let offer = TlsOffer::new(certificates::trusting_anything(), HOST);
    let mut client = Client::connect_tls(proxy.https, &offer).await.unwrap();
    assert_eq!(client.exchange(&request).await.unwrap().text(), "secured");
}

#[tokio::test]
async fn a_rule_lets_heads_of_answers_be_larger_than_the_process_does() {
    let large = "x".repeat(60_000);
    let backend = {
        let large = large.clone();
        Backend::http(move |_| Answer::with_headers(200, &[("X-Large", &large)], "ok")).await
    };
    for (most, status) in [(None, 502), (Some(1024), 502), (Some(64 * 1024), 200)] {
        let mut setup = Setup::to(&[backend.address()]);
        setup.filters = most.map(|head| AnswerBounds { head, rate: None }.into()).into_iter().collect();
        let answer = setup.start().client().await.exchange(&Request::get(HOST, "/")).await.unwrap();
        assert_eq!(answer.status, status, "{most:?}");
        assert_eq!(answer.header("X-Large").map(str::len), (status == 200).then_some(large.len()));
    }
}
