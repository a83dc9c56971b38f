//! Counts allocations: no request allocates what a reused buffer can avoid (design.md, section 2).
//!
//! The allocator counts the whole process, so client and endpoint are threads with blocking sockets and buffers on their
//! stacks, which allocate nothing while it counts: what remains is the worker's.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

#[allow(dead_code, reason = "the wire tests use all of it")]
#[path = "wire/support.rs"]
mod support;

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::{NonZeroU8, NonZeroU32};
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    ApiKeyAuth, ApiKeys, Authorization, AuthorizationRule, Backend, BackendKey, BackendTraffic, ClaimHeader,
    ClaimMatch, ClientTraffic, Config, CredentialLocation, Decision, Ejection, Endpoint, EndpointHealth,
    Forwarding, GeoField, Guard, HeaderTemplate, HealthCheck, HostPattern, JwtAuth, JwtIssuer, JwtKeys,
    Listener, ListenerProtocol, Origin, Phases, Probe, Propagation, ResponseEdit, Retry, SameSite,
    SecureCookie, SessionCarrier, SessionCookie, SessionHash, SessionKey, SessionLifetime, SessionPart,
    SessionStart, Stickiness, StickyFailure, StreamKey, StreamPolicy, StreamRoute, Template, TemplatePart,
    Tracing, TrafficDistribution, VirtualHost, WeightedBackend,
};
use fairway_proxy::{GeoIp, ProxyOptions};
use fairway_testkit::mmdb::{self, Mmdb};
use fairway_testkit::tokens::{Signer, jwk_set};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use support::{Setup, with_session};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WARM: usize = 500;
const COUNT: usize = 4_000;

const GET: &[u8] = b"GET /a/b?c=d HTTP/1.1\r\nHost: example.com\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n";
const PLAIN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\n0123456789";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n";

/// Serves one connection until it closes: a request ends with `end`, and gets `answer`.
fn endpoint(response: &'static [u8], end: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut buffer, mut filled) = ([0; 8192], 0);
        loop {
            match stream.read(&mut buffer[filled..]) {
                Ok(0) | Err(_) => return,
                Ok(count) => filled += count,
            }
            if buffer[..filled].ends_with(end) {
                filled = 0;
                stream.write_all(response).unwrap();
            }
        }
    });
    address
}

/// Sends `count` requests one after the other; a response ends with `end`.
fn run_requests(stream: &mut TcpStream, request: &[u8], end: &[u8], count: usize) {
    let mut buffer = [0; 8192];
    for _ in 0..count {
        stream.write_all(request).unwrap();
        let mut filled = 0;
        while !buffer[..filled].ends_with(end) {
            let count = stream.read(&mut buffer[filled..]).unwrap();
            assert!(count > 0, "the connection stays");
            filled += count;
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200 "));
    }
}

/// Allocations per request of a warm worker.
fn per_request(
    request: &[u8],
    answer: &'static [u8],
    request_end: &'static [u8],
    answer_end: &[u8],
    edit: impl FnOnce(Config) -> Config,
) -> f64 {
    per_request_with(|_| {}, request, answer, (request_end, answer_end), edit)
}

/// The same with these options of the process.
fn per_request_with(
    options: impl FnOnce(&mut ProxyOptions),
    request: &[u8],
    answer: &'static [u8],
    (request_end, answer_end): (&'static [u8], &[u8]),
    edit: impl FnOnce(Config) -> Config,
) -> f64 {
    let address = endpoint(answer, request_end);
    let setup = Setup::to(&[address])
        .options(options)
        .filter(Phases::from(ResponseEdit::StrictTransportSecurity("max-age=31536000".into())))
        .settings(|settings| settings.downstream.requests_per_connection = u64::MAX)
        .settings(|settings| settings.upstream.requests_per_connection = u64::MAX);
    let proxy = setup.start_by(&edit(setup.config()));
    let mut stream = TcpStream::connect(proxy.http).unwrap();
    stream.set_nodelay(true).unwrap();
    run_requests(&mut stream, request, answer_end, WARM);
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    run_requests(&mut stream, request, answer_end, COUNT);
    let change = region.change();
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let per_request = (change.allocations + change.reallocations) as f64 / COUNT as f64;
    per_request
}

/// A ClientHello that asks for `example.com`.
const HELLO: &[u8] = include_bytes!("../../../fuzz/corpus/client_hello/plain");

/// TLS passthrough: called by the only test, because the whole process is counted.
fn forwarded_bytes_allocate_nothing() {
    let setup = Setup::to(&[endpoint(PLAIN, b"\r\n\r\n")]);
    let mut config = setup.config();
    let listener = Listener::new("pass", ListenerProtocol::TlsPassthrough, 443, "pass");
    let listener = Listener { bind: vec!["127.0.0.1:0".parse().unwrap()], ..listener };
    config.listeners.insert("pass".into(), Arc::new(listener));
    let key = StreamKey { table: "pass".into(), host: HostPattern::Any };
    let backends = vec![WeightedBackend::new("backend".into(), 1)];
    let route = StreamRoute {
        key: key.clone(),
        origin: Origin::default(),
        backends,
        policy: StreamPolicy::default(),
    };
    config.streams.insert(key, Arc::new(route));
    let proxy = setup.start_by(&config);
    let mut stream = TcpStream::connect(proxy.publisher.addresses("pass")[0]).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(HELLO).unwrap();
    run_requests(&mut stream, GET, b"9", WARM);
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    run_requests(&mut stream, GET, b"9", COUNT);
    let change = region.change();
    // The worker's work once a second, independent of traffic.
    let all = change.allocations + change.reallocations;
    assert!(all * 100 < COUNT, "{all} for {COUNT} passages");
}

/// Echoes each datagram.
fn datagram_endpoint() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        loop {
            let (count, from) = socket.recv_from(&mut buffer).unwrap();
            socket.send_to(&buffer[..count], from).unwrap();
        }
    });
    address
}

/// UDP: called by the only test, because the whole process is counted.
fn datagrams_of_a_session_allocate_nothing() {
    let setup = Setup::to(&[datagram_endpoint()]);
    let mut config = setup.config();
    let listener = Listener::new("udp", ListenerProtocol::Udp, 53, "udp");
    let listener = Listener { bind: vec!["127.0.0.1:0".parse().unwrap()], ..listener };
    config.listeners.insert("udp".into(), Arc::new(listener));
    let key = StreamKey { table: "udp".into(), host: HostPattern::Any };
    let backends = vec![WeightedBackend::new("backend".into(), 1)];
    let (origin, policy) = (Origin::default(), StreamPolicy::default());
    config.streams.insert(key.clone(), Arc::new(StreamRoute { key, origin, backends, policy }));
    let proxy = setup.start_by(&config);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(proxy.publisher.addresses("udp")[0]).unwrap();
    client.set_read_timeout(Some(fairway_testkit::wait::WAIT_TIMEOUT)).unwrap();
    let exchange = |count: usize| {
        let mut buffer = [0; 2048];
        for number in 0..count {
            let payload = number.to_be_bytes();
            client.send(&payload).unwrap();
            let length = client.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..length], payload);
        }
    };
    exchange(WARM);
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    exchange(COUNT);
    let change = region.change();
    // The worker's work once a second, independent of traffic.
    let all = change.allocations + change.reallocations;
    assert!(all * 100 < COUNT, "{all} for {COUNT} datagrams and their answers");
}

#[test]
fn requests_on_warm_connections_allocate_almost_nothing() {
    let mut post = b"POST /a HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1000\r\n\r\n".to_vec();
    post.resize(post.len() + 999, b'a');
    post.push(b'.');
    let chunked_post =
        b"POST /a HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
            .to_vec();
    for (name, request, answer, (request_end, answer_end), most) in [
        ("GET", GET, PLAIN, (&b"\r\n\r\n"[..], &b"9"[..]), 0),
        ("GET, chunked answer", GET, CHUNKED, (b"\r\n\r\n", b"0\r\n\r\n"), 0),
        ("POST of 1,000 bytes", &post, PLAIN, (b".", b"9"), 0),
        ("POST in chunks", &chunked_post, PLAIN, (b"0\r\n\r\n", b"9"), 0),
    ] {
        let allocations = per_request(request, answer, request_end, answer_end, |config| config);
        println!("{name}: {allocations:.4} allocations per request");
        assert!(allocations < f64::from(most) + 0.05, "{name}: {allocations} allocations per request");
    }
    unsampled_traces_allocate_nothing();
    session_lookups_allocate_nothing();
    cached_credentials_allocate_nothing();
    traffic_settings_of_a_backend_allocate_nothing();
    geoip_lookups_allocate_nothing();
    forwarded_bytes_allocate_nothing();
    datagrams_of_a_session_allocate_nothing();
    an_adoption_allocates_nothing_for_unchanged_backends();
}

/// Continued and new traces: called by the only test, because the whole process is counted.
fn unsampled_traces_allocate_nothing() {
    let traced = |propagation| {
        move |mut config: Config| {
            let tracing =
                Tracing { parent_based: true, trust_incoming: true, propagation, ..Tracing::default() };
            config.settings.tracing = Some(Arc::new(tracing));
            config
        }
    };
    let continued = b"GET /a/b?c=d HTTP/1.1\r\nHost: example.com\r\ntracestate: a=b\r\n\
                      traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00\r\n\r\n";
    for (request, propagation) in [
        (&continued[..], Propagation::W3c),
        (continued, Propagation::W3cAndB3),
        (GET, Propagation::W3c),
        (GET, Propagation::W3cAndB3),
    ] {
        let allocations = per_request(request, PLAIN, b"\r\n\r\n", b"9", traced(propagation));
        assert!(allocations < 0.05, "{propagation:?}: {allocations} allocations per request");
    }
}

/// A change of one of many backends: called by the only test, because the whole process is counted.
fn an_adoption_allocates_nothing_for_unchanged_backends() {
    const BACKENDS: usize = 20_000;
    let setup = Setup::to(&[]);
    let mut config = setup.config();
    let put = |config: &mut Config, number: usize, port: u16| {
        let key = BackendKey::from(&*format!("backend-{number}"));
        let endpoints = vec![Endpoint::at(([192, 0, 2, 1], port).into())];
        let model = config.backends[&BackendKey::from("backend")].as_ref();
        let backend = Backend { key: key.clone(), endpoints, ..Backend::clone(model) };
        config.backends.insert(key, Arc::new(backend));
    };
    (0..BACKENDS).for_each(|number| put(&mut config, number, 1));
    let mut proxy = setup.start_by(&config);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut least = usize::MAX;
    for change in 0..10_u16 {
        put(&mut config, usize::from(change) * 1_999, 2 + change);
        proxy.snapshot = fairway_routing::compile(&config, Some(&proxy.snapshot)).snapshot;
        let region = Region::new(&INSTRUMENTED_SYSTEM);
        assert!(proxy.publisher.publish(Arc::clone(&proxy.snapshot)).is_empty());
        runtime.block_on(proxy.publisher.wait_until_adopted(proxy.snapshot.version()));
        least = least.min(region.change().bytes_allocated);
    }
    assert!(least < BACKENDS, "{least} bytes for one change among {BACKENDS} backends");
}

/// Continued sessions, and hashes: called by the only test, because the whole process is counted.
fn session_lookups_allocate_nothing() {
    let cookie = |begins| {
        SessionKey::Cookie(Arc::new(SessionCookie {
            name: "route".into(),
            backend: "b".into(),
            stickiness: Stickiness::Balanced,
            path: None,
            domain: None,
            expires: None,
            max_age: None,
            secure: SecureCookie::OverTls,
            same_site: SameSite::Absent,
            on_failure: StickyFailure::Returns,
            begins,
            carrier: SessionCarrier::Cookie,
            lifetime: SessionLifetime::default(),
        }))
    };
    let parts = [SessionPart::Address, SessionPart::Cookie("route".into()), SessionPart::Path];
    let hash = SessionKey::Hash(SessionHash { parts: parts.into(), spread: None });
    let get = b"GET /a/b?c=d HTTP/1.1\r\nHost: example.com\r\nCookie: a=b; route=0123456789abcdef|b\r\n\r\n";
    for key in [cookie(SessionStart::Here), cookie(SessionStart::Elsewhere), hash] {
        let of_key = |config| with_session(config, &key);
        let allocations = per_request(get, PLAIN, b"\r\n\r\n", b"9", of_key);
        assert!(allocations < 0.05, "{key:?}: {allocations} allocations per request");
    }
}

/// A remembered token, an API key, and rules over both: called by the only test as well.
fn cached_credentials_allocate_nothing() {
    let signer = Signer::ed25519("a");
    let claims =
        json!({"iss": "https://login.test", "sub": "alice", "groups": ["staff"], "exp": 9_999_999_999_u64});
    let token = signer.token(&json!({"alg": "EdDSA"}), &claims);
    let header =
        |name: &str, prefix: &str| CredentialLocation::Header { name: name.into(), prefix: prefix.into() };
    let jwt = JwtAuth {
        realm: "shop".into(),
        locations: vec![header("authorization", "Bearer ")],
        skew: Duration::ZERO,
        issuers: vec![JwtIssuer {
            issuer: "https://login.test".into(),
            audiences: Vec::new(),
            keys: JwtKeys::Inline(jwk_set(&[signer]).into()),
            claims: Vec::new(),
            scopes: Vec::new(),
            headers: vec![ClaimHeader { claim: "sub".into(), header: "X-User".into() }],
        }],
    };
    let api_key = ApiKeyAuth {
        policy: "keys".into(),
        locations: vec![header("x-api-key", "")],
        client_header: Some("X-Client".into()),
        keys: ApiKeys::new([(fairway_token::digest(b"the-key-of-billing"), "billing".into())]),
    };
    let rule = AuthorizationRule {
        methods: vec!["GET".into()],
        claims: vec![ClaimMatch { claim: "groups".into(), values: vec!["staff".into()] }],
        clients: vec!["billing".into()],
        ..AuthorizationRule::new(Decision::Allow)
    };
    let guards = vec![
        Guard::Jwt(Arc::new(jwt)),
        Guard::ApiKey(Arc::new(api_key)),
        Guard::Authorize(Arc::new(Authorization { rules: vec![rule] })),
    ];
    let guarded = |mut config: Config| {
        for host in config.hosts.values().cloned().collect::<Vec<_>>() {
            let mut host = VirtualHost::clone(&host);
            for route in &mut host.routes {
                for rule in &mut Arc::make_mut(route).rules {
                    rule.phases = Phases { guards: guards.clone(), ..Phases::default() }.shared();
                }
            }
            config.hosts.insert(host.key.clone(), Arc::new(host));
        }
        config
    };
    let get = format!(
        "GET /a HTTP/1.1\r\nHost: example.com\r\nAuthorization: Bearer {token}\r\nX-API-Key: the-key-of-billing\r\n\r\n"
    );
    let allocations = per_request(get.as_bytes(), PLAIN, b"\r\n\r\n", b"9", guarded);
    assert!(allocations < 0.05, "{allocations} allocations per request");
}

/// Rules, headers and log lines with country and autonomous system: called by the only test as well.
fn geoip_lookups_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (places, networks) = (folder.path().join("city"), folder.path().join("asn"));
    let home = mmdb::country("DE", "Germany");
    std::fs::write(&places, Mmdb::new("GeoLite2-City", 1).with_network("127.0.0.0/8", &home).bytes())
        .unwrap();
    let network = mmdb::network(64500, "Example");
    std::fs::write(&networks, Mmdb::new("GeoLite2-ASN", 1).with_network("127.0.0.0/8", &network).bytes())
        .unwrap();
    let located = |mut config: Config| {
        let rule = AuthorizationRule {
            countries: vec!["DE".parse().unwrap()],
            asns: vec![64500],
            ..AuthorizationRule::new(Decision::Allow)
        };
        let guards = vec![Guard::Authorize(Arc::new(Authorization { rules: vec![rule] }))];
        let value = Template(vec![TemplatePart::Geo(GeoField::CountryName)]);
        let fields = vec![HeaderTemplate { name: "X-Country".into(), value }];
        let forwarding = Forwarding { fields: Some(fields.into()), ..Forwarding::default() };
        for host in config.hosts.values().cloned().collect::<Vec<_>>() {
            let mut host = VirtualHost::clone(&host);
            for rule in host.routes.iter_mut().flat_map(|route| &mut Arc::make_mut(route).rules) {
                let mut phases = Phases::from(forwarding.clone());
                phases.guards = guards.clone();
                rule.phases = phases.shared();
            }
            config.hosts.insert(host.key.clone(), Arc::new(host));
        }
        config
    };
    let with_files = |options: &mut ProxyOptions| options.geoip = GeoIp::watch(&[places, networks]).unwrap();
    let allocations = per_request_with(with_files, GET, PLAIN, (b"\r\n\r\n", b"9"), located);
    assert!(allocations < 0.05, "{allocations} allocations per request");
}

/// A listener and a backend with traffic settings of their own: called by the only test as well.
fn traffic_settings_of_a_backend_allocate_nothing() {
    let of_its_own = |mut config: Config| {
        let mut listener = Listener::clone(&config.listeners["http"]);
        listener.clients = ClientTraffic {
            idle_timeout: Some(Duration::from_secs(30)),
            head_timeout: Some(Duration::from_secs(30)),
            requests_per_connection: Some(u64::MAX),
            connections: NonZeroU32::new(1),
            ..ClientTraffic::default()
        };
        config.listeners.insert(listener.name.clone(), Arc::new(listener));
        let mut backend = Backend::clone(&config.backends[&BackendKey::from("backend")]);
        let (failures, first, longest) = (NonZeroU8::MIN, Duration::from_secs(1), Duration::from_secs(2));
        let traffic = BackendTraffic {
            retry: Some(Retry::default()),
            latency: Some(fairway_model::LatencyEjection {
                factor: NonZeroU8::MAX,
                responses: NonZeroU32::MIN,
                interval: Duration::from_secs(3600),
            }),
            limits: Some(fairway_model::BackendLimits {
                connections: NonZeroU32::new(9),
                requests: NonZeroU32::new(9),
                concurrency: Some(fairway_model::AdaptiveConcurrency {
                    minimum: NonZeroU32::MIN,
                    maximum: NonZeroU32::MAX,
                }),
                pending: 9,
                retries: Some(9),
            }),
            retry_budget: Some(fairway_model::RetryBudget { percent: 20, per_second: 10 }),
            ejection: Some(Ejection::After { failures, first, longest }),
            in_flight: NonZeroU32::new(1),
            hedge: Some(Duration::ZERO),
            distribution: Some(TrafficDistribution::PreferSameZone),
            health: Some(Arc::new(EndpointHealth {
                check: Some(Arc::new(HealthCheck {
                    probe: Probe::Tcp,
                    interval: Duration::from_secs(3600),
                    timeout: Duration::from_secs(1),
                    failures: NonZeroU8::MIN,
                    successes: NonZeroU8::MIN,
                })),
                slow_start: Some(Duration::from_secs(1)),
                panic_threshold: Some(50),
            })),
        };
        backend.traffic = traffic.if_not_empty();
        config.backends.insert(backend.key.clone(), Arc::new(backend));
        config
    };
    let allocations = per_request(GET, PLAIN, b"\r\n\r\n", b"9", of_its_own);
    assert!(allocations < 0.05, "{allocations} allocations per request");
}
