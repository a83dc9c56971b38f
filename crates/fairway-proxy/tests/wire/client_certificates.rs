//! Hosts that verify client certificates: what is served, what is refused, and what the endpoint gets. Also listeners that
//! start to verify clients that are already connected.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    ClientCertificate, ClientCertificateMode, ClientVerification, CodingRule, Compression, Config,
    ContentCoding, Guard, HostKey, HostPattern, Listener,
};
use fairway_testkit::certificates::{KeyKind, Validity, unverified_client_config};
use fairway_testkit::client::TlsOffer;
use fairway_testkit::{Authority, Backend, BackendResponse, Client, Leaf, RawResponse, Request};
use rustls::ClientConfig;

use crate::spread::Browser;
use crate::support::{HOST, Running, Setup, certificate};

/// A host with the same server certificate that requests no client certificate.
const OPEN: &str = "open.example";

struct Guarded {
    authority: Authority,
    backend: Backend,
    setup: Setup,
}

impl Guarded {
    async fn new() -> Self {
        let received =
            ["ssl-client-verify", "ssl-client-subject-dn", "ssl-client-issuer-dn", "ssl-client-cert"];
        let backend = Backend::http(move |request| {
            let values = received.map(|name| request.header(name).unwrap_or("-").to_owned());
            BackendResponse::with_headers(200, &[("Content-Type", "text/plain")], values.join("|"))
        })
        .await;
        let mut setup = Setup::to(&[backend.address()]);
        let server = certificate("default/server", &Authority::new("servers").leaf(&[HOST, OPEN]));
        setup.hosts = [HOST, OPEN].map(|name| (HostPattern::Exact(name.into()), server.clone())).into();
        Self { authority: Authority::new("clients"), backend, setup }
    }

    fn rules(&self, demand: ClientCertificateMode) -> ClientVerification {
        ClientVerification { roots: self.authority.pem().into(), revoked: "".into(), depth: Some(1), demand }
    }

    fn verification(rules: ClientVerification) -> ClientCertificate {
        ClientCertificate { rules: Arc::new(rules), subject: None, error_page: None, forwarded: false }
    }

    /// The configuration in which one host requests client certificates.
    fn config(&self, verification: &ClientCertificate) -> Config {
        let mut config = self.setup.config();
        let key = HostKey { table: "ingress".into(), host: HostPattern::Exact(HOST.into()) };
        let mut host = (*config.hosts[&key]).clone();
        host.clients = Some(verification.rules.clone());
        for route in &mut host.routes {
            for rule in &mut Arc::make_mut(route).rules {
                let guards = [Guard::ClientCertificate(verification.clone()), Guard::OverTls];
                Arc::make_mut(&mut rule.phases).guards.splice(0..0, guards);
            }
        }
        config.hosts.insert(key, Arc::new(host));
        config
    }

    fn start(&self, verification: &ClientCertificate) -> Running {
        self.setup.start_by(&self.config(verification))
    }
}

async fn send(proxy: &Running, client: ClientConfig, request: Request) -> RawResponse {
    let mut client = Client::connect_tls(proxy.https, &TlsOffer::new(client, HOST)).await.unwrap();
    client.exchange(&request).await.unwrap()
}

async fn publish(proxy: &mut Running, config: &Config) {
    let (version, problems) = proxy.publish_config(config);
    assert!(problems.is_empty(), "{problems:?}");
    proxy.publisher.wait_until_adopted(version).await;
}

fn showing(leaf: &Leaf) -> ClientConfig {
    leaf.add_client_certificate(unverified_client_config())
}

fn get() -> Request {
    Request::get(HOST, "/")
}

#[tokio::test]
async fn each_demand_serves_and_refuses_as_nginx_does() {
    let it = Guarded::new().await;
    let good = it.authority.leaf(&["good"]);
    let other = Authority::new("others").leaf(&["other"]);
    let old = it.authority.issue(&["old"], KeyKind::EcdsaP256, Validity::Expired);
    for (demand, without, with_other, with_old) in [
        (ClientCertificateMode::Required, "400", "400", "400"),
        (ClientCertificateMode::Optional, "NONE|-|-|-", "400", "400"),
        (
            ClientCertificateMode::Unverified,
            "NONE|-|-|-",
            "FAILED:unable to verify the first certificate|CN=other|CN=others|-",
            "FAILED:certificate has expired|CN=old|CN=clients|-",
        ),
    ] {
        let proxy = it.start(&Guarded::verification(it.rules(demand)));
        for (client, expected) in [
            (showing(&good), "SUCCESS|CN=good|CN=clients|-"),
            (unverified_client_config(), without),
            (showing(&other), with_other),
            (showing(&old), with_old),
        ] {
            let response = send(&proxy, client, get()).await;
            let received = if response.status == 200 { response.text() } else { response.status.to_string() };
            assert_eq!(received, expected, "{demand:?}");
        }
    }
    // Three, two and four requests were let through.
    assert_eq!(it.backend.request_count(), 1 + 2 + 4);
}

#[tokio::test]
async fn forged_headers_and_plain_connections_are_not_trusted() {
    let it = Guarded::new().await;
    let good = it.authority.leaf(&["good"]);
    let proxy = it.start(&Guarded::verification(it.rules(ClientCertificateMode::Required)));
    let forged = get()
        .header("ssl-client-verify", "SUCCESS")
        .header("SSL-Client-Cert", "x")
        .header("ssl_client_verify", "y");
    let response = send(&proxy, showing(&good), forged).await;
    assert_eq!(response.text(), "SUCCESS|CN=good|CN=clients|-");
    let mut plain = proxy.client().await;
    let forged = get().header("ssl-client-verify", "SUCCESS").header("ssl-client-subject-dn", "CN=good");
    assert_eq!(plain.exchange(&forged).await.unwrap().status, 403);
    assert_eq!(it.backend.request_count(), 1);
}

#[tokio::test]
async fn a_certificate_is_a_credential_that_keeps_cross_site_responses_uncompressed() {
    let it = Guarded::new().await;
    let good = it.authority.leaf(&["good"]);
    let mut config = it.config(&Guarded::verification(it.rules(ClientCertificateMode::Optional)));
    let types = [Arc::from("text/plain")].into();
    let rule = CodingRule { coding: ContentCoding::Gzip, level: 1, min_length: 1, types };
    let compression = Arc::new(Compression { codings: vec![rule] });
    for key in config.hosts.keys().cloned().collect::<Vec<_>>() {
        let mut host = (*config.hosts[&key]).clone();
        for rule in host.routes.iter_mut().flat_map(|route| &mut Arc::make_mut(route).rules) {
            Arc::make_mut(&mut rule.phases).answers.compression = Some(Arc::clone(&compression));
        }
        config.hosts.insert(key, Arc::new(host));
    }
    let proxy = it.setup.start_by(&config);
    for (client, site, coding) in [
        (showing(&good), "cross-site", None),
        (showing(&good), "same-origin", Some("gzip")),
        (unverified_client_config(), "cross-site", Some("gzip")),
    ] {
        let request = get().header("Accept-Encoding", "gzip").header("Sec-Fetch-Site", site);
        let response = send(&proxy, client, request).await;
        assert_eq!((response.status, response.header("Content-Encoding")), (200, coding), "{site}");
        assert_eq!(response.header("Vary"), Some("Accept-Encoding"), "{site}");
    }
}

#[tokio::test]
async fn a_connection_serves_the_host_for_which_it_was_made() {
    let it = Guarded::new().await;
    let good = it.authority.leaf(&["good"]);
    let verification = Guarded::verification(it.rules(ClientCertificateMode::Required));
    let mut proxy = it.start(&verification);
    // A connection for the open host, which requested no certificate.
    let offer = TlsOffer::new(showing(&good), OPEN);
    let mut client = Client::connect_tls(proxy.https, &offer).await.unwrap();
    assert_eq!(client.exchange(&Request::get(OPEN, "/")).await.unwrap().status, 200);
    assert_eq!(client.exchange(&get()).await.unwrap().status, 421);
    // A connection for the other host, which may also serve the open host.
    let mut client = Client::connect_tls(proxy.https, &TlsOffer::new(showing(&good), HOST)).await.unwrap();
    assert_eq!(client.exchange(&get()).await.unwrap().status, 200);
    assert_eq!(client.exchange(&Request::get(OPEN, "/")).await.unwrap().status, 200);
    // The authorities have changed: the certificate was valid for the old ones.
    let others = Authority::new("others");
    let rules =
        ClientVerification { roots: others.pem().into(), ..it.rules(ClientCertificateMode::Required) };
    publish(&mut proxy, &it.config(&Guarded::verification(rules))).await;
    assert_eq!(client.exchange(&get()).await.unwrap().status, 421);
    assert_eq!(send(&proxy, showing(&good), get()).await.status, 400);
    assert_eq!(send(&proxy, showing(&others.leaf(&["new"])), get()).await.status, 200);
}

#[tokio::test]
async fn chains_have_a_depth_and_certificates_can_be_revoked() {
    let it = Guarded::new().await;
    let below = it.authority.intermediate("below");
    let (near, far) = (below.leaf(&["near"]), below.intermediate("deeper").leaf(&["far"]));
    let proxy = it.start(&Guarded::verification(it.rules(ClientCertificateMode::Required)));
    assert_eq!(send(&proxy, showing(&near), get()).await.status, 200);
    assert_eq!(send(&proxy, showing(&far), get()).await.status, 400);
    let (good, gone) = (it.authority.leaf(&["good"]), it.authority.leaf(&["gone"]));
    let revoked = it.authority.revocation_list(&[&gone]).into();
    let verification =
        Guarded::verification(ClientVerification { revoked, ..it.rules(ClientCertificateMode::Unverified) });
    let proxy = it.start(&verification);
    for (leaf, verdict) in [
        (&good, "SUCCESS"),
        (&gone, "FAILED:certificate revoked"),
        // Its issuer has no list.
        (&near, "FAILED:unable to get certificate CRL"),
    ] {
        let received = send(&proxy, showing(leaf), get()).await.text();
        assert_eq!(received.split('|').next(), Some(verdict));
    }
}

#[tokio::test]
async fn subjects_pages_and_the_certificate_itself() {
    let it = Guarded::new().await;
    let (good, other) = (it.authority.leaf(&["good"]), it.authority.leaf(&["other"]));
    let verification = ClientCertificate {
        subject: Some("CN=go+d".into()),
        error_page: Some("https://login.example/".into()),
        forwarded: true,
        ..Guarded::verification(it.rules(ClientCertificateMode::Required))
    };
    let proxy = it.start(&verification);
    let received = send(&proxy, showing(&good), get()).await.text();
    let begin = "SUCCESS|CN=good|CN=clients|-----BEGIN%20CERTIFICATE-----%0AMII";
    assert!(
        received.starts_with(begin) && received.ends_with("-----END%20CERTIFICATE-----%0A"),
        "{received}"
    );
    let refused = send(&proxy, showing(&other), get()).await;
    assert_eq!((refused.status, &*refused.text()), (403, "client certificate unauthorized"));
    let sent = send(&proxy, unverified_client_config(), get()).await;
    assert_eq!((sent.status, sent.header("Location")), (302, Some("https://login.example/")));
    // A page on the host itself would redirect in a loop.
    let verification = ClientCertificate { error_page: Some("/login".into()), ..verification };
    assert_eq!(send(&it.start(&verification), unverified_client_config(), get()).await.status, 400);
}

#[tokio::test]
async fn a_session_that_resumes_is_verified_again() {
    let it = Guarded::new().await;
    let good = it.authority.leaf(&["good"]);
    let offer = TlsOffer::new(showing(&good), HOST);
    let mut proxy = it.start(&Guarded::verification(it.rules(ClientCertificateMode::Required)));
    for resumed in [false, true] {
        let mut client = Client::connect_tls(proxy.https, &offer).await.unwrap();
        assert_eq!(client.exchange(&get()).await.unwrap().status, 200);
        assert_eq!(client.tls().unwrap().resumed, resumed);
    }
    let rules = ClientVerification {
        roots: Authority::new("others").pem().into(),
        ..it.rules(ClientCertificateMode::Required)
    };
    publish(&mut proxy, &it.config(&Guarded::verification(rules))).await;
    let mut client = Client::connect_tls(proxy.https, &offer).await.unwrap();
    assert_eq!(client.exchange(&get()).await.unwrap().status, 400);
}

/// The configuration of `setup` with client verification on the TLS listener.
fn verifying(setup: &Setup, rules: ClientVerification) -> Config {
    edited(setup.config(), |https| https.tls.clients = Some(rules))
}

fn edited(mut config: Config, edit: impl FnOnce(&mut Listener)) -> Config {
    let mut https = Listener::clone(&config.listeners["https"]);
    edit(&mut https);
    config.listeners.insert(https.name.clone(), Arc::new(https));
    config
}

/// Checks that a request on the connection is refused, and that the connection is closed.
async fn expect_misdirected(mut client: Client) {
    let response = client.exchange(&get()).await.unwrap();
    assert_eq!((response.status, response.header("Connection")), (421, Some("close")));
    client.expect_closed().await;
}

#[tokio::test]
async fn a_new_client_certificate_requirement_applies_to_open_connections() {
    let it = Guarded::new().await;
    let (good, gone) = (it.authority.leaf(&["good"]), it.authority.leaf(&["gone"]));
    let offer = TlsOffer::new(showing(&good), HOST);
    let mut proxy = it.setup.start();
    let mut http1 = Client::connect_tls(proxy.https, &offer).await.unwrap();
    let (mut http2, mut clear) = (Browser::secure(&proxy).await, proxy.client().await);
    assert_eq!((http1.exchange(&get()).await.unwrap().status, http2.get("/").await.0), (200, 200));
    let required = verifying(&it.setup, it.rules(ClientCertificateMode::Required));
    publish(&mut proxy, &required).await;
    // It has a certificate, but was not asked for it.
    expect_misdirected(http1).await;
    assert_eq!(http2.get("/").await.0, 421);
    assert!(http2.closed().await);
    assert_eq!(clear.exchange(&get()).await.unwrap().status, 200, "another listener");
    let mut verified = Client::connect_tls(proxy.https, &offer).await.unwrap();
    assert_eq!(verified.exchange(&get()).await.unwrap().status, 200);
    let patient = edited(required, |https| https.clients.idle_timeout = Some(Duration::from_secs(50)));
    publish(&mut proxy, &patient).await;
    assert_eq!(verified.exchange(&get()).await.unwrap().status, 200, "the same is asked");
    let revoked = it.authority.revocation_list(&[&gone]).into();
    let rules = ClientVerification { revoked, ..it.rules(ClientCertificateMode::Required) };
    publish(&mut proxy, &verifying(&it.setup, rules)).await;
    expect_misdirected(verified).await;
    let mut verified = Client::connect_tls(proxy.https, &offer).await.unwrap();
    publish(&mut proxy, &it.setup.config()).await;
    assert_eq!(verified.exchange(&get()).await.unwrap().status, 200, "nothing is asked any more");
}
