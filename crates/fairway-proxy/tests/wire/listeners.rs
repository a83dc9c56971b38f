//! Listeners are data: they come and go live, several share a TLS port, and none touches another.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairway_model::{
    BackendKey, Config, HostKey, HostPattern, Listener, ListenerProtocol, ListenerTls, WildcardSpan,
};
use fairway_proxy::{Proxy, StartError};
use fairway_testkit::certificates::trusting_anything;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::wait::{PATIENCE, free_address};
use fairway_testkit::{Answer, Authority, Backend, Client, Leaf, Request, eventually};

use tokio::task::JoinHandle;

use crate::support::{HOST, Running, Setup, certificate};

async fn named(name: &'static str) -> Backend {
    Backend::http(move |request| match request.target.as_str() {
        "/held" => Answer::ok(name).held(),
        _ => Answer::ok(name),
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
    proxy.publisher.adopted(version).await;
    problems
}

async fn text(client: &mut Client) -> String {
    client.exchange(&Request::get(HOST, "/")).await.unwrap().text()
}

async fn is_refused(address: SocketAddr) {
    eventually("nobody listens", PATIENCE, || async {
        Client::connect(address).await.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    })
    .await;
}

fn free() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

#[tokio::test]
async fn a_listener_that_is_added_serves_its_table_on_every_worker_and_touches_no_other() {
    let (first, second) = (named("first").await, named("second").await);
    let setup = Setup::to(&[first.address()]).options(|options| options.workers = 2);
    let mut proxy = setup.start();
    let mut open = proxy.client().await;
    assert_eq!(text(&mut open).await, "first");
    let mut config = setup.config();
    add(&mut config, extra(ListenerProtocol::Http, free()), &second);
    assert_eq!(publish(&mut proxy, &config).await, Vec::<String>::new());
    assert_eq!(proxy.publisher.addresses("http"), [proxy.http]);
    let [address] = proxy.publisher.addresses("extra")[..] else { panic!("it is bound once") };
    // The kernel spreads connections over both workers: none of many can be the first worker's alone.
    for _ in 0..12 {
        assert_eq!(text(&mut Client::connect(address).await.unwrap()).await, "second");
        assert_eq!(text(&mut proxy.client().await).await, "first");
    }
    assert_eq!(second.requests()[0].header("X-Forwarded-Port"), Some("1234"));
    assert_eq!(text(&mut open).await, "first");
    assert_eq!(first.requests()[0].header("X-Forwarded-Port"), Some("80"));
}

#[tokio::test]
async fn a_listener_that_is_removed_accepts_no_more_and_finishes_what_it_has() {
    let (first, second) = (named("first").await, named("second").await);
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
    second.until("the exchange in flight", |second| second.waiting_count() == 1).await;

    config.listeners.remove("extra");
    assert_eq!(publish(&mut proxy, &config).await, Vec::<String>::new());
    assert_eq!(idle.read_to_end().await.unwrap(), b"");
    assert_eq!(fresh.read_to_end().await.unwrap(), b"");
    is_refused(address).await;
    second.release();
    let answer = busy.read_response().await.unwrap();
    assert_eq!((answer.text().as_str(), answer.header("Connection")), ("second", Some("close")));
    busy.expect_closed().await;
    assert_eq!(text(&mut other).await, "first");
    proxy.expect_metric("fairway_connections_open", 1).await;
}

#[tokio::test]
async fn a_listener_that_comes_back_is_another_one_and_takes_over_no_connection() {
    let (first, second) = (named("first").await, named("second").await);
    let setup = Setup::to(&[first.address()]);
    let address = free_address();
    let mut config = setup.config();
    add(&mut config, extra(ListenerProtocol::Http, address), &second);
    let mut proxy = setup.start_by(&config);
    let mut busy = Client::connect(address).await.unwrap();
    busy.send(Request::get(HOST, "/held").bytes()).await.unwrap();
    second.until("the exchange in flight", |second| second.waiting_count() == 1).await;
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
async fn an_address_that_is_taken_is_reported_once_and_everything_else_is_served() {
    let (first, second) = (named("first").await, named("second").await);
    let setup = Setup::to(&[first.address()]).options(|options| options.workers = 2);
    let mut proxy = setup.start();
    let mut open = proxy.client().await;
    assert_eq!(text(&mut open).await, "first");
    let taken = TcpListener::bind(free()).unwrap();
    let address = taken.local_addr().unwrap();
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
    assert!(proxy.publisher.bind_again().is_empty() && !proxy.publisher.is_bound());
    drop(taken);
    assert!(proxy.publisher.bind_again().is_empty() && proxy.publisher.is_bound());
    assert_eq!(text(&mut Client::connect(address).await.unwrap()).await, "second");
    assert_eq!(text(&mut open).await, "first");
}

/// The workers may not have closed its sockets yet when it is bound again: then that fails, and is made good later.
#[tokio::test]
async fn a_listener_that_comes_back_before_any_worker_saw_it_go_is_served() {
    let (first, second) = (named("first").await, named("second").await);
    let setup = Setup::to(&[first.address()]).options(|options| options.workers = 2);
    let address = free_address();
    let mut config = setup.config();
    add(&mut config, extra(ListenerProtocol::Http, address), &second);
    let mut proxy = setup.start_by(&config);
    for _ in 0..20 {
        proxy.publish_config(&setup.config());
        let (version, _) = proxy.publish_config(&config);
        proxy.publisher.adopted(version).await;
        eventually("it is bound", PATIENCE, || async {
            proxy.publisher.bind_again();
            proxy.publisher.is_bound()
        })
        .await;
        assert_eq!(text(&mut Client::connect(address).await.unwrap()).await, "second");
    }
}

#[tokio::test]
async fn an_address_that_is_taken_at_the_start_fails_the_start() {
    let taken = TcpListener::bind(free()).unwrap();
    let address = taken.local_addr().unwrap();
    let setup = Setup::to(&[]).http_at(&address.to_string());
    let snapshot = fairway_routing::compile(&setup.config(), None).snapshot;
    let Err(StartError::Bind(error)) = Proxy::start(setup.options, snapshot) else { panic!("it is taken") };
    assert_eq!((error.listener.as_str(), error.address), ("http", address));
    assert_eq!(error.error.kind(), ErrorKind::AddrInUse);
}

#[tokio::test]
async fn an_address_that_an_object_asks_for_and_that_is_taken_keeps_nothing_from_starting() {
    let taken = TcpListener::bind(free()).unwrap();
    let address = taken.local_addr().unwrap();
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
    drop(taken);
    assert!(proxy.publisher().bind_again().is_empty() && proxy.publisher().is_bound());
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

fn keep(config: &mut Config, key: &str, leaf: &Leaf, names: &[&str]) {
    let mut certificate = certificate(key, leaf);
    certificate.names = names.iter().map(|name| (*name).into()).collect();
    config.certificates.insert(certificate.key.clone(), Arc::new(certificate));
}

/// Who answers a client that asks for this name, and with which certificate.
async fn over_tls(address: SocketAddr, name: &str) -> (String, Vec<u8>) {
    let mut client = Client::connect_tls(address, &TlsOffer::new(trusting_anything(), name)).await.unwrap();
    (text(&mut client).await, client.tls().unwrap().chain[0].to_vec())
}

#[tokio::test]
async fn listeners_of_one_address_are_chosen_by_name_each_with_its_certificate_and_table() {
    let (one, two) = (named("one").await, named("two").await);
    let authority = Authority::new("test");
    let (for_one, for_two, for_inner) =
        (authority.leaf(&["one.test"]), authority.leaf(&["*.two.test"]), authority.leaf(&["inner.two.test"]));
    let setup = Setup::to(&[]).options(|options| options.workers = 2);
    let mut config = setup.config();
    let address = free_address();
    keep(&mut config, "default/one", &for_one, &["one.test"]);
    keep(&mut config, "default/two", &for_two, &["*.two.test"]);
    keep(&mut config, "default/inner", &for_inner, &["inner.two.test"]);
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
    let without = TlsOffer::new(trusting_anything(), HOST).without_sni();
    assert!(
        Client::connect_tls(address, &without).await.is_err(),
        "nothing serves clients that ask for no name"
    );
    let offer = TlsOffer::new(trusting_anything(), "three.test");
    assert!(Client::connect_tls(address, &offer).await.is_err(), "nothing serves this name");
    proxy.expect_refused("no_listener", 2).await;

    let offer = TlsOffer::new(trusting_anything(), "one.test");
    let mut open = Client::connect_tls(address, &offer).await.unwrap();
    assert_eq!(text(&mut open).await, "one");
    config.listeners.remove("two");
    assert_eq!(publish(&mut proxy, &config).await, Vec::<String>::new());
    let offer = TlsOffer::new(trusting_anything(), "a.two.test");
    assert!(Client::connect_tls(address, &offer).await.is_err(), "its listener is gone");
    proxy.expect_refused("no_listener", 3).await;
    assert_eq!(text(&mut open).await, "one", "the other listener of the address goes on");
}

#[tokio::test]
async fn a_client_whose_listener_is_not_served_yet_is_closed_and_counted() {
    let backend = named("one").await;
    let leaf = Authority::new("test").leaf(&["one.test"]);
    let setup = Setup::to(&[]);
    let mut config = setup.config();
    let mut proxy = setup.start();
    let address = free_address();
    keep(&mut config, "default/one", &leaf, &[]);
    add(&mut config, tls("one", address, "", "default/one"), &backend);
    for (name, protocol) in [("inner", ListenerProtocol::Tls), ("pass", ListenerProtocol::TlsPassthrough)] {
        let host = HostPattern::Exact(format!("{name}.test").into());
        let listener =
            Listener { bind: vec![address], host, ..Listener::new(name, protocol, 443, "streams") };
        config.listeners.insert(name.into(), Arc::new(listener));
    }
    assert_eq!(
        publish(&mut proxy, &config).await,
        [
            "Listener inner: the listener inner: TLS with anything but HTTP inside is not served yet; its connections \
             are closed",
            "Listener pass: the listener pass: TLS is not passed through yet; its connections are closed",
        ]
    );
    assert_eq!(over_tls(address, "one.test").await.0, "one");
    for (name, count) in [("inner.test", 1), ("pass.test", 2)] {
        let offer = TlsOffer::new(trusting_anything(), name);
        assert!(Client::connect_tls(address, &offer).await.is_err(), "it is closed");
        proxy.expect_refused("no_listener", count).await;
    }
    assert_eq!(over_tls(address, "one.test").await.0, "one");
}

#[tokio::test]
async fn an_address_that_changes_its_protocol_stays_bound_and_old_connections_end() {
    let backend = named("one").await;
    let leaf = Authority::new("test").leaf(&["one.test"]);
    let setup = Setup::to(&[]);
    let mut config = setup.config();
    let address = free_address();
    keep(&mut config, "default/one", &leaf, &[]);
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

/// A listener comes and goes as fast as it can while clients of another one ask without a pause.
#[tokio::test]
async fn a_listener_that_comes_and_goes_disturbs_no_request_of_another() {
    const CHANGES: usize = 200;
    let (first, second) = (named("first").await, named("second").await);
    let setup = Setup::to(&[first.address()]).options(|options| options.workers = 2);
    let mut proxy = setup.start();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut asking = Vec::new();
    let asked: [Arc<AtomicUsize>; 4] = Default::default();
    for asked in &asked {
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
    let all_asked = || asked.iter().all(|asked| asked.load(Ordering::Relaxed) > 50);
    for change in 0.. {
        if change >= CHANGES && (all_asked() || asking.iter().any(JoinHandle::is_finished)) {
            break;
        }
        let (version, problems) = proxy.publish_config(if change % 2 == 0 { &with } else { &without });
        assert_eq!(problems, Vec::<String>::new());
        // Some are overtaken by the next one.
        if change % 3 == 0 {
            proxy.publisher.adopted(version).await;
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
