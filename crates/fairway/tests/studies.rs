//! Checks that the objects of the case studies are translated. Adds the objects that a cluster creates itself (EndpointSlices) and
//! those that must stay secret (certificates).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fairway_testkit::certificates::Authority;
use tempfile::TempDir;

fn studies() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/studies")
}

/// A directory with the files of a study and the objects that a cluster would add.
fn with_cluster(files: &[PathBuf], host: &str, secret: &str, service: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in files {
        fs::copy(file, dir.path().join(file.file_name().unwrap())).unwrap();
    }
    let leaf = Authority::new("test").leaf(&[host]);
    fs::write(dir.path().join("tls.yaml"), leaf.secret_yaml("default", secret)).unwrap();
    let slice = format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {service}-1\n  namespace: default\n  \
         labels: {{kubernetes.io/service-name: {service}}}\naddressType: IPv4\nports: [{{name: http, port: 80}}]\n\
         endpoints: [{{addresses: [10.0.0.1]}}, {{addresses: [10.0.0.2]}}]\n"
    );
    fs::write(dir.path().join("slices.yaml"), slice).unwrap();
    dir
}

fn files_of(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(studies().join(directory)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The codes of the errors and warnings of `check`.
fn problems(dir: &TempDir, configmap: Option<&str>) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairway"));
    command.args(["check", "--output", "json", "--ingress-class-compat"]).arg(dir.path());
    command.args(configmap.map(|configmap| ["--configmap", configmap]).into_iter().flatten());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() < Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines
        .filter(|it| it["severity"] != "note")
        .map(|it| format!("{} {}", it["code"].as_str().unwrap(), it["origin"]["field"].as_str().unwrap()))
        .collect()
}

#[test]
fn the_dynamic_study_passes_with_either_dialect_of_its_settings() {
    let dir = with_cluster(&files_of("1-dynamic"), "app.example.com", "app-secret", "web-server");
    for configmap in
        [None, Some("nginx-ingress/nginx-config"), Some("ingress-nginx/ingress-nginx-controller")]
    {
        assert_eq!(problems(&dir, configmap), [""; 0], "{configmap:?}");
    }
}

#[test]
fn the_capacity_study_passes_but_for_the_pinning_of_workers() {
    let dir = with_cluster(&files_of("2-capacity"), "host.example.com", "host-secret", "web-server");
    let settings = Some("nginx-ingress/nginx-config");
    assert_eq!(
        problems(&dir, settings),
        ["unsupported-setting data.worker-cpu-affinity"],
        "workers are not pinned"
    );
}

#[test]
fn the_comparison_and_its_changes_pass() {
    for change in [None, Some("cors.yaml"), Some("redirect.yaml")] {
        let mut files = files_of("3-comparison");
        if change == Some("cors.yaml") {
            files.retain(|file| !file.ends_with("ingress.yaml"));
            files.push(class_only());
        }
        files.extend(change.map(|change| studies().join("changes/3-comparison").join(change)));
        let dir = with_cluster(&files, "*.example.com", "echo-secret", "echo");
        assert_eq!(problems(&dir, None), [""; 0], "{change:?}");
    }
}

#[test]
fn the_timeline_and_its_changes_pass() {
    let settings = Some("ingress-nginx/ingress-nginx-controller");
    let base = with_cluster(&files_of("4-timeline"), "echo.example.com", "echo-secret", "http-echo");
    assert_eq!(problems(&base, settings), [""; 0]);
    for change in files_of("changes/4-timeline") {
        let mut files = files_of("4-timeline");
        files.retain(|file| !file.ends_with("ingress.yaml"));
        if change.ends_with("2-header.yaml") {
            files.retain(|file| !file.ends_with("settings.yaml"));
        }
        files.extend([change.clone(), class_only()]);
        let dir = with_cluster(&files, "echo.example.com", "echo-secret", "http-echo");
        assert_eq!(problems(&dir, settings), [""; 0], "{}", change.display());
    }
}

/// The class is in the file that the change replaces.
fn class_only() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/class-nginx.yaml")
}
