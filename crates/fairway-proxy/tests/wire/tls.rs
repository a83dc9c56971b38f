//! TLS on both sides: certificates, versions, sessions, live changes, verification of endpoints.

use std::sync::Arc;

use fairway_model::{
    Certificate, CipherSuite, HostPattern, HostSuites, KeyExchange, PrivateKey, SubjectName, SuitePreference,
    TlsVersions, TrustedRoots, UpstreamTls, UpstreamVerification, WildcardSpan,
};
use fairway_proxy::RecordedQuery;
use fairway_testkit::certificates::{
    KeyKind, Validity, unverified_client_config, unverified_client_config_with_provider,
};
use fairway_testkit::client::{TlsOffer, TlsOutcome};
use fairway_testkit::wait::WAIT_TIMEOUT;
use fairway_testkit::{Authority, Backend, BackendResponse, Client, Leaf, Request, eventually};
use rustls::NamedGroup;
use rustls::version::{TLS12, TLS13};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::support::{HOST, Running, Setup, TIMEOUT, certificate};

fn exact(name: &str) -> HostPattern {
    HostPattern::Exact(name.into())
}

fn wildcard(suffix: &str) -> HostPattern {
    HostPattern::Wildcard { suffix: suffix.into(), span: WildcardSpan::OneLabel }
}

async fn handshake(proxy: &Running, offer: &TlsOffer) -> TlsOutcome {
    let mut client = Client::connect_tls(proxy.https, offer).await.unwrap();
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    client.tls().unwrap()
}

async fn shown(proxy: &Running, name: &str) -> Vec<u8> {
    handshake(proxy, &TlsOffer::new(unverified_client_config(), name)).await.chain[0].to_vec()
}

async fn echo() -> Backend {
    Backend::http(|request| BackendResponse::ok(request.header("X-Forwarded-Proto").unwrap_or_default()))
        .await
}

#[tokio::test]
async fn the_name_chooses_the_certificate() {
    let backend = echo().await;
    let authority = Authority::new("test");
    let leaf = |name: &str| authority.leaf(&[name]);
    let (one, star, default) = (leaf("a.example.com"), leaf("*.example.com"), leaf("default.example"));
    let mut setup = Setup::to(&[backend.address()]);
    setup.hosts = vec![
        (exact("a.example.com"), certificate("default/one", &one)),
        (wildcard("example.com"), certificate("default/star", &star)),
    ];
    let fallback = setup.start();
    setup.default_certificate = Some(certificate("default/default", &default));
    let proxy = setup.start();
    for (name, leaf) in [
        ("a.example.com", &one),
        ("A.Example.COM", &one),
        ("b.example.com", &star),
        ("b.c.example.com", &default),
        ("elsewhere.org", &default),
    ] {
        assert_eq!(shown(&proxy, name).await, *leaf.chain_der[0], "{name}");
    }
    let without = TlsOffer::new(unverified_client_config(), HOST).without_sni();
    assert_eq!(*handshake(&proxy, &without).await.chain[0], *default.chain_der[0]);
    let own_certificate = &setup.options.fallback_certificate.chain[0];
    assert_eq!(
        shown(&fallback, "elsewhere.org").await,
        *own_certificate,
        "without a default there is one of our own"
    );
}

#[tokio::test]
async fn both_versions_and_both_kinds_of_key_are_spoken() {
    let backend = echo().await;
    let authority = Authority::new("test");
    for kind in [KeyKind::EcdsaP256, KeyKind::Rsa2048] {
        let leaf = authority.issue(&[HOST], kind, Validity::Current);
        let mut setup = Setup::to(&[backend.address()]);
        setup.hosts = vec![(exact(HOST), certificate("default/one", &leaf))];
        let proxy = setup.start();
        for version in [&TLS12, &TLS13] {
            let offer = TlsOffer::new(authority.client_config_with_versions(&[version]), HOST);
            let outcome = handshake(&proxy, &offer).await;
            assert_eq!((outcome.version, outcome.alpn.as_deref()), (version.version, Some("http/1.1")));
        }
        let mut client =
            Client::connect_tls(proxy.https, &TlsOffer::new(authority.client_config(), HOST)).await.unwrap();
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().text(), "https");
    }
}

#[tokio::test]
async fn a_session_resumes_on_whichever_worker_and_after_a_change() {
    let backend = echo().await;
    let authority = Authority::new("test");
    let leaf = authority.leaf(&[HOST]);
    let mut setup = Setup::to(&[backend.address()]).options(|options| options.workers = 2);
    setup.hosts = vec![(exact(HOST), certificate("default/one", &leaf))];
    let mut proxy = setup.start();
    for version in [&TLS12, &TLS13] {
        let offer = TlsOffer::new(authority.client_config_with_versions(&[version]), HOST);
        assert!(!handshake(&proxy, &offer).await.resumed);
        // The kernel spreads connections over both workers, so some of many reach each worker.
        for _ in 0..12 {
            assert!(handshake(&proxy, &offer).await.resumed);
        }
        proxy.publish(&setup.clone().policy(|policy| policy.websocket = !policy.websocket)).await;
        assert!(handshake(&proxy, &offer).await.resumed);
    }
}

#[tokio::test]
async fn a_certificate_is_swapped_and_no_connection_closes() {
    let backend = echo().await;
    let authority = Authority::new("test");
    let with = |leaf: &Leaf| {
        let mut setup = Setup::to(&[backend.address()]);
        setup.hosts = vec![(exact(HOST), certificate("default/one", leaf))];
        setup
    };
    let mut leaf = authority.leaf(&[HOST]);
    let mut proxy = with(&leaf).start();
    let offer = TlsOffer::new(unverified_client_config(), HOST);
    let mut open = Client::connect_tls(proxy.https, &offer).await.unwrap();
    for _ in 0..5 {
        assert_eq!(open.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
        assert_eq!(shown(&proxy, HOST).await, *leaf.chain_der[0]);
        leaf = authority.leaf(&[HOST]);
        proxy.publish(&with(&leaf)).await;
    }
    assert_eq!(shown(&proxy, HOST).await, *leaf.chain_der[0]);
}

/// Version 1 and self-signed: `openssl ca -selfsign` without extensions, with -startdate 20200101000000Z -enddate
/// 21190101000000Z, for /CN=old.test.
const OF_VERSION_ONE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBDzCBtgIBATAKBggqhkjOPQQDAjATMREwDwYDVQQDDAhvbGQudGVzdDAgFw0y
MDAxMDEwMDAwMDBaGA8yMTE5MDEwMTAwMDAwMFowEzERMA8GA1UEAwwIb2xkLnRl
c3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARSrJKf4E9D1Qz7l2iwXY0cP1NX
pbOstvB6gzrFZkZdQxMynY71uSY2YJNKQzkOk+m9plKrQz5VpIZmBN/yVjXDMAoG
CCqGSM49BAMCA0gAMEUCIEAEoGMS89n4GCKpZXk9DADE3XCDZ96/DJPaBoXQPR+/
AiEA1TIGzDnSB4MznMFAI7B3ZfYf0Po0xikIGaKYjPgI+sg=
-----END CERTIFICATE-----
";

const KEY_OF_VERSION_ONE: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg/UEfs2PFif6fzRdk
0AxTlQ15qYIo954fwcbt7rp6PpmhRANCAARSrJKf4E9D1Qz7l2iwXY0cP1NXpbOs
tvB6gzrFZkZdQxMynY71uSY2YJNKQzkOk+m9plKrQz5VpIZmBN/yVjXD
-----END PRIVATE KEY-----
";

/// webpki, and so the client of these tests, rejects such certificates; therefore Fairway itself connects to the server, as to
/// an endpoint.
#[tokio::test]
async fn a_certificate_of_version_1_is_shown_for_its_host_and_as_the_default() {
    let backend = echo().await;
    let other = certificate("default/other", &Authority::new("test").leaf(&["other.test"]));
    let der = CertificateDer::from_pem_slice(OF_VERSION_ONE.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY_OF_VERSION_ONE.as_bytes()).unwrap();
    let of_version_one = Certificate {
        key: "default/old".into(),
        chain: vec![Arc::from(&*der)],
        private_key: PrivateKey::from_der(key.secret_der()),
        ..other.clone()
    };
    let mut setup = Setup::to(&[backend.address()]);
    setup.hosts = vec![(exact("old.test"), of_version_one.clone()), (exact("other.test"), other)];
    let without_default = setup.start();
    setup.default_certificate = Some(of_version_one);
    let proxy = setup.start();
    for versions in [TlsVersions::Only12, TlsVersions::Only13] {
        for (asked, name, status) in [
            (&proxy, Some("old.test"), 200),
            (&proxy, Some("elsewhere.test"), 200),
            (&proxy, None, 200),
            (&proxy, Some("other.test"), 502),
            (&without_default, Some("old.test"), 200),
            (&without_default, Some("elsewhere.test"), 502),
        ] {
            let roots = Arc::from(OF_VERSION_ONE);
            let verification = UpstreamVerification::Chain { roots, name: "old.test".into(), depth: None };
            let mut asking = Setup::to(&[asked.https]);
            asking.tls =
                Some(UpstreamTls { server_name: name.map(Into::into), verification, versions, ..trusting() });
            let response = asking.start().client().await.exchange(&Request::get(HOST, "/")).await.unwrap();
            assert_eq!(response.status, status, "{versions:?} {name:?}");
        }
    }
}

#[tokio::test]
async fn other_bytes_than_a_handshake_are_counted_and_closed() {
    let backend = echo().await;
    let proxy = Setup::to(&[backend.address()])
        .settings(|settings| settings.downstream.handshake_timeout = TIMEOUT)
        .start();
    let mut plain = Client::connect(proxy.https).await.unwrap();
    plain.send(Request::get(HOST, "/").bytes()).await.unwrap();
    plain.read_response().await.expect_err("no HTTP in the clear");
    proxy.expect_refused("handshake_failed", 1).await;
    let mut silent = Client::connect(proxy.https).await.unwrap();
    silent.expect_closed().await;
    proxy.expect_refused("handshake_timeout", 1).await;
}

fn verifying(roots: &Authority, name: &str) -> UpstreamTls {
    UpstreamTls {
        server_name: Some(name.into()),
        verification: UpstreamVerification::Chain {
            roots: Arc::from(roots.pem()),
            name: name.into(),
            depth: None,
        },
        ..trusting()
    }
}

fn trusting() -> UpstreamTls {
    UpstreamTls {
        server_name: None,
        verification: UpstreamVerification::Off,
        client_certificate: None,
        versions: TlsVersions::Both,
        suites: Vec::new(),
    }
}

#[tokio::test]
async fn endpoints_are_verified_as_far_as_the_backend_says() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let current = |authority: &Authority, name: &str| authority.leaf(&[name]);
    for (leaf, tls, status) in [
        (current(&theirs, "anything"), trusting(), 200),
        (ours.issue(&["inner.example"], KeyKind::EcdsaP256, Validity::Expired), trusting(), 200),
        (current(&ours, "inner.example"), verifying(&ours, "inner.example"), 200),
        (current(&ours, "other.example"), verifying(&ours, "inner.example"), 502),
        (current(&theirs, "inner.example"), verifying(&ours, "inner.example"), 502),
        (
            ours.issue(&["inner.example"], KeyKind::EcdsaP256, Validity::Expired),
            verifying(&ours, "inner.example"),
            502,
        ),
    ] {
        let backend = Backend::https(leaf.server_config(&["http/1.1"]), |_| BackendResponse::ok("ok")).await;
        let mut setup = Setup::to(&[backend.address()]);
        setup.tls = Some(tls.clone());
        let proxy = setup.start();
        let mut client = proxy.client().await;
        for _ in 0..2 {
            assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, status, "{tls:?}");
        }
        if status == 200 {
            assert_eq!(backend.connection_count(), 1, "connections under TLS are reused too");
        } else {
            proxy.expect_fault("upstream_tls", 2).await;
            assert_eq!(backend.request_count(), 0);
        }
    }
}

#[tokio::test]
async fn endpoints_are_verified_for_any_of_their_names_that_the_backend_accepts() {
    const ID: &str = "spiffe://inner.example/shop";
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let dns = |name: &str| SubjectName::Dns(name.into());
    let uri = |name: &str| SubjectName::Uri(name.into());
    let both = ours.leaf(&["inner.example", ID]);
    let wild = ours.leaf(&["*.inner.example"]);
    for (leaf, names, status) in [
        (&both, vec![dns("inner.example")], 200),
        (&both, vec![uri(ID)], 200),
        (&both, vec![uri("spiffe://other.example/shop"), dns("inner.example")], 200),
        (&both, vec![uri("spiffe://other.example/shop"), dns("other.example")], 502),
        // The requested name is not among the accepted ones.
        (&both, vec![dns("sni.example")], 502),
        (&both, vec![uri("spiffe://inner.example")], 502),
        (&both, Vec::new(), 502),
        (&wild, vec![dns("a.inner.example")], 200),
        (&wild, vec![dns("*.inner.example")], 200),
        (&wild, vec![dns("inner.example")], 502),
        (&both, vec![dns("*.example")], 200),
        (&both, vec![dns("*.inner.example")], 502),
        (&theirs.leaf(&["inner.example", ID]), vec![dns("inner.example"), uri(ID)], 502),
        (&ours.issue(&[ID], KeyKind::EcdsaP256, Validity::Expired), vec![uri(ID)], 502),
    ] {
        let roots = TrustedRoots::Pem(ours.pem().into());
        let verification = UpstreamVerification::Subject { roots, names };
        let tls = UpstreamTls { server_name: Some("sni.example".into()), verification, ..trusting() };
        assert_eq!(status_of(leaf, tls.clone()).await.0, status, "{tls:?}");
    }
}

#[tokio::test]
async fn the_system_trusts_no_authority_of_a_test() {
    let names = vec![SubjectName::Dns("inner.example".into())];
    let verification = UpstreamVerification::Subject { roots: TrustedRoots::System, names };
    let leaf = Authority::new("ours").leaf(&["inner.example"]);
    assert_eq!(status_of(&leaf, UpstreamTls { verification, ..trusting() }).await.0, 502);
}

/// The status of a request through the proxy to an endpoint with this certificate.
async fn status_of(leaf: &Leaf, tls: UpstreamTls) -> (u16, Backend) {
    let backend = Backend::https(leaf.server_config(&["http/1.1"]), |_| BackendResponse::ok("ok")).await;
    let mut setup = Setup::to(&[backend.address()]);
    setup.tls = Some(tls);
    let response = setup.start().client().await.exchange(&Request::get(HOST, "/")).await.unwrap();
    (response.status, backend)
}

#[tokio::test]
async fn the_tls_time_of_a_connect_is_recorded_and_none_for_an_open_connection() {
    let leaf = Authority::new("ours").leaf(&["inner.example"]);
    let backend = Backend::https(leaf.server_config(&["http/1.1"]), |_| BackendResponse::ok("ok")).await;
    let mut setup = Setup::to(&[backend.address()]);
    setup.tls = Some(trusting());
    let proxy = setup.start();
    let mut client = proxy.client().await;
    let recorded = async || {
        proxy.handle.recorded_exchanges(RecordedQuery { limit: 2, ..RecordedQuery::default() }).await
    };
    for (count, is_open) in [(1, false), (2, true)] {
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
        eventually("it is recorded", WAIT_TIMEOUT, || async { recorded().await.len() == count }).await;
        let upstream = recorded().await.remove(0).upstream.unwrap();
        assert_eq!((upstream.connect_us == 0, upstream.tls_us == 0), (is_open, is_open), "{upstream:?}");
        assert!(upstream.tls_us <= upstream.connect_us, "{upstream:?}");
    }
}

#[tokio::test]
async fn chains_of_endpoints_are_as_long_as_the_backend_allows() {
    let root = Authority::new("root");
    let (first, second) = (root.intermediate("first"), root.intermediate("first").intermediate("second"));
    for (authority, depth, status) in [
        (&root, Some(0), 200),
        (&first, Some(0), 502),
        (&first, Some(1), 200),
        (&second, Some(1), 502),
        (&second, Some(2), 200),
        (&second, None, 200),
    ] {
        let name = "inner.example".into();
        let verification = UpstreamVerification::Chain { roots: Arc::from(root.pem()), name, depth };
        let tls = UpstreamTls { verification, ..trusting() };
        assert_eq!(status_of(&authority.leaf(&["inner.example"]), tls).await.0, status, "{depth:?}");
    }
}

#[tokio::test]
async fn an_endpoint_is_offered_the_versions_and_suites_of_its_backend() {
    let leaf = Authority::new("ours").leaf(&["inner.example"]);
    let offers =
        |versions, suites: &[CipherSuite]| UpstreamTls { versions, suites: suites.into(), ..trusting() };
    let ecdsa = [CipherSuite::EcdheEcdsaAes128];
    for (tls, status) in [
        (offers(TlsVersions::Only12, &[]), 200),
        (offers(TlsVersions::Only13, &[]), 200),
        (offers(TlsVersions::Only12, &ecdsa), 200),
        // The endpoint has a certificate with ECDSA.
        (offers(TlsVersions::Only12, &[CipherSuite::EcdheRsaAes128]), 502),
        (offers(TlsVersions::Both, &[CipherSuite::EcdheRsaAes128]), 200),
    ] {
        assert_eq!(status_of(&leaf, tls.clone()).await.0, status, "{tls:?}");
    }
}

#[tokio::test]
async fn a_host_offers_its_own_suites_of_tls_1_2() {
    let backend = echo().await;
    let authority = Authority::new("test");
    let leaf = authority.leaf(&["a.example.com"]);
    for (offered, speaks_12) in [
        (vec![], true),
        (vec![CipherSuite::EcdheEcdsaAes128], true),
        // The host has a certificate with ECDSA.
        (vec![CipherSuite::EcdheRsaAes128], false),
    ] {
        let mut setup = Setup::to(&[backend.address()]);
        setup.hosts = vec![(exact("a.example.com"), certificate("default/one", &leaf))];
        setup.suites = Some(HostSuites { offered, chosen_by: SuitePreference::Server });
        let proxy = setup.start();
        for (version, speaks) in [(&TLS12, speaks_12), (&TLS13, true)] {
            let offer = TlsOffer::new(authority.client_config_with_versions(&[version]), "a.example.com");
            let connected = Client::connect_tls(proxy.https, &offer).await;
            assert_eq!(connected.is_ok(), speaks, "{version:?} {:?}", setup.suites);
        }
    }
}

#[tokio::test]
async fn a_disabled_version_is_refused_from_the_next_handshake_on() {
    let backend = echo().await;
    let authority = Authority::new("test");
    let leaf = authority.leaf(&["a.example.com"]);
    for suites in [None, Some(HostSuites { offered: Vec::new(), chosen_by: SuitePreference::Server })] {
        let mut setup = Setup::to(&[backend.address()]);
        setup.hosts = vec![(exact("a.example.com"), certificate("default/one", &leaf))];
        setup.suites = suites;
        let mut proxy = setup.start();
        for (versions, spoken) in [
            (TlsVersions::Both, [true, true]),
            (TlsVersions::Only13, [false, true]),
            (TlsVersions::Only12, [true, false]),
            (TlsVersions::Both, [true, true]),
        ] {
            proxy.publish(&setup.clone().settings(|it| it.downstream.tls_versions = versions)).await;
            for (version, speaks) in [&TLS12, &TLS13].into_iter().zip(spoken) {
                let offer = TlsOffer::new(authority.client_config_with_versions(&[version]), "a.example.com");
                let connected = Client::connect_tls(proxy.https, &offer).await;
                assert_eq!(connected.is_ok(), speaks, "{version:?} {versions:?}");
            }
            let mut config = unverified_client_config();
            config.enable_sni = false;
            let unnamed =
                Client::connect_tls(proxy.https, &TlsOffer::new(config, "elsewhere.org")).await.unwrap();
            let version = unnamed.tls().unwrap().version;
            assert_eq!(version == TLS12.version, versions == TlsVersions::Only12, "of the fallback");
        }
    }
}

#[tokio::test]
async fn keys_are_exchanged_in_an_allowed_group_that_the_client_prefers() {
    use KeyExchange::{Secp384r1, X25519, X25519MlKem768};
    let (backend, authority) = (echo().await, Authority::new("test"));
    let leaf = authority.leaf(&["a.example.com"]);
    // The default of rustls and of browsers.
    let later = unverified_client_config();
    let mut provider = (**later.crypto_provider()).clone();
    provider.kx_groups.rotate_right(1);
    assert_eq!(provider.kx_groups[0].name(), NamedGroup::X25519MLKEM768);
    let [first, later] = [unverified_client_config_with_provider(provider.into()), later]
        .map(|config| TlsOffer::new(config, "a.example.com"));
    // The FIPS module has no X25519. Where X25519 alone is allowed, Fairway offers all groups of the module.
    let (classical, only_x25519) = match cfg!(feature = "fips") {
        true => (NamedGroup::secp256r1, NamedGroup::X25519MLKEM768),
        false => (NamedGroup::X25519, NamedGroup::X25519),
    };
    for suites in [None, Some(HostSuites { offered: Vec::new(), chosen_by: SuitePreference::Server })] {
        let mut setup = Setup::to(&[backend.address()]);
        setup.hosts = vec![(exact("a.example.com"), certificate("default/one", &leaf))];
        setup.suites = suites;
        let mut proxy = setup.start();
        for (allowed, of_first, of_later) in [
            (vec![], NamedGroup::X25519MLKEM768, classical),
            (vec![X25519], only_x25519, classical),
            (vec![X25519MlKem768], NamedGroup::X25519MLKEM768, NamedGroup::X25519MLKEM768),
            (vec![Secp384r1, X25519MlKem768], NamedGroup::X25519MLKEM768, NamedGroup::secp384r1),
        ] {
            let settings = setup.clone().settings(|it| it.downstream.key_exchange.clone_from(&allowed));
            proxy.publish(&settings).await;
            for (offer, group) in [(&first, of_first), (&later, of_later)] {
                let client = Client::connect_tls(proxy.https, offer).await.unwrap();
                assert_eq!(client.tls().unwrap().group, Some(group), "{allowed:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_plain_endpoint_behind_tls_settings_is_502() {
    let backend = echo().await;
    let mut setup = Setup::to(&[backend.address()]);
    setup.tls = Some(trusting());
    let response = setup.start().client().await.exchange(&Request::get(HOST, "/")).await.unwrap();
    assert_eq!(response.status, 502);
}

#[tokio::test]
async fn a_megabyte_passes_tls_on_both_sides() {
    let leaf = Authority::new("ours").leaf(&["inner.example"]);
    let body: Vec<u8> = (0..1024 * 1024).map(|at: usize| u8::try_from(at % 253).unwrap()).collect();
    let backend = Backend::https(leaf.server_config(&[]), |request| BackendResponse::ok(&request.body)).await;
    let mut setup = Setup::to(&[backend.address()]);
    setup.tls = Some(trusting());
    let proxy = setup.start();
    let mut client =
        Client::connect_tls(proxy.https, &TlsOffer::new(unverified_client_config(), HOST)).await.unwrap();
    for _ in 0..2 {
        assert!(client.exchange(&Request::post(HOST, "/", body.clone())).await.unwrap().body == body);
    }
}

#[tokio::test]
async fn a_truncated_response_does_not_end_cleanly_under_tls() {
    let backend = Backend::http(|_| {
        BackendResponse::ThenReset(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".to_vec())
    })
    .await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client =
        Client::connect_tls(proxy.https, &TlsOffer::new(unverified_client_config(), HOST)).await.unwrap();
    client.send(Request::get(HOST, "/").http10().bytes()).await.unwrap();
    client.read_to_end().await.expect_err("no close_notify");
}
