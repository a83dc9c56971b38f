//! IPv6 for listeners, endpoints and clients.

use fairway_testkit::{Backend, BackendResponse, Behaviour, Client, Request};

use crate::support::{HOST, Setup};

async fn telling(ip: &str) -> Backend {
    let behaviour =
        Behaviour::http(|request| BackendResponse::ok(request.header("X-Real-IP").unwrap_or_default()));
    Backend::start(ip.parse().unwrap(), behaviour, None).await.unwrap()
}

#[tokio::test]
async fn a_listener_and_an_endpoint_on_the_loopback_address() {
    let backend = telling("::1").await;
    let proxy = Setup::to(&[backend.address()]).http_at("[::1]:0").start();
    let mut client = proxy.client().await;
    let response = client.exchange(&Request::get("[::1]:8080", "/")).await.unwrap();
    assert_eq!((response.status, response.text().as_str()), (200, "::1"));
    assert_eq!(backend.requests()[0].header("X-Forwarded-Host"), Some("[::1]:8080"));
}

#[tokio::test]
async fn a_listener_on_all_addresses_serves_both_families() {
    let backend = telling("127.0.0.1").await;
    let proxy = Setup::to(&[backend.address()]).http_at("[::]:0").start();
    for ip in ["127.0.0.1", "::1"] {
        let address = (ip.parse::<std::net::IpAddr>().unwrap(), proxy.http.port()).into();
        let mut client = Client::connect(address).await.unwrap();
        assert_eq!(
            client.exchange(&Request::get(HOST, "/")).await.unwrap().text(),
            ip,
            "an IPv4 client is one"
        );
    }
}

#[tokio::test]
async fn families_mix_in_one_backend() {
    let (four, six) = (telling("127.0.0.1").await, telling("::1").await);
    let proxy = Setup::to(&[four.address(), six.address()]).start();
    let mut client = proxy.client().await;
    for _ in 0..10 {
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    }
    assert_eq!((four.request_count(), six.request_count()), (5, 5));
}
