//! Checks that everything the documents of the repository name exists: flags, keys, metrics, reasons, log members, symbols, files.
//! Compares the documents with the binary; does not check their prose.

use std::collections::BTreeSet;
use std::fmt::{Debug, Write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fairway_testkit::certificates::Authority;
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{Ingress, Manifests, config_map, ingress_class};
use fairway_testkit::mmdb::{Mmdb, network};
use fairway_testkit::process::Fairway;
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The texts between backticks in `text`.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The cells of the tables of a document, row by row.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| line.starts_with('|')).map(|line| line.trim_matches('|').split('|').collect())
}

/// The names in the first column of the tables whose header starts with `header`.
fn first_column<'t>(text: &'t str, header: &str) -> BTreeSet<&'t str> {
    let mut names = BTreeSet::new();
    let mut inside = false;
    for line in text.lines() {
        inside = line.starts_with('|') && (inside || line.starts_with(&format!("| {header} |")));
        if inside {
            names.extend(quoted(line.split('|').nth(1).unwrap()));
        }
    }
    assert!(!names.is_empty(), "no table with the first column {header}");
    names
}

/// Fails with the names of `these` that are missing in `those`.
fn nothing_beyond<T: Ord + Debug>(left: &BTreeSet<T>, those: &BTreeSet<T>, context: &str) {
    let beyond: Vec<_> = left.difference(those).collect();
    assert!(beyond.is_empty(), "{context}: {beyond:?}");
}

fn flags_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
    words.filter(|word| word.starts_with("--") && word.len() > 3).map(str::to_owned).collect()
}

fn help(command: &str) -> String {
    let output = Command::new(BINARY).args([command, "--help"]).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_flag_of_run_is_described_and_every_described_flag_exists() {
    let text = document("docs/operate.md") + &document("docs/limits.md");
    let mut described: BTreeSet<_> = quoted(&text).flat_map(flags_in).collect();
    described.remove("--help");
    let help = help("run");
    let offered = help.lines().map(str::trim).filter(|line| line.starts_with("--"));
    let offered: BTreeSet<_> =
        offered.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect();
    assert!(offered.len() > 20, "{help}");
    nothing_beyond(&offered, &described, "not described");
    nothing_beyond(&described, &offered, "do not exist");
}

#[test]
fn the_flags_of_compare_that_are_described_exist_and_its_own_are_described() {
    let text = document("docs/compare.md");
    let described: BTreeSet<_> = quoted(&text).flat_map(flags_in).collect();
    let help = help("compare");
    let flags = |help: &str| -> BTreeSet<String> {
        let lines = help.lines().map(str::trim).filter(|line| line.starts_with("--"));
        lines.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    nothing_beyond(&described, &flags(&help), "do not exist");
    let section = help.split("\nProbes:").nth(1).unwrap().split("\n\nCluster:").next().unwrap();
    assert!(flags(section).len() >= 7, "{section}");
    nothing_beyond(&flags(section), &described, "not described");
}

#[test]
fn every_documented_settings_key_is_read() {
    let text = document("docs/operate.md");
    let keys = first_column(&text, "key");
    let manifests = Manifests::new();
    let entries: Vec<_> = keys.iter().map(|key| (*key, "off")).collect();
    manifests.put("settings.yaml", config_map("a", "settings", &entries));
    let output = Command::new(BINARY)
        .args(["check", "--output", "json", "--configmap", "a/settings"])
        .arg(manifests.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let unknown: Vec<_> = stdout.lines().filter(|line| line.contains("unknown-setting")).collect();
    assert!(unknown.is_empty() && output.status.code() == Some(1), "{stdout}");
}

#[test]
fn every_reason_is_described_with_its_status() {
    let text = document("docs/metrics.md");
    let described = first_column(&text, "reason");
    let source = document("crates/fairway-proxy/src/fault.rs");
    let labels = source.lines().filter(|line| line.contains("=> \""));
    let documented = labels.map(|line| line.split('"').nth(1).unwrap());
    let documented: BTreeSet<_> =
        documented.chain(fairway_token::Refusal::ALL.map(fairway_token::Refusal::label)).collect();
    assert!(documented.len() > 15, "the labels of Fault were found");
    nothing_beyond(&documented, &described, "not described");
    let mut wrong = String::new();
    for rule in fairway_http::Malformed::ALL {
        let row = format!("| `{}` | {} | {rule}", rule.label(), rule.status());
        if !text.contains(&row) {
            _ = writeln!(wrong, "missing: {row}");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn variables_of_the_log_are_described() {
    let text = document("docs/metrics.md");
    let described: BTreeSet<_> = quoted(&text).filter_map(|word| word.strip_prefix('$')).collect();
    let known = fairway_model::Word::NAMES.iter().map(|(name, _)| *name).collect();
    nothing_beyond(&known, &described, "not described");
    let text = document("docs/geoip.md");
    let described: BTreeSet<_> = quoted(&text).filter_map(|word| word.strip_prefix("$geoip2_")).collect();
    let known = fairway_model::GeoField::ALL.iter().filter_map(|field| field.name().strip_prefix("geoip2_"));
    nothing_beyond(&known.collect(), &described, "not described");
}

#[tokio::test]
async fn metrics_and_log_members_match_a_running_process() {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    let leaf = Authority::new("test").leaf(&["a.test"]);
    manifests.put("tls.yaml", leaf.secret_yaml("a", "tls"));
    let ingress = Ingress::new("a", "web").class(Some("fairway")).tls(Some("tls"), &["a.test"]);
    manifests.put("web.yaml", ingress.route("a.test", "/", ("gone", 80)).yaml());
    let geoip = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        geoip.path(),
        Mmdb::new("GeoLite2-ASN", 1).with_network("192.0.2.0/24", &network(64500, "a")).bytes(),
    )
    .unwrap();
    let flags = ["--access-log", "json", "--geoip", geoip.path().to_str().unwrap()];
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;
    let mut client = Client::connect(fairway.http).await.unwrap();
    client.exchange(&Request::get("a.test", "/").close()).await.unwrap();

    let text = document("docs/metrics.md");
    // Metrics of a cluster or of a webhook are not in this scrape.
    let elsewhere =
        |line: &&str| line.contains("| With `--kubernetes`") || line.contains("| With `--webhook`");
    let own_lines: Vec<_> = text.lines().filter(|line| !elsewhere(line)).collect();
    let own_text = own_lines.join("\n");
    let described = first_column(&own_text, "metric");
    let printed = fairway.metrics().await.0;
    let printed: BTreeSet<_> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert!(printed.len() > 20);
    nothing_beyond(&printed, &described, "not described");
    nothing_beyond(&described, &printed, "not printed");

    let line = fairway.line_with("\"took_us\"").await;
    let mut members = BTreeSet::new();
    members_of("", &serde_json::from_str(&line).unwrap(), &mut members);
    let described: BTreeSet<_> = quoted(&text).map(str::to_owned).collect();
    nothing_beyond(&members, &described, &line);
    eventually("the request is counted", WAIT_TIMEOUT, || async {
        fairway.metrics().await.sum("nginx_ingress_controller_requests", &[]) >= 1.0
    })
    .await;
}

#[test]
fn every_metric_in_the_operations_guide_exists() {
    let text = document("docs/operate.md");
    let known = document("docs/metrics.md");
    let known = first_column(&known, "metric");
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    let named =
        words.filter(|word| word.starts_with("fairway_") || word.starts_with("nginx_ingress_controller_"));
    // A crate in a log filter looks like a metric.
    let named = named.filter(|word| !root().join("crates").join(word.replace('_', "-")).exists());
    let named: BTreeSet<_> = named.map(|word| word.strip_suffix("_bucket").unwrap_or(word)).collect();
    assert!(named.len() > 10, "the metrics were found: {named:?}");
    nothing_beyond(&named, &known, "not in docs/metrics.md");
}

/// The paths of a JSON object's members, without members that are objects themselves.
fn members_of(path: &str, value: &serde_json::Value, found: &mut BTreeSet<String>) {
    let serde_json::Value::Object(members) = value else {
        found.insert(path.to_owned());
        return;
    };
    for (name, value) in members {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        members_of(&path, value, found);
    }
}

#[test]
fn the_symbols_of_the_two_lives_are_in_their_files() {
    let mut wrong = String::new();
    for life in ["docs/life-of-a-request.md", "docs/life-of-a-configuration.md"] {
        let text = document(life);
        let steps: Vec<_> = rows(&text).filter(|row| row.len() == 3 && row[2].contains(".rs")).collect();
        assert!(steps.len() > 20, "the steps of {life} were found");
        for step in steps {
            let file = step[2].trim();
            let source = fs::read_to_string(root().join("crates").join(file)).unwrap_or_default();
            for symbol in quoted(step[1]).map(|symbol| symbol.rsplit("::").next().unwrap()) {
                let words = &mut source.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                if !words.any(|word| word == symbol) {
                    _ = writeln!(wrong, "{life}: {symbol} is not in {file}");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn named_tests_in_the_documents_exist() {
    let text = document("docs/annotations.md");
    let section = text.split("\n## Behaviour that traffic depends on\n").nth(1).unwrap();
    let table: Vec<_> = rows(section.split("\n## ").next().unwrap()).skip(2).collect();
    assert_eq!(table.len(), 21, "shared rules of ingress-nginx");
    let sources = sources(&root().join("crates"));
    let case = |name: &str| root().join(format!("crates/fairway/tests/recorded/cases/{name}.json")).exists();
    let golden =
        |name: &str| root().join(format!("crates/fairway-ingress/tests/golden/{name}/in.yaml")).exists();
    let test = |name: &str| sources.iter().any(|source| source.contains(&format!("fn {name}() {{")));
    for row in table {
        let mut names = quoted(row[1]).peekable();
        assert!(names.peek().is_some(), "nothing holds: {}", row[0]);
        for name in names {
            assert!(case(name) || golden(name) || test(name), "there is no case or test {name}");
        }
    }
}

/// The texts of all Rust files below a folder.
fn sources(folder: &Path) -> Vec<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.extension().is_some_and(|it| it == "rs") {
            true => vec![fs::read_to_string(&path).unwrap()],
            false if path.is_dir() => sources(&path),
            false => Vec::new(),
        })
        .collect()
}

#[test]
fn files_that_documents_refer_to_exist() {
    let mut wrong = String::new();
    let mut documents = Vec::new();
    collect(&root(), &mut documents);
    assert!(documents.len() > 10, "the documents were found");
    for path in documents {
        let text = fs::read_to_string(&path).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        for link in links.filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            if !target.exists() || !(anchor.is_empty() || headings(&target).contains(anchor)) {
                _ = writeln!(wrong, "{}: {link}", path.strip_prefix(root()).unwrap().display());
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The anchors of a document's headings.
fn headings(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap();
    let titles =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let plain = |title: &str| title.to_lowercase().replace(' ', "-");
    titles
        .map(|title| plain(title).chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect())
        .collect()
}

/// The Markdown files of the repository.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if path.is_dir() && !name.starts_with('.') && !name.starts_with("target") && name != "corpus" {
            collect(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}
