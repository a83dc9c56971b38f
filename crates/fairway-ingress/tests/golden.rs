//! Manifests in, configuration and diagnostics out, as files: `golden/<feature>-<case>/{in.yaml,out.yaml}`.
//!
//! `UPDATE_GOLDEN=1 cargo test -p fairway-ingress --test integration golden::` writes the second from what is translated now.

use std::sync::Arc;

use fairway_ingress::{Translation, translate};
use fairway_model::{
    Action, AnswerEdit, Balancing, Config, FieldMatch, ForwardedPath, HostPattern, Listener,
    ListenerProtocol, Match, PathMatch, Phases, Policy, Retry, Rule, StreamKey, StreamRoute, TextMatch,
    VirtualHost,
};
use serde_json::{Map, Value, json};

use crate::support::{NOW, every_case, phases, scene};

#[test]
fn every_case_gives_what_its_file_says() {
    every_case("golden", |case| {
        let scene = scene(case);
        text(&translate(&scene.resources, &scene.options, NOW))
    });
}

#[test]
fn load_balancers_can_probe_the_host_without_a_name() {
    for (annotation, path, probed) in [
        ("use-regex: \"false\"", "/", true),
        ("use-regex: \"true\"", "/", false),
        ("use-regex: \"false\"", "/healthz", false),
    ] {
        let manifest = format!(
            r#"{{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {{name: fairway}}, spec: {{controller: fairway.dev/ingress-controller}}}}
---
{{apiVersion: networking.k8s.io/v1, kind: Ingress,
  metadata: {{name: a, namespace: a, annotations: {{nginx.ingress.kubernetes.io/{annotation}}}}},
  spec: {{ingressClassName: fairway, rules: [{{http: {{paths: [
    {{path: {path}, pathType: Prefix, backend: {{service: {{name: a, port: {{number: 80}}}}}}}}]}}}}]}}}}
"#
        );
        let scene = scene(&manifest);
        let config = translate(&scene.resources, &scene.options, NOW).config;
        let mut rules = config.hosts.values().flat_map(|host| &host.routes).flat_map(|route| &route.rules);
        assert_eq!(rules.any(is_of_probes), probed, "{annotation} {path}");
    }
}

/// What a reader wants to know of a translation: without the parts that are as always.
fn text(translation: &Translation) -> String {
    let config = &translation.config;
    let hosts: Map<String, Value> = config.hosts.values().filter_map(|host| describe(host)).collect();
    let backends: Map<String, Value> =
        config.backends.values().map(|it| (it.key.to_string(), backend(it))).collect();
    let certificates: Vec<_> = config.certificates.keys().map(|key| key.to_string()).collect();
    let of_names = |stream: &&Arc<StreamRoute>| stream.key.host != HostPattern::Any;
    let passed: Map<String, Value> =
        config.streams.values().filter(of_names).map(|stream| passed(config, stream)).collect();
    let forwarded: Map<String, Value> =
        config.listeners.values().filter_map(|listener| forwarded(config, listener)).collect();
    let diagnostics: Vec<_> = translation.diagnostics.iter().map(ToString::to_string).collect();
    let mut all = json!({"hosts": hosts, "backends": backends, "certificates": certificates});
    all["diagnostics"] = json!(diagnostics);
    all["passed through"] = json!(passed);
    all["forwarded"] = json!(forwarded);
    all["default certificate"] = json!(config.default_certificate.as_ref().map(ToString::to_string));
    all["settings"] = settings(config);
    all["external names"] = json!(translation.external_names);
    all.as_object_mut().unwrap().retain(|_, value| !is_empty(value));
    serde_saphyr::to_string(&all).unwrap()
}

/// Where connections and datagrams go that come to a port of their own.
fn forwarded(config: &Config, listener: &Listener) -> Option<(String, Value)> {
    let is_stream = matches!(listener.protocol, ListenerProtocol::Tcp | ListenerProtocol::Udp);
    let key = StreamKey { table: listener.table.clone(), host: HostPattern::Any };
    let route = config.streams.get(&key).filter(|_| is_stream)?;
    let backends: Vec<_> = route.backends.iter().map(|it| it.backend.to_string()).collect();
    let mut shown = json!({"at": listener.bind, "protocol": listener.protocol, "backends": backends});
    for (name, value) in [("clients", json!(listener.clients)), ("policy", json!(route.policy))] {
        if value != json!({}) {
            shown[name] = value;
        }
    }
    Some((listener.name.to_string(), shown))
}

/// Where connections go, and to which listeners they come.
fn passed(config: &Config, stream: &StreamRoute) -> (String, Value) {
    let comes = |it: &&Arc<Listener>| it.table == stream.key.table && it.protocol == ListenerProtocol::Https;
    let listeners: Vec<_> = config.listeners.values().filter(comes).map(|it| it.name.to_string()).collect();
    let backends: Vec<_> = stream.backends.iter().map(|it| it.backend.to_string()).collect();
    (stream.key.host.to_string(), json!({"listeners": listeners, "backends": backends}))
}

fn is_empty(value: &Value) -> bool {
    value.is_null()
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
}

fn settings(config: &Config) -> Value {
    let mut settings = serde_json::to_value(&config.settings).unwrap();
    let default = serde_json::to_value(Config::default().settings).unwrap();
    settings.as_object_mut().unwrap().retain(|key, value| *value != default[key]);
    settings
}

/// The catch-all that only says 404 is left out, and so is its answer to probes.
fn describe(host: &VirtualHost) -> Option<(String, Value)> {
    let rules = host.routes.iter().flat_map(|route| &route.rules).filter(|rule| !is_of_probes(rule));
    let rules: Vec<Value> = rules.map(rule).collect();
    if host.key.host.to_string() == "*" && rules == [json!("Prefix / -> 404 NoRoute")] {
        return None;
    }
    let certificate = host.certificate.as_ref().map(|key| format!(", {key}")).unwrap_or_default();
    let suites = host.suites.as_ref().map(|it| format!(", {:?} chosen by {:?}", it.offered, it.chosen_by));
    let suites = suites.unwrap_or_default();
    Some((format!("{} ({:?}{certificate}{suites})", host.key.host, host.order), json!(rules)))
}

fn is_of_probes(rule: &Rule) -> bool {
    (&*rule.origin.kind, &*rule.origin.name) == ("Default", "health")
}

fn rule(rule: &Rule) -> Value {
    let path = match &rule.matches[0].path {
        PathMatch::Exact(path) => format!("Exact {path}"),
        PathMatch::Prefix(path) => format!("Prefix {path}"),
        PathMatch::Regex { pattern, .. } => format!("Regex {pattern}"),
    };
    let to = match &rule.action {
        Action::Forward(backends) if backends.len() == 1 => backends[0].backend.to_string(),
        Action::Forward(backends) => {
            let shares = backends.iter().map(|share| format!("{} x {}", share.weight, share.backend));
            shares.collect::<Vec<_>>().join(" or ")
        }
        Action::Answer(answer) => format!("{} {:?}", answer.status, answer.reason),
    };
    let line = format!("{path}{} -> {to}", conditions(&rule.matches[0]));
    let usual = AnswerEdit::StrictTransportSecurity("max-age=31536000; includeSubDomains".into());
    let mut unusual = Phases::clone(&rule.phases);
    unusual.answers.edits.retain(|edit| *edit != usual);
    let more: Vec<_> = phases(&json!(unusual)).into_iter().chain(policy(&rule.policy)).collect();
    if more.is_empty() { json!(line) } else { json!({line: more}) }
}

/// What a match asks for besides the path, with its rank.
fn conditions(of: &Match) -> String {
    let fields = |place: &str, fields: &[FieldMatch]| -> String {
        let one = |field: &FieldMatch| match &field.value {
            TextMatch::Exact(text) => format!(", {place} {} = {text}", field.name),
            TextMatch::Regex(pattern) => format!(", {place} {} ~ {pattern}", field.name),
        };
        fields.iter().map(one).collect()
    };
    match of.rank {
        0 => String::new(),
        rank => format!(" ({rank}{}{})", fields("header", &of.headers), fields("cookie", &of.cookies)),
    }
}

fn policy(policy: &Policy) -> Option<Value> {
    let times =
        [policy.timeouts.connect, policy.timeouts.send, policy.timeouts.read].map(|time| time.as_secs());
    let usual = times == [5, 60, 60] && policy.max_body == Some(1 << 20);
    let mut shown = json!({});
    if !usual {
        shown = json!({"connect, send, read": times, "body": policy.max_body});
    }
    let usual = Retry { tries: 3, connect_total: policy.timeouts.connect * 3, ..Retry::default() };
    if policy.retry != usual {
        let Retry { tries, connect_total, .. } = policy.retry;
        shown["tries, seconds for them"] = json!([u64::from(tries), connect_total.as_secs()]);
    }
    if policy.forwarded_path != ForwardedPath::AsReceived {
        shown["forwarded path"] = json!(policy.forwarded_path);
    }
    (shown != json!({})).then_some(shown)
}

fn backend(backend: &fairway_model::Backend) -> Value {
    let endpoints: Vec<_> = backend.endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect();
    let mut shown = json!({"endpoints": endpoints});
    if backend.protocol != fairway_model::BackendProtocol::Http1 {
        shown["protocol"] = serde_json::to_value(backend.protocol).unwrap();
    }
    if backend.balancing != Balancing::RoundRobin {
        shown["balancing"] = json!(backend.balancing);
    }
    if let Some(session) = &backend.session {
        shown["session"] = json!(session);
    }
    if let Some(tls) = &backend.tls {
        shown["tls"] = serde_json::to_value(tls).unwrap();
        if let Some(roots) = shown["tls"].pointer_mut("/verification/Chain/roots") {
            *roots = json!("(PEM)");
        }
    }
    shown
}
