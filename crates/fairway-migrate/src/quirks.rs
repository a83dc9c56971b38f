//! Quirks of ingress-nginx that an Ingress depends on. Fairway has them too, but they matter when the Ingress is rewritten or moved
//! to another API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::{Action, Config, Guard, HttpsRedirect};
use fairway_objects::object::ObjectKey;
use k8s_openapi::api::networking::v1::{HTTPIngressPath, Ingress};
use serde::Serialize;

/// A quirk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quirk {
    /// A stable name in kebab case.
    pub name: &'static str,
    /// Its effect on this Ingress, as a sentence.
    pub what: String,
}

/// Annotations that apply to all paths of a host and are taken from its oldest Ingress.
const HOST_WIDE: [&str; 4] =
    ["auth-tls-secret", "ssl-ciphers", "ssl-passthrough", "ssl-prefer-server-ciphers"];

/// The settings of each host that affect all of its Ingresses.
#[derive(Debug, Default)]
pub(crate) struct Hosts(BTreeMap<String, Host>);

#[derive(Debug, Default)]
struct Host {
    ingresses: usize,
    /// The Ingresses that turn all of its paths into regular expressions.
    with_patterns: BTreeSet<String>,
    /// The oldest Ingress.
    oldest: Option<(i64, ObjectKey)>,
    /// The oldest Ingress with each annotation of [`HOST_WIDE`].
    deciding: BTreeMap<&'static str, (i64, ObjectKey)>,
}

impl Hosts {
    /// Collects the settings from all Ingresses.
    pub(crate) fn from_ingresses<'i>(
        all: impl Iterator<Item = (&'i ObjectKey, &'i Ingress)>,
        prefix: &str,
    ) -> Self {
        let mut hosts = BTreeMap::<String, Host>::new();
        for (key, ingress) in all.filter(|(_, ingress)| !is_canary(ingress, prefix)) {
            let created = ingress.metadata.creation_timestamp.as_ref();
            // An Ingress without a creation time counts as the youngest.
            let age = (created.map_or(i64::MAX, |time| time.0.as_second()), key.clone());
            for name in hosts_of(ingress) {
                let host = hosts.entry(name).or_default();
                host.ingresses += 1;
                host.oldest =
                    Some(host.oldest.take().map_or_else(|| age.clone(), |oldest| oldest.min(age.clone())));
                if asks_for_patterns(ingress, prefix) {
                    host.with_patterns.insert(key.to_string());
                }
                for annotation in host_wide(ingress, prefix) {
                    let oldest = host.deciding.entry(annotation).or_insert_with(|| age.clone());
                    *oldest = oldest.clone().min(age.clone());
                }
            }
        }
        for host in hosts.values_mut() {
            // Only the oldest Ingress of the host decides about it.
            let oldest = host.oldest.clone();
            host.deciding.retain(|annotation, ingress| {
                *annotation != "ssl-passthrough" || Some(&*ingress) == oldest.as_ref()
            });
        }
        Self(hosts)
    }

    fn has_patterns(&self, host: &str) -> bool {
        self.0.get(host).is_some_and(|host| !host.with_patterns.is_empty())
    }
}

/// The redirects to https of plain requests, by namespace and name of the Ingress.
#[derive(Debug, Default)]
pub(crate) struct Redirects(BTreeMap<(Arc<str>, Arc<str>), Redirected>);

#[derive(Debug, PartialEq)]
enum Redirected {
    To(HttpsRedirect),
    Not,
    /// All paths are closed, so the redirect is unknown.
    Closed,
}

impl Redirects {
    /// The redirects in the translated configuration.
    pub(crate) fn from_config(config: &Config) -> Self {
        let mut redirects = BTreeMap::new();
        let ingresses = config.hosts.iter().filter(|(key, _)| *key.table == *"ingress");
        for rule in ingresses.flat_map(|(_, host)| &host.routes).flat_map(|route| &route.rules) {
            let found = rule.phases.guards.iter().find_map(|guard| match guard {
                Guard::HttpsRedirect(redirect) => Some(Redirected::To(redirect.clone())),
                _ => None,
            });
            let key = (rule.labels.namespace.clone(), rule.labels.ingress.clone());
            let of_ingress = redirects.entry(key).or_insert(Redirected::Closed);
            match found {
                Some(found) => *of_ingress = found,
                None if matches!(rule.action, Action::Forward(_)) && *of_ingress == Redirected::Closed => {
                    *of_ingress = Redirected::Not;
                }
                None => {}
            }
        }
        Self(redirects)
    }
}

/// The quirks that an Ingress depends on.
pub(crate) fn quirks_of(
    key: &ObjectKey,
    ingress: &Ingress,
    prefix: &str,
    hosts: &Hosts,
    redirects: &Redirects,
) -> Vec<Quirk> {
    let mut found = Vec::new();
    add_host_quirks(key, ingress, prefix, hosts, &mut found);
    add_path_quirks(ingress, hosts, &mut found);
    add_tls_quirks(key, ingress, prefix, redirects, &mut found);
    let mut add = |name, effect: &str| found.push(Quirk { name, what: effect.to_owned() });
    let value = |name: &str| annotation(ingress, prefix, name);
    if value("enable-cors") == Some("true") {
        add("cors-options", "every OPTIONS request is answered with 204 before it reaches the backend");
    }
    if value("limit-rps").or(value("limit-rpm")).or(value("limit-connections")).is_some() {
        add("limits-per-replica", "limits apply per replica, and excess requests get 503");
    }
    found
}

/// Quirks by which Ingresses of the same host affect each other.
fn add_host_quirks(key: &ObjectKey, ingress: &Ingress, prefix: &str, hosts: &Hosts, found: &mut Vec<Quirk>) {
    let mut add = |name, effect: String| found.push(Quirk { name, what: effect });
    let key_text = key.to_string();
    let host_wide: BTreeSet<_> = host_wide(ingress, prefix).collect();
    for name in hosts_of(ingress) {
        if name.starts_with("*.") {
            add("wildcard-host", format!("the * of {name} matches exactly one label"));
        }
        let Some(host) = hosts.0.get(&name) else { continue };
        if host.with_patterns.contains(&key_text) {
            add(
                "regex-host",
                format!(
                    "it makes all paths of {name}, in all Ingresses, regular expressions: case-insensitive and anchored only \
                     at the start"
                ),
            );
        } else if !host.with_patterns.is_empty() {
            let pattern_ingresses = host.with_patterns.iter().cloned().collect::<Vec<_>>().join(", ");
            add(
                "regex-host",
                format!(
                    "{pattern_ingresses} makes its paths on {name} regular expressions: case-insensitive and anchored only at the start, \
                     also those of type Exact"
                ),
            );
        }
        if host.ingresses < 2 {
            continue;
        }
        for (annotation, (_, oldest)) in &host.deciding {
            let effect = match (oldest == key, host_wide.contains(annotation)) {
                (true, _) => format!("its {annotation} applies to all paths of {name}, in all Ingresses"),
                (false, true) => format!(
                    "the {annotation} of {oldest}, which is older, applies to {name} instead of its own"
                ),
                (false, false) => format!("the {annotation} of {oldest} applies to its paths on {name}, too"),
            };
            add("host-settings", effect);
        }
    }
}

fn add_path_quirks(ingress: &Ingress, hosts: &Hosts, found: &mut Vec<Quirk>) {
    let mut add = |name, effect: String| found.push(Quirk { name, what: effect });
    for (host, path) in paths(ingress).filter(|(host, _)| !hosts.has_patterns(host)) {
        let text = path.path.as_deref().unwrap_or("/");
        if text.len() > 1 && text.ends_with('/') {
            let without = text.trim_end_matches('/');
            add("trailing-slash", format!("{host}{without} is redirected to {host}{text} with 301"));
        }
        if path.path_type == "ImplementationSpecific" {
            add(
                "implementation-specific",
                format!("path {text} of {host} is a prefix that matches whole path elements"),
            );
        }
    }
}

fn add_tls_quirks(
    key: &ObjectKey,
    ingress: &Ingress,
    prefix: &str,
    redirects: &Redirects,
    found: &mut Vec<Quirk>,
) {
    let mut add = |name, effect: String| found.push(Quirk { name, what: effect });
    let has_tls = ingress.spec.iter().any(|spec| spec.tls.iter().flatten().next().is_some());
    match redirects.0.get(&(key.namespace.clone(), key.name.clone())) {
        Some(Redirected::To(HttpsRedirect { status, keep_trailing_slash, .. })) => {
            let slash = if *keep_trailing_slash { "" } else { ", without a trailing slash" };
            add("https-redirect", format!("plain requests are redirected to https with {status}{slash}"));
        }
        Some(Redirected::Closed)
            if has_tls && annotation(ingress, prefix, "ssl-redirect") != Some("false") =>
        {
            let effect = "plain requests are redirected to https, unless the settings ConfigMap has ssl-redirect: false";
            add("https-redirect", effect.to_owned());
        }
        _ => {}
    }
    if has_tls {
        let effect =
            "responses over TLS have Strict-Transport-Security unless the settings ConfigMap disables it";
        add("hsts", effect.to_owned());
    }
}

fn is_canary(ingress: &Ingress, prefix: &str) -> bool {
    annotation(ingress, prefix, "canary") == Some("true")
}

/// The annotations among [`HOST_WIDE`] that have an effect.
fn host_wide(ingress: &Ingress, prefix: &str) -> impl Iterator<Item = &'static str> {
    let asks = move |name: &str, value: &str| match name {
        "ssl-passthrough" => value == "true",
        // With `off`, the next Ingress decides.
        "auth-tls-secret" => annotation(ingress, prefix, "auth-tls-verify-client") != Some("off"),
        _ => true,
    };
    HOST_WIDE.into_iter().filter(move |name| {
        let value = annotation(ingress, prefix, name);
        value.is_some_and(|value| !value.is_empty() && asks(name, value))
    })
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
    use fairway_ingress::translate;
    use fairway_objects::object::Object;
    use fairway_objects::options::{Compat, Options};
    use fairway_objects::resources::{Change, Resources};
    use serde_json::{Value, json};

    use super::*;
    use crate::{Ingresses, Objects, Report};

    fn ingress(name: &str, annotations: &Value, host: &str, path: &str) -> Change {
        let mut annotations = annotations.clone();
        annotations["kubernetes.io/ingress.class"] = "fairway".into();
        let object = json!({
            "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
            "spec": {
                "tls": [{"hosts": [host]}],
                "rules": [{"host": host, "http": {"paths": [{
                    "path": path, "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}
                }]}}]
            }
        });
        Change::Set(Object::Ingress(Arc::new(serde_json::from_value(object).unwrap())), None)
    }

    /// The quirks of each Ingress with these settings.
    fn quirks(mut changes: Vec<Change>, settings: &Value) -> Vec<Vec<Quirk>> {
        let ingresses = Ingresses::among(&changes);
        let object =
            |metadata: Value, field: &str, value: &Value| json!({"metadata": metadata, field: value});
        let service =
            object(json!({"namespace": "shop", "name": "s"}), "spec", &json!({"ports": [{"port": 80}]}));
        changes.push(Change::Set(Object::Service(Arc::new(serde_json::from_value(service).unwrap())), None));
        let map = object(json!({"namespace": "a", "name": "b"}), "data", settings);
        changes.push(Change::Set(Object::ConfigMap(Arc::new(serde_json::from_value(map).unwrap())), None));
        let mut resources = Resources::default();
        changes.into_iter().for_each(|change| resources.apply(change));
        let prefix = "nginx.ingress.kubernetes.io";
        let options = Options { configmap: Some(ObjectKey::new("a", "b")), ..Options::default() };
        let translation = translate(&resources, &options, 0);
        let objects = Objects {
            ingresses: &ingresses,
            translation: &translation,
            diagnostics: &[],
            prefix,
            compat: Compat::Nginx,
        };
        Report::from_objects(&objects).ingresses.into_iter().map(|entry| entry.quirks).collect()
    }

    fn names(quirks: &[Quirk]) -> Vec<&'static str> {
        quirks.iter().map(|quirk| quirk.name).collect()
    }

    fn annotations(pairs: &[(&str, &str)]) -> Value {
        pairs
            .iter()
            .map(|(name, value)| (format!("nginx.ingress.kubernetes.io/{name}"), json!(value)))
            .collect()
    }

    #[test]
    fn a_pattern_of_one_ingress_affects_all_ingresses_of_the_host() {
        let found = quirks(
            vec![
                ingress("one", &annotations(&[("rewrite-target", "/$1")]), "a.test", "/a/(.*)"),
                ingress("two", &annotations(&[("ssl-redirect", "false")]), "a.test", "/b/"),
            ],
            &json!({}),
        );
        assert_eq!(names(&found[0]), ["regex-host", "https-redirect", "hsts"]);
        assert_eq!(names(&found[1]), ["regex-host", "hsts"]);
    }

    #[test]
    fn plain_ingresses_depend_on_few_quirks() {
        let plain = annotations(&[("enable-cors", "true"), ("rewrite-target", "/b/")]);
        let found = quirks(vec![ingress("one", &plain, "a.test", "/b/")], &json!({}));
        assert_eq!(names(&found[0]), ["trailing-slash", "https-redirect", "hsts", "cors-options"]);
    }

    #[test]
    fn redirects_to_https_follow_the_settings() {
        let plain_redirect = || {
            let preserving = annotations(&[("preserve-trailing-slash", "true")]);
            vec![ingress("one", &json!({}), "a.test", "/"), ingress("two", &preserving, "b.test", "/")]
        };
        let found = quirks(plain_redirect(), &json!({"http-redirect-code": "301"}));
        let expected = "plain requests are redirected to https with 301";
        assert_eq!(found[0][0].what, format!("{expected}, without a trailing slash"));
        assert_eq!(found[1][0].what, expected);
        let found = quirks(plain_redirect(), &json!({"ssl-redirect": "false"}));
        assert_eq!(names(&found[0]), ["hsts"]);
    }

    #[test]
    fn the_oldest_ingress_decides_about_host_wide_annotations() {
        let ciphers = annotations(&[("ssl-ciphers", "ECDHE-RSA-AES128-GCM-SHA256")]);
        let found = quirks(
            vec![
                ingress("a", &json!({}), "a.test", "/a"),
                ingress("b", &ciphers, "a.test", "/b"),
                ingress("c", &ciphers, "a.test", "/c"),
                ingress("d", &ciphers, "d.test", "/"),
            ],
            &json!({}),
        );
        let quirks: Vec<_> =
            found.iter().map(|quirks| quirks.iter().find(|it| it.name == "host-settings")).collect();
        let effects: Vec<_> = quirks.into_iter().map(|it| it.map_or("", |it| &*it.what)).collect();
        assert_eq!(
            effects,
            [
                "the ssl-ciphers of shop/b applies to its paths on a.test, too",
                "its ssl-ciphers applies to all paths of a.test, in all Ingresses",
                "the ssl-ciphers of shop/b, which is older, applies to a.test instead of its own",
                "",
            ]
        );
    }

    #[test]
    fn an_ingress_with_verification_off_does_not_decide_about_client_certificates() {
        let secret = ("auth-tls-secret", "shop/authority");
        let off = annotations(&[secret, ("auth-tls-verify-client", "off")]);
        let found = quirks(
            vec![ingress("a", &off, "a.test", "/a"), ingress("b", &annotations(&[secret]), "a.test", "/b")],
            &json!({}),
        );
        let quirks: Vec<_> = found.iter().flatten().filter(|it| it.name == "host-settings").collect();
        let effects: Vec<_> = quirks.into_iter().map(|it| &*it.what).collect();
        assert_eq!(
            effects,
            [
                "the auth-tls-secret of shop/b applies to its paths on a.test, too",
                "its auth-tls-secret applies to all paths of a.test, in all Ingresses",
            ]
        );
    }

    #[test]
    fn only_the_oldest_ingress_decides_about_passthrough() {
        let passing = annotations(&[("ssl-passthrough", "true")]);
        let found = quirks(
            vec![
                ingress("a", &json!({}), "a.test", "/"),
                ingress("b", &passing, "a.test", "/b"),
                ingress("c", &passing, "c.test", "/"),
                ingress("d", &json!({}), "c.test", "/d"),
            ],
            &json!({}),
        );
        let passthrough_quirks = |text: usize| {
            let it = found[text].iter().find(|it| it.name == "host-settings");
            it.map_or("", |it| &*it.what)
        };
        assert_eq!((passthrough_quirks(0), passthrough_quirks(1)), ("", ""));
        assert_eq!(
            passthrough_quirks(2),
            "its ssl-passthrough applies to all paths of c.test, in all Ingresses"
        );
        assert_eq!(
            passthrough_quirks(3),
            "the ssl-passthrough of shop/c applies to its paths on c.test, too"
        );
    }

    #[test]
    fn a_wildcard_host_covers_one_label() {
        let found = quirks(vec![ingress("one", &json!({}), "*.a.test", "/")], &json!({}));
        assert_eq!(found[0][0].what, "the * of *.a.test matches exactly one label");
    }
}
