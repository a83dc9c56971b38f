//! Support for wire tests: short configurations, and a running proxy that can be queried and changed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    Action, Backend, BackendProtocol, Balancing, Certificate, CertificateKey, Config, Endpoint, HostKey,
    HostPattern, HostSuites, Listener, ListenerProtocol, Match, Origin, PathForm, PathMatch, Phases, Policy,
    PrivateKey, Route, Rule, RuleLabels, RuleOrder, ServiceName, SessionKey, Settings, UpstreamTls,
    VirtualHost, WeightedBackend,
};
use fairway_proxy::{
    AccessLogFormat, BufferOptions, DrainOptions, FleetLimits, GeoIp, Limits, Logouts, Proxy, ProxyHandle,
    ProxyOptions, ProxyProtocol, PublishProblem, Publisher, RecorderOptions, SelfSigned, SessionTickets,
    Stapling,
};
use fairway_routing::Snapshot;
use fairway_testkit::wait::WAIT_TIMEOUT;
use fairway_testkit::{Client, Leaf, eventually};

/// The host of requests where it does not matter.
pub(crate) const HOST: &str = "example.com";

/// A timeout that a test waits for. What must happen before it takes milliseconds, so that a busy machine does not matter.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

/// The configuration with a session key.
pub(crate) fn with_session(mut config: Config, key: &SessionKey) -> Config {
    let backends: Vec<Backend> = config.backends.values().map(|backend| Backend::clone(backend)).collect();
    for backend in backends {
        let backend = Backend { session: Some(key.clone()), ..backend };
        config.backends.insert(backend.key.clone(), Arc::new(backend));
    }
    config
}

/// One rule for every host and path, over one backend.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) endpoints: Vec<SocketAddr>,
    /// The endpoint of another backend, `other`.
    pub(crate) other_address: Option<SocketAddr>,
    pub(crate) tls: Option<UpstreamTls>,
    pub(crate) path: PathMatch,
    pub(crate) filters: Vec<Phases>,
    pub(crate) policy: Policy,
    pub(crate) settings: Settings,
    /// The addresses of `http` and `https`.
    pub(crate) addresses: BTreeMap<&'static str, Vec<SocketAddr>>,
    /// Hosts with their own certificate, in addition to the default host.
    pub(crate) hosts: Vec<(HostPattern, Certificate)>,
    pub(crate) default_certificate: Option<Certificate>,
    /// The suites of all hosts.
    pub(crate) suites: Option<HostSuites>,
    pub(crate) options: ProxyOptions,
}

impl Setup {
    /// One backend with `endpoints`, one worker, and default values.
    pub(crate) fn to(endpoints: &[SocketAddr]) -> Self {
        Self {
            endpoints: endpoints.to_vec(),
            other_address: None,
            tls: None,
            path: PathMatch::default(),
            filters: Vec::new(),
            policy: Policy::default(),
            settings: Settings::default(),
            addresses: BTreeMap::from([("http", vec![free_address()]), ("https", vec![free_address()])]),
            hosts: Vec::new(),
            default_certificate: None,
            suites: None,
            options: options(),
        }
    }

    pub(crate) fn policy(mut self, edit: impl FnOnce(&mut Policy)) -> Self {
        edit(&mut self.policy);
        self
    }

    pub(crate) fn settings(mut self, edit: impl FnOnce(&mut Settings)) -> Self {
        edit(&mut self.settings);
        self
    }

    pub(crate) fn options(mut self, edit: impl FnOnce(&mut ProxyOptions)) -> Self {
        edit(&mut self.options);
        self
    }

    /// With `http` at this address.
    pub(crate) fn http_at(mut self, address: &str) -> Self {
        self.addresses.insert("http", vec![address.parse().expect("an address")]);
        self
    }

    pub(crate) fn filter(mut self, filter: Phases) -> Self {
        self.filters.push(filter);
        self
    }

    /// The configuration for the data plane.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config { settings: self.settings.clone(), ..Config::default() };
        for (name, protocol, public_port) in
            [("http", ListenerProtocol::Http, 80), ("https", ListenerProtocol::Https, 443)]
        {
            let bind = self.addresses.get(name).cloned().unwrap_or_default();
            let listener = Listener { bind, ..Listener::new(name, protocol, public_port, "ingress") };
            config.listeners.insert(name.into(), Arc::new(listener));
        }
        config.backends.insert("backend".into(), Arc::new(self.backend()));
        if let Some(address) = self.other_address {
            let (key, endpoints) = ("other".into(), vec![Endpoint::at(address)]);
            let other = Backend { key, endpoints, tls: None, ..self.backend() };
            config.backends.insert("other".into(), Arc::new(other));
        }
        let mut add = |host: HostPattern, certificate: Option<CertificateKey>| {
            let key = HostKey { table: "ingress".into(), host };
            config.hosts.insert(key.clone(), Arc::new(self.virtual_host(key, certificate)));
        };
        add(HostPattern::Any, None);
        for (host, certificate) in &self.hosts {
            add(host.clone(), Some(certificate.key.clone()));
        }
        for certificate in
            self.hosts.iter().map(|(_, certificate)| certificate).chain(&self.default_certificate)
        {
            config.certificates.insert(certificate.key.clone(), Arc::new(certificate.clone()));
        }
        config.default_certificate =
            self.default_certificate.as_ref().map(|certificate| certificate.key.clone());
        config
    }

    fn backend(&self) -> Backend {
        Backend {
            key: "backend".into(),
            origin: Origin::object("Service", "default", "backend"),
            service: ServiceName { namespace: "default".into(), name: "backend".into(), port: "80".into() },
            endpoints: self.endpoints.iter().map(|address| Endpoint::at(*address)).collect(),
            protocol: BackendProtocol::Http1,
            tls: self.tls.clone().map(Arc::new),
            balancing: Balancing::RoundRobin,
            session: None,
            traffic: None,
        }
    }

    fn virtual_host(&self, key: HostKey, certificate: Option<CertificateKey>) -> VirtualHost {
        let rule = Rule {
            origin: Origin::object("Ingress", "default", "test"),
            matches: vec![Match { path: self.path.clone(), ..Match::default() }],
            phases: Phases::from_iter(self.filters.clone()).shared(),
            action: Action::Forward(vec![WeightedBackend::new("backend".into(), 1)]),
            policy: self.policy.clone().shared(),
            labels: RuleLabels {
                namespace: "default".into(),
                ingress: "test".into(),
                ..RuleLabels::default()
            },
        };
        VirtualHost {
            key,
            order: RuleOrder::Precedence,
            path_form: PathForm::Decoded,
            routes: vec![Arc::new(Route {
                origin: rule.origin.clone(),
                created: None,
                hostname_rank: 0,
                rules: vec![rule],
            })],
            certificate,
            clients: None,
            suites: self.suites.clone(),
            falls_through: false,
        }
    }

    /// Starts a proxy on free ports.
    pub(crate) fn start(&self) -> Running {
        self.start_by(&self.config())
    }

    /// Starts a proxy with a configuration derived from this one.
    pub(crate) fn start_by(&self, config: &Config) -> Running {
        let compiled = fairway_routing::compile(config, None);
        assert!(compiled.problems.is_empty(), "{:?}", compiled.problems);
        let proxy = Proxy::start(self.options.clone(), Arc::clone(&compiled.snapshot)).expect("free ports");
        let (publisher, handle) = (proxy.publisher(), proxy.handle());
        let first = |name| publisher.addresses(name).first().copied().unwrap_or_else(unbound_address);
        let (http, https) = (first("http"), first("https"));
        Running { http, https, publisher, handle, snapshot: compiled.snapshot, proxy }
    }
}

/// One worker on loopback, no log, a drain that starts at once and aborts nothing.
fn options() -> ProxyOptions {
    let fallback = fairway_testkit::Authority::new("fallback").leaf(&["fallback.invalid"]);
    ProxyOptions {
        workers: 1,
        access_log: AccessLogFormat::Off,
        access_log_copies: None,
        proxy_protocol: ProxyProtocol::default(),
        limits: Limits::default(),
        buffer: BufferOptions::default(),
        recorder: RecorderOptions::default(),
        tracing: None,
        traces: None,
        drain: DrainOptions { delay: Duration::ZERO, timeout: Duration::from_secs(60) },
        tickets: SessionTickets::default(),
        logouts: Logouts::default(),
        geoip: GeoIp::default(),
        fleet: FleetLimits::default(),
        stapling: Stapling::default(),
        fallback_certificate: SelfSigned {
            chain: fallback.chain_der.iter().map(|der| der.to_vec()).collect(),
            private_key: fallback.key_der.secret_pkcs8_der().to_vec(),
        },
        location: fairway_model::ProxyLocation::default(),
        return_memory: |_| {},
    }
}

/// A free port on loopback.
fn free_address() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)
}

fn unbound_address() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)
}

/// A certificate for the configuration.
pub(crate) fn certificate(key: &str, leaf: &Leaf) -> Certificate {
    Certificate {
        key: key.into(),
        origin: Origin::object("Secret", "default", key),
        chain: leaf.chain_der.iter().map(|der| Arc::from(&**der)).collect(),
        private_key: PrivateKey::from_der(leaf.key_der.secret_pkcs8_der()),
        names: Vec::new(),
        not_after: i64::MAX,
        issued: Arc::default(),
    }
}

/// A running proxy; it drains when this is dropped.
pub(crate) struct Running {
    pub(crate) http: SocketAddr,
    pub(crate) https: SocketAddr,
    pub(crate) publisher: Publisher,
    pub(crate) handle: ProxyHandle,
    pub(crate) snapshot: Arc<Snapshot>,
    proxy: Proxy,
}

impl Running {
    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.http).await.expect("the proxy listens")
    }

    /// Publishes without waiting; returns the version.
    pub(crate) fn publish_now(&mut self, setup: &Setup) -> u64 {
        let (version, problems) = self.publish_config(&setup.config());
        assert!(problems.is_empty(), "{problems:?}");
        version
    }

    /// Publishes a configuration without waiting; returns the version, and what could not be compiled or prepared.
    pub(crate) fn publish_config(&mut self, config: &Config) -> (u64, Vec<String>) {
        let compiled = fairway_routing::compile(config, Some(&self.snapshot));
        let mut problems: Vec<_> = compiled.problems.iter().map(ToString::to_string).collect();
        let unready = self.publisher.publish(Arc::clone(&compiled.snapshot));
        problems.extend(unready.iter().map(|problem| match problem {
            PublishProblem::Certificate(problem) => format!("{}: {}", problem.certificate, problem.error),
            PublishProblem::Listener(error) => error.to_string(),
            PublishProblem::Trust(error) => error.to_string(),
        }));
        self.snapshot = compiled.snapshot;
        (self.snapshot.version(), problems)
    }

    /// Publishes and waits until every worker has adopted it.
    pub(crate) async fn publish(&mut self, setup: &Setup) {
        let version = self.publish_now(setup);
        self.publisher.wait_until_adopted(version).await;
    }

    /// The value of one series of the metrics; 0 if it is missing.
    pub(crate) async fn metric(&self, series: &str) -> u64 {
        let text: String = self.handle.metrics("").await.collect();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a whole number"))
    }

    /// Waits until a fault was counted `count` times.
    pub(crate) async fn expect_fault(&self, reason: &str, count: u64) {
        self.expect_metric(&format!("fairway_faults_total{{reason=\"{reason}\"}}"), count).await;
    }

    /// Waits until `count` connections were refused for this reason.
    pub(crate) async fn expect_refused(&self, reason: &str, count: u64) {
        self.expect_metric(&format!("fairway_refused_connections_total{{reason=\"{reason}\"}}"), count).await;
    }

    /// Waits until a series of the metrics has this value.
    pub(crate) async fn expect_metric(&self, series: &str, value: u64) {
        eventually(&format!("{series} {value}"), WAIT_TIMEOUT, || async {
            self.metric(series).await == value
        })
        .await;
    }

    /// Waits until every worker has ended, on a separate thread, which `join` requires.
    pub(crate) async fn join(self) -> std::io::Result<()> {
        let Self { proxy, .. } = self;
        tokio::task::spawn_blocking(|| proxy.join()).await.expect("join does not panic")
    }
}
