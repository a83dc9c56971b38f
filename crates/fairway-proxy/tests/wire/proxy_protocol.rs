//! The PROXY protocol before HTTP and before TLS.

use fairway_model::{AccessList, Guard, Phases};
use fairway_proxy::ProxyProtocolOn;
use fairway_testkit::{Backend, BackendResponse, Request};

use crate::support::{HOST, Running, Setup};

/// Version 2, PROXY, TCP over IPv4, from 192.0.2.7:5555.
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x01\x15\xb3\0\x50";
/// Version 2, LOCAL: a connection of the balancer itself.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
/// Version 2, PROXY, with an unspecified family.
const UNSPECIFIED: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\0";

async fn expecting(trusted: &[&str]) -> (Backend, Running) {
    let backend =
        Backend::http(|request| BackendResponse::ok(request.header("X-Real-IP").unwrap_or_default())).await;
    let setup = Setup::to(&[backend.address()]).options(|options| {
        options.proxy_protocol.on = ProxyProtocolOn::Http;
        options.proxy_protocol.trusted = trusted.iter().map(|range| range.parse().unwrap()).collect();
    });
    let proxy = setup.start();
    (backend, proxy)
}

#[tokio::test]
async fn the_proxy_header_names_the_client_for_the_whole_connection() {
    let (_backend, proxy) = expecting(&[]).await;
    for (header, client) in [
        (&b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 80\r\n"[..], "192.0.2.7"),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 5555 80\r\n", "2001:db8::7"),
        (b"PROXY UNKNOWN\r\n", "unknown"),
        (b"PROXY UNKNOWN 192.0.2.7 192.0.2.1 5555 80\r\n", "unknown"),
        (UNSPECIFIED, "unknown"),
        (V2, "192.0.2.7"),
        (LOCAL, "127.0.0.1"),
    ] {
        let mut connection = proxy.client().await;
        connection.send(header).await.unwrap();
        for _ in 0..2 {
            assert_eq!(
                connection.exchange(&Request::get(HOST, "/")).await.unwrap().text(),
                client,
                "{header:?}"
            );
        }
        let mut at_once = proxy.client().await;
        at_once.send([header, &Request::get(HOST, "/").bytes()].concat()).await.unwrap();
        assert_eq!(at_once.read_response().await.unwrap().text(), client, "{header:?}");
    }
}

/// A balancer that does not name its client is neither taken for the client nor trusted about it.
#[tokio::test]
async fn a_balancer_that_cannot_say_who_its_client_is_does_not_pass_for_it() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let range = || vec!["127.0.0.0/8".parse().unwrap()];
    let balancers = Phases::from(Guard::Access(AccessList { allow: range(), deny: Vec::new() }));
    let proxy = Setup::to(&[backend.address()])
        .filter(balancers)
        .settings(|settings| settings.forwarded.ranges = range())
        .options(|options| options.proxy_protocol.on = ProxyProtocolOn::Http)
        .start();
    let claim = Request::get(HOST, "/").header("X-Forwarded-For", "127.0.0.9");
    for (header, status) in [(&b"PROXY UNKNOWN\r\n"[..], 403), (UNSPECIFIED, 403), (V2, 403), (LOCAL, 200)] {
        for request in [Request::get(HOST, "/"), claim.clone()] {
            let mut client = proxy.client().await;
            client.send([header, &request.bytes()].concat()).await.unwrap();
            assert_eq!(client.read_response().await.unwrap().status, status, "{header:?} {request:?}");
        }
    }
    proxy.expect_metric("fairway_faults_total{reason=\"address_unknown\"}", 4).await;
}

#[tokio::test]
async fn a_proxy_header_in_pieces_is_read() {
    let (_backend, proxy) = expecting(&["127.0.0.0/8"]).await;
    let mut client = proxy.client().await;
    for byte in V2 {
        client.send([*byte]).await.unwrap();
    }
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().text(), "192.0.2.7");
}

#[tokio::test]
async fn without_the_proxy_header_there_is_no_response() {
    let (backend, proxy) = expecting(&[]).await;
    for bytes in [Request::get(HOST, "/").bytes(), b"PROXY TCP4 nonsense\r\nGET / HTTP/1.1\r\n\r\n".to_vec()]
    {
        let mut client = proxy.client().await;
        client.send(bytes).await.unwrap();
        client.expect_closed().await;
    }
    proxy.expect_refused("client_gone", 2).await;
    assert_eq!(backend.connection_count(), 0);
}

#[tokio::test]
async fn a_proxy_header_of_an_untrusted_peer_is_refused() {
    let (backend, proxy) = expecting(&["10.0.0.0/8"]).await;
    let mut client = proxy.client().await;
    client.send([V2, &Request::get(HOST, "/").bytes()].concat()).await.unwrap();
    client.expect_closed().await;
    proxy.expect_refused("access_denied", 1).await;
    assert_eq!(backend.connection_count(), 0);
}

#[tokio::test]
async fn where_it_is_not_expected_it_is_no_request() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    client
        .send(b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 400);
}
