//! The settings in the values (`controller.config`): reports the diagnostics that `fairway check` would give for them in a
//! ConfigMap.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use fairway_ingress::translate;
use fairway_objects::diagnostic::{Diagnostic, DiagnosticScope, Severity};
use fairway_objects::object::{Object, ObjectKey};
use fairway_objects::options::{Options, ProxySenders};
use fairway_objects::resources::{Change, Resources};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Map, Value};

use super::kind::{has_template, is_range, scalar};
use super::outcome::Conversion;

/// Keeps every key, including those without an effect: an unsupported key for protection closes all paths while it is set.
pub(super) fn settings(outcome: &mut Conversion, path: &str, value: &Value) -> Result<(), &'static str> {
    let mut texts = BTreeMap::new();
    for (key, value) in value.as_object().ok_or("a mapping")? {
        match scalar(value) {
            Some(text) if !has_template(value) => drop(texts.insert(key.clone(), text)),
            None if value.is_null() => {}
            _ => outcome.wrong(&format!("{path}.{key}"), "text", value),
        }
    }
    if texts.is_empty() {
        return Ok(());
    }
    let values = texts.iter().map(|(key, text)| (key.clone(), Value::from(text.as_str())));
    outcome.set("settings", Value::Object(Map::from_iter(values)));
    let proxies = proxy_protocol(outcome, path, &texts);
    report(outcome, path, texts, proxies.as_deref());
    Ok(())
}

/// Makes the listeners expect a PROXY protocol header if `use-proxy-protocol` is set, from the peers that nginx trusts. Returns
/// these peers.
fn proxy_protocol(
    outcome: &mut Conversion,
    path: &str,
    texts: &BTreeMap<String, String>,
) -> Option<Vec<String>> {
    const KEY: &str = "use-proxy-protocol";
    if texts.get(KEY).map(|text| text.trim()) != Some("true") {
        return None;
    }
    let ranges = texts.get("proxy-real-ip-cidr").map_or("", String::as_str).split(',').map(str::trim);
    let range = |text: &str| match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => format!("{text}/32"),
        Ok(IpAddr::V6(_)) => format!("{text}/128"),
        Err(_) => text.to_owned(),
    };
    let trusted: Vec<String> = ranges.map(range).filter(|text| is_range(text)).collect();
    outcome.set("proxyProtocol.listeners", "both".into());
    if !trusted.is_empty() {
        outcome.set("proxyProtocol.trusted", trusted.as_slice().into());
        let remark = "proxyProtocol.trusted has the ranges of proxy-real-ip-cidr: connections of other peers are closed, where \
                    ingress-nginx serves them under the peer's own address";
        outcome.add_note(&format!("{path}.{KEY}"), remark);
    }
    Some(trusted)
}

fn report(outcome: &mut Conversion, path: &str, texts: BTreeMap<String, String>, proxies: Option<&[String]>) {
    let key = ObjectKey::new("fairway", "fairway");
    let mut map = ConfigMap { data: Some(texts), ..ConfigMap::default() };
    map.metadata.namespace = Some(key.namespace.to_string());
    map.metadata.name = Some(key.name.to_string());
    let mut resources = Resources::default();
    resources.apply(Change::Set(Object::ConfigMap(Arc::new(map)), None));
    let mut options = Options { configmap: Some(key), ..Options::default() };
    if let Some(trusted) = proxies {
        let ranges = trusted.iter().filter_map(|range| range.parse().ok()).collect();
        options.trust.proxy_protocol = ProxySenders::Peers(ranges);
    }
    let diagnostics = translate(&resources, &options, 0).diagnostics;
    for found in diagnostics.group(&DiagnosticScope::Settings) {
        let (path, what) = finding(path, found);
        match found.severity {
            Severity::Error | Severity::Warning => outcome.add_lost(&path, &what),
            Severity::Note => outcome.add_note(&path, &what),
        }
    }
    // ingress-nginx trusts the same clients, so nothing is lost.
    for found in diagnostics.group(&DiagnosticScope::Trust) {
        let (path, what) = finding(path, found);
        outcome.add_note(&path, &what);
    }
}

/// The path of the key, and the diagnostic without the key's name.
fn finding(path: &str, found: &Diagnostic) -> (String, String) {
    let Diagnostic { origin, problem, consequence, .. } = found;
    let Some(key) = origin.field.strip_prefix("data.") else {
        return (path.to_owned(), format!("{problem}; {consequence}"));
    };
    let problem = problem.strip_prefix(key).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(problem);
    (format!("{path}.{key}"), format!("{problem}; {consequence}"))
}
