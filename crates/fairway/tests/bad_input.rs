//! Bad input of every kind, given to the real binary: each problem is reported with object, field, problem and consequence, and
//! nothing else is affected.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use fairway_echo::{EchoOptions, EchoServer};
use fairway_testkit::certificates::{
    Authority, KeyKind, Leaf, Validity, tls_secret_yaml, unverified_client_config,
};
use fairway_testkit::client::{Client, Request, TlsOffer};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// A file with bad input.
struct Bad {
    yaml: String,
    /// The expected severity, code, object, field, problem and consequence.
    diagnostic: &'static str,
    /// The response for a path of the host `bad.test` while the file exists.
    expected_responses: Option<(&'static str, u16)>,
}

fn bad(yaml: impl Into<String>, diagnostic: &'static str, responses: Option<(&'static str, u16)>) -> Bad {
    Bad { yaml: yaml.into(), diagnostic, expected_responses: responses }
}

/// Input that cannot be read.
fn unreadable() -> Vec<Bad> {
    let stays = Some(("/", 404));
    vec![
        bad(
            "kind: [half\n",
            "error[not-yaml]: is not valid YAML: unclosed bracket '['; the document is not \
             read; what the file gave before stays",
            stays,
        ),
        bad(
            "replicas: 3\n",
            "error[not-an-object]: is no Kubernetes object: apiVersion or kind is missing; it is ignored",
            None,
        ),
        bad(
            "apiVersion: acme.example/v1\nkind: Anvil\nmetadata: {name: heavy, namespace: demo}\n",
            "note[unknown-kind]: Anvil demo/heavy: is of a kind that is not read (acme.example/v1); it is ignored",
            None,
        ),
        bad(
            "apiVersion: v1\nkind: Service\nmetadata: {name: bad, namespace: demo}\nspec: {ports: [{port: http}]}\n",
            "error[wrong-type]: Service demo/bad spec.ports[0].port: invalid type: string \"http\", expected i32; the object \
             is not read; what was known of it before stays",
            None,
        ),
        bad(
            "apiVersion: v1\nkind: Secret\nmetadata: {name: bad, namespace: demo}\ndata: {tls.crt: '!!!'}\n",
            "error[wrong-type]: Secret demo/bad data[\"tls.crt\"]: the value is no base64 (Invalid symbol 33, offset 0); the \
             object is not read; what was known of it before stays",
            None,
        ),
    ]
}

/// References to missing objects.
fn dangling() -> Vec<Bad> {
    let to = |service| ingress("bad").route("bad.test", "/", service).yaml();
    vec![
        bad(
            to(("nothing", 80)),
            "error[missing-reference]: Ingress demo/bad spec.rules[0].http.paths[0].backend.service.name: Service \
             demo/nothing does not exist; this path answers 503",
            Some(("/", 503)),
        ),
        bad(
            to(("web", 81)),
            "error[missing-reference]: Ingress demo/bad spec.rules[0].http.paths[0].backend.service.port: Service demo/web \
             has no port 81; it has http (80); this path answers 503",
            Some(("/", 503)),
        ),
        bad(
            ingress("bad").route("bad.test", "/", ("web", 80)).tls(Some("nothing"), &["bad.test"]).yaml(),
            "error[missing-reference]: Ingress demo/bad spec.tls[0].secretName: Secret demo/nothing does not exist; the \
             default certificate is shown to clients of its hosts",
            Some(("/", 308)),
        ),
        bad(
            ingress("bad").class(Some("farway")).route("bad.test", "/", ("web", 80)).yaml(),
            "warning[ingress-class]: Ingress demo/bad spec.ingressClassName: IngressClass farway does not exist; it is not \
             served",
            Some(("/", 404)),
        ),
    ]
}

/// Invalid values.
fn invalid() -> Vec<Bad> {
    let with =
        |name, value| ingress("bad").annotation(name, value).route("bad.test", "/", ("web", 80)).yaml();
    vec![
        bad(
            ingress("bad")
                .annotation("use-regex", "true")
                .typed_route("bad.test", "/(unclosed", "ImplementationSpecific", ("web", 80))
                .route("bad.test", "/fine", ("web", 80))
                .yaml(),
            "error[invalid-regex]: Ingress demo/bad spec.rules[0].http.paths[0].path: the regular expression \"/(unclosed\" \
             cannot be used: unclosed group; paths that begin with / answer 503, except those that another path of the host \
             matches",
            Some(("/fine", 200)),
        ),
        bad(
            ingress("zz").route("good.test", "/", ("nothing", 80)).route("bad.test", "/", ("web", 80)).yaml(),
            "error[conflict]: Ingress demo/zz spec.rules[0].http.paths[0]: path \"/\" of this type and host belongs to \
             Ingress demo/good spec.rules[0].http.paths[0]",
            Some(("/", 200)),
        ),
        bad(
            with("whitelist-source-range", "10.0.0.0/33"),
            "error[invalid-protection]: Ingress demo/bad \
             metadata.annotations[\"nginx.ingress.kubernetes.io/whitelist-source-range\"]: \"10.0.0.0/33\" is neither an \
             address nor a range of addresses; its paths answer 503",
            Some(("/", 503)),
        ),
        bad(
            with("proxy-body-size", "lots"),
            "warning[invalid-annotation]: Ingress demo/bad \
             metadata.annotations[\"nginx.ingress.kubernetes.io/proxy-body-size\"]: \"lots\" is no size (8, 8k, 8m, 8g); a \
             limit of 1048576 bytes applies",
            Some(("/", 200)),
        ),
        bad(
            ingress("bad").typed_route("bad.test", "/", "Sideways", ("web", 80)).yaml(),
            "warning[invalid-path-type]: Ingress demo/bad spec.rules[0].http.paths[0].pathType: \"Sideways\" is no path type \
             (Exact, Prefix, ImplementationSpecific); it counts as ImplementationSpecific",
            Some(("/", 200)),
        ),
        bad(
            ingress("bad")
                .route("bad host.test", "/", ("web", 80))
                .route("bad.test", "/", ("web", 80))
                .yaml(),
            "error[invalid-host]: Ingress demo/bad spec.rules[0].host: \"bad host.test\" has the invalid character ' '; the \
             rule is not served",
            Some(("/", 200)),
        ),
    ]
}

fn ingress(name: &str) -> Ingress {
    Ingress::new("demo", name).class(Some("fairway"))
}

/// A working site: `http://good.test/`.
async fn good_site() -> Manifests {
    let options =
        EchoOptions { listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))], ..EchoOptions::default() };
    let backend = EchoServer::bind(options).await.unwrap();
    let address = backend.addresses()[0];
    tokio::spawn(backend.run(std::future::pending()));
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    manifests.put("web.yaml", service_with_endpoints("demo", "web", 80, &[address]));
    manifests.put("good.yaml", ingress("good").route("good.test", "/", ("web", 80)).yaml());
    manifests
}

/// Output and exit code of `fairway check` for a directory.
fn check(directory: &Path) -> (String, Option<i32>) {
    let output = Command::new(BINARY).arg("check").arg(directory).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

async fn status(client: &mut Client, host: &str, path: &str) -> u16 {
    client.exchange(&Request::get(host, path)).await.unwrap().status
}

#[tokio::test]
async fn every_bad_object_is_reported_and_everything_else_is_served() {
    let manifests = good_site().await;
    // If the input has no Secret at all, check cannot tell whether one is missing.
    manifests.put("other.yaml", Authority::new("test").leaf(&["other.test"]).secret_yaml("demo", "other"));
    assert_eq!(check(manifests.path()).1, Some(0), "{}", check(manifests.path()).0);
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &[]).await;
    // One connection stays open during the whole test.
    let mut client = Client::connect(fairway.http).await.unwrap();
    for Bad { yaml, diagnostic, expected_responses: answers } in
        unreadable().into_iter().chain(dangling()).chain(invalid())
    {
        let severity = diagnostic.split('[').next().unwrap();
        manifests.put("bad.yaml", &yaml);
        let (diagnostics, code) = check(manifests.path());
        let line = diagnostics.lines().find(|line| line.contains(diagnostic));
        let line = line.unwrap_or_else(|| panic!("{diagnostic}\nis not in\n{diagnostics}"));
        let line_number = line.split_once("bad.yaml:").map(|(_, rest)| rest.split(':').next().unwrap());
        assert!(line_number.unwrap().parse::<u32>().is_ok_and(|number| number > 0), "{line}");
        assert_eq!(code, Some(i32::from(severity != "note")), "{diagnostics}");
        fairway.until_metric("fairway_diagnostics", &[("severity", severity)], |count| count >= 1.0).await;
        assert_eq!(status(&mut client, "good.test", "/").await, 200, "{diagnostic}");
        if let Some((path, expected)) = answers {
            eventually(diagnostic, WAIT_TIMEOUT, || async {
                let mut fresh = Client::connect(fairway.http).await.unwrap();
                status(&mut fresh, "bad.test", path).await == expected
            })
            .await;
        }
        manifests.remove("bad.yaml");
        fairway.until_metric("fairway_diagnostics", &[], |count| count == 0.0).await;
    }
    assert_eq!(status(&mut client, "good.test", "/").await, 200);
}

#[tokio::test]
async fn a_bad_document_keeps_its_previous_objects_and_its_neighbours_change() {
    let manifests = good_site().await;
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &[]).await;
    let mut client = Client::connect(fairway.http).await.unwrap();
    let good = ingress("good").route("good.test", "/", ("web", 80)).yaml();
    let additional = ingress("more").route("more.test", "/", ("web", 80)).yaml();
    let broken = good.replace("path: \"/\"", "path: {}");
    manifests.put("good.yaml", format!("{broken}---\n{additional}"));
    fairway.until_metric("fairway_diagnostics", &[("severity", "error")], |count| count == 1.0).await;
    assert_eq!(status(&mut client, "good.test", "/").await, 200, "served as before");
    assert_eq!(status(&mut client, "more.test", "/").await, 200);
    manifests.put("good.yaml", format!("{good}---\n{additional}"));
    fairway.until_metric("fairway_diagnostics", &[], |count| count == 0.0).await;
}

#[tokio::test]
async fn unreadable_files_are_reported_and_the_rest_is_served() {
    let manifests = good_site().await;
    manifests.overwrite("binary.yaml", [0xff, 0xfe, 0x00]);
    std::os::unix::fs::symlink("circle.yaml", manifests.path().join("circle.yaml")).unwrap();
    let (diagnostics, code) = check(manifests.path());
    assert_eq!(code, Some(1), "{diagnostics}");
    for (file, problem) in [("binary.yaml", "is no UTF-8 text"), ("circle.yaml", "symbolic links")] {
        let line = diagnostics
            .lines()
            .find(|line| line.contains(file))
            .unwrap_or_else(|| panic!("{file} in {diagnostics}"));
        assert!(line.contains("error[unreadable]: cannot be read: ") && line.contains(problem), "{line}");
        assert!(line.ends_with("; what was known of it before stays"), "{line}");
    }
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &[]).await;
    let mut client = Client::connect(fairway.http).await.unwrap();
    assert_eq!(status(&mut client, "good.test", "/").await, 200);
}

/// The leaf certificate that is presented for `host`.
async fn shown(fairway: &Fairway, host: &str) -> Vec<u8> {
    let offer = TlsOffer::new(unverified_client_config(), host);
    let mut client = Client::connect_tls(fairway.https, &offer).await.unwrap();
    assert_eq!(status(&mut client, host, "/").await, 200);
    client.tls().unwrap().chain[0].to_vec()
}

#[tokio::test]
async fn an_invalid_secret_keeps_its_last_certificate_until_it_is_fixed() {
    let authority = Authority::new("test");
    let fresh = || authority.leaf(&["good.test"]);
    let (first, second) = (fresh(), fresh());
    let manifests = good_site().await;
    let secured = ingress("good").route("good.test", "/", ("web", 80)).tls(Some("tls"), &["good.test"]);
    manifests.put("good.yaml", secured.yaml());
    manifests.put("tls.yaml", first.secret_yaml("demo", "tls"));
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &[]).await;
    assert_eq!(shown(&fairway, "good.test").await, first.chain_der[0].to_vec());
    for (broken, problem) in broken_secrets(&second, &first) {
        manifests.put("tls.yaml", broken);
        fairway.until_metric("fairway_diagnostics", &[("severity", "error")], |count| count >= 1.0).await;
        assert_eq!(shown(&fairway, "good.test").await, first.chain_der[0].to_vec(), "{problem}");
        let (diagnostics, _) = check(manifests.path());
        let diagnostic = format!("error[invalid-certificate]: Secret demo/tls data: {problem}");
        let line = diagnostics
            .lines()
            .find(|line| line.contains(&diagnostic))
            .unwrap_or_else(|| panic!("{diagnostic} in {diagnostics}"));
        assert!(line.ends_with("; the default certificate is used in its place"), "{line}");
        manifests.put("tls.yaml", first.secret_yaml("demo", "tls"));
        fairway.until_metric("fairway_diagnostics", &[], |count| count == 0.0).await;
    }
    manifests.put("tls.yaml", second.secret_yaml("demo", "tls"));
    eventually("the new certificate", WAIT_TIMEOUT, || async {
        shown(&fairway, "good.test").await == second.chain_der[0].to_vec()
    })
    .await;
}

fn broken_secrets(leaf: &Leaf, other: &Leaf) -> Vec<(String, &'static str)> {
    let secret = |certificate: &str, key: &str| tls_secret_yaml("demo", "tls", certificate, key);
    vec![
        (secret(&leaf.chain_pem, &other.key_pem), "tls.key is not the key of the certificate"),
        (secret("no certificate", &leaf.key_pem), "tls.crt has no certificate"),
        (secret(&leaf.chain_pem, "no key"), "tls.key has no private key"),
    ]
}

#[tokio::test]
async fn certificates_that_clients_will_refuse_are_reported() {
    let authority = Authority::new("test");
    let manifests = good_site().await;
    let secured = ingress("good").route("good.test", "/", ("web", 80)).tls(Some("tls"), &["good.test"]);
    manifests.put("good.yaml", secured.yaml());
    let expired = authority.issue(&["good.test"], KeyKind::EcdsaP256, Validity::Expired);
    manifests.put("tls.yaml", expired.secret_yaml("demo", "tls"));
    let diagnostic = "warning[certificate-expired]: Secret demo/tls data.tls.crt: the certificate has expired; it is used all the \
                same, and clients will refuse it";
    let (diagnostics, code) = check(manifests.path());
    assert!(diagnostics.contains(diagnostic) && code == Some(1), "{diagnostics}");
    manifests.put("tls.yaml", authority.leaf(&["other.test"]).secret_yaml("demo", "tls"));
    let diagnostic = "error[certificate-for-other-names]: Ingress demo/good spec.tls[0].secretName: the certificate in Secret \
                demo/tls is for other.test, not for good.test; the default certificate is shown to its clients";
    let (diagnostics, code) = check(manifests.path());
    assert!(diagnostics.contains(diagnostic) && code == Some(1), "{diagnostics}");
}

#[tokio::test]
async fn malformed_requests_are_refused_closed_and_counted_by_reason() {
    let manifests = good_site().await;
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &[]).await;
    let mut good = Client::connect(fairway.http).await.unwrap();
    for (request, expected, reason) in [
        ("GET / HTTP/1.1\nHost: good.test\n\n", 400, "bare_lf"),
        ("GET / HTTP/1.1\r\n\r\n", 400, "host_missing"),
        ("GET / HTTP/1.1\r\nHost: good.test\r\nHost: evil.test\r\n\r\n", 400, "host_repeated"),
        ("GET / HTTP/1.1\r\nHost : good.test\r\n\r\n", 400, "space_before_colon"),
        ("GET / HTTP/3.0\r\nHost: good.test\r\n\r\n", 505, "unsupported_version"),
        ("POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: +1\r\n\r\nx", 400, "content_length"),
    ] {
        let mut client = Client::connect(fairway.http).await.unwrap();
        client.send(request).await.unwrap();
        let response = client.read_response().await.unwrap();
        assert_eq!(response.status, expected, "{request:?}");
        client.expect_closed().await;
        fairway.until_metric("fairway_faults_total", &[("reason", reason)], |count| count == 1.0).await;
        assert_eq!(status(&mut good, "good.test", "/").await, 200);
    }
}

#[test]
fn invalid_addresses_and_numbers_out_of_range_are_reported() {
    for (arguments, part) in [
        (&["run", "--manifests", "m", "--http", "somewhere"][..], "--http"),
        (&["run", "--manifests", "m", "--workers", "0"], "--workers"),
        (&["run", "--manifests", "m", "--trusted-forwarders", "10.0.0.0/33"], "--trusted-forwarders"),
        (&["run", "--manifests", "m", "--nonsense"], "--nonsense"),
        (&["check", "m", "--default-certificate", "cert"], "--default-certificate cert"),
    ] {
        let output = Command::new(BINARY).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let diagnostics = String::from_utf8(output.stderr).unwrap();
        assert!(diagnostics.contains(part), "{arguments:?}: {diagnostics}");
    }
}
