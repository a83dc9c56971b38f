//! Checks the structure of the repository given in design.md sections 1 and 4: dependencies between crates and the size of
//! files; clippy.toml limits functions. Reads manifests and sources, builds nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const KUBERNETES: &[&str] = &["k8s-openapi", "kube", "kube-client", "kube-runtime", "gateway-api"];
const INPUT_OUTPUT: &[&str] = &["tokio", "hyper", "h2", "mio", "socket2", "notify", "kube", "tracing"];

/// The table of design.md section 1: a crate, and the crates of the workspace that it may depend on, all without `fairway-`.
const CRATES: &str = "
    model:
    pattern:
    password:
    token:
    snippet: model pattern
    http:
    http2: http
    http3: http http2
    extension: http model
    routing: extension http model pattern token
    objects: model password pattern token
    gateway: model objects pattern
    ingress: gateway model objects password pattern snippet
    net:
    connection: http http2 http3 model net routing
    proxy: connection extension http http2 http3 model net password routing token
    control: gateway ingress model objects routing
    telemetry: http model proxy
    cluster: control gateway ingress model objects
    migrate: ingress model objects pattern snippet
    compare: http ingress migrate model objects routing
    lab: lab-measure lab-report lab-traffic
    lab-measure:
    lab-report: lab-measure
    lab-traffic: lab-measure
    testkit:
    echo:
    bench: lab-measure lab-traffic testkit
    fairway: cluster compare control echo gateway http ingress migrate model objects proxy routing telemetry
";

/// Crates and their forbidden dependencies.
const FORBIDDEN_DEPENDENCIES: &[(&str, &[&str])] = &[
    (
        "model pattern password token snippet routing http http2 http3 extension objects gateway ingress lab-report",
        INPUT_OUTPUT,
    ),
    ("proxy connection testkit bench", KUBERNETES),
    // Its output goes to any consumer, with or without a cluster.
    ("control", &["h2", "httparse", "kube"]),
    ("cluster", &["h2", "httparse"]),
    // It applies to any protocol and configuration, so it may depend on neither.
    ("net", &["h2", "httparse", "hyper", "kube", "k8s-openapi"]),
    // Its scenarios run in a cluster, so it may use the API; it must not share a parser with the proxy.
    ("lab", &["httparse"]),
    ("lab-measure lab-traffic echo compare", &["httparse", "kube", "k8s-openapi"]),
    ("migrate fairway", &["kube"]),
];

/// Right of the model nothing knows Kubernetes, however many crates lie between.
const NEVER_KUBERNETES: &str =
    "connection extension http http2 http3 model net password pattern proxy routing token";

const FILE_STOP: usize = 800;
const TEST_FILE_STOP: usize = 1_200;
const NAMES_THAT_SAY_NOTHING: &[&str] =
    &["manager", "helper", "helpers", "util", "utils", "common", "core", "misc", "info", "data"];

/// The name of a package in the tables.
fn package(name: &str) -> String {
    if name == "fairway" { name.to_owned() } else { format!("fairway-{name}") }
}

#[test]
fn crates_depend_only_on_what_the_table_allows() {
    let mut wrong = String::new();
    let mut packages = packages();
    for line in CRATES.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, may) = line.split_once(':').unwrap();
        let may: BTreeSet<_> = may.split_whitespace().map(package).collect();
        let Some(package) = packages.remove(&package(name)) else {
            _ = writeln!(wrong, "{name} is in the table and not in the workspace");
            continue;
        };
        let dependencies = package.normal.iter().filter(|dependency| dependency.starts_with("fairway"));
        for dependency in dependencies.filter(|dependency| !may.contains(*dependency)) {
            _ = writeln!(wrong, "{name} must not depend on {dependency}");
        }
        for (_, never) in
            FORBIDDEN_DEPENDENCIES.iter().filter(|(names, _)| names.split(' ').any(|one| one == name))
        {
            for dependency in never.iter().filter(|dependency| package.normal.contains(**dependency)) {
                _ = writeln!(wrong, "{name} must never depend on {dependency}");
            }
        }
    }
    for name in packages.keys().filter(|name| name.starts_with("fairway")) {
        _ = writeln!(wrong, "{name} is not in the table");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn no_crate_after_the_model_knows_kubernetes() {
    let packages = packages();
    for name in NEVER_KUBERNETES.split(' ') {
        let mut reached = BTreeSet::new();
        reach(&package(name), &packages, &mut reached);
        let kubernetes: Vec<_> = KUBERNETES.iter().filter(|crates| reached.contains(**crates)).collect();
        assert!(kubernetes.is_empty(), "{name} reaches {kubernetes:?}");
    }
}

#[test]
fn the_laboratory_shares_no_crate_with_the_proxy() {
    let is_lab = |name: &str| name == "fairway-echo" || name.starts_with("fairway-lab");
    let is_own = |name: &str| name == "fairway-testkit" || is_lab(name);
    let packages = packages();
    let lab = packages.iter().filter(|(name, _)| is_lab(name));
    let used = lab.flat_map(|(_, package)| package.normal.iter().chain(&package.development));
    let shared: Vec<_> = used.filter(|name| name.starts_with("fairway") && !is_own(name)).collect();
    assert!(shared.is_empty(), "one parser bug would blind both sides: {shared:?}");
}

#[test]
fn only_the_hop_of_http_1_knows_its_codec() {
    let elsewhere = |source: &Source| {
        source.name.starts_with("crates/")
            && !source.name.starts_with("crates/fairway-http/")
            && !source.is_test
    };
    let knows = |source: &Source| source.text.contains(concat!("fairway_http::", "http1"));
    let found: Vec<_> =
        sources().into_iter().filter(elsewhere).filter(knows).map(|source| source.name).collect();
    assert_eq!(found, ["crates/fairway-connection/src/h1/hop.rs"]);
}

#[test]
fn every_crate_obeys_the_lints_of_the_workspace() {
    let without: Vec<_> = packages()
        .into_iter()
        .filter(|(name, package)| name.starts_with("fairway") && !package.inherits_lints)
        .map(|(name, _)| name)
        .collect();
    assert!(without.is_empty(), "[lints] workspace = true is missing in {without:?}");
}

/// The program counts as well: with `lto = "fat"` the passes over all crates run at the level of the one that is linked.
#[test]
fn crates_that_serve_requests_are_not_optimised_for_size() {
    let mut serving: BTreeSet<_> = ["fairway", "fairway-proxy"].map(str::to_owned).into();
    reach("fairway-proxy", &packages(), &mut serving);
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, overrides) = manifest.split_once("\n[profile.release.package]\n").unwrap();
    let entries = overrides.lines().take_while(|line| !line.starts_with('['));
    let names: Vec<_> = entries.filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    assert!(names.contains(&"fairway-control"), "{names:?}");
    let wrong: Vec<_> = names.iter().filter(|name| serving.contains(**name)).collect();
    assert!(wrong.is_empty(), "{wrong:?} must not have an opt-level of their own");
}

/// A library that calls an allocator chooses it for every program that links the library.
#[test]
fn only_programs_choose_an_allocator() {
    let chooses = |package: &Package| package.normal.iter().any(|name| name.contains("mimalloc"));
    let found: Vec<_> =
        packages().into_iter().filter(|(_, package)| chooses(package)).map(|(name, _)| name).collect();
    assert_eq!(found, ["fairway", "fairway-lab"]);
}

#[test]
fn only_calls_of_the_system_and_the_allocator_may_be_unsafe() {
    let lint = concat!("unsafe", "_code");
    let allowed = ["crates/fairway-net/src/sys/", "crates/fairway/src/allocator.rs"];
    let elsewhere = |source: &Source| !allowed.iter().any(|place| source.name.starts_with(place));
    let excepted = |source: &Source| source.text.contains(lint);
    let found: Vec<_> =
        sources().into_iter().filter(elsewhere).filter(excepted).map(|source| source.name).collect();
    assert!(found.is_empty(), "the lint {lint} has an exception in {found:?}");
}

#[test]
fn files_are_small_and_start_with_their_purpose() {
    let mut wrong = String::new();
    for source in sources() {
        let lines = source.text.lines().count();
        let stop = if source.is_test { TEST_FILE_STOP } else { FILE_STOP };
        if lines > stop {
            _ = writeln!(wrong, "{}: {lines} lines, stop at {stop}", source.name);
        }
        if !source.text.starts_with("//!") {
            _ = writeln!(
                wrong,
                "{}: does not start with //!: what it owns and what it never does",
                source.name
            );
        }
        for part in Path::new(&source.name).with_extension("").iter().filter_map(|part| part.to_str()) {
            if NAMES_THAT_SAY_NOTHING.contains(&part) {
                _ = writeln!(wrong, "{}: {part} is a name that says nothing", source.name);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn no_todo_is_left() {
    let marks = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["un", "implemented!"].concat()];
    let mut wrong = String::new();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark.as_str())) {
                _ = writeln!(wrong, "{}:{}: {}", source.name, number + 1, line.trim());
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The relevant parts of a manifest.
struct Package {
    normal: BTreeSet<String>,
    development: BTreeSet<String>,
    inherits_lints: bool,
}

pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.expect("the crate lies in a folder of the workspace").to_path_buf()
}

/// The packages of the workspace, from `cargo metadata`.
fn packages() -> BTreeMap<String, Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs this test and can be run by it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().map(|package| (text(&package["name"]), read_package(package))).collect()
}

fn read_package(package: &serde_json::Value) -> Package {
    let dependencies = package["dependencies"].as_array().unwrap();
    let of_kind = |kind: Option<&str>| {
        dependencies.iter().filter(|it| it["kind"].as_str() == kind).map(|it| text(&it["name"])).collect()
    };
    let manifest = fs::read_to_string(text(&package["manifest_path"])).unwrap();
    Package {
        normal: of_kind(None),
        development: of_kind(Some("dev")),
        inherits_lints: manifest.contains("[lints]\nworkspace = true"),
    }
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn reach(name: &str, packages: &BTreeMap<String, Package>, reached: &mut BTreeSet<String>) {
    let Some(package) = packages.get(name) else { return };
    for dependency in &package.normal {
        if reached.insert(dependency.clone()) {
            reach(dependency, packages, reached);
        }
    }
}

/// A file of Rust.
pub(crate) struct Source {
    /// Its path in the repository.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) is_test: bool,
}

impl Source {
    /// Without the tests at the end.
    pub(crate) fn lines_without_tests(&self) -> usize {
        let lines: Vec<&str> = self.text.lines().collect();
        let begins_tests = |pair: &[&str]| {
            pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
        };
        lines.windows(2).position(begins_tests).unwrap_or(lines.len())
    }
}

/// The folders of all crates: the product, the laboratory, test support, and the benchmark.
pub(crate) fn crates() -> Vec<PathBuf> {
    let root = root();
    let pods_of =
        |folder: &str| fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    let folders: Vec<Vec<PathBuf>> = ["crates", "lab", "testing"].into_iter().map(pods_of).collect();
    let all = folders.into_iter().flatten().chain([root.join("bench")]);
    all.filter(|folder| folder.join("Cargo.toml").exists()).collect()
}

/// Every file of Rust in the repository.
pub(crate) fn sources() -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    for folder in ["crates", "lab", "testing", "bench", "fuzz"] {
        collect(&root.join(folder), &root, &mut found);
    }
    assert!(found.len() > 50, "the sources were found");
    found
}

fn collect(folder: &Path, root: &Path, found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&path, root, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            // `testing.rs` holds a crate's test support and is compiled only for tests.
            let is_test = path.iter().any(|part| part == "tests" || part == "benches")
                || ["tests.rs", "/testing.rs"].iter().any(|end| name.ends_with(end));
            found.push(Source { text: fs::read_to_string(&path).unwrap(), name, is_test });
        }
    }
}
