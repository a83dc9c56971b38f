//! Clients that leave while an endpoint is silent, over real sockets; `exchange/departure_tests.rs` has every stage of an
//! exchange in virtual time.

use fairway_testkit::certificates::trusting_anything;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::{Answer, Backend, Client, Request};

use crate::support::{HOST, Running, Setup};

async fn in_the_clear(proxy: &Running) -> Client {
    proxy.client().await
}

async fn over_tls(proxy: &Running) -> Client {
    Client::connect_tls(proxy.https, &TlsOffer::new(trusting_anything(), HOST)).await.unwrap()
}

/// The client has asked, and leaves when the endpoint has its request.
async fn asked(proxy: &Running, backend: &Backend, mut client: Client, number: usize) -> Client {
    let request = match number % 2 {
        0 => Request::get(HOST, "/"),
        _ => Request::post(HOST, "/", "body"),
    };
    client.send(request.bytes()).await.unwrap();
    backend.until("it has the request", |backend| backend.request_count() == number + 1).await;
    assert_eq!(proxy.metric("fairway_faults_total{reason=\"client_gone\"}").await, number as u64);
    client
}

#[tokio::test]
async fn a_client_that_leaves_a_silent_endpoint_takes_its_request_with_it() {
    let backend = Backend::http(|_| Answer::Silence).await;
    let proxy = Setup::to(&[backend.address()]).start();
    for number in 0..8 {
        let client = if number % 4 < 2 { in_the_clear(&proxy).await } else { over_tls(&proxy).await };
        let mut client = asked(&proxy, &backend, client, number).await;
        let left = if number < 4 {
            drop(client);
            None
        } else {
            client.half_close().await.unwrap();
            Some(client)
        };
        proxy.expect_fault("client_gone", number as u64 + 1).await;
        backend.until("its connection is closed", |backend| backend.open_count() == 0).await;
        drop(left);
    }
    proxy.expect_metric("fairway_connections_open", 0).await;
}
