//! Live changes of HTTP/2 settings for clients: whether it is enabled, and how many streams a connection has.

use std::sync::Arc;

use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::{Backend, BackendResponse};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::spread::Browser;
use crate::support::{HOST, Running, Setup};

/// The protocol chosen from `offers`.
async fn negotiated(proxy: &Running, offers: &[&[u8]]) -> Option<Vec<u8>> {
    let mut config = unverified_client_config();
    config.alpn_protocols = offers.iter().map(|protocol| protocol.to_vec()).collect();
    let stream = TcpStream::connect(proxy.https).await.unwrap();
    let name = ServerName::try_from(HOST).unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)
}

/// The response to a client that starts with the HTTP/2 preface.
async fn prior_knowledge(proxy: &Running) -> Vec<u8> {
    let mut stream = TcpStream::connect(proxy.http).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut first = vec![0; 9];
    stream.read_exact(&mut first).await.unwrap();
    first
}

#[tokio::test]
async fn http2_is_offered_unless_a_setting_disables_it() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let setup = Setup::to(&[backend.address()]);
    let mut proxy = setup.start();
    let both: &[&[u8]] = &[b"h2", b"http/1.1"];
    assert_eq!(negotiated(&proxy, both).await.unwrap(), b"h2");
    assert_eq!(prior_knowledge(&proxy).await[3], 4, "SETTINGS");
    let mut open = Browser::secure(&proxy).await;
    assert_eq!(open.get("/").await.0, 200);

    let without = setup.clone().settings(|settings| settings.downstream.http2.offered = false);
    proxy.publish(&without).await;
    assert_eq!(negotiated(&proxy, both).await.unwrap(), b"http/1.1");
    assert_eq!(prior_knowledge(&proxy).await, b"HTTP/1.1 ");
    assert_eq!(open.get("/").await.0, 200, "one that is there goes on");

    proxy.publish(&setup).await;
    assert_eq!(negotiated(&proxy, both).await.unwrap(), b"h2");
}

#[tokio::test]
async fn a_connection_has_as_many_streams_as_the_setting_says() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let setup = Setup::to(&[backend.address()]).settings(|settings| settings.downstream.http2.streams = 3);
    let mut proxy = setup.start();
    assert_eq!(Browser::clear(&proxy).await.streams_allowed().await, 3);
    proxy.publish(&setup.settings(|settings| settings.downstream.http2.streams = 100_000)).await;
    assert_eq!(Browser::clear(&proxy).await.streams_allowed().await, 128, "the room that there is");
}
