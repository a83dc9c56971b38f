//! Fixtures on disk and started programs: what end-to-end tests rely on.

use std::path::Path;
use std::time::Duration;

use fairway_testkit::Program;
use fairway_testkit::manifests::{Ingress, endpoint_slices};

#[test]
fn objects_are_written_in_block_style() {
    let ingress = Ingress::new("demo", "web")
        .class(None)
        .annotation("ssl-redirect", "false")
        .tls(Some("cert"), &["a.test"])
        .route("a.test", "/", ("main", 80));
    let expected = r#"apiVersion: "networking.k8s.io/v1"
kind: "Ingress"
metadata:
  annotations:
    nginx.ingress.kubernetes.io/ssl-redirect: "false"
  name: "web"
  namespace: "demo"
spec:
  rules:
    -
      host: "a.test"
      http:
        paths:
          -
            backend:
              service:
                name: "main"
                port:
                  number: 80
            path: "/"
            pathType: "Prefix"
  tls:
    -
      hosts:
        - "a.test"
      secretName: "cert"
"#;
    assert_eq!(ingress.yaml(), expected);
}

#[test]
fn endpoints_of_different_ports_come_in_different_slices() {
    let addresses = ["127.0.0.1:1001", "127.0.0.2:1001", "127.0.0.1:1002"].map(|text| text.parse().unwrap());
    let yaml = endpoint_slices("demo", "main", &addresses);
    for (part, times) in
        [("kind: \"EndpointSlice\"", 2), ("- \"127.0.0.1\"", 2), ("port: 1002", 1), ("main-1", 1)]
    {
        assert_eq!(yaml.matches(part).count(), times, "{part} in {yaml}");
    }
    assert!(endpoint_slices("demo", "main", &[]).contains("endpoints: []"));
}

#[tokio::test]
async fn a_program_is_watched_and_ended() {
    let script = "trap 'echo leaving; exit 3' TERM; echo started; echo with care >&2; while :; do read -t 1 x <> /dev/zero; done";
    let mut program = Program::start(Path::new("/bin/bash"), &["-c", script]);
    program.line_with("started").await;
    assert_eq!(program.line_with("with").await, "with care");
    assert!(program.is_running());
    program.terminate().unwrap();
    assert_eq!(program.exit_within(Duration::from_secs(5)).await.code(), Some(3));
    program.line_with("leaving").await;
    assert!(program.kill().is_err(), "an ended program is never signalled");
}
