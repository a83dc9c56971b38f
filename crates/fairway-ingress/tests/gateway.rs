//! Golden tests: Gateway API objects in, configuration, statuses and diagnostics out:
//! `gateway/<case>/{in.yaml,out.yaml}`, with `gateway/common.yaml` prepended to each input.
//!
//! `UPDATE_GOLDEN=1 cargo test -p fairway-ingress --test integration gateway::` rewrites the outputs.

use std::fs;
use std::path::Path;

use fairway_gateway::{Condition, ListenerStatus, ObjectStatus, OwnStatus, ParentStatus, WantedGateway};
use fairway_ingress::{Translation, translate};
use fairway_model::{
    Action, Balancing, ClientTraffic, Config, ListenerTls, Match, NamedValueMatch, PathMatch, Policy,
    ReferenceStatus, Rule, TextMatch, UpstreamVerification, VirtualHost, WeightedBackend,
};
use serde_json::{Map, Value, json};

use crate::support::{NOW, every_case, phases, scene};

#[test]
fn every_golden_case_has_its_expected_output() {
    let common =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway/common.yaml")).unwrap();
    every_case("gateway", |case| {
        let scene = scene(&format!("{common}---\n{case}"));
        text(&translate(&scene.resources, &scene.options, NOW))
    });
}

/// The relevant parts of a translation, without default values.
fn text(translation: &Translation) -> String {
    let config = &translation.config;
    let statuses = &translation.gateway.statuses;
    let statuses: Map<String, Value> = statuses
        .iter()
        .map(|(object, status)| (format!("{} {}", object.kind.name(), object.key), status_of(status)))
        .filter(|(_, status)| *status != json!("served"))
        .collect();
    let wanted_gateways: Map<String, Value> = translation
        .gateway
        .wanted_gateways
        .iter()
        .filter_map(|(key, it)| Some((key.to_string(), other_needs(it)?)))
        .collect();
    let certificates: Vec<_> = config.certificates.keys().map(|key| key.to_string()).collect();
    let diagnostics: Vec<_> = translation.diagnostics.iter().map(ToString::to_string).collect();
    let mut all = json!({
        "statuses": statuses,
        "wanted": wanted_gateways,
        "listeners": listeners(config),
        "hosts": config.hosts.values().filter_map(|host| describe(host)).collect::<Map<_, _>>(),
        "streams": streams(config),
        "backends": backends(config),
        "certificates": certificates,
        "diagnostics": diagnostics,
    });
    all.as_object_mut().unwrap().retain(|_, value| !is_empty(value));
    serde_saphyr::to_string(&all).unwrap()
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

fn status_of(status: &ObjectStatus) -> Value {
    match &status.own_status {
        OwnStatus::Class(class) => conditions(&class.conditions),
        OwnStatus::Gateway(gateway) => {
            let addresses: Vec<_> = gateway.addresses.iter().map(|it| it.value.to_string()).collect();
            let mut shown = json!({
                "conditions": conditions(&gateway.conditions),
                "addresses": addresses.join(", "),
                "listeners": of_listeners(&gateway.listeners),
            });
            if gateway.attached_listener_sets > 0 {
                shown["listener sets"] = json!(gateway.attached_listener_sets);
            }
            shown
        }
        OwnStatus::ListenerSet(set) => {
            json!({"conditions": conditions(&set.conditions), "listeners": of_listeners(&set.listeners)})
        }
        OwnStatus::Route(parents) | OwnStatus::Policy(parents) => parents.iter().map(parent).collect(),
    }
}

fn parent(status: &ParentStatus) -> Value {
    let it = &status.parent;
    let kind = it.kind.as_deref().map(|kind| format!("{kind} ")).unwrap_or_default();
    let namespace = it.namespace.as_deref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let section = it.section_name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    let port = it.port.map(|port| format!(" :{port}")).unwrap_or_default();
    json!({format!("{kind}{namespace}{}{section}{port}", it.name): conditions(&status.conditions)})
}

fn of_listeners(listeners: &[ListenerStatus]) -> Value {
    let describe_listener = |it: &ListenerStatus| {
        let kinds: Vec<_> = it.kinds.iter().map(|kind| kind.name()).collect();
        let about = format!("{}, {} of {}", it.name, it.attached_routes, kinds.join(" "));
        json!({about: conditions(&it.conditions)})
    };
    listeners.iter().map(describe_listener).collect()
}

/// `served` if all conditions have their normal values.
fn conditions(conditions: &[Condition]) -> Value {
    let usual = |it: &&Condition| match it.kind {
        "Accepted" => it.holds && it.reason == "Accepted",
        "Programmed" | "ResolvedRefs" | "SupportedVersion" => it.holds,
        "Conflicted" => !it.holds,
        _ => false,
    };
    let describe_condition =
        |it: &Condition| format!("{} {} {}: {}", it.kind, it.holds, it.reason, it.message);
    let unusual: Vec<String> = conditions.iter().filter(|it| !usual(it)).map(describe_condition).collect();
    if unusual.is_empty() { json!("served") } else { json!(unusual) }
}

/// Needs other than ports.
fn other_needs(it: &WantedGateway) -> Option<Value> {
    let address = |it: &fairway_gateway::WantedAddress| {
        format!("{} {}", it.kind.name(), it.value.as_deref().unwrap_or("any"))
    };
    let addresses: Vec<_> = it.addresses.iter().map(address).collect();
    let all = json!({
        "addresses": addresses,
        "labels": it.labels,
        "annotations": it.annotations,
        "parameters": it.parameters,
    });
    let mut all = all.as_object().unwrap().clone();
    all.retain(|_, value| !is_empty(value));
    (!all.is_empty()).then_some(Value::Object(all))
}

fn listeners(config: &Config) -> Map<String, Value> {
    let own_listeners =
        config.listeners.values().filter(|it| it.name.starts_with("gateway/") || it.routes.is_some());
    own_listeners
        .map(|it| {
            let bind: Vec<_> = it.bind.iter().map(ToString::to_string).collect();
            let mut line = format!("{:?} {} at {}", it.protocol, it.host, bind.join(" "));
            line += &it.address_owner.as_ref().map(|it| format!(" of {it}")).unwrap_or_default();
            line += &it
                .routes
                .as_ref()
                .map(|routes| format!(", {routes} beside {}", it.table))
                .unwrap_or_default();
            if it.tls != ListenerTls::default() {
                let shown: Vec<_> = it.tls.certificates.iter().map(|key| key.to_string()).collect();
                line += &format!(", shows {}", shown.join(" "));
                line += &it
                    .tls
                    .clients
                    .as_ref()
                    .map(|it| format!(", clients {:?}", it.demand))
                    .unwrap_or_default();
            }
            if it.clients != ClientTraffic::default() {
                line += &format!(", {}", json!(it.clients));
            }
            (it.name.to_string(), json!(line))
        })
        .collect()
}

fn describe(host: &VirtualHost) -> Option<(String, Value)> {
    if !host.key.table.starts_with("gateway/") && !host.key.table.starts_with("routes") {
        return None;
    }
    let rules =
        host.routes.iter().flat_map(|route| route.rules.iter().map(|it| rule(it, route.hostname_rank)));
    let rules: Vec<Value> = rules.collect();
    let scope = if host.falls_through { "" } else { " (of a listener)" };
    Some((format!("{} {}{scope}", host.key.table, host.key.host), json!(rules)))
}

fn rule(rule: &Rule, hostname_rank: u32) -> Value {
    let matches: Vec<String> = rule.matches.iter().map(one_match).collect();
    let to = match &rule.action {
        Action::Forward(shares) => shares.iter().map(share).collect::<Vec<_>>().join(" or "),
        Action::FixedResponse(answer) => format!("{} {:?}", answer.status, answer.reason),
    };
    let rank = if hostname_rank > 0 { format!("(hostname rank {hostname_rank}) ") } else { String::new() };
    let line = format!("{rank}{} -> {to}", matches.join(" | "));
    let mut details: Vec<Value> = phases(&json!(rule.phases));
    if let Action::Forward(shares) = &rule.action {
        let with_filters = shares.iter().filter(|it| it.filters.is_some());
        details.extend(with_filters.map(|it| json!({it.backend.to_string(): it.filters})));
        let with_bodies = shares.iter().filter(|it| it.bodies.is_some());
        details.extend(with_bodies.map(|it| json!({format!("bodies of {}", it.backend): it.bodies})));
    }
    details.extend(rule.policy.max_body.map(|most| json!({"max_body": most})));
    if *rule.policy != (Policy { max_body: rule.policy.max_body, ..Policy::default() }) {
        details.push(
            json!({"policy": [format!("{:?}", rule.policy.timeouts), format!("{:?}", rule.policy.retry)]}),
        );
    }
    if details.is_empty() { json!(line) } else { json!({line: details}) }
}

fn one_match(matched: &Match) -> String {
    let path = match &matched.path {
        PathMatch::Exact(path) => format!("Exact {path}"),
        PathMatch::Prefix(path) => format!("Prefix {path}"),
        PathMatch::Regex { pattern, .. } => format!("Regex {pattern}"),
    };
    let conditions = |location: &str, fields: &[NamedValueMatch]| -> String {
        let condition = |field: &NamedValueMatch| match &field.value {
            TextMatch::Exact(text) => format!(", {location} {} = {text}", field.name),
            TextMatch::Regex(pattern) => format!(", {location} {} ~ {pattern}", field.name),
        };
        fields.iter().map(condition).collect()
    };
    let method = matched.method.as_ref().map(|method| format!(", {method}")).unwrap_or_default();
    format!("{path}{method}{}{}", conditions("header", &matched.headers), conditions("query", &matched.query))
}

fn share(share: &WeightedBackend) -> String {
    let invalid = if share.reference == ReferenceStatus::Invalid { " (500)" } else { "" };
    format!("{} x {}{invalid}", share.weight, share.backend)
}

fn streams(config: &Config) -> Map<String, Value> {
    let route = |it: &fairway_model::StreamRoute| {
        let to: Vec<_> = it.backends.iter().map(share).collect();
        (format!("{} {}", it.key.table, it.key.host), json!(to.join(" or ")))
    };
    config.streams.values().map(|it| route(it)).collect()
}

fn backends(config: &Config) -> Map<String, Value> {
    let backend = |it: &fairway_model::Backend| {
        let endpoints: Vec<_> = it.endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect();
        let mut line = format!("{:?} {}", it.protocol, endpoints.join(" "));
        if let Some(tls) = &it.tls {
            let verified = match &tls.verification {
                UpstreamVerification::Subject { roots, names } => {
                    let roots = if format!("{roots:?}").starts_with("Pem") { "PEM" } else { "System" };
                    format!("{roots} {names:?}")
                }
                other => format!("{other:?}"),
            };
            let shown =
                tls.client_certificate.as_ref().map(|key| format!(", shows {key}")).unwrap_or_default();
            line += &format!(", TLS to {}, {verified}{shown}", tls.server_name.as_deref().unwrap_or("-"));
        }
        if it.key.0.contains(";traffic=") && (it.balancing != Balancing::PeakEwma || it.session.is_some()) {
            line += &format!(", {:?} {}", it.balancing, json!(it.session));
        }
        if let Some(traffic) = &it.traffic {
            line += &format!(", {}", json!(traffic));
        }
        (it.key.to_string(), json!(line))
    };
    config.backends.values().map(|it| backend(it)).collect()
}
