//! Listener ids and sockets from snapshot to snapshot.

use std::num::NonZeroU32;
use std::os::fd::OwnedFd;

use fairway_model::{Config, HostPattern};

use super::*;

fn config(listeners: &[(&str, ListenerProtocol, u16)]) -> Config {
    let mut config = Config::default();
    for (name, protocol, public_port) in listeners {
        let bind = vec!["127.0.0.1:0".parse().unwrap()];
        let listener = Listener { bind, ..Listener::new(name, *protocol, *public_port, "ingress") };
        config.listeners.insert(listener.name.clone(), Arc::new(listener));
    }
    config
}

fn snapshot(config: &Config) -> Arc<Snapshot> {
    fairway_routing::compile(config, None).snapshot
}

fn id(listening: &Listening, name: &str) -> ListenerId {
    let ids = listening.ports().iter().flat_map(|port| port.carries.carried());
    let mut ids = ids.filter_map(|choice| match choice {
        ConnectionTarget::Listener(id) => Some(*id),
        ConnectionTarget::Closed => None,
    });
    ids.find(|id| listening.model(*id).is_some_and(|model| *model.name == *name)).unwrap()
}

#[test]
fn an_id_stays_with_its_listener_and_never_matches_a_later_one() {
    use ListenerProtocol::{Http, Https};
    let mut sockets = Sockets::new(1, 8);
    let first = sockets.update(&snapshot(&config(&[("a", Http, 80), ("b", Http, 81)]))).0;
    let second = sockets.update(&snapshot(&config(&[("b", Http, 82), ("c", Http, 83)]))).0;
    assert_eq!(id(&first, "b"), id(&second, "b"));
    assert_eq!(second.facts(id(&first, "b")).unwrap().public_port, 82);
    assert_eq!(id(&first, "a").slot, id(&second, "c").slot, "a vacant slot is used again");
    assert_eq!(second.facts(id(&first, "a")), None);
    assert!(first.has_listener_missing_in(&second) && second.has_listener_missing_in(&first));
    let third = sockets.update(&snapshot(&config(&[("b", Https, 82), ("c", Http, 83)]))).0;
    assert_eq!(third.facts(id(&second, "b")), None, "what speaks another protocol is another listener");
    assert!(!second.has_listener_missing_in(&second));
}

#[test]
fn sockets_stay_with_their_address_and_close_without_it() {
    use ListenerProtocol::Http;
    let mut sockets = Sockets::new(2, 8);
    let first = sockets.update(&snapshot(&config(&[("a", Http, 80), ("b", Http, 80)]))).0;
    let a = first.addresses("a")[0];
    let socket = first.ports()[0].sockets.take(0).unwrap();
    assert!(first.ports()[0].sockets.take(0).is_none() && first.ports()[0].sockets.take(2).is_none());
    let second = sockets.update(&snapshot(&config(&[("a", Http, 90)]))).0;
    assert_eq!((second.addresses("a"), second.addresses("b")), (vec![a], vec![]));
    assert_eq!(second.ports()[0].sockets.id, first.ports()[0].sockets.id);
    assert!(second.ports()[0].sockets.take(1).is_some(), "the other worker's still waits");
    let PortSocket::Tcp(taken) = socket else { panic!("{socket:?}") };
    assert_eq!(taken.local_addr().unwrap(), a);
    assert!(first.ports()[1].sockets.take(0).is_none(), "the sockets of b are closed");
}

#[test]
fn redirects_use_the_https_listener_with_the_same_table() {
    use ListenerProtocol::{Http, Https};
    let mut config = config(&[("plain", Http, 80), ("over-tls", Https, 8443), ("zz", Https, 9443)]);
    let other = Listener { table: "other".into(), ..Listener::new("elsewhere", Https, 7443, "other") };
    config.listeners.insert(other.name.clone(), Arc::new(other));
    let listening = Sockets::new(1, 8).update(&snapshot(&config)).0;
    let https_port = |name| listening.facts(id(&listening, name)).unwrap().https_port;
    assert_eq!((https_port("plain"), https_port("over-tls"), https_port("zz")), (8443, 8443, 9443));
    let alone = Sockets::new(1, 8).update(&snapshot(&self::config(&[("plain", Http, 80)]))).0;
    assert_eq!(alone.facts(id(&alone, "plain")).unwrap().https_port, 443);
}

fn edited(config: &mut Config, name: &str, edit: impl FnOnce(&mut Listener)) {
    let mut listener = (**config.listeners.get(name).unwrap()).clone();
    edit(&mut listener);
    config.listeners.insert(listener.name.clone(), Arc::new(listener));
}

#[test]
fn client_limits_follow_the_settings_unless_the_listener_sets_its_own() {
    let seconds = Duration::from_secs;
    let mut config = config(&[("a", ListenerProtocol::Http, 80), ("b", ListenerProtocol::Http, 81)]);
    edited(&mut config, "b", |listener| listener.clients.idle_timeout = Some(seconds(5)));
    let mut sockets = Sockets::new(1, 8);
    let first = fairway_routing::compile(&config, None).snapshot;
    let listening = sockets.update(&first).0;
    let (a, b) = (id(&listening, "a"), id(&listening, "b"));
    let times = |listening: &Listening, id| {
        let clients = listening.client_limits(id);
        (clients.idle_timeout, clients.head_timeout)
    };
    assert_eq!(times(&listening, a), (seconds(75), seconds(10)));
    assert_eq!(times(&listening, b), (seconds(5), seconds(10)));
    (config.settings.downstream.idle_timeout, config.settings.downstream.head_timeout) =
        (seconds(7), seconds(8));
    let second = fairway_routing::compile(&config, Some(&first)).snapshot;
    let listening = sockets.update(&second).0;
    assert_eq!(
        (times(&listening, a), times(&listening, b)),
        ((seconds(7), seconds(8)), (seconds(5), seconds(8)))
    );
    config.listeners.remove("b");
    let third = fairway_routing::compile(&config, Some(&second)).snapshot;
    assert_eq!(times(&sockets.update(&third).0, b), (seconds(7), seconds(8)), "no other setting");
}

#[test]
fn connection_counts_of_a_listener_survive_snapshots() {
    let mut config = config(&[("a", ListenerProtocol::Http, 80), ("b", ListenerProtocol::Http, 81)]);
    edited(&mut config, "a", |listener| listener.clients.connections = NonZeroU32::new(2));
    let mut sockets = Sockets::new(1, 8);
    let first = fairway_routing::compile(&config, None).snapshot;
    let before = sockets.update(&first).0;
    let (a, b) = (id(&before, "a"), id(&before, "b"));
    let (one, two) = (before.acquire_connection_slot(a).unwrap(), before.acquire_connection_slot(a).unwrap());
    assert!(one.is_some() && before.acquire_connection_slot(b).unwrap().is_none(), "b has no limit");
    assert_eq!(before.acquire_connection_slot(a).unwrap_err(), Fault::ListenerFull);
    edited(&mut config, "a", |listener| listener.clients.connections = NonZeroU32::new(3));
    let second = fairway_routing::compile(&config, Some(&first)).snapshot;
    let after = sockets.update(&second).0;
    let three = after.acquire_connection_slot(a).unwrap();
    assert_eq!(after.acquire_connection_slot(a).unwrap_err(), Fault::ListenerFull);
    drop((one, two, three));
    assert!(after.acquire_connection_slot(a).unwrap().is_some());
    config.listeners.remove("a");
    let third = fairway_routing::compile(&config, Some(&second)).snapshot;
    assert!(
        sockets.update(&third).0.acquire_connection_slot(a).unwrap().is_none(),
        "what is gone has no limit"
    );
}

#[test]
fn the_handshake_timeout_of_a_port_is_the_longest_of_its_listeners() {
    let seconds = Duration::from_secs;
    let mut config = config(&[("a", ListenerProtocol::Https, 443), ("b", ListenerProtocol::Https, 443)]);
    let address = fairway_testkit::wait::free_address();
    for (name, timeout) in [("a", seconds(3)), ("b", seconds(20))] {
        edited(&mut config, name, |listener| {
            listener.bind = vec![address];
            listener.host = HostPattern::Exact(format!("{name}.test").into());
            listener.clients.handshake_timeout = Some(timeout);
        });
    }
    let listening = Sockets::new(1, 8).update(&snapshot(&config)).0;
    let [port] = listening.ports() else { panic!("both share it") };
    assert_eq!(listening.handshake_timeout(port.sockets.id), seconds(20));
    assert_eq!(listening.handshake_timeout(PortId(77)), seconds(10), "it is gone");
}

#[test]
fn nothing_is_rebuilt_if_no_listener_changes() {
    let mut config = config(&[("a", ListenerProtocol::Http, 80)]);
    let mut sockets = Sockets::new(1, 8);
    let first = fairway_routing::compile(&config, None).snapshot;
    let listening = sockets.update(&first).0;
    config.settings.workers = Some(3);
    let second = fairway_routing::compile(&config, Some(&first)).snapshot;
    assert!(Arc::ptr_eq(&listening, &sockets.update(&second).0));
    edited(&mut config, "a", |listener| listener.host = HostPattern::Exact("a.test".into()));
    let third = fairway_routing::compile(&config, Some(&second)).snapshot;
    assert!(!Arc::ptr_eq(&listening, &sockets.update(&third).0));
}

/// A configuration whose HTTPS listeners have HTTP/3.
fn with_http3(listeners: &[(&str, ListenerProtocol, u16)]) -> Config {
    let mut config = config(listeners);
    config.settings.downstream.http3.offered = true;
    config
}

fn has_http3(listening: &Listening, name: &str) -> bool {
    listening.facts(id(listening, name)).unwrap().http3_port.is_some()
}

#[test]
fn http3_uses_the_port_number_of_tls_even_if_assigned_by_the_system() {
    let mut config = with_http3(&[("a", ListenerProtocol::Https, 443), ("b", ListenerProtocol::Http, 80)]);
    let mut sockets = Sockets::new(2, 8);
    let (listening, errors) = sockets.update(&snapshot(&config));
    assert!(errors.is_empty(), "{errors:?}");
    let [a] = listening.addresses("a")[..] else { panic!("the port of UDP is not another address") };
    let quic = listening.ports().iter().find(|port| matches!(port.carries, Port::Quic(_))).unwrap();
    assert_eq!((quic.sockets.address, quic.listener()), (a, None));
    for worker in 0..2 {
        assert!(matches!(quic.sockets.take(worker), Some(PortSocket::Udp(_))));
    }
    assert!(has_http3(&listening, "a") && !has_http3(&listening, "b"));
    config.settings.downstream.http3.offered = false;
    let off = sockets.update(&snapshot(&config)).0;
    assert_eq!((off.addresses("a"), off.ports().len(), has_http3(&off, "a")), (vec![a], 2, false));
    config.settings.downstream.http3.offered = true;
    let on = sockets.update(&snapshot(&config)).0;
    assert_eq!((on.ports().len(), has_http3(&on, "a")), (3, true));
    config.settings.downstream.tls_versions = fairway_model::TlsVersions::Only12;
    let old = sockets.update(&snapshot(&config)).0;
    assert_eq!((old.ports().len(), has_http3(&old, "a")), (2, false));
}

#[test]
fn a_port_taken_for_udp_leaves_http1_and_http2() {
    let mut config = with_http3(&[("a", ListenerProtocol::Https, 443), ("pass", ListenerProtocol::Tls, 443)]);
    // An address of its own, as below.
    let address: SocketAddr = "127.0.53.54:20054".parse().unwrap();
    let bound = UdpSocket::bind(address).unwrap();
    for name in ["a", "pass"] {
        edited(&mut config, name, |listener| listener.bind = vec![address]);
    }
    edited(&mut config, "pass", |listener| listener.host = HostPattern::Exact("pass.test".into()));
    let mut sockets = Sockets::new(1, 8);
    let (listening, errors) = sockets.update(&snapshot(&config));
    let [ListenerError::Bind(error)] = &errors[..] else { panic!("{errors:?}") };
    let text = error.to_string();
    assert!(text.starts_with("cannot listen on 127.0.53.54:20054 over UDP (a): "), "{text}");
    assert!(text.ends_with("; there is no HTTP/3 there, and HTTP/1.1 and HTTP/2 are served"), "{text}");
    assert_eq!(listening.addresses("a"), [address]);
    assert!(!has_http3(&listening, "a") && !sockets.is_fully_bound());
    let unbound = sockets.unbound(&snapshot(&config));
    let [(name, at, why)] = &unbound[..] else { panic!("{unbound:?}") };
    assert_eq!((&**name, *at), ("a", address));
    assert!(why.starts_with("UDP, for HTTP/3: "), "{why}");
    assert!(sockets.update(&snapshot(&config)).1.is_empty(), "it is said once");
    drop(bound);
    let again = sockets.update(&snapshot(&config)).0;
    assert!(has_http3(&again, "a") && sockets.is_fully_bound());
}

#[test]
fn http3_is_not_announced_unless_all_addresses_of_a_listener_have_it() {
    let mut config = with_http3(&[("a", ListenerProtocol::Https, 443), ("dns", ListenerProtocol::Udp, 53)]);
    let (one, other) = ("127.0.53.55:20055".parse().unwrap(), "127.0.53.56:20055".parse().unwrap());
    edited(&mut config, "a", |listener| listener.bind = vec![one, other]);
    edited(&mut config, "dns", |listener| listener.bind = vec![other]);
    let mut sockets = Sockets::new(1, 8);
    let (listening, errors) = sockets.update(&snapshot(&config));
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!((listening.addresses("a"), has_http3(&listening, "a")), (vec![one, other], false));
    config.listeners.remove("dns");
    assert!(has_http3(&sockets.update(&snapshot(&config)).0, "a"));
}

#[test]
fn a_port_number_is_bound_for_both_transports_and_limits_stay_with_their_listener() {
    let mut both = config(&[("tcp", ListenerProtocol::Tcp, 53), ("udp", ListenerProtocol::Udp, 53)]);
    // Its own address: at a shared one, another process's connection may occupy any port.
    let free = "127.0.53.53:20053".parse().unwrap();
    let mut sockets = Sockets::new(2, 8);
    for name in ["tcp", "udp"] {
        let listener = Listener { bind: vec![free], ..(**both.listeners.get(name).unwrap()).clone() };
        both.listeners.insert(name.into(), Arc::new(listener));
    }
    let (first, errors) = sockets.update(&snapshot(&both));
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!((first.addresses("tcp"), first.addresses("udp")), (vec![free], vec![free]));
    let udp = first.ports().iter().find(|port| matches!(port.carries, Port::Datagrams(_))).unwrap();
    let id = udp.listener().unwrap();
    assert!(matches!(udp.sockets.take(1), Some(PortSocket::Udp(_))));
    both.listeners.remove("tcp");
    let second = sockets.update(&snapshot(&both)).0;
    assert!(Arc::ptr_eq(first.session_bounds(id).unwrap(), second.session_bounds(id).unwrap()));
    assert!(second.addresses("tcp").is_empty());
}

/// The kernel's socket numbers that each worker gets for the only address.
fn inherited_by(workers: usize, listeners: Vec<TcpListener>) -> Vec<Vec<u64>> {
    let address = listeners[0].local_addr().unwrap();
    let mut inherited = InheritedSockets::default();
    inherited.add(listeners.into_iter().map(OwnedFd::from).collect()).unwrap();
    let mut config = config(&[("a", ListenerProtocol::Http, 80)]);
    edited(&mut config, "a", |listener| listener.bind = vec![address]);
    let mut sockets = Sockets::new(workers, 8);
    sockets.inherit(inherited);
    let (listening, errors) = sockets.update(&snapshot(&config));
    assert!(errors.is_empty(), "{errors:?}");
    sockets.fill_inherited();
    let [port] = listening.ports() else { panic!("one address") };
    let number = |socket: PortSocket| {
        let PortSocket::Tcp(socket) = socket else { panic!("{socket:?}") };
        assert_eq!(socket.local_addr().unwrap(), address);
        SockRef::from(&socket).cookie().unwrap()
    };
    let of_worker = |worker| std::iter::from_fn(|| port.sockets.take(worker)).map(number).collect();
    (0..workers).map(of_worker).collect()
}

#[test]
fn every_inherited_socket_belongs_to_a_worker_and_every_worker_has_one() {
    for (given, workers) in [(1, 3), (3, 1), (3, 2), (2, 2)] {
        let by_worker = inherited_by(workers, listen::bind("127.0.0.1:0".parse().unwrap(), given).unwrap());
        let each: Vec<_> = by_worker.iter().map(Vec::len).collect();
        assert!(each.iter().all(|count| *count >= 1), "{given} for {workers}: {each:?}");
        let different: BTreeSet<_> = by_worker.iter().flatten().collect();
        assert_eq!(different.len(), given.max(workers), "{given} for {workers}");
        assert_eq!(each.iter().sum::<usize>(), different.len());
    }
}

#[test]
fn workers_share_a_socket_that_cannot_be_joined() {
    let alone = fairway_testkit::wait::free_address();
    let by_worker = inherited_by(3, vec![TcpListener::bind(alone).unwrap()]);
    assert!(by_worker.iter().all(|of_worker| of_worker.len() == 1 && *of_worker == by_worker[0]));
}

#[test]
fn inherited_sockets_that_no_listener_uses_are_closed() {
    let unused = listen::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let address = unused[0].local_addr().unwrap();
    let mut inherited = InheritedSockets::default();
    inherited.add(unused.into_iter().map(OwnedFd::from).collect()).unwrap();
    let mut sockets = Sockets::new(1, 8);
    sockets.inherit(inherited);
    sockets.update(&snapshot(&config(&[("a", ListenerProtocol::Http, 80)])));
    assert!(std::net::TcpStream::connect(address).is_ok());
    sockets.fill_inherited();
    assert!(std::net::TcpStream::connect(address).is_err());
}
