//! Inspection of a running proxy: endpoint states, and open connections by listener and protocol.

use std::time::Duration;

use fairway_model::ListenerProtocol;
use fairway_proxy::{ClientProtocol, EndpointQuery, OpenConnections};
use fairway_testkit::wait::{self, WAIT_TIMEOUT};
use fairway_testkit::{Backend, BackendResponse, Request, eventually};
use tokio::net::TcpStream;

use crate::forwarding::{Forwarding, address};
use crate::spread::Browser;
use crate::support::{HOST, Running, Setup};

fn query(backends: &[&str], limit: usize) -> EndpointQuery {
    EndpointQuery { backends: backends.iter().map(|key| (*key).into()).collect(), max_per_backend: limit }
}

/// The number of client connections of a listener with this protocol.
fn clients(open: &OpenConnections, listener: &str, protocol: ClientProtocol) -> u64 {
    open.clients.get(&(listener.into(), protocol)).copied().unwrap_or_default()
}

async fn wait_until(proxy: &Running, expectation: &str, holds: impl Fn(&OpenConnections) -> bool) {
    eventually(expectation, WAIT_TIMEOUT, || async { holds(&proxy.handle.open_connections().await) }).await;
}

#[tokio::test]
async fn endpoints_are_shown_with_their_health_connections_and_latency() {
    let (dead, backend) = (wait::free_address(), Backend::http(|_| BackendResponse::ok("ok")).await);
    let proxy = Setup::to(&[dead, backend.address()]).options(|it| it.workers = 2).start();
    assert!(
        proxy.handle.endpoint_states(query(&["backend"], 10)).await.is_empty(),
        "nobody has asked for them"
    );
    let mut client = proxy.client().await;
    for _ in 0..4 {
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    }
    wait_until(&proxy, "nothing is under way", |open| open.endpoints.busy == 0).await;
    let states = proxy.handle.endpoint_states(query(&["backend", "gone"], 10)).await;
    let state = |address| {
        let mut found = states.iter().filter(|((_, at, _), _)| *at == address);
        *found.next().expect("it is known").1
    };
    let (bad, good) = (state(dead), state(backend.address()));
    assert_eq!(
        (bad.workers, bad.ejected_by, bad.idle, bad.busy),
        (1, 1, 0, 0),
        "one worker served the client"
    );
    assert!(bad.ejected_for <= Duration::from_secs(1) && bad.latency.is_none());
    assert_eq!((good.ejected_by, good.in_flight, good.idle, good.busy), (0, 0, 1, 0));
    assert!(good.latency.is_some() && good.connect_time.is_some());
    assert_eq!(proxy.handle.endpoint_states(query(&["backend"], 1)).await.len(), 1, "no more than asked for");
    assert!(proxy.handle.endpoint_states(query(&["gone"], 10)).await.is_empty());
}

#[tokio::test]
async fn client_connections_are_counted_by_listener_and_protocol() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let proxy = Setup::to(&[backend.address()]).options(|it| it.workers = 2).start();
    let mut idle_client = proxy.client().await;
    idle_client.exchange(&Request::get(HOST, "/")).await.unwrap();
    let (mut clear, mut secure) = (Browser::clear(&proxy).await, Browser::secure(&proxy).await);
    assert_eq!((clear.get("/").await.0, secure.get("/").await.0), (200, 200));
    let silent = TcpStream::connect(proxy.https).await.unwrap();
    wait_until(&proxy, "one of each", |open| {
        let of_http = [ClientProtocol::Http1, ClientProtocol::Http2].map(|it| clients(open, "http", it));
        (of_http, clients(open, "https", ClientProtocol::Http2), open.greeted) == ([1, 1], 1, 1)
    })
    .await;
    wait_until(&proxy, "idle connections to the endpoint", |open| {
        let endpoints = &open.endpoints;
        (endpoints.idle >= 1, endpoints.in_flight, open.orphaned) == (true, 0, 0)
    })
    .await;
    drop((idle_client, clear, secure, silent));
    wait_until(&proxy, "none is left", |open| open.clients.is_empty() && open.greeted == 0).await;
}

#[tokio::test]
async fn a_forwarded_connection_counts_for_its_listener() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let proxy = Forwarding::to_endpoints(ListenerProtocol::Tcp, &[backend.address()]).start();
    let client = TcpStream::connect(address(&proxy)).await.unwrap();
    let count = |open: &OpenConnections| -> u64 {
        let forwarded =
            open.clients.iter().filter(|((_, protocol), _)| *protocol == ClientProtocol::Forwarded);
        forwarded.map(|(_, count)| count).sum()
    };
    wait_until(&proxy, "it is forwarded", |open| count(open) == 1 && open.endpoints.busy == 1).await;
    drop(client);
    wait_until(&proxy, "it is over", |open| count(open) == 0).await;
}
