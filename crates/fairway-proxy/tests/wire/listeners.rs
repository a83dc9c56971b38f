//! Listeners are data: they are added and removed live, several share a TLS port, and none affects another.

use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairway_model::{
    BackendKey, Config, HostKey, HostPattern, Listener, ListenerProtocol, ListenerTls, WildcardSpan,
};
use fairway_proxy::{Proxy, StartError};
use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::wait::{WAIT_TIMEOUT, free_address};
use fairway_testkit::{Authority, Backend, BackendResponse, Client, Leaf, Request, eventually};
use tokio::task::JoinHandle;

use crate::spread::Browser;
use crate::support::{HOST, Running, Setup, certificate};

async fn named_backend(name: &'static str) -> Backend {
    Backend::http(move |request| match request.target.as_str() {
        "/held" => BackendResponse::ok(name).hold(),
        _ => BackendResponse::ok(name),
    })
    .await
}

fn extra(protocol: ListenerProtocol, address: SocketAddr) -> Listener {
    Listener { bind: vec![address], ..Listener::new("extra", protocol, 1234, "extra") }
}

/// Adds a listener whose table sends everything to a backend of that name.
fn add(config: &mut Config, listener: Listener, backend: &Backend) {
    let setup = Setup::to(&[backend.address()]).config();
    let (host, served) = (setup.hosts.values().next().unwrap(), setup.backends.values().next().unwrap());
    let (mut host, mut served) = ((**host).clone(), (**served).clone());
    served.key = BackendKey(Arc::clone(&listener.table));
    host.key = HostKey { table: Arc::clone(&listener.table), host: HostPattern::Any };
    let mut route = (*host.routes[0]).clone();
    let fairway_model::Action::Forward(backends) = &mut route.rules[0].action else { panic!("it forwards") };
    backends[0].backend = served.key.clone();
    host.routes = vec![Arc::new(route)];
    config.backends.insert(served.key.clone(), Arc::new(served));
    config.hosts.insert(host.key.clone(), Arc::new(host));
    config.listeners.insert(Arc::clone(&listener.name), Arc::new(listener));
}

async fn publish(proxy: &mut Running, config: &Config) -> Vec<String> {
    let (version, problems) = proxy.publish_config(config);
    proxy.publisher.wait_until_adopted(version).await;
    problems
}

async fn text(client: &mut Client) -> String {
    client.exchange(&Request::get(HOST, "/")).await.unwrap().text()
}

async fn is_refused(address: SocketAddr) {
    eventually("nobody listens", WAIT_TIMEOUT, || async {
        Client::connect(address).await.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    })
    .await;
}

fn free() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

#[tokio::test]
async fn an_added_listener_is_served_by_every_worker_and_affects_no_other() {
    let (first, second) = (named_backend("first").await, named_backend("second").await);
    let setup = Setup::to(&[first.address()]).options(|options| options.workers = 2);
    let mut proxy = setup.start();
    let mut open = proxy.client().await;
    assert_eq!(text(&mut open).await, "first");
    let mut config = setup.config();
    add(&mut config, extra(ListenerProtocol::Http, free()), &second);
    assert_eq!(publish(&mut proxy, &config).await, Vec::<String>::new());
    assert_eq!(proxy.publisher.addresses("http"), [proxy.http]);
    let [address] = proxy.publisher.addresses("extra")[..] else { panic!("it is bound once") };
    // The kernel spreads connections over both workers, so some of many reach each worker.
    for _ in 0..12 {
        assert_eq!(text(&mut Client::connect(address).await.unwrap()).await, "second");
        assert_eq!(text(&mut proxy.client().await).await, "first");
    }
    assert_eq!(second.requests()[0].header("X-Forwarded-Port"), Some("1234"));
    assert_eq!(text(&mut open).await, "first");
    assert_eq!(first.requests()[0].header("X-Forwarded-Port"), Some("80"));
}

#[tokio::test]
async fn a_removed_listener_accepts_no_more_and_finishes_its_exchanges() {
    let (first, second) = (named_backend("first").await, named_backend("second").await);
    let setup = Setup::to(&[first.address()]).options(|options| options.workers = 2);
    let mut config = setup.config();
    add(&mut config, extra(ListenerProtocol::Http, free()), &second);
    let mut proxy = setup.start_by(&config);
    let address = proxy.publisher.addresses("extra")[0];
    let mut other = proxy.client().await;
    assert_eq!(text(&mut other).await, "first");
    let (mut idle, mut fresh) =
        (Client::connect(address).await.unwrap(), Client::connect(address).await.unwrap());
    assert_eq!(text(&mut idle).await, "second");
    let mut busy = Client::connect(address).await.unwrap();
    busy.send(Request::get(HOST, "/held").bytes()).await.unwrap();
    second.wait_until("the exchange in flight", |second| second.waiting_count() == 1).await;

    config.listeners.remove("extra");
    assert_eq!(publish(&mut proxy, &config).await, Vec::<String>::new());
    assert_eq!(idle.read_to_end().await.unwrap(), b"");
    assert_eq!(fresh.read_to_end().await.unwrap(), b"");
    is_refused(address).await;
    second.release();
    let response = busy.read_response().await.unwrap();
    assert_eq!((response.text().as_str(), response.header("Connection")), ("second", Some("close")));
    busy.expect_closed().await;
    assert_eq!(text(&mut other).await, "first");
    proxy.expect_metric("fairway_connections_open", 1).await;
}

#[tokio::test]
async fn a_returning_listener_is_a_new_one_without_old_connections() {
    let (first, second) = (named_backend("first").await, named_backend("second").await);
    let setup = Setup::to(&[first.address()]);
    let address = free_address();
    let mut config = setup.config();
    add(&mut config, extra(ListenerProtocol::Http, address), &second);
    let mut proxy = setup.start_by(&config);
    let mut busy = Client::connect(address).await.unwrap();
    busy.send(Request::get(HOST, "/held").bytes()).await.unwrap();
    second.wait_until("the exchange in flight", |second| second.waiting_count() == 1).await;
    let mut without = config.clone();
    without.listeners.remove("extra");
    publish(&mut proxy, &without).await;
    is_refused(address).await;
    assert_eq!(publish(&mut proxy, &config).await, Vec::<String>::new());
    assert_eq!(text(&mut Client::connect(address).await.unwrap()).await, "second");
    second.release();
    assert_eq!(busy.read_response().await.unwrap().text(), "second");
    busy.expect_closed().await;
}

#[tokio::test]
async fn an_occupied_address_is_reported_once_and_everything_else_is_served() {
    let (first, second) = (named_backend("first").await, named_backend("second").await);
    let setup = Setup::to(&[first.address()]).options(|options| options.workers = 2);
    let mut proxy = setup.start();
    let mut open = proxy.client().await;
    assert_eq!(text(&mut open).await, "first");
    let bound = TcpListener::bind(free()).unwrap();
    let address = bound.local_addr().unwrap();
    let mut config = setup.config();
    add(&mut config, extra(ListenerProtocol::Http, address), &second);
    let problems = publish(&mut proxy, &config).await;
    assert_eq!(
        problems,
        [format!("cannot listen on {address} (extra): Address already in use (os error 98)")]
    );
    assert!(proxy.publisher.addresses("extra").is_empty());
    assert_eq!(text(&mut open).await, "first");
    assert_eq!(text(&mut proxy.client().await).await, "first");
    assert_eq!(publish(&mut proxy, &config).await, Vec::<String>::new(), "it is reported already");
    assert!(proxy.publisher.retry_binds().is_empty() && !proxy.publisher.is_bound());
    drop(bound);
    assert!(proxy.publisher.retry_binds().is_empty() && proxy.publisher.is_bound());
    assert_eq!(text(&mut Client::connect(address).await.unwrap()).await, "second");
    assert_eq!(text(&mut open).await, "first");
}

/// The workers may not have closed the sockets yet when the address is bound again: the bind fails then, and is retried later.
#[tokio::test]
async fn a_listener_that_returns_before_any_worker_noticed_is_served() {
    let (first, second) = (named_backend("first").await, named_backend("second").await);
    let setup = Setup::to(&[first.address()]).options(|options| options.workers = 2);
    let address = free_address();
    let mut config = setup.config();
    add(&mut config, extra(ListenerProtocol::Http, address), &second);
    let mut proxy = setup.start_by(&config);
    for _ in 0..20 {
        proxy.publish_config(&setup.config());
        let (version, _) = proxy.publish_config(&config);
        proxy.publisher.wait_until_adopted(version).await;
        eventually("it is bound", WAIT_TIMEOUT, || async {
            proxy.publisher.retry_binds();
            proxy.publisher.is_bound()
        })
        .await;
        assert_eq!(text(&mut Client::connect(address).await.unwrap()).await, "second");
    }
}

#[tokio::test]
async fn an_occupied_address_of_a_flag_fails_the_start() {
    let bound = TcpListener::bind(free()).unwrap();
    let address = bound.local_addr().unwrap();
    let setup = Setup::to(&[]).http_at(&address.to_string());
    let snapshot = fairway_routing::compile(&setup.config(), None).snapshot;
    let Err(StartError::Bind(error)) = Proxy::start(setup.options, snapshot) else { panic!("it is taken") };
    assert_eq!((error.listener.as_str(), error.address), ("http", address));
    assert_eq!(error.error.kind(), ErrorKind::AddrInUse);
}

#[tokio::test]
async fn an_occupied_address_of_an_object_does_not_fail_the_start() {
    let bound = TcpListener::bind(free()).unwrap();
    let address = bound.local_addr().unwrap();
    let setup = Setup::to(&[]);
    let mut config = setup.config();
    let origin = fairway_model::Origin::object("Gateway", "shop", "edge");
    let extra = Listener {
        bind: vec![address],
        origin,
        ..Listener::new("extra", ListenerProtocol::Http, 1234, "extra")
    };
    config.listeners.insert(extra.name.clone(), Arc::new(extra));
    let snapshot = fairway_routing::compile(&config, None).snapshot;
    let proxy = Proxy::start(setup.options, snapshot).map_err(|error| error.to_string()).unwrap();
    assert!(!proxy.publisher().is_bound());
    drop(bound);
    assert!(proxy.publisher().retry_binds().is_empty() && proxy.publisher().is_bound());
    proxy.handle().drain();
}

fn tls(name: &str, address: SocketAddr, host: &str, certificate: &str) -> Listener {
    Listener {
        bind: vec![address],
        host: HostPattern::parse(host, WildcardSpan::ManyLabels).unwrap(),
        tls: ListenerTls { certificates: vec![certificate.into()], ..ListenerTls::default() },
        ..Listener::new(name, ListenerProtocol::Https, 443, name)
    }
}

fn insert_certificate(config: &mut Config, key: &str, leaf: &Leaf, names: &[&str]) {
    let mut certificate = certificate(key, leaf);
    certificate.names = names.iter().map(|name| (*name).into()).collect();
    config.certificates.insert(certificate.key.clone(), Arc::new(certificate));
}

/// The response to a request for the second name, over a connection whose handshake asked for the first. The cases of the
/// Gateway API conformance test `HTTPRouteHTTPSListenerDetectMisdirectedRequests`.
const COALESCED: [(&str, &str, &str); 15] = [
    ("example.org", "example.org", "v1"),
    ("example.org", "second-example.org", "421"),
    ("example.org", "unknown-example.org", "404"),
    ("second-example.org", "second-example.org", "v2"),
    ("second-example.org", "example.org", "421"),
    ("second-example.org", "unknown-example.org", "421"),
    ("third-example.wildcard.org", "third-example.wildcard.org", "v3"),
    ("third-example.wildcard.org", "fith-example.wildcard.org", "v3"),
    ("third-example.wildcard.org", "fourth-example.wildcard.org", "421"),
    ("third-example.wildcard.org", "second-example.org", "421"),
    ("third-example.wildcard.org", "unknown-example.org", "421"),
    ("fourth-example.wildcard.org", "fourth-example.wildcard.org", "v4"),
    ("fourth-example.wildcard.org", "fith-example.wildcard.org", "421"),
    ("unknown-example.org", "example.org", "v1"),
    ("unknown-example.org", "unknown-example.org", "404"),
];

/// The number of cases for another listener.
const MISDIRECTED: u64 = 7;

/// Four listeners of one address, each with a backend that responds with its name.
async fn four_listeners() -> (Running, SocketAddr, Vec<Backend>) {
    let authority = Authority::new("test");
    let leaf = authority.leaf(&["example.org"]);
    let setup = Setup::to(&[]);
    let (mut config, address) = (setup.config(), free_address());
    insert_certificate(&mut config, "default/one", &leaf, &[]);
    let mut backends = Vec::new();
    for (name, listens, serves) in [
        ("v1", "", "example.org"),
        ("v2", "second-example.org", ""),
        ("v3", "*.wildcard.org", ""),
        ("v4", "fourth-example.wildcard.org", ""),
    ] {
        backends.push(named_backend(name).await);
        add(&mut config, tls(name, address, listens, "default/one"), &backends[backends.len() - 1]);
        let (from, to) = (HostPattern::Any, HostPattern::parse(serves, WildcardSpan::ManyLabels).unwrap());
        let from = HostKey { table: name.into(), host: from };
        let mut host = (*config.hosts.remove(&from).unwrap()).clone();
        host.key.host = to;
        config.hosts.insert(host.key.clone(), Arc::new(host));
    }
    (setup.start_by(&config), address, backends)
}

#[tokio::test]
async fn a_request_for_another_listener_of_the_port_is_misdirected() {
    let (proxy, address, _backends) = four_listeners().await;
    for (server_name, host, expected) in COALESCED {
        let offer = TlsOffer::new(unverified_client_config(), server_name);
        let mut client = Client::connect_tls(address, &offer).await.unwrap();
        // The connection stays open: the next request may be for the right listener.
        for _ in 0..2 {
            let response = client.exchange(&Request::get(host, "/")).await.unwrap();
            let served_by =
                if response.status == 200 { response.text() } else { response.status.to_string() };
            assert_eq!(served_by, expected, "{server_name} {host}");
        }
    }
    proxy.expect_fault("misdirected", 2 * MISDIRECTED).await;
}

/// Browsers send requests for all hosts of a certificate on one connection (RFC 9113 §9.1.1).
#[tokio::test]
async fn a_stream_for_another_listener_of_the_port_is_misdirected_and_the_others_of_its_connection_are_served()
 {
    let (proxy, address, backends) = four_listeners().await;
    let names: BTreeSet<_> = COALESCED.iter().map(|(name, ..)| *name).collect();
    for name in names {
        let mut browser = Browser::named(address, name).await;
        for _ in 0..2 {
            for (_, host, expected) in COALESCED.iter().filter(|(server_name, ..)| *server_name == name) {
                let (status, body) = browser.get_of(host, "/", &[]).await;
                let response = match status {
                    200 => String::from_utf8(body).unwrap(),
                    other => other.to_string(),
                };
                assert_eq!(response, *expected, "{name} {host}");
            }
        }
    }
    proxy.expect_fault("misdirected", 2 * MISDIRECTED).await;
    let reached: usize = backends.iter().map(Backend::request_count).sum();
    assert_eq!(reached, 2 * 6, "no endpoint hears of the others");
}

/// The backend that responds to a client asking for this name, and the certificate.
async fn over_tls(address: SocketAddr, name: &str) -> (String, Vec<u8>) {
    let mut client =
        Client::connect_tls(address, &TlsOffer::new(unverified_client_config(), name)).await.unwrap();
    (text(&mut client).await, client.tls().unwrap().chain[0].to_vec())
}

#[tokio::test]
async fn listeners_of_one_address_are_chosen_by_name_each_with_its_certificate_and_table() {
    let (one, two) = (named_backend("one").await, named_backend("two").await);
    let authority = Authority::new("test");
    let (for_one, for_two, for_inner) =
        (authority.leaf(&["one.test"]), authority.leaf(&["*.two.test"]), authority.leaf(&["inner.two.test"]));
    let setup = Setup::to(&[]).options(|options| options.workers = 2);
    let mut config = setup.config();
    let address = free_address();
    insert_certificate(&mut config, "default/one", &for_one, &["one.test"]);
    insert_certificate(&mut config, "default/two", &for_two, &["*.two.test"]);
    insert_certificate(&mut config, "default/inner", &for_inner, &["inner.two.test"]);
    add(&mut config, tls("one", address, "one.test", "default/one"), &one);
    let mut second = tls("two", address, "*.two.test", "default/two");
    second.tls.certificates.push("default/inner".into());
    add(&mut config, second, &two);
    let mut proxy = setup.start_by(&config);
    assert_eq!(proxy.publisher.addresses("one"), proxy.publisher.addresses("two"));
    for (name, text, leaf) in [
        ("one.test", "one", &for_one),
        ("ONE.test", "one", &for_one),
        ("a.two.test", "two", &for_two),
        ("a.b.two.test", "two", &for_two),
        ("inner.two.test", "two", &for_inner),
    ] {
        assert_eq!(over_tls(address, name).await, (text.to_owned(), leaf.chain_der[0].to_vec()), "{name}");
    }
    let without = TlsOffer::new(unverified_client_config(), HOST).without_sni();
    assert!(
        Client::connect_tls(address, &without).await.is_err(),
        "nothing serves clients that ask for no name"
    );
    let offer = TlsOffer::new(unverified_client_config(), "three.test");
    assert!(Client::connect_tls(address, &offer).await.is_err(), "nothing serves this name");
    proxy.expect_refused("no_listener", 2).await;

    let offer = TlsOffer::new(unverified_client_config(), "one.test");
    let mut open = Client::connect_tls(address, &offer).await.unwrap();
    assert_eq!(text(&mut open).await, "one");
    config.listeners.remove("two");
    assert_eq!(publish(&mut proxy, &config).await, Vec::<String>::new());
    let offer = TlsOffer::new(unverified_client_config(), "a.two.test");
    assert!(Client::connect_tls(address, &offer).await.is_err(), "its listener is gone");
    proxy.expect_refused("no_listener", 3).await;
    assert_eq!(text(&mut open).await, "one", "the other listener of the address goes on");
}

#[tokio::test]
async fn an_address_that_changes_its_protocol_stays_bound_and_old_connections_end() {
    let backend = named_backend("one").await;
    let leaf = Authority::new("test").leaf(&["one.test"]);
    let setup = Setup::to(&[]);
    let mut config = setup.config();
    let address = free_address();
    insert_certificate(&mut config, "default/one", &leaf, &[]);
    add(&mut config, extra(ListenerProtocol::Http, address), &backend);
    let mut proxy = setup.start_by(&config);
    let mut plain = Client::connect(address).await.unwrap();
    assert_eq!(text(&mut plain).await, "one");
    let over = ListenerTls { certificates: vec!["default/one".into()], ..ListenerTls::default() };
    let listener = Listener { tls: over, ..extra(ListenerProtocol::Https, address) };
    config.listeners.insert("extra".into(), Arc::new(listener));
    assert_eq!(publish(&mut proxy, &config).await, Vec::<String>::new());
    assert_eq!(plain.read_to_end().await.unwrap(), b"");
    assert_eq!(over_tls(address, "one.test").await, ("one".to_owned(), leaf.chain_der[0].to_vec()));
    assert_eq!(backend.requests()[1].header("X-Forwarded-Proto"), Some("https"));
}

/// The number of descriptors of this process that are listening sockets at these addresses.
fn sockets_at(addresses: &[SocketAddr]) -> usize {
    let inodes: HashSet<String> = std::fs::read_to_string("/proc/self/net/tcp")
        .unwrap()
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let port = u16::from_str_radix(words.get(1)?.rsplit_once(':')?.1, 16).ok()?;
            let is_one = *words.get(3)? == "0A" && addresses.iter().any(|address| address.port() == port);
            is_one.then(|| format!("socket:[{}]", words[9]))
        })
        .collect();
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
    links.filter(|link| link.to_str().is_some_and(|link| inodes.contains(link))).count()
}

/// Adds `count` plain listeners on free ports, all with the table `many`.
fn add_many(config: &mut Config, count: usize, backend: &Backend) {
    add(config, Listener::new("unbound", ListenerProtocol::Http, 80, "many"), backend);
    for number in 0..count {
        let name = format!("many-{number}");
        let listener =
            Listener { bind: vec![free()], ..Listener::new(&name, ListenerProtocol::Http, 80, "many") };
        config.listeners.insert(Arc::clone(&listener.name), Arc::new(listener));
    }
}

fn addresses_of_many(proxy: &Running, count: usize) -> Vec<SocketAddr> {
    (0..count).flat_map(|number| proxy.publisher.addresses(&format!("many-{number}"))).collect()
}

#[tokio::test]
async fn many_listeners_are_added_and_removed_with_all_their_sockets() {
    let (first, second) = (named_backend("first").await, named_backend("second").await);
    let setup = Setup::to(&[first.address()]).options(|options| {
        options.workers = 2;
        options.limits.descriptors = Some(20_000);
    });
    let mut proxy = setup.start();
    let mut open = proxy.client().await;
    assert_eq!(text(&mut open).await, "first");
    for count in [64, 1_000] {
        let mut config = setup.config();
        add_many(&mut config, count, &second);
        assert_eq!(publish(&mut proxy, &config).await, Vec::<String>::new());
        let addresses = addresses_of_many(&proxy, count);
        assert_eq!(addresses.len(), count);
        assert_eq!(sockets_at(&addresses), 2 * count, "one for each worker");
        for address in addresses.iter().step_by(count / 8) {
            assert_eq!(text(&mut Client::connect(*address).await.unwrap()).await, "second");
        }
        assert_eq!(text(&mut open).await, "first");
        assert_eq!(publish(&mut proxy, &setup.config()).await, Vec::<String>::new());
        eventually("their sockets are closed", WAIT_TIMEOUT, || async { sockets_at(&addresses) == 0 }).await;
        assert_eq!(text(&mut open).await, "first");
    }
}

#[tokio::test]
async fn addresses_beyond_the_budget_of_descriptors_are_left_out_by_name() {
    const MAX_LISTENERS: usize = 98;
    let (first, second) = (named_backend("first").await, named_backend("second").await);
    let setup = Setup::to(&[first.address()]).options(|options| {
        options.workers = 2;
        options.limits.descriptors = Some(1_024);
    });
    let mut proxy = setup.start();
    let mut config = setup.config();
    add_many(&mut config, 120, &second);
    let problems = publish(&mut proxy, &config).await;
    // `http` and `https` are two of them.
    assert_eq!(problems.len(), 120 + 2 - MAX_LISTENERS, "{problems:?}");
    let reason = "the limit of open files allows 98 addresses with a socket for each of 2 workers";
    for problem in &problems {
        assert!(problem.starts_with("cannot listen on 127.0.0.1:0 (many-"), "{problem}");
        assert!(problem.ends_with(reason), "{problem}");
    }
    let unbound = proxy.publisher.unbound();
    assert_eq!(unbound.len(), problems.len());
    let failure = &unbound[0];
    assert!(proxy.publisher.addresses(&failure.listener).is_empty());
    assert_eq!((failure.address, &*failure.reason), (free(), reason));
    assert_eq!(text(&mut proxy.client().await).await, "first");
    // Removed listeners make room for them.
    for number in 0..40 {
        config.listeners.remove(&*format!("many-{number}"));
    }
    assert_eq!(publish(&mut proxy, &config).await, Vec::<String>::new());
    assert_eq!(proxy.publisher.unbound(), []);
    for number in 40..120 {
        let [address] = proxy.publisher.addresses(&format!("many-{number}"))[..] else { panic!("{number}") };
        assert_eq!(text(&mut Client::connect(address).await.unwrap()).await, "second");
    }
}

#[tokio::test]
async fn a_failing_address_of_an_object_does_not_affect_the_others_at_the_start() {
    let (first, second) = (named_backend("first").await, named_backend("second").await);
    let bound = TcpListener::bind(free()).unwrap();
    let address = bound.local_addr().unwrap();
    let mut config = Setup::to(&[first.address()]).config();
    let origin = fairway_model::Origin::object("Gateway", "shop", "outer");
    add(&mut config, Listener { origin, ..extra(ListenerProtocol::Http, address) }, &second);
    let proxy = Setup::to(&[first.address()]).start_by(&config);
    assert_eq!(text(&mut proxy.client().await).await, "first");
    let [one] = &proxy.publisher.unbound()[..] else { panic!("one address is taken") };
    assert_eq!((&*one.listener, one.address), ("extra", address));
    drop(bound);
    assert!(proxy.publisher.retry_binds().is_empty() && proxy.publisher.is_bound());
    eventually("it is served", WAIT_TIMEOUT, || async { Client::connect(address).await.is_ok() }).await;
}

/// A listener is added and removed as fast as possible while clients of another one send requests continuously.
#[tokio::test]
async fn adding_and_removing_a_listener_disturbs_no_request_of_another() {
    const CHANGES: usize = 200;
    let (first, second) = (named_backend("first").await, named_backend("second").await);
    let setup = Setup::to(&[first.address()]).options(|options| options.workers = 2);
    let mut proxy = setup.start();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut asking = Vec::new();
    let counts: [Arc<AtomicUsize>; 4] = Default::default();
    for asked in &counts {
        let (mut client, stopped, asked) = (proxy.client().await, stopped.clone(), Arc::clone(asked));
        asking.push(tokio::spawn(async move {
            while !*stopped.borrow() {
                assert_eq!(text(&mut client).await, "first");
                asked.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let without = setup.config();
    let mut with = without.clone();
    add(&mut with, extra(ListenerProtocol::Http, free()), &second);
    let all_asked = || counts.iter().all(|asked| asked.load(Ordering::Relaxed) > 50);
    for change in 0.. {
        if change >= CHANGES && (all_asked() || asking.iter().any(JoinHandle::is_finished)) {
            break;
        }
        let (version, problems) = proxy.publish_config(if change % 2 == 0 { &with } else { &without });
        assert_eq!(problems, Vec::<String>::new());
        // Some are overtaken by the next one.
        if change % 3 == 0 {
            proxy.publisher.wait_until_adopted(version).await;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(publish(&mut proxy, &with).await, Vec::<String>::new());
    let address = proxy.publisher.addresses("extra")[0];
    assert_eq!(text(&mut Client::connect(address).await.unwrap()).await, "second");
    stop.send(true).unwrap();
    for client in asking {
        client.await.unwrap();
    }
    assert_eq!(proxy.metric("fairway_connections_accepted_total").await, 5);
}
