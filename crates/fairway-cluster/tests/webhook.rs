//! The webhook's responses over HTTPS, and that reviews have no side effects.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairway_cluster::Webhook;
use fairway_cluster::webhook::{CertificateFiles, Reviews};
use fairway_control::{ChangeBatch, Engine, Pipeline, Trial, Verdict};
use fairway_objects::object::Object;
use fairway_objects::options::Options;
use fairway_objects::resources::Change;
use k8s_openapi::api::networking::v1::Ingress;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const NOW: i64 = 1_800_000_000;

/// After this time a test counts as failed.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

fn class() -> Change {
    let object = json!({ "metadata": { "name": "fairway" }, "spec": { "controller": "fairway.dev/ingress-controller" } });
    Change::Set(Object::IngressClass(Arc::new(serde_json::from_value(object).unwrap())), None)
}

fn service(name: &str) -> Change {
    let object = json!({
        "metadata": { "name": name, "namespace": "a" },
        "spec": { "ports": [{ "name": "http", "port": 80 }] }
    });
    Change::Set(Object::Service(Arc::new(serde_json::from_value(object).unwrap())), None)
}

fn slice(service: &str) -> Change {
    let object = json!({
        "metadata": { "name": service, "namespace": "a", "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080 }],
        "endpoints": [{ "addresses": ["10.1.1.1"] }]
    });
    Change::Set(Object::EndpointSlice(Arc::new(serde_json::from_value(object).unwrap())), None)
}

fn ingress(name: &str, host: &str, created: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": name, "namespace": "a", "creationTimestamp": created, "annotations": {} },
        "spec": { "ingressClassName": "fairway", "rules": [{ "host": host, "http": { "paths": [
            { "path": "/", "pathType": "Prefix", "backend": { "service": { "name": "web", "port": { "number": 80 } } } }
        ] } }] }
    })
}

fn set(ingress: &Value) -> Change {
    Change::Set(Object::Ingress(Arc::new(parsed(ingress))), None)
}

fn parsed(ingress: &Value) -> Ingress {
    serde_json::from_value(ingress.clone()).unwrap()
}

/// The class, the Service `web` with an endpoint, and the Ingress `old` at `old.test`.
fn objects() -> Vec<Change> {
    vec![class(), service("web"), slice("web"), set(&ingress("old", "old.test", "2026-01-01T00:00:00Z"))]
}

fn engine() -> Engine {
    let mut engine = Engine::new(Options::default());
    engine.update(objects(), NOW);
    engine
}

fn review(engine: &Engine, ingress: &Value) -> Verdict {
    Trial::new(engine).evaluate(parsed(ingress), NOW)
}

fn words(verdict: &Verdict) -> (Vec<String>, Vec<String>) {
    let Verdict::Ours { errors, warnings } = verdict else { panic!("{verdict:?}") };
    let texts =
        |all: &[fairway_objects::diagnostic::Diagnostic]| all.iter().map(ToString::to_string).collect();
    (texts(errors), texts(warnings))
}

#[test]
fn a_valid_ingress_has_no_diagnostics() {
    let verdict = review(&engine(), &ingress("new", "new.test", "2026-02-01T00:00:00Z"));
    assert_eq!(verdict, Verdict::Ours { errors: vec![], warnings: vec![] });
}

#[test]
fn a_path_of_an_older_ingress_is_an_error() {
    let (errors, _) = words(&review(&engine(), &ingress("new", "old.test", "2026-02-01T00:00:00Z")));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("error[conflict]: Ingress a/new "), "{errors:?}");
}

#[test]
fn a_path_of_a_younger_ingress_is_an_error_too() {
    let (errors, _) = words(&review(&engine(), &ingress("older", "old.test", "2025-01-01T00:00:00Z")));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("error[conflict]: Ingress a/old "), "{errors:?}");
}

#[test]
fn a_missing_reference_is_a_warning() {
    let mut new = ingress("new", "new.test", "2026-02-01T00:00:00Z");
    new["spec"]["tls"] = json!([{ "hosts": ["new.test"], "secretName": "later" }]);
    new["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"] = json!("later");
    let (errors, warnings) = words(&review(&engine(), &new));
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

#[test]
fn a_compilation_failure_is_an_error() {
    let mut new = ingress("new", "new.test", "2026-02-01T00:00:00Z");
    new["metadata"]["annotations"] = json!({ "nginx.ingress.kubernetes.io/use-regex": "true" });
    new["spec"]["rules"][0]["http"]["paths"][0]["path"] = json!("/a(");
    new["spec"]["rules"][0]["http"]["paths"][0]["pathType"] = json!("ImplementationSpecific");
    let (errors, _) = words(&review(&engine(), &new));
    assert_eq!(errors.len(), 1, "{errors:?}");
}

#[test]
fn existing_problems_do_not_block_other_changes() {
    let mut engine = engine();
    let mut broken = ingress("broken", "old.test", "2026-02-01T00:00:00Z");
    engine.update(vec![set(&broken)], NOW);
    broken["metadata"]["labels"] = json!({ "team": "x" });
    let (errors, warnings) = words(&review(&engine, &broken));
    assert!(errors.is_empty(), "{errors:?}");
    assert!(warnings[0].starts_with("error[conflict]"), "{warnings:?}");
}

#[test]
fn ingresses_of_other_controllers_are_not_reviewed() {
    let mut other = ingress("new", "old.test", "2026-02-01T00:00:00Z");
    other["spec"]["ingressClassName"] = json!("someone-else");
    assert_eq!(review(&engine(), &other), Verdict::NotOurs);
    other["spec"].as_object_mut().unwrap().remove("ingressClassName");
    assert_eq!(review(&engine(), &other), Verdict::NotOurs);
}

/// Ingresses that affect hosts, backends, certificates and each other in many ways.
fn variants() -> Vec<Value> {
    let mut all = Vec::new();
    for name in ["old", "new", "other"] {
        for host in ["old.test", "*.test", "new.test", ""] {
            for created in ["2025-01-01T00:00:00Z", "2026-02-01T00:00:00Z"] {
                for (service, secret) in [("web", None), ("gone", Some("tls")), ("web", Some("tls"))] {
                    let mut ingress = ingress(name, host, created);
                    let path = &mut ingress["spec"]["rules"][0]["http"]["paths"][0];
                    path["backend"]["service"]["name"] = json!(service);
                    if let Some(secret) = secret {
                        ingress["spec"]["tls"] = json!([{ "hosts": ["new.test"], "secretName": secret }]);
                    }
                    all.push(ingress);
                }
            }
        }
    }
    all
}

fn secret(data: &Value) -> Change {
    let object =
        json!({ "metadata": { "name": "tls", "namespace": "a" }, "type": "kubernetes.io/tls", "data": data });
    Change::Set(Object::Secret(Arc::new(serde_json::from_value(object).unwrap())), None)
}

#[test]
fn a_review_leaves_the_engine_unchanged() {
    let renewed = rcgen::generate_simple_self_signed(["new.test".to_owned()]).unwrap();
    let good = json!({
        "tls.crt": base64(renewed.cert.pem().as_bytes()), "tls.key": base64(renewed.signing_key.serialize_pem().as_bytes())
    });
    let mut with_tls = ingress("shows", "new.test", "2025-06-01T00:00:00Z");
    with_tls["spec"]["tls"] = json!([{ "hosts": ["new.test"], "secretName": "tls" }]);
    let (mut judging, mut plain) = (engine(), engine());
    // The Secret becomes invalid: only the engine remembers its valid certificate.
    for changes in [vec![secret(&good), set(&with_tls)], vec![secret(&json!({ "tls.crt": "" }))]] {
        judging.update(changes.clone(), NOW);
        plain.update(changes, NOW);
    }
    for (at, ingress) in variants().iter().enumerate() {
        let before = judging.current().unwrap().clone();
        _ = review(&judging, ingress);
        without_tls(&judging, &with_tls);
        let after = judging.current().unwrap();
        assert!(Arc::ptr_eq(&before.snapshot, &after.snapshot));
        assert_eq!(before.translation, after.translation);
        // From time to time the reviewed object is stored: both engines must continue identically.
        if at % 5 == 0 {
            judging.update(vec![set(ingress)], NOW);
            plain.update(vec![set(ingress)], NOW);
            let (one, two) = (judging.current().unwrap(), plain.current().unwrap());
            assert_eq!(one.translation, two.translation, "{ingress}");
            assert_eq!(one.digest, two.digest);
        }
    }
}

/// Reviews that the only Ingress with the certificate no longer uses it.
fn without_tls(engine: &Engine, with_tls: &Value) {
    let mut ingress = with_tls.clone();
    ingress["spec"].as_object_mut().unwrap().remove("tls");
    _ = review(engine, &ingress);
}

fn base64(bytes: &[u8]) -> String {
    serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec())).unwrap().as_str().unwrap().to_owned()
}

type Stream = tokio_rustls::client::TlsStream<TcpStream>;
type Client = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// `None` if the server closes without a response.
async fn exchange(stream: &mut Stream, head: &str, body: &[u8]) -> Option<(u16, String)> {
    let head = format!(
        "{head} HTTP/1.1\r\nhost: webhook.test\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    // The server may respond and close before it has read everything.
    _ = stream.write_all(head.as_bytes()).await;
    _ = stream.write_all(body).await;
    let mut response = Vec::new();
    _ = stream.read_to_end(&mut response).await;
    let response = String::from_utf8(response).unwrap();
    let status = response.split(' ').nth(1)?.parse().unwrap();
    Some((status, response.split_once("\r\n\r\n").unwrap().1.to_owned()))
}

/// A running webhook, with its certificate in a directory.
struct Served {
    address: SocketAddr,
    dir: TempDir,
    pipeline: Pipeline,
    reviews: Reviews,
}

impl Served {
    fn new() -> (Self, CertificateDer<'static>) {
        Self::with(|_| None)
    }

    /// With client certificates if `client_ca` returns a file in the directory.
    fn with(client_ca: impl Fn(&Path) -> Option<PathBuf>) -> (Self, CertificateDer<'static>) {
        let dir = tempfile::tempdir().unwrap();
        let certificate = put_certificate(dir.path());
        let publish = Box::new(|_| {});
        let pipeline = Pipeline::start(Options::default(), publish).unwrap();
        let files = files(dir.path(), client_ca(dir.path()));
        let webhook = Webhook::bind("127.0.0.1:0".parse().unwrap(), files).unwrap();
        let address = webhook.address().unwrap();
        let reviews = webhook.serve(pipeline.inlet()).unwrap();
        (Self { address, dir, pipeline, reviews }, certificate)
    }

    fn load(&self) {
        let batch = ChangeBatch {
            changes: objects(),
            diagnostics: vec![],
            received_at: Instant::now(),
            written: None,
        };
        self.pipeline.inlet().send(batch);
        self.pipeline.wait_for_first(TEST_TIMEOUT).unwrap();
    }

    /// The status and body of the response to a request; `None` if the handshake fails.
    async fn send_request(
        &self,
        root: &CertificateDer<'static>,
        head: &str,
        body: &[u8],
    ) -> Option<(u16, String)> {
        let mut stream = self.connect(root, None).await?;
        exchange(&mut stream, head, body).await
    }

    /// A connection with this client certificate; `None` if the handshake fails.
    async fn connect(&self, root: &CertificateDer<'static>, client: Option<&Client>) -> Option<Stream> {
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        let config = match client {
            Some((chain, key)) => config.with_client_auth_cert(chain.clone(), key.clone_key()).unwrap(),
            None => config.with_no_client_auth(),
        };
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("webhook.test").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()
    }

    async fn review(&self, root: &CertificateDer<'static>, object: &Value) -> Value {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "q-1", "operation": "CREATE", "namespace": "a", "object": object,
                "kind": { "group": "networking.k8s.io", "version": "v1", "kind": "Ingress" }
            }
        });
        let (status, body) = self.send_request(root, "POST /", review.to_string().as_bytes()).await.unwrap();
        assert_eq!(status, 200, "{body}");
        let reply: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(reply["kind"], "AdmissionReview");
        assert_eq!(reply["response"]["uid"], "q-1");
        reply["response"].clone()
    }
}

fn files(dir: &Path, client_ca: Option<PathBuf>) -> CertificateFiles {
    CertificateFiles { chain: dir.join("tls.crt"), key: dir.join("tls.key"), client_ca }
}

fn put_certificate(dir: &Path) -> CertificateDer<'static> {
    let self_signed = rcgen::generate_simple_self_signed(["webhook.test".to_owned()]).unwrap();
    fs::write(dir.join("tls.crt"), self_signed.cert.pem()).unwrap();
    fs::write(dir.join("tls.key"), self_signed.signing_key.serialize_pem()).unwrap();
    self_signed.cert.der().clone()
}

#[tokio::test]
async fn reviews_have_the_texts_of_check() {
    let (served, root) = Served::new();
    served.load();
    let good = served.review(&root, &ingress("new", "new.test", "2026-02-01T00:00:00Z")).await;
    assert_eq!((&good["allowed"], &good["warnings"]), (&json!(true), &json!([])));

    let bad = served.review(&root, &ingress("new", "old.test", "2026-02-01T00:00:00Z")).await;
    assert_eq!((&bad["allowed"], &bad["status"]["code"]), (&json!(false), &json!(422)));
    assert!(
        bad["status"]["message"].as_str().unwrap().starts_with("error[conflict]: Ingress a/new "),
        "{bad}"
    );

    let mut warned = ingress("new", "new.test", "2026-02-01T00:00:00Z");
    warned["metadata"]["annotations"] = json!({ "nginx.ingress.kubernetes.io/no-such": "x" });
    let warned = served.review(&root, &warned).await;
    assert_eq!(warned["allowed"], true);
    assert!(warned["warnings"][0].as_str().unwrap().starts_with("warning[unknown-annotation]"), "{warned}");

    let mut other = ingress("new", "old.test", "2026-02-01T00:00:00Z");
    other["spec"]["ingressClassName"] = json!("someone-else");
    assert_eq!(served.review(&root, &other).await["allowed"], true);

    let mut deleted = ingress("new", "old.test", "2026-02-01T00:00:00Z");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-03-01T00:00:00Z");
    assert_eq!(served.review(&root, &deleted).await["allowed"], true, "its finalizers are removable");

    let counted = served.reviews.metrics_text("controller_pod=\"p\"");
    for line in [
        "nginx_ingress_controller_check_success{controller_pod=\"p\",namespace=\"a\",ingress=\"new\"} 2",
        "nginx_ingress_controller_check_errors{controller_pod=\"p\",namespace=\"a\",ingress=\"new\"} 1",
        "fairway_webhook_reviews_total{verdict=\"not_ours\"} 1",
    ] {
        assert!(counted.lines().any(|it| it == line), "{line} is not in\n{counted}");
    }
    let took = counted.lines().filter(|line| line.starts_with("nginx_ingress_controller_admission_"));
    assert!(took.clone().count() == 3 && took.clone().all(|line| !line.ends_with(" 0")), "{counted}");

    let view = served.pipeline.view().unwrap();
    assert_eq!(view.outcome.translation.status.len(), 1, "nothing of all this was taken");
}

#[tokio::test]
async fn without_a_configuration_everything_is_allowed_with_a_warning() {
    let (served, root) = Served::new();
    let response = served.review(&root, &ingress("new", "old.test", "2026-02-01T00:00:00Z")).await;
    assert_eq!(response["allowed"], true);
    assert!(response["warnings"][0].as_str().unwrap().contains("not judged"), "{response}");
}

#[tokio::test]
async fn malformed_and_oversized_requests_are_refused() {
    let (served, root) = Served::new();
    served.load();
    for body in ["", "{", "[]", r#"{"apiVersion":"v1","kind":"Pod","request":{}}"#] {
        assert_eq!(served.send_request(&root, "POST /", body.as_bytes()).await.unwrap().0, 400, "{body}");
    }
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "q-1", "operation": "CREATE", "object": { "spec": 7 },
            "kind": { "group": "networking.k8s.io", "version": "v1", "kind": "Ingress" }
        }
    });
    assert_eq!(served.send_request(&root, "POST /", review.to_string().as_bytes()).await.unwrap().0, 400);
    assert_eq!(served.send_request(&root, "GET /", b"").await.unwrap().0, 405);
    let large = vec![b' '; 3 * 1024 * 1024 + 1];
    assert_eq!(served.send_request(&root, "POST /", &large).await.unwrap().0, 413);
    let good = served.review(&root, &ingress("new", "new.test", "2026-02-01T00:00:00Z")).await;
    assert_eq!(good["allowed"], true);
}

#[tokio::test]
async fn a_new_certificate_is_used_unless_it_is_invalid() {
    let (served, root) = Served::new();
    served.load();
    let good = ingress("new", "new.test", "2026-02-01T00:00:00Z");
    served.review(&root, &good).await;
    fs::write(served.dir.path().join("tls.crt"), "broken").unwrap();
    let next = put_certificate(served.dir.path());
    let end = Instant::now() + TEST_TIMEOUT;
    while served.send_request(&next, "GET /", b"").await.is_none() {
        assert!(Instant::now() < end, "the new certificate is not shown");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(served.send_request(&root, "GET /", b"").await.is_none(), "the old one is gone");
}

#[test]
fn files_without_a_certificate_are_named() {
    let dir = tempfile::tempdir().unwrap();
    put_certificate(dir.path());
    let (chain, key) = (dir.path().join("tls.crt"), dir.path().join("tls.key"));
    let address = "127.0.0.1:0".parse().unwrap();
    let bound = |chain: &Path, key: &Path, client_ca: Option<&Path>| {
        let files = CertificateFiles {
            chain: chain.to_owned(),
            key: key.to_owned(),
            client_ca: client_ca.map(Path::to_owned),
        };
        Webhook::bind(address, files)
    };
    let refusal = |chain: &Path, key: &Path| bound(chain, key, None).unwrap_err().to_string();
    for broken in ["none.crt", "tls.key"] {
        let error = bound(&chain, &key, Some(&dir.path().join(broken))).unwrap_err().to_string();
        assert!(error.contains(broken), "{error}");
    }
    assert!(refusal(&dir.path().join("none"), &key).contains("none: No such file"));
    fs::write(&chain, "nothing").unwrap();
    assert!(refusal(&chain, &key).contains("tls.crt"), "{}", refusal(&chain, &key));
    let old_key = fs::read(&key).unwrap();
    put_certificate(dir.path());
    fs::write(&key, old_key).unwrap();
    assert!(refusal(&chain, &key).contains("does not go with"), "{}", refusal(&chain, &key));
}

/// An authority, and a client certificate issued by it.
fn client_of(name: &str) -> (String, Client) {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = rcgen::Issuer::new(params, key);
    let mut client = rcgen::CertificateParams::new(Vec::new()).unwrap();
    client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = client.signed_by(&key, &issuer).unwrap();
    (pem, (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap()))
}

#[tokio::test]
async fn a_client_ca_is_enforced_and_reloaded() {
    let (authority, client) = client_of("one");
    let (other_authority, stranger) = client_of("another");
    let put = |dir: &Path| {
        fs::write(dir.join("ca.crt"), &authority).unwrap();
        Some(dir.join("ca.crt"))
    };
    let (served, root) = Served::with(put);
    let status = async |client: Option<&Client>| {
        let mut stream = served.connect(&root, client).await?;
        Some(exchange(&mut stream, "GET /", b"").await?.0)
    };
    assert_eq!(status(Some(&client)).await, Some(405));
    assert_eq!(status(None).await, None);
    assert_eq!(status(Some(&stranger)).await, None);
    fs::write(served.dir.path().join("ca.crt"), other_authority).unwrap();
    let end = Instant::now() + TEST_TIMEOUT;
    while status(Some(&stranger)).await.is_none() {
        assert!(Instant::now() < end, "the new authority is not taken");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(status(Some(&client)).await, None, "the old one is gone");
}

#[tokio::test]
async fn idle_connections_do_not_block_the_api_server() {
    let (served, root) = Served::new();
    served.load();
    let mut idle = Vec::new();
    for _ in 0..4 {
        idle.push(served.connect(&root, None).await.unwrap());
    }
    // They do not even start the handshake. Sixteen at a time, each until its timeout, they would last for half a minute.
    let mut silent = Vec::new();
    for _ in 0..110 {
        silent.push(TcpStream::connect(served.address).await.unwrap());
    }
    let good = ingress("new", "new.test", "2026-02-01T00:00:00Z");
    let answered = tokio::time::timeout(Duration::from_secs(20), served.review(&root, &good)).await;
    assert_eq!(answered.expect("a place is made")["allowed"], true);
    let mut end = [0];
    assert_eq!(idle[0].read(&mut end).await.unwrap_or(0), 0, "the longest idle one was closed");
}
