//! The set of snippets, and the recorded responses of nginx to each. Does not change the recording.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::recorded::case::Exchange;

/// A snippet, or two that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Snippet {
    pub(crate) name: String,
    /// Whether it represents snippets that users write, with only supported directives.
    pub(crate) is_listed: bool,
    options: BTreeSet<String>,
    /// The texts by annotation, by ConfigMap key, or by another key that README.md explains.
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) by_nginx: Outcome,
}

/// The result of nginx for a snippet.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Refused(String),
    Exchanges(Vec<Exchange>),
}

const ANNOTATIONS: [&str; 3] = ["auth-snippet", "configuration-snippet", "server-snippet"];

/// Texts that belong to ConfigMap keys, with the key.
const SETTINGS: [(&str, &str); 3] = [
    ("configmap-server-snippet", "server-snippet"),
    ("http-snippet", "http-snippet"),
    ("location-snippet", "location-snippet"),
];

impl Snippet {
    /// All snippets, by file and in their order.
    pub(crate) fn all() -> Vec<Self> {
        let mut files: Vec<_> =
            fs::read_dir(folder("set")).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.iter().flat_map(|file| of_file(file)).collect()
    }

    /// Whether it needs its own ConfigMap.
    pub(crate) fn is_global(&self) -> bool {
        !self.settings().is_empty()
    }

    /// Its ConfigMap keys.
    pub(crate) fn settings(&self) -> Vec<(&str, &str)> {
        let snippets =
            SETTINGS.into_iter().filter_map(|(text, key)| Some((key, self.texts.get(text)?.as_str())));
        snippets.chain(self.pairs("settings")).collect()
    }

    /// The lines `NAME: VALUE` of a text; empty if the snippet does not have it.
    fn pairs(&self, text: &str) -> impl Iterator<Item = (&str, &str)> {
        let lines = self.texts.get(text).map_or("", String::as_str).lines();
        lines.map(move |line| line.split_once(": ").unwrap_or_else(|| panic!("{}: {line}", self.name)))
    }

    /// Its Ingress.
    pub(crate) fn ingress(&self) -> Value {
        let snippets = ANNOTATIONS.into_iter().filter_map(|key| Some((key, self.texts.get(key)?.as_str())));
        let all = snippets.chain(self.pairs("annotations"));
        let mut annotations: serde_json::Map<String, Value> =
            all.map(|(name, value)| (format!("nginx.ingress.kubernetes.io/{name}"), json!(value))).collect();
        if self.options.contains("auth") {
            annotations.insert(
                "nginx.ingress.kubernetes.io/auth-url".to_owned(),
                json!("http://auth.demo.svc.cluster.local/auth"),
            );
        }
        let star = if self.options.contains("wildcard") { "*." } else { "" };
        let backend = json!({"service": {"name": "main", "port": {"number": 80}}});
        let paths = self.texts.get("paths").map_or("/ Prefix\n/app Prefix", String::as_str).lines();
        let paths = paths.map(|line| {
            let (path, kind) = line.split_once(' ').unwrap_or_else(|| panic!("{}: {line}", self.name));
            json!({"path": path, "pathType": kind, "backend": backend})
        });
        let paths: Vec<_> = paths.collect();
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": self.name, "namespace": "demo", "annotations": annotations},
            "spec": {
                "ingressClassName": "nginx",
                "rules": [{"host": format!("{star}{}.test", self.name), "http": {"paths": paths}}],
            },
        })
    }

    /// The exchanges, if nginx accepted the configuration.
    pub(crate) fn exchanges(&self) -> &[Exchange] {
        match &self.by_nginx {
            Outcome::Exchanges(exchanges) => exchanges,
            Outcome::Refused(_) => &[],
        }
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snippets").join(name)
}

fn of_file(file: &Path) -> Vec<Snippet> {
    let stem = file.file_stem().unwrap().to_str().unwrap();
    let recorded = fs::read(folder("recorded").join(format!("{stem}.json"))).unwrap();
    let mut recorded: BTreeMap<String, Outcome> = serde_json::from_slice(&recorded).unwrap();
    let text = fs::read_to_string(file).unwrap();
    let blocks = text.strip_prefix("### ").unwrap().split("\n### ");
    let snippets = blocks.map(|block| {
        let mut parts =
            format!("{block}\n").split("\n--- ").map(str::to_owned).collect::<Vec<_>>().into_iter();
        let head = parts.next().unwrap();
        let mut lines = head.lines();
        let name = lines.next().unwrap().to_owned();
        let is_option = |line: &&str| !line.is_empty() && !line.contains(' ');
        let options: BTreeSet<_> = lines.filter(is_option).map(str::to_owned).collect();
        let texts = parts.map(|part| {
            let (key, text) = part.split_once('\n').unwrap();
            let text = format!("{}\n", text.trim_end_matches('\n'));
            let text = if options.contains("crlf") { text.replace('\n', "\r\n") } else { text };
            (key.to_owned(), text)
        });
        let texts = texts.collect();
        let by_nginx = recorded.remove(&name).unwrap_or_else(|| panic!("{name} is not recorded"));
        let is_listed = stem != "refused" && !stem.starts_with("attacks-");
        Snippet { name, is_listed, options, texts, by_nginx }
    });
    snippets.collect()
}
