//! The data plane alone: one rule, one backend, no control side. For profilers: `bare [--trace] LISTEN ENDPOINT [ENDPOINT ...]`. With
//! `--trace`, traces of clients are continued and sampled where they say so; those that begin here are not sampled.

use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::{
    Action, Backend, BackendProtocol, Balancing, Config, Endpoint, HostKey, HostPattern, Listener,
    ListenerProtocol, Match, Origin, PathForm, Phases, ResponseEdit, Route, Rule, RuleLabels, RuleOrder,
    ServiceName, Tracing, VirtualHost, WeightedBackend,
};
use fairway_proxy::{
    AccessLogFormat, BufferOptions, DrainOptions, FleetLimits, GeoIp, Limits, Logouts, Proxy, ProxyOptions,
    ProxyProtocol, RecorderOptions, SelfSigned, SessionTickets, Stapling,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (flags, addresses): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|text| text.starts_with("--"));
    let addresses: Vec<SocketAddr> = addresses.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let (listen, endpoints) = addresses.split_first().ok_or("usage: bare [--trace] LISTEN ENDPOINT...")?;
    let by_parent = Tracing { parent_based: true, trust_incoming: true, ..Tracing::default() };
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let options = ProxyOptions {
        workers: 1,
        access_log: AccessLogFormat::Off,
        access_log_copies: None,
        proxy_protocol: ProxyProtocol::default(),
        limits: Limits::default(),
        buffer: BufferOptions::default(),
        recorder: RecorderOptions::default(),
        tracing: flags.iter().any(|flag| flag == "--trace").then(|| Arc::new(by_parent)),
        traces: None,
        drain: DrainOptions::default(),
        tickets: SessionTickets::default(),
        logouts: Logouts::default(),
        geoip: GeoIp::default(),
        fleet: FleetLimits::default(),
        stapling: Stapling::default(),
        fallback_certificate: SelfSigned {
            chain: vec![certified.cert.der().to_vec()],
            private_key: certified.signing_key.serialize_der(),
        },
        location: fairway_model::ProxyLocation::default(),
        return_memory: |_| {},
    };
    let compiled = fairway_routing::compile(&config(*listen, endpoints), None);
    Ok(Proxy::start(options, compiled.snapshot)?.join()?)
}

fn config(listen: SocketAddr, endpoints: &[SocketAddr]) -> Config {
    let key = HostKey { table: "ingress".into(), host: HostPattern::Any };
    let backend = Backend {
        key: "bare".into(),
        origin: Origin::object("Service", "default", "bare"),
        service: ServiceName { namespace: "default".into(), name: "bare".into(), port: "80".into() },
        endpoints: endpoints.iter().map(|address| Endpoint::at(*address)).collect(),
        protocol: BackendProtocol::Http1,
        tls: None,
        balancing: Balancing::RoundRobin,
        session: None,
        traffic: None,
    };
    let rule = Rule {
        origin: Origin::object("Ingress", "default", "bare"),
        matches: vec![Match::default()],
        phases: Phases::from(ResponseEdit::StrictTransportSecurity("max-age=31536000".into())).shared(),
        action: Action::Forward(vec![WeightedBackend::new("bare".into(), 1)]),
        policy: Arc::default(),
        labels: RuleLabels { namespace: "default".into(), ingress: "bare".into(), ..RuleLabels::default() },
    };
    let host = VirtualHost {
        key: key.clone(),
        order: RuleOrder::Precedence,
        path_form: PathForm::Decoded,
        routes: vec![Arc::new(Route {
            origin: rule.origin.clone(),
            created: None,
            hostname_rank: 0,
            rules: vec![rule],
        })],
        certificate: None,
        clients: None,
        suites: None,
        falls_through: false,
    };
    let mut config = Config::default();
    let listener =
        Listener { bind: vec![listen], ..Listener::new("http", ListenerProtocol::Http, 80, "ingress") };
    config.listeners.insert("http".into(), Arc::new(listener));
    config.hosts.insert(key, Arc::new(host));
    config.backends.insert("bare".into(), Arc::new(backend));
    config
}
