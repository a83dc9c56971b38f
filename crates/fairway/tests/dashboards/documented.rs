//! Parses docs/metrics.md: the table of all metrics, the reasons, the alerts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A row of the table of metrics.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    pub(crate) kind: String,
    pub(crate) labels: BTreeSet<String>,
    /// Whether only a process in a cluster exposes it.
    pub(crate) of_a_cluster: bool,
}

/// The contents of the document.
#[derive(Clone, Debug)]
pub(crate) struct Documented {
    pub(crate) metrics: BTreeMap<String, Metric>,
    pub(crate) reasons: BTreeSet<String>,
    pub(crate) alerts: BTreeSet<String>,
}

/// The labels that the words in italics in the label column stand for.
const GROUPS: [(&str, &[&str]); 2] = [
    ("*controller*", &["controller_class", "controller_namespace", "controller_pod"]),
    ("*request*", &["namespace", "ingress", "service", "path", "host", "method", "canary", "status"]),
];

impl Documented {
    pub(crate) fn read() -> Self {
        let text = file("docs/metrics.md");
        let mut metrics = BTreeMap::new();
        for row in rows(&text, "metric") {
            let metric = Metric {
                kind: row[1].clone(),
                labels: labels(&row[2]),
                of_a_cluster: row[3].starts_with("With `--kubernetes`")
                    || row[3].starts_with("With `--webhook`"),
            };
            for name in quoted(&row[0]) {
                assert!(
                    metrics.insert(name.to_owned(), metric.clone()).is_none(),
                    "{name} is described twice"
                );
            }
        }
        let first = |header| {
            rows(&text, header).flat_map(|row| quoted(&row[0]).map(str::to_owned).collect::<Vec<_>>())
        };
        Self { metrics, reasons: first("reason").collect(), alerts: first("alert").collect() }
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// A file of the repository.
pub(crate) fn file(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Names without the values that follow them in parentheses.
fn labels(cell: &str) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (index, part) in cell.split(['(', ')']).enumerate() {
        if index % 2 == 0 {
            names.extend(quoted(part).map(str::to_owned));
        }
    }
    for (word, group) in GROUPS {
        if cell.contains(word) {
            names.extend(group.iter().map(|name| (*name).to_owned()));
        }
    }
    names
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The rows of the tables whose header starts with `header`.
fn rows(text: &str, header: &str) -> impl Iterator<Item = Vec<String>> {
    let (mut inside, mut rows) = (false, Vec::new());
    for line in text.lines() {
        let is_header = line.starts_with(&format!("| {header} |"));
        if inside && line.starts_with('|') && !line.starts_with("| ---") {
            let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
            rows.push(cells.collect());
        }
        inside = line.starts_with('|') && (inside || is_header);
    }
    assert!(!rows.is_empty(), "no table with the first column {header}");
    rows.into_iter()
}
