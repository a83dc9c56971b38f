//! Exit codes and messages of the real binary.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs it; gives its exit code and everything it said.
fn fairway(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_fairway")).args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code().unwrap(), said)
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
        (&["run", "--manifests", empty, "--webhook-key", "k"], "--webhook-key is about a cluster"),
        (&["run", "--manifests", empty, "--no-status"], "--no-status is about a cluster"),
        (
            &["check", "--kubernetes", "--gateway-address", "127.0.0.1"],
            "--gateway-address is for --manifests",
        ),
        (
            &["explain", "http://a/", "--kubernetes", "--gateway-address", "127.0.0.1"],
            "--gateway-address is for --manifests",
        ),
        (&["migrate", "gateway-api", empty], "holds no manifest"),
        (&["check", empty, "--context", "c"], "--context is about a cluster"),
        (&["run", "--manifests", empty, "--configmap", "x", "--admin", "127.0.0.1:0"], "--configmap x"),
        (&["run", "--manifests", empty, "--log-level", "a=b=c", "--admin", "127.0.0.1:0"], "--log-level"),
        (&["echo"], "--listen ADDR"),
    ] {
        let (code, said) = fairway(arguments);
        assert_eq!(code, 2, "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    }
}

#[test]
fn every_command_has_a_man_page_and_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let (code, said) = fairway(&["man", dir.path().to_str().unwrap()]);
    assert_eq!((code, &*said), (0, ""));
    for (page, text) in [
        ("fairway.1", "fairway\\-explain(1)"),
        ("fairway-run.1", "FAIRWAY_ACCESS_LOG"),
        ("fairway-migrate-values.1", "fairway migrate values"),
    ] {
        let page = std::fs::read_to_string(dir.path().join(page)).unwrap();
        assert!(page.contains(text), "{page}");
        assert!(page.contains(env!("CARGO_PKG_VERSION")), "{page}");
    }
    let (code, said) = fairway(&["man", "no/such/directory"]);
    assert!(code == 2 && said.contains("no/such/directory"), "{said}");
    for shell in ["bash", "zsh", "fish"] {
        let (code, said) = fairway(&["completions", shell]);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("explain") && said.contains("ingress-class-compat"), "{shell}: {said}");
    }
    assert_eq!(fairway(&["completions", "sh"]).0, 2);
}

#[test]
fn an_address_in_use_is_named_with_its_flag() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--http", "--https", "--admin"] {
        let mut arguments = vec!["run", "--manifests", dir.path().to_str().unwrap(), "--log-level", "error"];
        for other in ["--http", "--https", "--admin"] {
            arguments.extend([other, if other == flag { &address } else { "127.0.0.1:0" }]);
        }
        let (code, said) = fairway(&arguments);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(&format!("{flag} {address}")), "{said}");
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
fn check_says_which_ports_run_would_not_give_to_a_gateway() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("gateway.yaml"), GATEWAY).unwrap();
    let directory = dir.path().to_str().unwrap();
    let taken = |flags: &[&str]| {
        let (code, said) = fairway(&[&["check", directory], flags].concat());
        let lines = said
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
    assert_eq!(taken(&[]), (1, by_default.map(not_served).into()));
    let elsewhere = ["--http", "0.0.0.0:1080", "--https", "0.0.0.0:1443", "--admin", "127.0.0.1:1254"];
    assert_eq!(taken(&elsewhere), (0, Vec::new()));
    let probe = [&elsewhere[..], &["--probe", "[::]:10255"]].concat();
    assert_eq!(taken(&probe), (1, vec![not_served("10255: [::]:10255 is that of --probe")]));
    let (code, said) = fairway(&["check", directory, "--http", "127.0.0.1:10254"]);
    assert_eq!((code, said.contains("are the same address")), (2, true), "{said}");
}

#[test]
fn every_flag_is_an_environment_variable_and_has_a_text() {
    let (code, help) = fairway(&["run", "--help"]);
    assert_eq!(code, 0);
    let dense = help.split_whitespace().collect::<String>();
    let flags = help.lines().map(str::trim).filter(|line| line.starts_with("--"));
    for flag in flags.filter_map(|line| line.split_whitespace().next()) {
        let name = flag.trim_start_matches("--").to_uppercase().replace('-', "_");
        // What the pod is called comes by the names that every manifest gives it (ingress-nginx too).
        let prefix = if name.starts_with("POD_") { "" } else { "FAIRWAY_" };
        // Of one that may be a credential, the value is not shown.
        let variables = ["=", "]"].map(|end| format!("[env:{prefix}{name}{end}"));
        assert!(
            variables.iter().any(|variable| dense.contains(variable)),
            "{flag} is no environment variable"
        );
    }
    for heading in ["Where traffic arrives:", "What objects mean:", "Logs:", "Stopping:", "Examples:"] {
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
fn a_reader_that_goes_away_is_told_nothing() {
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
fn wait_ends_in_time_when_what_it_asks_is_silent() {
    // Connections are accepted by the system, and nobody reads them.
    let [silent, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [address, after] = [&silent, &other].map(|it| it.local_addr().unwrap().to_string());
    let began = Instant::now();
    let (code, said) = fairway(&["wait", "--admin", &format!("{address},{after}"), "--timeout", "1"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains(&format!("not within 1s: {address} does not say: no answer in time")), "{said}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_ok(), "the replica after the silent one was not asked");
}

#[test]
fn wait_ends_in_time_when_the_api_server_is_silent() {
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
    let (code, said) = fairway(&["wait", "--kubeconfig", file, "--ingress", "shop/web", "--timeout", "1"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("not within 1s: the API server has not answered"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn version_names_what_was_built() {
    let (code, said) = fairway(&["version"]);
    assert_eq!(code, 0);
    assert!(said.starts_with(concat!("fairway ", env!("CARGO_PKG_VERSION"))), "{said}");
    assert!(said.ends_with("\ncryptography AWS-LC\n"), "{said}");
}
