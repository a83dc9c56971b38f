//! What every worker serves now, by name: the page that tells whether replicas agree.

use fairway_translate::{IngressStatus, ObjectKey};
use serde::{Deserialize, Serialize};

use crate::pipeline::{Freshness, View};

/// The answer of `/served`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// The configuration by its content; the same on every replica that serves the same.
    pub digest: String,
    /// Its number in this process.
    pub version: u64,
    /// Whether every worker has adopted it.
    pub adopted: bool,
    /// Whether it is from the source or from an earlier process.
    pub freshness: Freshness,
    /// The Ingress that was asked for, when it is served.
    pub ingress: Option<ServedIngress>,
}

/// An Ingress as it is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedIngress {
    /// `NAMESPACE/NAME`.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its `metadata.resourceVersion` as it was read.
    pub resource_version: String,
    /// Its `metadata.generation` as it was read.
    pub generation: Option<i64>,
}

impl Served {
    /// Of `view`, when every worker has adopted `adopted` or a newer version.
    pub(super) fn of(view: &View, adopted: u64, query: Option<&str>) -> Self {
        let outcome = &view.outcome;
        let asked = query.and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("ingress=")));
        let asked = asked.map(|name| name.replace("%2F", "/").replace("%2f", "/"));
        let status = asked
            .and_then(|name| ObjectKey::parse(&name))
            .and_then(|key| outcome.translation.status.get(&key));
        Self {
            digest: outcome.digest.to_string(),
            version: outcome.snapshot.version(),
            adopted: adopted >= outcome.snapshot.version(),
            freshness: view.freshness,
            ingress: status.map(|status| ServedIngress::of(status)),
        }
    }
}

impl ServedIngress {
    /// Of a served Ingress.
    pub(super) fn of(status: &IngressStatus) -> Self {
        Self {
            name: status.ingress.to_string(),
            uid: status.uid.to_string(),
            resource_version: status.version.to_string(),
            generation: status.generation,
        }
    }
}
