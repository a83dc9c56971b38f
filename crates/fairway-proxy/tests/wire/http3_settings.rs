//! Live changes of HTTP/3 settings, as clients over TCP see them: which responses have `Alt-Svc`, and behaviour without the UDP
//! port.

use std::net::{SocketAddr, UdpSocket};

use fairway_model::{HostPattern, Listener, ListenerProtocol};
use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::wait::{WAIT_TIMEOUT, free_address};
use fairway_testkit::{Backend, BackendResponse, Client, Request, eventually};

use crate::spread::Browser;
use crate::support::{HOST, Running, Setup};

const ADVERTISED: Option<&str> = Some("h3=\":443\"; ma=86400");

/// `Alt-Svc` of responses over plain HTTP/1, over HTTP/1 with TLS, and over HTTP/2.
async fn advertised(proxy: &Running, path: &str) -> [Option<String>; 3] {
    let request = Request::get(HOST, path);
    let offer = TlsOffer::new(unverified_client_config(), HOST);
    let mut tls = Client::connect_tls(proxy.https, &offer).await.unwrap();
    let mut http2 = Browser::secure(proxy).await;
    assert_eq!(http2.get(path).await.0, 200);
    let mut found = Vec::new();
    for client in [&mut proxy.client().await, &mut tls] {
        let response = client.exchange(&request).await.unwrap();
        assert_eq!(response.status, 200);
        found.push(response.header("Alt-Svc").map(str::to_owned));
    }
    [found.remove(0), found.remove(0), http2.field("Alt-Svc")]
}

async fn endpoint() -> Backend {
    Backend::http(|request| match request.target.as_str() {
        "/own" => BackendResponse::with_headers(200, &[("Alt-Svc", "clear")], "ok"),
        _ => BackendResponse::ok("ok"),
    })
    .await
}

#[tokio::test]
async fn answers_over_tls_say_where_http3_is_while_it_is_served() {
    let backend = endpoint().await;
    let setup = Setup::to(&[backend.address()]);
    let mut proxy = setup.start();
    assert_eq!(advertised(&proxy, "/").await, [None, None, None]);
    let with = setup.clone().settings(|settings| settings.downstream.http3.offered = true);
    proxy.publish(&with).await;
    let found = advertised(&proxy, "/").await;
    assert_eq!(found.each_ref().map(Option::as_deref), [None, ADVERTISED, ADVERTISED]);
    let alt_svc = advertised(&proxy, "/own").await;
    assert_eq!(
        alt_svc.each_ref().map(Option::as_deref),
        [Some("clear"); 3],
        "the endpoint has said something"
    );
    proxy.publish(&setup).await;
    assert_eq!(advertised(&proxy, "/").await, [None, None, None]);
}

#[tokio::test]
async fn an_occupied_udp_port_does_not_affect_http1_and_http2() {
    let backend = endpoint().await;
    let setup = Setup::to(&[backend.address()]).settings(|settings| settings.downstream.http3.offered = true);
    // An address of its own: other tests or connections may use any free port of another address.
    let address: SocketAddr = "127.0.53.57:20057".parse().unwrap();
    let bound = UdpSocket::bind(address).unwrap();
    let mut config = setup.config();
    let mut https = (**config.listeners.get("https").unwrap()).clone();
    https.bind = vec![address];
    config.listeners.insert(https.name.clone(), https.into());
    let proxy = setup.start_by(&config);
    assert_eq!(proxy.https, address);
    assert_eq!(advertised(&proxy, "/").await, [None, None, None]);
    let [unbound] = &proxy.publisher.unbound()[..] else { panic!("UDP is not bound") };
    assert_eq!((&*unbound.listener, unbound.address), ("https", address));
    assert!(unbound.reason.starts_with("UDP, for HTTP/3: "), "{}", unbound.reason);
    assert!(proxy.publisher.retry_binds().is_empty(), "the reason is not new");
    drop(bound);
    assert!(proxy.publisher.retry_binds().is_empty() && proxy.publisher.is_bound());
    eventually("HTTP/3 is advertised", WAIT_TIMEOUT, || async {
        advertised(&proxy, "/").await.each_ref().map(Option::as_deref) == [None, ADVERTISED, ADVERTISED]
    })
    .await;
}

#[tokio::test]
async fn a_connection_over_tcp_serves_no_host_of_a_listener_that_differs_in_http3() {
    let backend = endpoint().await;
    let mut config = Setup::to(&[backend.address()]).config();
    let address = free_address();
    config.listeners.remove("https");
    for (name, http3) in [("with.test", true), ("without.test", false)] {
        let mut listener = Listener::new(name, ListenerProtocol::Https, 443, "ingress");
        (listener.bind, listener.host) = (vec![address], HostPattern::Exact(name.into()));
        listener.clients.http3 = Some(http3);
        config.listeners.insert(name.into(), listener.into());
    }
    let _proxy = Setup::to(&[backend.address()]).start_by(&config);
    for (name, other) in [("with.test", "without.test"), ("without.test", "with.test")] {
        let mut browser = Browser::named(address, name).await;
        for (host, status) in [(name, 200), (other, 421), (name, 200)] {
            assert_eq!(browser.get_of(host, "/", &[]).await.0, status, "{host} on a connection for {name}");
        }
    }
}
