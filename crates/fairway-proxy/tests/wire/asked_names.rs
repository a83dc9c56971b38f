//! Unusual server names and ALPN protocols in handshakes: what nginx serves is served, and what is refused is refused with an
//! alert.

use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::{
    HostPattern, Listener, ListenerProtocol, Origin, StreamKey, StreamPolicy, StreamRoute, WeightedBackend,
};
use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::wait::{WAIT_TIMEOUT, free_address};
use fairway_testkit::{Authority, Backend, BackendResponse, Client, Leaf, Request};
use rustls::ClientConnection;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Setup, certificate};

const ALERT: u8 = 21;

/// The first bytes of a TLS 1.2 client that asks for any `name`. Its handshake can start but not finish.
fn hello(name: &str) -> Vec<u8> {
    let placeholder: String =
        name.bytes().map(|byte| if byte.is_ascii_alphabetic() { char::from(byte) } else { 'x' }).collect();
    let config = Authority::new("nobody").client_config_with_versions(&[&rustls::version::TLS12]);
    let server = ServerName::try_from(placeholder.clone()).unwrap();
    let mut session = ClientConnection::new(Arc::new(config), server).unwrap();
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes).unwrap();
    let at = bytes.windows(name.len()).position(|window| window == placeholder.as_bytes()).unwrap();
    bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
    bytes
}

/// What the server sends until it waits for the client or closes.
async fn read_response(address: SocketAddr, name: &str) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(&hello(name)).await.unwrap();
    let mut response = Vec::new();
    // ServerHelloDone.
    while !response.ends_with(&[14, 0, 0, 0]) {
        let read = tokio::time::timeout(WAIT_TIMEOUT, socket.read_buf(&mut response)).await.unwrap();
        if read.unwrap_or(0) == 0 {
            break;
        }
    }
    response
}

fn shows(response: &[u8], leaf: &Leaf) -> bool {
    let certificate = &*leaf.chain_der[0];
    response.windows(certificate.len()).any(|window| window == certificate)
}

/// A host with a certificate, and a default one.
async fn setup() -> (Setup, Leaf, Leaf, Backend) {
    let backend = Backend::http(|_| BackendResponse::ok("web")).await;
    let authority = Authority::new("servers");
    let (own, default) = (authority.leaf(&["web.test"]), authority.leaf(&["default.test"]));
    let mut setup = Setup::to(&[backend.address()]);
    setup.hosts.push((HostPattern::Exact("web.test".into()), certificate("default/own", &own)));
    setup.default_certificate = Some(certificate("default/default", &default));
    (setup, own, default, backend)
}

#[tokio::test]
async fn a_name_with_a_final_dot_is_the_same_name() {
    let (setup, own, default, _backend) = setup().await;
    let proxy = setup.start();
    for name in ["web.test", "web.test."] {
        assert!(shows(&read_response(proxy.https, name).await, &own), "{name}");
    }
    assert!(shows(&read_response(proxy.https, "other.test.").await, &default));
}

#[tokio::test]
async fn a_final_dot_changes_neither_who_ends_tls_nor_how_a_refusal_looks() {
    let (setup, own, _, backend) = setup().await;
    let pods = Authority::new("pods").leaf(&["pass.test"]);
    let passed = Backend::https(pods.server_config(&[]), |_| BackendResponse::ok("passed")).await;
    let (mut config, address) = (setup.config(), free_address());
    let https = Listener { bind: vec![address], ..(**config.listeners.get("https").unwrap()).clone() };
    config.listeners.insert("https".into(), Arc::new(https));
    let passing = Listener {
        bind: vec![address],
        host: HostPattern::Exact("pass.test".into()),
        ..Listener::new("passing", ListenerProtocol::TlsPassthrough, 443, "passing")
    };
    config.listeners.insert("passing".into(), Arc::new(passing));
    let to = Setup::to(&[passed.address()]).config();
    let mut to = (**to.backends.values().next().unwrap()).clone();
    to.key = "passed".into();
    config.backends.insert(to.key.clone(), Arc::new(to));
    let key = StreamKey { table: "passing".into(), host: HostPattern::Any };
    let route = StreamRoute {
        key: key.clone(),
        origin: Origin::default(),
        backends: vec![WeightedBackend::new("passed".into(), 1)],
        policy: StreamPolicy::default(),
    };
    config.streams.insert(key, Arc::new(route));
    let _proxy = setup.start_by(&config);
    for name in ["pass.test", "pass.test."] {
        assert!(shows(&read_response(address, name).await, &pods), "{name}");
    }
    assert!(shows(&read_response(address, "web.test.").await, &own));
    for name in ["pass.test:443", "pass test", "p\u{e4}ss.test"] {
        assert_eq!(read_response(address, name).await.first(), Some(&ALERT), "{name}: it is told why");
    }
    assert_eq!((passed.connection_count(), backend.connection_count()), (2, 0));
}

#[tokio::test]
async fn protocols_of_http_are_agreed_on_and_others_are_refused() {
    let (setup, _, _, _backend) = setup().await;
    let proxy = setup.start();
    for (offered, agreed) in [
        (&["http/1.0"][..], Some("http/1.0")),
        (&["http/1.0", "http/1.1"], Some("http/1.1")),
        (&["foo", "http/1.0"], Some("http/1.0")),
        (&[], None),
    ] {
        let offer = TlsOffer::new(unverified_client_config(), "web.test").alpn(offered);
        let mut client = Client::connect_tls(proxy.https, &offer).await.unwrap();
        assert_eq!(client.tls().unwrap().alpn.as_deref(), agreed, "{offered:?}");
        let response = client.exchange(&Request::get("web.test", "/")).await.unwrap();
        assert_eq!(response.status, 200);
    }
    let offer = TlsOffer::new(unverified_client_config(), "web.test").alpn(&["foo"]);
    let refused = Client::connect_tls(proxy.https, &offer).await.err().unwrap();
    assert!(refused.to_string().contains("NoApplicationProtocol"), "{refused}");
}
