//! Fixtures on disk and started programs: what end-to-end tests rely on.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use fairway_testkit::manifests::{
    Ingress, config_map, endpoint_slices, ingress_class, service_with_endpoints,
};
use fairway_testkit::{Authority, Manifests, Program};

#[test]
fn an_ingress_is_written_as_a_person_would() {
    let ingress = Ingress::new("demo", "web")
        .annotation("ssl-redirect", "false")
        .tls(Some("cert"), &["a.test"])
        .route("a.test", "/", ("main", 80))
        .typed_route("", "/x", "Exact", ("other", 81));
    let expected = r#"apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  namespace: demo
  annotations:
    nginx.ingress.kubernetes.io/ssl-redirect: "false"
spec:
  ingressClassName: nginx
  tls:
  - hosts: ["a.test"]
    secretName: cert
  rules:
  - host: "a.test"
    http:
      paths:
      - path: "/"
        pathType: Prefix
        backend:
          service:
            name: main
            port:
              number: 80
  - http:
      paths:
      - path: "/x"
        pathType: Exact
        backend:
          service:
            name: other
            port:
              number: 81
"#;
    assert_eq!(ingress.yaml(), expected);
}

#[test]
fn endpoints_of_different_ports_come_in_different_slices() {
    let addresses = ["127.0.0.1:1001", "127.0.0.2:1001", "127.0.0.1:1002"].map(|text| text.parse().unwrap());
    let yaml = endpoint_slices("demo", "main", &addresses);
    assert_eq!(yaml.matches("kind: EndpointSlice").count(), 2);
    assert_eq!(yaml.matches("- addresses: [\"127.0.0.1\"]").count(), 2);
    assert!(yaml.contains("name: main-0") && yaml.contains("name: main-1") && yaml.contains("port: 1002"));
    assert!(endpoint_slices("demo", "main", &[]).contains("endpoints: []"));
}

#[test]
fn files_come_and_go() {
    let manifests = Manifests::new();
    let endpoints = service_with_endpoints("demo", "main", 80, &["127.0.0.1:1".parse().unwrap()]);
    let place = manifests.put("deep/er/main.yaml", &endpoints);
    assert_eq!(fs::read_to_string(&place).unwrap(), endpoints);
    manifests.overwrite("class.yaml", ingress_class("nginx", "k8s.io/ingress-nginx"));
    manifests.put("class.yaml", config_map("demo", "settings", &[("keepalive", "\"32\"\n")]));
    assert!(
        fs::read_to_string(manifests.path().join("class.yaml")).unwrap().contains(r#"keepalive: "\"32\"\n""#)
    );
    manifests.remove("class.yaml");
    assert_eq!(fs::read_dir(manifests.path()).unwrap().count(), 1);
}

#[test]
fn a_certificate_becomes_a_secret_and_files() {
    let leaf = Authority::new("Test").leaf(&["a.test"]);
    let secret = leaf.secret_yaml("demo", "cert");
    assert!(
        secret.contains("type: kubernetes.io/tls")
            && secret.contains("tls.crt: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0t")
    );
    let directory = Manifests::new();
    let (certificate, key) = leaf.write_to(directory.path()).unwrap();
    assert_eq!(fs::read_to_string(certificate).unwrap(), leaf.chain_pem);
    assert!(fs::read_to_string(key).unwrap().starts_with("-----BEGIN PRIVATE KEY-----"));
}

#[tokio::test]
async fn a_program_is_watched_and_ended() {
    let script = "trap 'echo leaving; exit 3' TERM; echo started; echo \"with $WORD\" >&2; while :; do read -t 1 x <> /dev/zero; done";
    let mut program = Program::start_in(Path::new("/bin/bash"), &["-c", script], &[("WORD", "care")]);
    program.line_with("started").await;
    assert_eq!(program.line_with("with").await, "with care");
    assert!(program.is_running());
    program.terminate().unwrap();
    assert_eq!(program.exit_within(Duration::from_secs(5)).await.code(), Some(3));
    program.line_with("leaving").await;
    assert!(program.kill().is_err(), "an ended program is never signalled");
}

#[tokio::test]
async fn a_program_that_does_not_listen_is_killed() {
    let mut program = Program::start(Path::new("/bin/sleep"), &["60"]);
    program.kill().unwrap();
    assert_eq!(program.exit_within(Duration::from_secs(5)).await.signal(), Some(9));
}
