//! Exit codes and messages of the real binary.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs the binary and returns its exit code and output.
fn fairway(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_fairway")).args(arguments).output().unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code().unwrap(), printed)
}

#[test]
fn input_that_cannot_be_used_ends_with_two_and_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().to_str().unwrap();
    for (arguments, part) in [
        (&["check", "no/such/directory"][..], "no/such/directory"),
        (&["check", empty], "holds no manifest"),
        (&["explain", "http://a/", "--manifests", empty], "holds no manifest"),
        (&["explain", "ftp://a/", "--manifests", empty], "only http and https"),
        (&["explain", "http://a/", "--admin", "127.0.0.1:1"], "--admin 127.0.0.1:1"),
        (&["run", "--manifests", "no/such/directory", "--admin", "127.0.0.1:0"], "--manifests"),
        (&["run", "--kubernetes", "--kubeconfig", "no/such/file", "--admin", "127.0.0.1:0"], "no/such/file"),
        (&["check", "--kubernetes", "--kubeconfig", "no/such/file"], "no/such/file"),
        (&["wait", "--kubeconfig", "no/such/file"], "no/such/file"),
        (&["run", "--manifests", empty, "--kubernetes"], "contradict"),
        (&["run", "--manifests", empty, "--webhook-key", "k"], "--webhook-key is for --kubernetes only"),
        (&["run", "--manifests", empty, "--no-status"], "--no-status is for --kubernetes only"),
        (
            &["check", "--kubernetes", "--gateway-address", "127.0.0.1"],
            "--gateway-address is for --manifests",
        ),
        (
            &["explain", "http://a/", "--kubernetes", "--gateway-address", "127.0.0.1"],
            "--gateway-address is for --manifests",
        ),
        (&["migrate", "gateway-api", empty], "holds no manifest"),
        (&["check", empty, "--context", "c"], "--context is for --kubernetes only"),
        (&["run", "--manifests", empty, "--configmap", "x", "--admin", "127.0.0.1:0"], "--configmap x"),
        (&["run", "--manifests", empty, "--log-level", "a=b=c", "--admin", "127.0.0.1:0"], "--log-level"),
        (&["echo"], "--listen ADDR"),
    ] {
        let (code, printed) = fairway(arguments);
        assert_eq!(code, 2, "{arguments:?}: {printed}");
        assert!(printed.contains(part), "{arguments:?}: {printed}");
        assert_eq!(printed.lines().count(), 1, "{arguments:?}: {printed}");
    }
}

#[test]
fn every_command_has_a_man_page_and_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let (code, printed) = fairway(&["man", dir.path().to_str().unwrap()]);
    assert_eq!((code, &*printed), (0, ""));
    for (page, text) in [
        ("fairway.1", "fairway\\-explain(1)"),
        ("fairway-run.1", "FAIRWAY_ACCESS_LOG"),
        ("fairway-migrate-values.1", "fairway migrate values"),
    ] {
        let page = std::fs::read_to_string(dir.path().join(page)).unwrap();
        assert!(page.contains(text), "{page}");
        assert!(page.contains(env!("CARGO_PKG_VERSION")), "{page}");
    }
    let (code, printed) = fairway(&["man", "no/such/directory"]);
    assert!(code == 2 && printed.contains("no/such/directory"), "{printed}");
    for shell in ["bash", "zsh", "fish"] {
        let (code, printed) = fairway(&["completions", shell]);
        assert_eq!(code, 0, "{printed}");
        assert!(
            printed.contains("explain") && printed.contains("ingress-class-compat"),
            "{shell}: {printed}"
        );
    }
    assert_eq!(fairway(&["completions", "sh"]).0, 2);
}

#[test]
fn an_address_in_use_is_named_with_its_flag() {
    let dir = tempfile::tempdir().unwrap();
    let bound = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = bound.local_addr().unwrap().to_string();
    for flag in ["--http", "--https", "--admin"] {
        let mut arguments = vec!["run", "--manifests", dir.path().to_str().unwrap(), "--log-level", "error"];
        for other in ["--http", "--https", "--admin"] {
            arguments.extend([other, if other == flag { &address } else { "127.0.0.1:0" }]);
        }
        let (code, printed) = fairway(&arguments);
        assert_eq!(code, 2, "{printed}");
        assert!(printed.contains(&format!("{flag} {address}")), "{printed}");
    }
}

const GATEWAY: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: fairway}
spec: {controllerName: fairway.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  gatewayClassName: fairway
  listeners:
  - {name: a, port: 8080, protocol: HTTP}
  - {name: b, port: 8443, protocol: TCP}
  - {name: c, port: 10254, protocol: HTTP}
  - {name: d, port: 10255, protocol: HTTP}
";

#[test]
fn check_reports_ports_that_a_gateway_cannot_have() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("gateway.yaml"), GATEWAY).unwrap();
    let directory = dir.path().to_str().unwrap();
    let unavailable_ports = |flags: &[&str]| {
        let (code, printed) = fairway(&[&["check", directory], flags].concat());
        let lines = printed
            .lines()
            .filter_map(|line| line.split_once(" cannot have port "))
            .map(|(_, why)| why.to_owned());
        (code, lines.collect::<Vec<_>>())
    };
    let not_served = |why: &str| format!("{why}; the listener is not served");
    let by_default = [
        "8080: 0.0.0.0:8080 is that of --http",
        "8443: 0.0.0.0:8443 is that of --https",
        "10254: 127.0.0.1:10254 is that of --admin",
    ];
    assert_eq!(unavailable_ports(&[]), (1, by_default.map(not_served).into()));
    let elsewhere = ["--http", "0.0.0.0:1080", "--https", "0.0.0.0:1443", "--admin", "127.0.0.1:1254"];
    assert_eq!(unavailable_ports(&elsewhere), (0, Vec::new()));
    let probe = [&elsewhere[..], &["--probe", "[::]:10255"]].concat();
    assert_eq!(unavailable_ports(&probe), (1, vec![not_served("10255: [::]:10255 is that of --probe")]));
    let (code, printed) = fairway(&["check", directory, "--http", "127.0.0.1:10254"]);
    assert_eq!((code, printed.contains("are the same address")), (2, true), "{printed}");
}

#[test]
fn every_flag_is_an_environment_variable_and_has_a_text() {
    let (code, help) = fairway(&["run", "--help"]);
    assert_eq!(code, 0);
    let dense = help.split_whitespace().collect::<String>();
    let flags = help.lines().map(str::trim).filter(|line| line.starts_with("--"));
    for flag in flags.filter_map(|line| line.split_whitespace().next()) {
        let name = flag.trim_start_matches("--").to_uppercase().replace('-', "_");
        // The name of the pod comes from environment variables that every manifest sets (also that of ingress-nginx).
        let prefix = if name.starts_with("POD_") { "" } else { "FAIRWAY_" };
        // The value of a flag that may be a credential is not shown.
        let variables = ["=", "]"].map(|end| format!("[env:{prefix}{name}{end}"));
        assert!(
            variables.iter().any(|variable| dense.contains(variable)),
            "{flag} is no environment variable"
        );
    }
    for heading in ["Listeners:", "Ingress options:", "Logs:", "Stopping:", "Examples:"] {
        assert!(help.contains(heading), "{heading} in {help}");
    }
}

#[test]
fn the_environment_stands_in_for_flags() {
    let output = Command::new(env!("CARGO_BIN_EXE_fairway"))
        .arg("run")
        .env("FAIRWAY_MANIFESTS", "somewhere")
        .env("FAIRWAY_KUBERNETES", "true")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("contradict"));
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/broken");
    let mut child = Command::new(env!("CARGO_BIN_EXE_fairway"))
        .args(["check", fixture])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "", "{}", ended.status);
    assert_ne!(ended.status.code(), Some(101), "it panicked");
}

#[test]
fn wait_times_out_if_a_replica_is_silent() {
    // The system accepts the connections, but no process reads from them.
    let [silent, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [address, after] = [&silent, &other].map(|it| it.local_addr().unwrap().to_string());
    let began = Instant::now();
    let (code, printed) = fairway(&["wait", "--admin", &format!("{address},{after}"), "--timeout", "1"]);
    assert_eq!(code, 1, "{printed}");
    assert!(
        printed.contains(&format!(
            "not within 1s: {address} did not report what it serves: no response in time"
        )),
        "{printed}"
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_ok(), "the replica after the silent one was not queried");
}

#[test]
fn wait_times_out_if_the_api_server_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"http://{}\"}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
        silent.local_addr().unwrap()
    );
    std::fs::write(&file, kubeconfig).unwrap();
    let began = Instant::now();
    let file = file.to_str().unwrap();
    let (code, printed) = fairway(&["wait", "--kubeconfig", file, "--ingress", "shop/web", "--timeout", "1"]);
    assert_eq!(code, 1, "{printed}");
    assert!(printed.contains("not within 1s: the API server has not responded"), "{printed}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn version_shows_version_revision_and_cryptography() {
    let (code, printed) = fairway(&["version"]);
    assert_eq!(code, 0);
    assert!(printed.starts_with(concat!("fairway ", env!("CARGO_PKG_VERSION"))), "{printed}");
    assert!(printed.ends_with("\ncryptography AWS-LC\n"), "{printed}");
}
