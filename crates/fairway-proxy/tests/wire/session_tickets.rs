//! TLS session tickets across replicas: which replica opens which, under which client-certificate rules, and how many are
//! issued.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairway_model::{
    ClientCertificate, ClientCertificateMode, ClientVerification, Config, Guard, HostKey, HostPattern,
    SessionTickets as Model, SharedTicketSecret, TicketSecret,
};
use fairway_proxy::SessionTickets;
use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::{Authority, Backend, BackendResponse, Client, Leaf, Request};
use rustls::ClientConfig;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::version::{TLS12, TLS13};
use rustls_pki_types::ServerName;

use crate::support::{HOST, Running, Setup, certificate};

/// Replicas with one certificate, each with its own ticket keys until they share some.
struct Fleet {
    backend: Backend,
    certificate: Leaf,
    authority: Authority,
}

/// A replica, and its keys.
struct Replica {
    running: Running,
    tickets: SessionTickets,
}

impl Fleet {
    async fn new() -> Self {
        let authority = Authority::new("test");
        let backend = Backend::http(|_| BackendResponse::ok("served")).await;
        Self { backend, certificate: authority.leaf(&[HOST]), authority }
    }

    fn replica(&self, edit: impl FnOnce(&mut Config)) -> Replica {
        let tickets = SessionTickets::default();
        let mut setup = Setup::to(&[self.backend.address()]);
        setup.options.tickets = tickets.clone();
        setup.hosts = vec![(HostPattern::Exact(HOST.into()), certificate("default/one", &self.certificate))];
        let mut config = setup.config();
        edit(&mut config);
        Replica { running: setup.start_by(&config), tickets }
    }

    /// A replica that verifies the clients of the host by these rules.
    fn verifying(&self, rules: &ClientVerification) -> Replica {
        self.replica(|config| {
            let key = HostKey { table: "ingress".into(), host: HostPattern::Exact(HOST.into()) };
            let mut host = (*config.hosts[&key]).clone();
            let rules = Arc::new(rules.clone());
            host.clients = Some(rules.clone());
            let asks = ClientCertificate { rules, subject: None, error_page: None, forwarded: false };
            for route in &mut host.routes {
                for rule in &mut Arc::make_mut(route).rules {
                    let guards = [Guard::ClientCertificate(asks.clone()), Guard::OverTls];
                    Arc::make_mut(&mut rule.phases).guards.splice(0..0, guards);
                }
            }
            config.hosts.insert(key, Arc::new(host));
        })
    }

    fn client(&self, version: &'static rustls::SupportedProtocolVersion) -> ClientConfig {
        self.authority.client_config_with_versions(&[version])
    }
}

fn shared(secrets: &[&str]) -> Vec<SharedTicketSecret> {
    let shared = |name: &&str| SharedTicketSecret {
        secret: TicketSecret::new(name.as_bytes().to_vec()),
        age: Duration::from_secs(3600),
        encrypts_in: Duration::ZERO,
    };
    secrets.iter().map(shared).collect()
}

/// Whether a session was resumed by a client that is then served.
async fn resumes(replica: &Replica, offer: &TlsOffer) -> bool {
    let mut client = Client::connect_tls(replica.running.https, offer).await.unwrap();
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    client.tls().unwrap().resumed
}

#[tokio::test]
async fn a_session_of_one_replica_resumes_on_all_that_share_its_keys() {
    let fleet = Fleet::new().await;
    for version in [&TLS12, &TLS13] {
        let replicas = [(); 2].map(|()| fleet.replica(|_| {}));
        let offer = TlsOffer::new(fleet.client(version), HOST);
        assert!(!resumes(&replicas[0], &offer).await);
        assert!(!resumes(&replicas[1], &offer).await, "each has keys of its own");
        replicas.iter().for_each(|replica| replica.tickets.adopt(&shared(&["1"])));
        assert!(resumes(&replicas[1], &offer).await, "what it made before still resumes");
        for turn in 0..6 {
            assert!(resumes(&replicas[turn % 2], &offer).await, "{version:?}, turn {turn}");
        }
        // One replica learns of a new key before the other.
        replicas[0].tickets.adopt(&shared(&["2", "1"]));
        assert!(resumes(&replicas[0], &offer).await);
        replicas[1].tickets.adopt(&shared(&["2", "1"]));
        assert!(resumes(&replicas[1], &offer).await);
        replicas.iter().for_each(|replica| replica.tickets.adopt(&shared(&["4", "3"])));
        let unopened = replicas[1].running.metric("fairway_tls_tickets_unopened_total").await;
        assert!(!resumes(&replicas[1], &offer).await, "keys that are gone open nothing");
        assert_eq!(replicas[1].running.metric("fairway_tls_tickets_unopened_total").await, unopened + 1);
        let age = replicas[1].running.metric("fairway_tls_ticket_key_age_seconds{source=\"shared\"}").await;
        assert!((3600..3700).contains(&age), "{age}");
    }
}

#[tokio::test]
async fn no_session_resumes_under_other_rules_for_client_certificates() {
    let fleet = Fleet::new().await;
    let clients = Authority::new("clients");
    let good = clients.leaf(&["good"]);
    let rules = |roots: &Authority, demand| ClientVerification {
        roots: roots.pem().into(),
        revoked: "".into(),
        depth: Some(1),
        demand,
    };
    let verification = rules(&clients, ClientCertificateMode::Optional);
    let others = [
        ClientVerification {
            roots: format!("{}{}", clients.pem(), Authority::new("others").pem()).into(),
            ..verification.clone()
        },
        rules(&clients, ClientCertificateMode::Unverified),
        ClientVerification { depth: Some(2), ..verification.clone() },
        ClientVerification { revoked: clients.revocation_list(&[]).into(), ..verification.clone() },
    ];
    let replica = |rules: &ClientVerification| fleet.verifying(rules);
    let (one, same, open) = (replica(&verification), replica(&verification), fleet.replica(|_| {}));
    let others = others.each_ref().map(replica);
    for replica in [&one, &same, &open].into_iter().chain(&others) {
        replica.tickets.adopt(&shared(&["1"]));
    }
    for version in [&TLS12, &TLS13] {
        let offer = || TlsOffer::new(good.add_client_certificate(fleet.client(version)), HOST);
        let client = offer();
        assert!(!resumes(&one, &client).await);
        assert!(resumes(&same, &client).await && resumes(&one, &client).await);
        for (at, other) in [&open].into_iter().chain(&others).enumerate() {
            for (from, to) in [(&one, other), (other, &one)] {
                let client = offer();
                assert!(!resumes(from, &client).await);
                assert!(!resumes(to, &client).await, "{version:?}, other rules {at}");
            }
        }
    }
}

#[tokio::test]
async fn the_key_of_an_operator_is_used_by_every_replica_and_none_gives_no_tickets() {
    let fleet = Fleet::new().await;
    let with = |tickets: Model| fleet.replica(|config| config.settings.tickets = tickets);
    let fixed = || Model::Fixed { secret: TicketSecret::new(vec![7; 80]) };
    let off = with(Model::Off);
    for version in [&TLS12, &TLS13] {
        let offer = TlsOffer::new(fleet.client(version), HOST);
        assert!(!resumes(&with(fixed()), &offer).await);
        for _ in 0..2 {
            assert!(resumes(&with(fixed()), &offer).await, "replicas that have nothing else in common");
        }
        for _ in 0..3 {
            assert!(!resumes(&off, &offer).await);
        }
    }
}

/// Counts tickets.
#[derive(Debug)]
struct Counting {
    sessions: ClientSessionMemoryCache,
    tickets: AtomicUsize,
}

impl ClientSessionStore for Counting {
    fn set_kx_hint(&self, name: ServerName<'static>, group: rustls::NamedGroup) {
        self.sessions.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<rustls::NamedGroup> {
        self.sessions.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.sessions.set_tls12_session(name, value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.sessions.tls12_session(name)
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.sessions.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.tickets.fetch_add(1, Ordering::Relaxed);
        self.sessions.insert_tls13_ticket(name, value);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.sessions.take_tls13_ticket(name)
    }
}

#[tokio::test]
async fn a_client_of_tls_1_3_gets_two_tickets_for_two_connections_at_a_time() {
    let fleet = Fleet::new().await;
    let replica = fleet.replica(|_| {});
    let store =
        Arc::new(Counting { sessions: ClientSessionMemoryCache::new(32), tickets: AtomicUsize::new(0) });
    let mut config = unverified_client_config();
    config.resumption = Resumption::store(store.clone());
    let offer = TlsOffer::new(config, HOST);
    assert!(!resumes(&replica, &offer).await);
    assert_eq!(store.tickets.load(Ordering::Relaxed), 2);
    // Neither reads the tickets of its own handshake.
    let [one, two] = [(); 2].map(|()| Client::connect_tls(replica.running.https, &offer));
    let (one, two) = (one.await.unwrap(), two.await.unwrap());
    assert!(one.tls().unwrap().resumed && two.tls().unwrap().resumed);
}
