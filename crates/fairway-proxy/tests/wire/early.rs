//! Requests that arrive in one read with the end of a TLS handshake are served at once, wherever the read is split: data that
//! TLS has already read from the socket is not awaited again.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use fairway_http::Head;
use fairway_http2::{Client as Codec, Config};
use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::{Backend, BackendResponse};
use rustls::ClientConnection;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::support::{HOST, Running, Setup};

/// Far less than any timeout that would end a connection, see [`patient`].
const SERVE_TIMEOUT: Duration = Duration::from_secs(30);

/// A proxy with long client timeouts: connections only end because of what was received.
fn patient(endpoint: &Backend) -> Setup {
    const NEVER: Duration = Duration::from_secs(600);
    Setup::to(&[endpoint.address()]).settings(|settings| {
        (settings.downstream.handshake_timeout, settings.downstream.head_timeout) = (NEVER, NEVER);
    })
}

/// A client that can finish its handshake but has not sent the end.
async fn half_way(proxy: &Running, alpn: &[u8]) -> (TcpStream, ClientConnection) {
    let mut config = unverified_client_config();
    config.alpn_protocols = vec![alpn.to_vec()];
    let name = ServerName::try_from(HOST).unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(proxy.https).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut hello = Vec::new();
    session.write_tls(&mut hello).unwrap();
    stream.write_all(&hello).await.unwrap();
    while session.is_handshaking() {
        read_available(&mut stream, &mut session).await;
    }
    (stream, session)
}

async fn read_available(stream: &mut TcpStream, session: &mut ClientConnection) {
    let mut bytes = Vec::new();
    assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "it closed");
    let mut unread = &bytes[..];
    while !unread.is_empty() {
        session.read_tls(&mut unread).unwrap();
        session.process_new_packets().unwrap();
    }
}

/// Sends the end of the handshake and `requests` in two pieces, the first of `cut` bytes, or in one; returns the total length.
async fn send_in_two_pieces(proxy: &Running, alpn: &[u8], requests: &[u8], cut: usize) -> usize {
    let (mut stream, mut session) = half_way(proxy, alpn).await;
    session.writer().write_all(requests).unwrap();
    let mut bytes = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut bytes).unwrap();
    }
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    stream.write_all(first).await.unwrap();
    if !first.is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    stream.write_all(second).await.unwrap();
    let mut plain = Vec::new();
    let answered = async {
        while !plain.windows(6).any(|six| six == b"fine-6") {
            read_available(&mut stream, &mut session).await;
            // Reads what is available, until WouldBlock.
            let _ = std::io::Read::read_to_end(&mut session.reader(), &mut plain);
        }
    };
    timeout(SERVE_TIMEOUT, answered)
        .await
        .unwrap_or_else(|_| panic!("cut at {cut} of {}: no answer", bytes.len()));
    bytes.len()
}

/// A request with a body of this many bytes.
fn http1(body: usize) -> Vec<u8> {
    let mut bytes = format!("POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {body}\r\n\r\n").into_bytes();
    bytes.resize(bytes.len() + body, b'x');
    bytes
}

fn http2(body: usize) -> Vec<u8> {
    let mut codec = Codec::new(Config::default(), 0);
    let mut head = Head::new();
    head.start_request(b"POST", b"/");
    head.append(b"Host", HOST.as_bytes());
    let id = codec.send_head(&head, b"/", b"https", body == 0).unwrap();
    assert_eq!(codec.send_data(id, &vec![b'x'; body], true), body);
    codec.pending().to_vec()
}

#[tokio::test]
async fn a_request_sent_together_with_the_end_of_the_handshake_is_served_at_once() {
    let backend = Backend::http(|_| BackendResponse::ok("fine-6")).await;
    let proxy = patient(&backend).options(|options| options.workers = 2).start();
    for body in [0, 3_900, 16_000, 40_000] {
        for (alpn, requests) in [(&b"http/1.1"[..], http1(body)), (b"h2", http2(body))] {
            let at_once = send_in_two_pieces(&proxy, alpn, &requests, 0).await;
            let cuts = [1, 6, 7, 64, 80, 81, 85, 86, 4_096, at_once - 1];
            for cut in cuts.into_iter().chain((100..at_once).step_by(at_once / 7)) {
                send_in_two_pieces(&proxy, alpn, &requests, cut).await;
            }
        }
    }
}

#[tokio::test]
async fn an_unexpected_message_in_a_handshake_ends_it_at_once() {
    let backend = Backend::http(|_| BackendResponse::ok("fine-6")).await;
    let proxy = patient(&backend).start();
    let finished = b"\x16\x03\x03\0\x04\x14\0\0\0";
    let alert = b"\x15\x03\x03\0\x02\x02\x28";
    let data = b"\x17\x03\x03\0\x05hello";
    for follows in [&finished[..], alert, data] {
        let name = ServerName::try_from(HOST).unwrap();
        let mut session = ClientConnection::new(Arc::new(unverified_client_config()), name).unwrap();
        let mut hello = Vec::new();
        session.write_tls(&mut hello).unwrap();
        hello.extend_from_slice(follows);
        let mut stream = TcpStream::connect(proxy.https).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        let mut response = Vec::new();
        let end = timeout(SERVE_TIMEOUT, stream.read_to_end(&mut response)).await;
        // A reset is an end, too.
        let _ = end.unwrap_or_else(|_| panic!("behind {follows:?} nothing ends"));
    }
    proxy.expect_refused("handshake_failed", 3).await;
}
