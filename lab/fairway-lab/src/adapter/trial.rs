//! Tests the drivers with real proxies, if installed: `cargo test -p fairway-lab adapter::trial -- --ignored`. Each proxy
//! is started, changed and stopped, and a change must be in use when the driver reports it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fairway_lab_measure::results::Settings;

use crate::adapter::proxy::{Kind, Proxy};
use crate::adapter::*;

const HOST: &str = "app.test";

/// A backend that responds with its port.
fn backend() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|read| read > 0) {
                    let body = address.port().to_string();
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                    if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

/// The proxy's response to a request on a new connection.
fn response_of(proxy: SocketAddr) -> String {
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn desired(backend: SocketAddr, name: &str) -> DesiredState {
    let action = Action::Forward { backend: name.to_owned(), strip: None };
    let rules = vec![Rule { path: PathMatch::Prefix("/".to_owned()), action }];
    DesiredState {
        hosts: BTreeMap::from([(HOST.to_owned(), Host { rules, ..Host::default() })]),
        backends: BTreeMap::from([(name.to_owned(), vec![backend])]),
        ..DesiredState::default()
    }
}

fn free() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr()).unwrap()
}

/// Changes endpoints, then the route's backend; each must be in use within `late` of being reported.
fn trial(kind: Kind, late: Duration) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let frame = Frame {
        listen: Listen { http: free(), https: free() },
        workers: Some(2),
        settings: Settings::Recommended,
        folder: folder.path().to_owned(),
    };
    let http = frame.listen.http;
    runtime.block_on(async {
        let (one, other) = (backend(), backend());
        let mut proxy = Proxy::start(kind, frame, &desired(one, "one-80")).await.unwrap();
        let is_from =
            |backend: SocketAddr| response_of(http).ends_with(&format!("\r\n\r\n{}", backend.port()));
        assert!(is_from(one), "{}", response_of(http));
        for (change, wanted) in [
            (desired(other, "one-80"), other),
            (desired(one, "two-80"), one),
            (desired(other, "two-80"), other),
        ] {
            let started = Instant::now();
            proxy.apply(&change).await.unwrap();
            let elapsed = started.elapsed();
            while !is_from(wanted) {
                assert!(started.elapsed() < elapsed + late, "{kind:?}: {}", response_of(http));
            }
            eprintln!("{kind:?}: said after {elapsed:?}, seen after {:?}", started.elapsed());
        }
        proxy.drain().await.unwrap();
        assert!(proxy.wait_for_exit().await.contains("ended"));
    });
}

#[test]
#[ignore = "needs nginx"]
fn nginx_takes_changes() {
    // Old workers serve for another 100 ms.
    trial(Kind::Nginx, Duration::from_millis(500));
}

#[test]
#[ignore = "needs HAProxy"]
fn haproxy_takes_changes() {
    trial(Kind::Haproxy, Duration::from_millis(200));
}

#[test]
#[ignore = "needs Caddy"]
fn caddy_takes_changes() {
    trial(Kind::Caddy, Duration::from_millis(200));
}

#[test]
#[ignore = "needs Envoy, and ten seconds in which it drains"]
fn envoy_takes_changes() {
    trial(Kind::Envoy, Duration::from_millis(500));
}

/// A port in use makes the proxy exit at its start; the adapter reports that at once, with the proxy's own message.
fn death(kind: Kind, named: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let frame = Frame {
        listen: Listen { http: bound.local_addr().unwrap(), https: free() },
        workers: Some(1),
        settings: Settings::Recommended,
        folder: folder.path().to_owned(),
    };
    let started_at = Instant::now();
    let error = runtime.block_on(async {
        let started = Proxy::start(kind, frame, &desired(backend(), "one-80")).await;
        started.err().expect("its port is taken").to_string()
    });
    eprintln!("{kind:?}, after {:?}: {error}", started_at.elapsed());
    assert!(started_at.elapsed() < Duration::from_secs(15), "{:?}", started_at.elapsed());
    assert!(error.contains("ended: exit status") && error.contains(named), "{error}");
}

#[test]
#[ignore = "needs HAProxy"]
fn haproxy_dying_at_its_start_is_noticed_at_once() {
    death(Kind::Haproxy, "cannot bind");
}

#[test]
#[ignore = "needs Caddy"]
fn caddy_dying_at_its_start_is_noticed_at_once() {
    death(Kind::Caddy, "address already in use");
}
