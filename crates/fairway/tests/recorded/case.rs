//! The recorded cases as values, and which of them can be replayed. Changes nothing of what was recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// Annotations that work; a case with any other is for later.
const SUPPORTED: &[&str] = &[
    "allowlist-source-range",
    "app-root",
    "backend-protocol",
    "custom-headers",
    "denylist-source-range",
    "enable-cors",
    "force-ssl-redirect",
    "permanent-redirect",
    "permanent-redirect-code",
    "proxy-body-size",
    "proxy-connect-timeout",
    "proxy-read-timeout",
    "proxy-send-timeout",
    "rewrite-target",
    "ssl-redirect",
    "temporal-redirect",
    "temporal-redirect-code",
    "use-regex",
    "whitelist-source-range",
];

const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// One file of `cases/`.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    pub name: String,
    pub ingresses: Vec<Value>,
    pub exchanges: Vec<Exchange>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Exchange {
    pub request: Asked,
    pub answer: Answered,
}

/// What the recording client sent.
#[derive(Clone, Debug, Deserialize)]
pub struct Asked {
    pub scheme: String,
    pub host: String,
    pub method: String,
    pub target: String,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    pub body: Option<String>,
    pub body_size: Option<usize>,
}

/// What it got.
#[derive(Clone, Debug, Deserialize)]
pub struct Answered {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub upstream: Option<Upstream>,
    pub body: Option<String>,
}

/// What the echo pod saw.
#[derive(Clone, Debug, Deserialize)]
pub struct Upstream {
    pub backend: String,
    pub method: String,
    pub target: String,
    pub host: String,
    pub headers: BTreeMap<String, Vec<String>>,
}

impl Case {
    /// Every case, by name.
    pub fn all() -> Vec<Self> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/cases");
        let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let read = |file: &std::path::PathBuf| {
            serde_json::from_slice(&fs::read(file).unwrap())
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        };
        files.iter().map(read).collect()
    }

    /// The annotations that do not work yet, of each Ingress that has some: `(Ingress, annotations)`.
    pub fn later(&self) -> Vec<(String, BTreeSet<String>)> {
        let of_one = |ingress: &Value| {
            let names = annotations(ingress).filter(|name| !supported(name)).map(str::to_owned).collect();
            (ingress["metadata"]["name"].as_str().unwrap().to_owned(), names)
        };
        self.ingresses.iter().map(of_one).filter(|(_, names): &(_, BTreeSet<_>)| !names.is_empty()).collect()
    }
}

fn annotations(ingress: &Value) -> impl Iterator<Item = &str> {
    ingress["metadata"]["annotations"].as_object().into_iter().flat_map(|all| all.keys().map(String::as_str))
}

fn supported(annotation: &str) -> bool {
    match annotation.strip_prefix(PREFIX) {
        Some(name) => name.starts_with("cors-") || SUPPORTED.contains(&name),
        None => annotation == "kubernetes.io/ingress.class",
    }
}
