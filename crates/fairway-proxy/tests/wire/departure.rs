//! Clients that leave while an endpoint is silent, over real sockets; `exchange/departure_tests.rs` covers every stage of an
//! exchange in virtual time.

use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::{Backend, BackendResponse, Client, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{HOST, Running, Setup};

async fn is_plain_http(proxy: &Running) -> Client {
    proxy.client().await
}

async fn over_tls(proxy: &Running) -> Client {
    Client::connect_tls(proxy.https, &TlsOffer::new(unverified_client_config(), HOST)).await.unwrap()
}

/// Sends a request, and returns when the endpoint has received it.
async fn send_and_wait(proxy: &Running, backend: &Backend, mut client: Client, number: usize) -> Client {
    let request = match number % 2 {
        0 => Request::get(HOST, "/"),
        _ => Request::post(HOST, "/", "body"),
    };
    client.send(request.bytes()).await.unwrap();
    backend.wait_until("it has the request", |backend| backend.request_count() == number + 1).await;
    assert_eq!(proxy.metric("fairway_faults_total{reason=\"client_gone\"}").await, number as u64);
    client
}

#[tokio::test]
async fn a_client_that_leaves_a_silent_endpoint_takes_its_request_with_it() {
    let backend = Backend::http(|_| BackendResponse::Silence).await;
    let proxy = Setup::to(&[backend.address()]).start();
    for number in 0..8 {
        let client = if number % 4 < 2 { is_plain_http(&proxy).await } else { over_tls(&proxy).await };
        let mut client = send_and_wait(&proxy, &backend, client, number).await;
        let time_left = if number < 4 {
            drop(client);
            None
        } else {
            client.half_close().await.unwrap();
            Some(client)
        };
        proxy.expect_fault("client_gone", number as u64 + 1).await;
        backend.wait_until("its connection is closed", |backend| backend.open_count() == 0).await;
        drop(time_left);
    }
    proxy.expect_metric("fairway_connections_open", 0).await;
}

/// How a request ends for an endpoint that has sent `before` when the client leaves.
async fn end_of_a_request(before: &[u8]) -> std::io::ErrorKind {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Setup::to(&[listener.local_addr().unwrap()]).start();
    let mut client = is_plain_http(&proxy).await;
    client.send(Request::get(HOST, "/").bytes()).await.unwrap();
    let (mut connection, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        connection.read_buf(&mut head).await.unwrap();
    }
    connection.write_all(before).await.unwrap();
    if !before.is_empty() {
        client.read_bytes(12).await.unwrap();
    }
    drop(client);
    connection.read(&mut [0]).await.expect_err("a failure and not an end").kind()
}

/// Otherwise each would occupy a port of the proxy's machine for a minute (TIME-WAIT), and a client that resets its requests
/// could exhaust them.
#[tokio::test]
async fn a_request_cancelled_by_the_client_is_reset_at_the_endpoint() {
    for before in [&b""[..], b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome"] {
        assert_eq!(end_of_a_request(before).await, std::io::ErrorKind::ConnectionReset, "{before:?}");
    }
}
