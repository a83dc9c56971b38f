//! The recorded cases as values, and which of them can be replayed. Does not change the recording.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use fairway_ingress::{Support, known_annotations};
use serde::Deserialize;
use serde_json::Value;

const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// One file of `cases/`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) ingresses: Vec<Value>,
    pub(crate) exchanges: Vec<Exchange>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Exchange {
    pub(crate) request: RecordingRequest,
    pub(crate) answer: Answered,
}

/// The request of the recording client.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RecordingRequest {
    pub(crate) scheme: String,
    pub(crate) host: String,
    pub(crate) method: String,
    pub(crate) target: String,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Option<String>,
    pub(crate) body_size: Option<usize>,
}

/// The response that it received.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) upstream: Option<Upstream>,
    pub(crate) body: Option<String>,
}

/// The request as the echo pod received it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Upstream {
    pub(crate) backend: String,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) host: String,
    pub(crate) headers: BTreeMap<String, Vec<String>>,
}

impl Case {
    /// All cases, by name.
    pub(crate) fn all() -> Vec<Self> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/cases");
        let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let read = |file: &std::path::PathBuf| {
            serde_json::from_slice(&fs::read(file).unwrap())
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        };
        files.iter().map(read).collect()
    }

    /// Whether the case has a certificate for `host`.
    pub(crate) fn has_certificate_for(&self, host: &str) -> bool {
        let entries = self.ingresses.iter().filter_map(|ingress| ingress["spec"]["tls"].as_array()).flatten();
        let mut hosts = entries.filter_map(|entry| entry["hosts"].as_array()).flatten();
        hosts.any(|name| name == host)
    }

    /// Whether its Ingresses affect other Ingresses with the same Services.
    pub(crate) fn reaches_others(&self) -> bool {
        let shared = ["affinity", "canary", "load-balance", "service-upstream", "upstream-hash-by"];
        let reaches = |name: &str| shared.iter().any(|shared| name.starts_with(&format!("{PREFIX}{shared}")));
        self.ingresses.iter().any(|ingress| annotations(ingress).any(reaches))
    }

    /// The unsupported annotations of each Ingress that has some: `(Ingress, annotations)`.
    pub(crate) fn later(&self) -> Vec<(String, BTreeSet<String>)> {
        let of_one = |ingress: &Value| {
            let names = annotations(ingress).filter(|name| !supported(name)).map(str::to_owned).collect();
            (ingress["metadata"]["name"].as_str().unwrap().to_owned(), names)
        };
        self.ingresses.iter().map(of_one).filter(|(_, names): &(_, BTreeSet<_>)| !names.is_empty()).collect()
    }

    /// The unsupported annotations that an exchange with `host` depends on: those of the Ingresses with this host, or of the whole
    /// case if an annotation adds the host.
    pub(crate) fn unsupported_for(&self, host: &str) -> BTreeSet<String> {
        let serving = |ingress: &&Value| serves(ingress, host);
        let names = |ingress: &Value| {
            annotations(ingress).filter(|name| !supported(name)).map(str::to_owned).collect()
        };
        if self.ingresses.iter().any(|ingress| serves(ingress, host)) && !self.adds_hosts() {
            return self
                .ingresses
                .iter()
                .filter(serving)
                .flat_map(|ingress| -> Vec<_> { names(ingress) })
                .collect();
        }
        self.ingresses.iter().flat_map(|ingress| -> Vec<_> { names(ingress) }).collect()
    }

    fn adds_hosts(&self) -> bool {
        let adds =
            |name: &str| matches!(name.strip_prefix(PREFIX), Some("from-to-www-redirect" | "server-alias"));
        self.ingresses.iter().any(|ingress| annotations(ingress).any(adds))
    }
}

/// Whether a rule of `ingress` is for `host`.
fn serves(ingress: &Value, host: &str) -> bool {
    let rules = ingress["spec"]["rules"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    rules
        .iter()
        .filter_map(|rule| rule["host"].as_str())
        .any(|rule| rule == host || rule.strip_prefix('*').is_some_and(|suffix| host.ends_with(suffix)))
}

fn annotations(ingress: &Value) -> impl Iterator<Item = &str> {
    ingress["metadata"]["annotations"].as_object().into_iter().flat_map(|all| all.keys().map(String::as_str))
}

/// Whether an annotation is supported, according to the table of annotations; cases with other annotations are skipped. The
/// recorded ConfigMap does not allow snippets.
fn supported(annotation: &str) -> bool {
    let works = |name: &str| match known_annotations().iter().find(|known| known.name == name) {
        Some(known) => !matches!(known.support, Support::Missing { .. }) && !name.ends_with("-snippet"),
        None => false,
    };
    annotation.strip_prefix(PREFIX).map_or(annotation == "kubernetes.io/ingress.class", works)
}
