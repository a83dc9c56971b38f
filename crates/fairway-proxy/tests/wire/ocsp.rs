//! OCSP responses in handshakes, with responders on loopback.

use fairway_proxy::Stapling;
use fairway_testkit::certificates::client_config_recording_ocsp;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::ocsp::{OcspAnswer, unsuccessful};
use fairway_testkit::wait::WAIT_TIMEOUT;
use fairway_testkit::{Authority, Backend, BackendResponse, Client, Leaf, Request, eventually};
use rustls::version::{TLS12, TLS13};

use crate::support::{HOST, Running, Setup, certificate};

const STAPLED: &str = "fairway_ocsp_stapled_certificates";

fn authority() -> Authority {
    Authority::new("root").intermediate("issuer")
}

/// Hosts with certificates and OCSP stapling.
fn setup(backend: &Backend, hosts: &[(&str, &Leaf)]) -> Setup {
    let mut setup = Setup::to(&[backend.address()])
        .settings(|it| it.downstream.ocsp_stapling = true)
        .options(|it| it.stapling = Stapling::new(|_| Ok(())));
    let host = |(name, leaf): &(&str, &Leaf)| {
        (fairway_model::HostPattern::Exact((*name).into()), certificate(&format!("default/{name}"), leaf))
    };
    setup.hosts = hosts.iter().map(host).collect();
    setup
}

fn fetches(result: &str) -> String {
    format!("fairway_ocsp_fetches_total{{result=\"{result}\"}}")
}

/// The stapled response that a client of `host` gets; the client is served in any case.
async fn stapled(proxy: &Running, host: &str, version: &'static rustls::SupportedProtocolVersion) -> Vec<u8> {
    let (config, stapled) = client_config_recording_ocsp(&[version]);
    let mut client = Client::connect_tls(proxy.https, &TlsOffer::new(config, host)).await.unwrap();
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    let stapled = stapled.lock().unwrap();
    stapled.clone()
}

async fn echo() -> Backend {
    Backend::http(|_| BackendResponse::ok("")).await
}

#[tokio::test]
async fn a_good_response_is_stapled_in_both_versions_and_fetched_once() {
    let (backend, issuer) = (echo().await, authority());
    let (sign, answer) = (issuer.ocsp_signer(), OcspAnswer::good());
    let responder = Backend::http(move |request| BackendResponse::ok(sign(&request.body, &answer))).await;
    let url = format!("http://{}/", responder.address());
    let leaf = issuer.leaf_with_responder(&[HOST], &url);
    let plain = issuer.leaf(&["plain.test"]);
    let mut setup = setup(&backend, &[(HOST, &leaf), ("plain.test", &plain)]);
    let mut proxy = setup.start();
    proxy.expect_metric(STAPLED, 1).await;
    let response = stapled(&proxy, HOST, &TLS13).await;
    assert!(!response.is_empty());
    assert_eq!(stapled(&proxy, HOST, &TLS12).await, response);
    assert!(stapled(&proxy, "plain.test", &TLS13).await.is_empty());
    assert_eq!(proxy.metric(&fetches("good")).await, 1);
    // Another configuration with the same certificate keeps its response, even if TLS is set up again.
    setup.settings.downstream.key_exchange = vec![fairway_model::KeyExchange::X25519];
    proxy.publish(&setup).await;
    assert_eq!(stapled(&proxy, HOST, &TLS13).await, response);
    assert_eq!(responder.request_count(), 1);
    setup.settings.downstream.ocsp_stapling = false;
    proxy.publish(&setup).await;
    assert!(stapled(&proxy, HOST, &TLS13).await.is_empty());
    // A renewed certificate has a response of its own.
    setup.settings.downstream.ocsp_stapling = true;
    let renewed = issuer.leaf_with_responder(&[HOST], &url);
    setup.hosts[0].1 = certificate(&format!("default/{HOST}"), &renewed);
    proxy.publish(&setup).await;
    let has_other = || async {
        let other = stapled(&proxy, HOST, &TLS13).await;
        !other.is_empty() && other != response
    };
    eventually("a response about the renewed certificate", WAIT_TIMEOUT, has_other).await;
    assert_eq!(responder.request_count(), 2);
}

#[tokio::test]
async fn no_responder_is_queried_unless_the_settings_say_so() {
    let (backend, issuer) = (echo().await, authority());
    let responder = echo().await;
    let leaf = issuer.leaf_with_responder(&[HOST], &format!("http://{}/", responder.address()));
    let proxy = setup(&backend, &[(HOST, &leaf)]).settings(|it| it.downstream.ocsp_stapling = false).start();
    assert!(stapled(&proxy, HOST, &TLS13).await.is_empty());
    assert_eq!(proxy.metric(STAPLED).await, 0);
    assert_eq!(responder.connection_count(), 0);
}

#[tokio::test]
async fn untrusted_and_bad_responses_are_not_stapled() {
    let (backend, issuer) = (echo().await, authority());
    let (own, other) = (issuer.ocsp_signer(), authority().ocsp_signer());
    let responder = Backend::http(move |request| {
        let good = OcspAnswer::good;
        let sign = |response: OcspAnswer| BackendResponse::ok(own(&request.body, &response));
        match request.target.trim_start_matches('/') {
            "serial" => sign(OcspAnswer { other_serial: true, ..good() }),
            "signer" => BackendResponse::ok(other(&request.body, &good())),
            "expired" => sign(OcspAnswer { next_update: Some(-1), ..good() }),
            "later" => BackendResponse::ok(unsuccessful(3)),
            "garbage" => BackendResponse::ok("no DER"),
            "revoked" => sign(OcspAnswer::revoked()),
            "unknown" => sign(OcspAnswer::unknown()),
            "large" => BackendResponse::ok(vec![0; 65 * 1024]),
            "redirect" => BackendResponse::with_headers(301, &[("Location", "/good")], ""),
            "error" => BackendResponse::status(500, ""),
            _ => sign(good()),
        }
    })
    .await;
    let cases = [
        ("unusable", &["serial", "signer", "expired", "later", "garbage"][..]),
        ("revoked", &["revoked"]),
        ("unknown", &["unknown"]),
        ("failed", &["large", "redirect", "error"]),
        ("good", &["good"]),
    ];
    let all = cases.iter().flat_map(|(_, names)| names.iter());
    let leaves: Vec<(String, Leaf)> = all
        .map(|name| {
            let (host, url) = (format!("{name}.test"), format!("http://{}/{name}", responder.address()));
            let leaf = issuer.leaf_with_responder(&[&host], &url);
            (host, leaf)
        })
        .collect();
    let hosts: Vec<(&str, &Leaf)> = leaves.iter().map(|(host, leaf)| (&**host, leaf)).collect();
    let proxy = setup(&backend, &hosts).start();
    for (result, names) in cases {
        proxy.expect_metric(&fetches(result), names.len() as u64).await;
    }
    for (host, _) in &leaves {
        assert_eq!(stapled(&proxy, host, &TLS13).await.is_empty(), host != "good.test", "{host}");
    }
    assert_eq!(proxy.metric(STAPLED).await, 1);
    let followed = responder.requests().iter().filter(|request| request.method != "POST").count();
    assert_eq!((followed, responder.request_count()), (0, leaves.len()), "no redirect is followed");
}

#[tokio::test]
async fn handshakes_wait_for_no_responder() {
    let (backend, issuer) = (echo().await, authority());
    let sign = issuer.ocsp_signer();
    let slow =
        Backend::http(move |request| BackendResponse::ok(sign(&request.body, &OcspAnswer::good())).hold())
            .await;
    let leaf = issuer.leaf_with_responder(&[HOST], &format!("http://{}/", slow.address()));
    let proxy = setup(&backend, &[(HOST, &leaf)]).start();
    eventually("the responder is asked", WAIT_TIMEOUT, || async { slow.waiting_count() == 1 }).await;
    assert!(stapled(&proxy, HOST, &TLS13).await.is_empty());
    slow.release();
    proxy.expect_metric(STAPLED, 1).await;
    assert!(!stapled(&proxy, HOST, &TLS13).await.is_empty());
}

#[tokio::test]
async fn responders_at_refused_addresses_are_not_queried() {
    let (backend, issuer, responder) = (echo().await, authority(), echo().await);
    let leaf = issuer.leaf_with_responder(&[HOST], &format!("http://{}/", responder.address()));
    let judged = |address: std::net::SocketAddr| Err(format!("{address} is refused"));
    let proxy = setup(&backend, &[(HOST, &leaf)]).options(|it| it.stapling = Stapling::new(judged)).start();
    proxy.expect_metric(&fetches("refused"), 1).await;
    assert!(stapled(&proxy, HOST, &TLS13).await.is_empty());
    assert_eq!(responder.connection_count(), 0);
}
