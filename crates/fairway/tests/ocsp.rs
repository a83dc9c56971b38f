//! `fairway run` as a process with `enable-ocsp`: responders are queried at allowed addresses, and their responses reach clients.

use std::path::Path;

use fairway_testkit::certificates::{client_config_recording_ocsp, tls_secret_yaml};
use fairway_testkit::client::TlsOffer;
use fairway_testkit::manifests::{Ingress, Manifests, config_map, ingress_class, service_with_endpoints};
use fairway_testkit::ocsp::OcspAnswer;
use fairway_testkit::{Authority, Backend, BackendResponse, Client, Fairway, Request};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// The stapled response that a client gets; the request is served in any case.
async fn stapled(fairway: &Fairway) -> Vec<u8> {
    let (config, stapled) = client_config_recording_ocsp(tokio_rustls::rustls::ALL_VERSIONS);
    let mut client = Client::connect_tls(fairway.https, &TlsOffer::new(config, "a.test")).await.unwrap();
    assert_eq!(client.exchange(&Request::get("a.test", "/").close()).await.unwrap().status, 200);
    let stapled = stapled.lock().unwrap();
    stapled.clone()
}

#[tokio::test]
async fn responders_are_queried_at_addresses_allowed_for_external_names() {
    let issuer = Authority::new("root").intermediate("issuer");
    let sign = issuer.ocsp_signer();
    let responder =
        Backend::http(move |request| BackendResponse::ok(sign(&request.body, &OcspAnswer::good()))).await;
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let leaf = issuer.leaf_with_responder(&["a.test"], &format!("http://{}/", responder.address()));
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    let ingress = Ingress::new("a", "web").class(Some("fairway")).tls(Some("tls"), &["a.test"]);
    manifests.put("ingress.yaml", ingress.route("a.test", "/", ("web", 80)).yaml());
    manifests.put("service.yaml", service_with_endpoints("a", "web", 80, &[backend.address()]));
    let chain = [&*leaf.chain_pem, issuer.pem()].concat();
    manifests.put("tls.yaml", tls_secret_yaml("a", "tls", &chain, &leaf.key_pem));
    manifests.put("settings.yaml", config_map("a", "settings", &[("enable-ocsp", "true")]));
    let run_with = async |flags: &[&str]| {
        let flags = [&["--configmap", "a/settings"], flags].concat();
        Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await
    };

    let careful = run_with(&[]).await;
    careful.until_metric("fairway_ocsp_fetches_total", &[("result", "refused")], |count| count == 1.0).await;
    assert!(stapled(&careful).await.is_empty());
    assert_eq!(responder.connection_count(), 0);

    let open = run_with(&["--external-name-allow", "127.0.0.0/8"]).await;
    open.until_metric("fairway_ocsp_stapled_certificates", &[], |count| count == 1.0).await;
    assert!(!stapled(&open).await.is_empty());
}
