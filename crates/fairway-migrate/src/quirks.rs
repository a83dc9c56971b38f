//! Peculiarities of ingress-nginx that an Ingress depends on. Fairway has them too; whoever writes the Ingress anew, or moves to
//! another API, has to know.

use std::collections::{BTreeMap, BTreeSet};

use fairway_translate::ObjectKey;
use k8s_openapi::api::networking::v1::{HTTPIngressPath, Ingress};
use serde::Serialize;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quirk {
    /// A stable name in kebab case.
    pub name: &'static str,
    /// What it means for this Ingress, as a sentence.
    pub what: String,
}

/// By host, the Ingresses that make all of its paths regular expressions.
pub(crate) type Hosts = BTreeMap<String, BTreeSet<String>>;

/// Looks at all Ingresses.
pub(crate) fn hosts<'i>(all: impl Iterator<Item = (&'i ObjectKey, &'i Ingress)>, prefix: &str) -> Hosts {
    let mut hosts = Hosts::new();
    for (key, ingress) in all {
        if asks_for_patterns(ingress, prefix) {
            for host in hosts_of(ingress) {
                hosts.entry(host).or_default().insert(key.to_string());
            }
        }
    }
    hosts
}

/// What one depends on.
pub(crate) fn of(key: &ObjectKey, ingress: &Ingress, prefix: &str, hosts: &Hosts) -> Vec<Quirk> {
    let mut found = Vec::new();
    let mut add = |name, what: String| found.push(Quirk { name, what });
    let own = key.to_string();
    for host in hosts_of(ingress) {
        let Some(asking) = hosts.get(&host) else { continue };
        if asking.contains(&own) {
            add(
                "regex-host",
                format!(
                    "it makes all paths of {host}, in all Ingresses, regular expressions: case-insensitive and anchored only \
                     at the start"
                ),
            );
        } else {
            let who = asking.iter().cloned().collect::<Vec<_>>().join(", ");
            add(
                "regex-host",
                format!(
                    "{who} makes its paths on {host} regular expressions: case-insensitive and anchored only at the start, \
                     also those of type Exact"
                ),
            );
        }
    }
    let is_regex = |host: &str| hosts.contains_key(host);
    for (host, path) in paths(ingress) {
        let text = path.path.as_deref().unwrap_or("/");
        if text.len() > 1 && text.ends_with('/') && !is_regex(&host) {
            let without = text.trim_end_matches('/');
            add("trailing-slash", format!("{host}{without} is redirected to {host}{text} with 301"));
        }
        if path.path_type == "ImplementationSpecific" && !is_regex(&host) {
            add("implementation-specific", format!("path {text} of {host} is a prefix, by whole elements"));
        }
    }
    let value = |name: &str| annotation(ingress, prefix, name);
    let tls: Vec<_> = ingress.spec.iter().flat_map(|spec| spec.tls.iter().flatten()).collect();
    if !tls.is_empty() {
        if value("ssl-redirect") != Some("false") {
            let slash = if value("preserve-trailing-slash") == Some("true") {
                ""
            } else {
                ", without a trailing slash"
            };
            add("https-redirect", format!("plain requests are redirected to https with 308{slash}"));
        }
        add(
            "hsts",
            "answers over TLS have Strict-Transport-Security unless the settings ConfigMap says otherwise"
                .into(),
        );
    }
    if value("enable-cors") == Some("true") {
        add(
            "cors-options",
            "every OPTIONS request is answered with 204 before it reaches the backend".into(),
        );
    }
    if value("limit-rps").or(value("limit-rpm")).or(value("limit-connections")).is_some() {
        add(
            "limits-per-replica",
            "limits count for each replica, and what is too much is answered 503".into(),
        );
    }
    found
}

fn asks_for_patterns(ingress: &Ingress, prefix: &str) -> bool {
    let rewrite = annotation(ingress, prefix, "rewrite-target").filter(|target| !target.is_empty());
    annotation(ingress, prefix, "use-regex") == Some("true")
        || rewrite.is_some_and(|target| {
            paths(ingress).any(|(_, path)| path.path.as_deref().unwrap_or("/") != target)
        })
}

fn annotation<'i>(ingress: &'i Ingress, prefix: &str, name: &str) -> Option<&'i str> {
    let all = ingress.metadata.annotations.as_ref()?;
    all.get(&format!("{prefix}/{name}")).map(|value| value.trim())
}

fn hosts_of(ingress: &Ingress) -> BTreeSet<String> {
    paths(ingress).map(|(host, _)| host).collect()
}

fn paths(ingress: &Ingress) -> impl Iterator<Item = (String, &HTTPIngressPath)> {
    let rules = ingress.spec.iter().flat_map(|spec| spec.rules.iter().flatten());
    rules.flat_map(|rule| {
        let host = rule.host.clone().filter(|host| !host.is_empty()).unwrap_or_else(|| "*".to_owned());
        let paths = rule.http.iter().flat_map(|http| &http.paths);
        paths.map(move |path| (host.clone(), path))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ingress(name: &str, annotations: &serde_json::Value, path: &str) -> Ingress {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
            "spec": {
                "tls": [{"hosts": ["a.test"]}],
                "rules": [{"host": "a.test", "http": {"paths": [{
                    "path": path, "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}
                }]}}]
            }
        }))
        .unwrap()
    }

    fn names(all: &[Ingress], which: usize) -> Vec<&'static str> {
        let keys: Vec<_> = all.iter().map(|ingress| ObjectKey::of(&ingress.metadata)).collect();
        let hosts = hosts(keys.iter().zip(all), "n");
        of(&keys[which], &all[which], "n", &hosts).into_iter().map(|quirk| quirk.name).collect()
    }

    #[test]
    fn a_pattern_of_one_ingress_is_a_matter_of_all_on_its_host() {
        let all = [
            ingress("one", &json!({"n/rewrite-target": "/$1"}), "/a/(.*)"),
            ingress("two", &json!({"n/ssl-redirect": "false"}), "/b/"),
        ];
        assert_eq!(names(&all, 0), ["regex-host", "https-redirect", "hsts"]);
        assert_eq!(names(&all, 1), ["regex-host", "hsts"]);
    }

    #[test]
    fn plain_ones_depend_on_little() {
        let all = [ingress("one", &json!({"n/enable-cors": "true", "n/rewrite-target": "/b/"}), "/b/")];
        assert_eq!(names(&all, 0), ["trailing-slash", "https-redirect", "hsts", "cors-options"]);
    }
}
