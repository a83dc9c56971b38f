//! Settings of a rule for the connection to an endpoint: the HTTP version, the `Connection` header, a separate
//! backend for requests over TLS, and the limit of response heads.

use fairway_model::{ConnectionHeader, Forwarding, Http1Options, Http1Version, Phases, ResponseLimits};
use fairway_testkit::{
    Backend, BackendResponse, Client, RecordedRequest, Request, certificates, client::TlsOffer,
};

use crate::support::{HOST, Setup};

/// The default: the proxy adds no `Connection` header.
const NO_HEADER: ConnectionHeader = ConnectionHeader::Unsaid;

/// Sends a request twice over one client connection. Returns the first one as the endpoint received it, and the
/// number of connections that the endpoint accepted.
async fn send_twice(
    version: Http1Version,
    connection: ConnectionHeader,
    request: Request,
) -> (RecordedRequest, usize) {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let hop = Http1Options { version, connection };
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
async fn an_endpoint_receives_the_http_version_and_connection_header_of_the_rule() {
    use ConnectionHeader::{Close, KeepAlive};
    use Http1Version::{Http10, Http11};
    for (version, connection, expected_header, expected_connections) in [
        (Http11, NO_HEADER, None, 1),
        (Http11, KeepAlive, Some("keep-alive"), 1),
        (Http11, Close, Some("close"), 2),
        (Http10, NO_HEADER, None, 2),
        (Http10, Close, Some("close"), 2),
    ] {
        let (received, connections) = send_twice(version, connection, Request::post(HOST, "/", "body")).await;
        let expected_version = if version == Http10 { "HTTP/1.0" } else { "HTTP/1.1" };
        assert_eq!(
            (&*received.version, received.header("Connection"), connections),
            (expected_version, expected_header, expected_connections),
            "version, Connection header and number of connections for {version:?} and {connection:?}"
        );
        assert_eq!(received.body, b"body");
    }
}

/// HTTP/1.0 has no chunked coding (RFC 9112 §6.1), so the proxy uses HTTP/1.1 in spite of the rule.
#[tokio::test]
async fn a_body_of_unknown_length_is_never_sent_with_http_1_0() {
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let hop = Http1Options { version: Http1Version::Http10, connection: NO_HEADER };
    let proxy = Setup::to(&[backend.address()])
        .filter(Phases::from(Forwarding { hop, ..Forwarding::default() }))
        .start();
    let mut client = proxy.client().await;
    client.send(chunked.as_bytes()).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 200);
    let received = backend.requests().remove(0);
    assert_eq!((&*received.version, &*received.body), ("HTTP/1.1", &b"body"[..]));
}

#[tokio::test]
async fn requests_over_tls_go_to_the_tls_backend_of_the_rule() {
    let plain = Backend::http(|_| BackendResponse::ok("plain")).await;
    let secured = Backend::http(|_| BackendResponse::ok("secured")).await;
    let mut setup = Setup::to(&[plain.address()])
        .filter(Phases::from(Forwarding { tls_backend: Some("other".into()), ..Forwarding::default() }));
    setup.other_address = Some(secured.address());
    let proxy = setup.start();
    let request = Request::get(HOST, "/");
    assert_eq!(proxy.client().await.exchange(&request).await.unwrap().text(), "plain");
    let offer = TlsOffer::new(certificates::unverified_client_config(), HOST);
    let mut client = Client::connect_tls(proxy.https, &offer).await.unwrap();
    assert_eq!(client.exchange(&request).await.unwrap().text(), "secured");
}

#[tokio::test]
async fn a_rule_can_allow_larger_response_heads_than_the_process_does() {
    // Bytes: more than the process allows, less than the 64 KiB of the last case.
    let large_value = "x".repeat(60_000);
    let backend = {
        let value = large_value.clone();
        Backend::http(move |_| BackendResponse::with_headers(200, &[("X-Large", &value)], "ok")).await
    };
    for (allowed_head_bytes, expected_status) in [(None, 502), (Some(1024), 502), (Some(64 * 1024), 200)] {
        let mut setup = Setup::to(&[backend.address()]);
        setup.filters =
            allowed_head_bytes.map(|head| ResponseLimits { head, rate: None }.into()).into_iter().collect();
        let response = setup.start().client().await.exchange(&Request::get(HOST, "/")).await.unwrap();
        assert_eq!(
            response.status, expected_status,
            "status if the rule allows response heads of {allowed_head_bytes:?} bytes"
        );
        let forwarded_bytes = response.header("X-Large").map(str::len);
        assert_eq!(forwarded_bytes, (expected_status == 200).then_some(large_value.len()));
    }
}
