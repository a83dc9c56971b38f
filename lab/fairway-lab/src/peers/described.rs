//! A controller that runs in a cluster of the user's, by description: how a real ingress-nginx, NGINX Plus, HAProxy's own
//! or a cloud's is measured. Nothing of it is installed or removed.

use std::collections::BTreeMap;

use anyhow::Context;
use fairway_lab_measure::results::{PeerKind, PeerRecord};
use serde_json::{Value, json};

use super::artifacts::Artifacts;
use super::existing::{CpuSource, Existing};
use super::objects::{IngressShape, ingress};
use super::peer::{Peer, Placement, PreparedPeer};
use super::route::Route;
use super::route_api::GatewayApi;

/// A description:
/// `name=ours,class=nginx,address=192.0.2.10,selector=app=x,namespace=ingress,deployment=controller,cpu=kubelet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedPeer {
    name: String,
    class: String,
    existing: Existing,
}

const KEYS: [&str; 7] = ["name", "class", "address", "selector", "namespace", "deployment", "cpu"];

impl DescribedPeer {
    /// Reads a description.
    ///
    /// # Errors
    /// A key that is not known, or one that is missing.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut words = BTreeMap::new();
        for part in text.split(',') {
            let (key, value) =
                part.split_once('=').with_context(|| format!("--peer {text}: {part:?} is no KEY=VALUE"))?;
            anyhow::ensure!(
                KEYS.contains(&key),
                "--peer {text}: {key:?} is not known; there are {}",
                KEYS.join(", ")
            );
            words.insert(key, value.to_owned());
        }
        let mut take = |key: &str| words.remove(key);
        let missing = |key: &str| format!("--peer {text}: {key}=... is missing");
        let address = take("address").with_context(|| missing("address"))?;
        let cpu = take("cpu").map(|cpu| {
            CpuSource::parse(&cpu)
                .with_context(|| format!("--peer {text}: cpu={cpu} is neither cgroup nor kubelet"))
        });
        Ok(Self {
            name: take("name").with_context(|| missing("name"))?,
            class: take("class").with_context(|| missing("class"))?,
            existing: Existing {
                address: address
                    .parse()
                    .with_context(|| format!("--peer {text}: {address:?} is no IP address"))?,
                namespace: take("namespace").unwrap_or_else(|| "default".to_owned()),
                selector: take("selector"),
                deployment: take("deployment"),
                cpu: cpu.transpose()?.unwrap_or_default(),
            },
        })
    }
}

const PREFIX: &str = "nginx.ingress.kubernetes.io";

impl Peer for DescribedPeer {
    fn gateway_api(&self) -> Result<GatewayApi, &'static str> {
        Err("a described controller supports only Ingresses")
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn summary(&self) -> &str {
        "a controller in your cluster"
    }

    fn existing(&self) -> Option<&Existing> {
        Some(&self.existing)
    }

    fn prepare(&self, _workshop: &Artifacts) -> anyhow::Result<PreparedPeer> {
        Ok(PreparedPeer {
            record: PeerRecord {
                name: self.name.clone(),
                title: format!("{} (class {})", self.name, self.class),
                kind: PeerKind::Described,
                stands_for: "the controller that was described".to_owned(),
                versions: BTreeMap::new(),
                configurations: Vec::new(),
            },
            archives: Vec::new(),
        })
    }

    fn objects(&self, _workshop: &Artifacts, _placement: &Placement) -> anyhow::Result<Vec<Value>> {
        Ok(Vec::new())
    }

    /// Ingresses with the annotations of ingress-nginx, which most controllers know. A response header needs more
    /// than an annotation there, so that change is left out.
    fn route(&self, _placement: &Placement, route: &Route) -> Vec<Value> {
        let mut annotations = json!({ format!("{PREFIX}/ssl-redirect"): "false" });
        let mut path = "/".to_owned();
        let ingress = |suffix, path: &str, annotations| {
            let (class, path_type) = (self.class.clone(), "ImplementationSpecific");
            ingress(route, &IngressShape { suffix, class, annotations, path, path_type })
        };
        if route.filters.cors {
            annotations[format!("{PREFIX}/enable-cors")] = json!("true");
        }
        if let Some(prefix) = &route.filters.rewrite {
            annotations[format!("{PREFIX}/use-regex")] = json!("true");
            annotations[format!("{PREFIX}/rewrite-target")] = json!("/$2");
            path = format!("{prefix}(/|$)(.*)");
        }
        let mut objects = vec![ingress("", &path, annotations)];
        if let Some((from, to)) = &route.filters.redirect {
            let annotations = json!({ format!("{PREFIX}/temporal-redirect"): to });
            objects.push(ingress("-redirect", from, annotations));
        }
        objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_and_a_selector_may_have_an_equals_sign() {
        let text = "name=ours,class=nginx,address=192.0.2.10,selector=app=x,namespace=ingress";
        let peer = DescribedPeer::parse(text).expect("it is whole");
        assert_eq!((peer.name(), peer.class.as_str()), ("ours", "nginx"));
        assert_eq!(peer.existing.selector.as_deref(), Some("app=x"));
    }

    #[test]
    fn missing_and_unknown_keys_are_named() {
        for (text, part) in [
            ("name=a,class=b", "address=... is missing"),
            ("name=a,class=b,address=here", "\"here\" is no IP address"),
            ("name=a,clas=b,address=192.0.2.1", "\"clas\" is not known"),
            ("name", "is no KEY=VALUE"),
            ("name=a,class=b,address=192.0.2.1,cpu=guess", "cpu=guess is neither cgroup nor kubelet"),
        ] {
            let error = format!("{:#}", DescribedPeer::parse(text).expect_err("it is wrong"));
            assert!(error.contains(part), "{error}");
        }
    }
}
