//! Golden tests of the Ingress translation. Each case is a folder `golden/<feature>-<case>` with manifests
//! (`in.yaml`) and the expected configuration and diagnostics (`out.yaml`).
//!
//! `UPDATE_GOLDEN=1 cargo test -p fairway-ingress --test integration golden::` rewrites the outputs.

use std::sync::Arc;

use fairway_ingress::{Translation, translate};
use fairway_model::{
    Action, Balancing, Config, ForwardedPath, HostPattern, Listener, ListenerProtocol, Match,
    NamedValueMatch, PathMatch, Phases, Policy, ResponseEdit, Retry, Rule, StreamKey, StreamRoute, TextMatch,
    VirtualHost,
};
use serde_json::{Map, Value, json};

use crate::support::{NOW, every_case, phases, scene};

#[test]
fn every_golden_case_has_its_expected_output() {
    every_case("golden", |case| {
        let scene = scene(case);
        render_translation(&translate(&scene.resources, &scene.options, NOW))
    });
}

#[test]
fn load_balancers_can_probe_the_host_without_a_name() {
    for (annotation, path, answers_probes) in [
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
        assert_eq!(
            rules.any(answers_health_probes),
            answers_probes,
            "whether a rule answers probes, with {annotation} and path {path}"
        );
    }
}

/// Renders a translation as YAML. Default values are omitted to keep the golden files short.
fn render_translation(translation: &Translation) -> String {
    let config = &translation.config;
    let hosts: Map<String, Value> = config.hosts.values().filter_map(|host| render_host(host)).collect();
    let backends: Map<String, Value> =
        config.backends.values().map(|backend| (backend.key.to_string(), render_backend(backend))).collect();
    let certificates: Vec<_> = config.certificates.keys().map(|key| key.to_string()).collect();
    let has_host = |route: &&Arc<StreamRoute>| route.key.host != HostPattern::Any;
    let passthrough_routes: Map<String, Value> = config
        .streams
        .values()
        .filter(has_host)
        .map(|route| render_passthrough_route(config, route))
        .collect();
    let port_routes: Map<String, Value> =
        config.listeners.values().filter_map(|listener| render_port_route(config, listener)).collect();
    let diagnostics: Vec<_> = translation.diagnostics.iter().map(ToString::to_string).collect();
    let mut rendered = json!({"hosts": hosts, "backends": backends, "certificates": certificates});
    rendered["diagnostics"] = json!(diagnostics);
    rendered["passed through"] = json!(passthrough_routes);
    rendered["forwarded"] = json!(port_routes);
    rendered["default certificate"] = json!(config.default_certificate.as_ref().map(ToString::to_string));
    rendered["settings"] = render_changed_settings(config);
    rendered["external names"] = json!(translation.external_names);
    rendered.as_object_mut().unwrap().retain(|_, value| !is_empty(value));
    serde_saphyr::to_string(&rendered).unwrap()
}

/// Renders the route of a TCP or UDP listener, whose port alone selects the route; `None` for other listeners.
fn render_port_route(config: &Config, listener: &Listener) -> Option<(String, Value)> {
    let is_stream = matches!(listener.protocol, ListenerProtocol::Tcp | ListenerProtocol::Udp);
    let key = StreamKey { table: listener.table.clone(), host: HostPattern::Any };
    let route = config.streams.get(&key).filter(|_| is_stream)?;
    let backends: Vec<_> = route.backends.iter().map(|share| share.backend.to_string()).collect();
    let mut rendered = json!({"at": listener.bind, "protocol": listener.protocol, "backends": backends});
    for (name, value) in [("clients", json!(listener.clients)), ("policy", json!(route.policy))] {
        if value != json!({}) {
            rendered[name] = value;
        }
    }
    Some((listener.name.to_string(), rendered))
}

/// Renders a TLS passthrough route, with the listeners that use it.
fn render_passthrough_route(config: &Config, route: &StreamRoute) -> (String, Value) {
    let uses_route = |listener: &&Arc<Listener>| {
        listener.table == route.key.table && listener.protocol == ListenerProtocol::Https
    };
    let listeners: Vec<_> =
        config.listeners.values().filter(uses_route).map(|listener| listener.name.to_string()).collect();
    let backends: Vec<_> = route.backends.iter().map(|share| share.backend.to_string()).collect();
    (route.key.host.to_string(), json!({"listeners": listeners, "backends": backends}))
}

fn is_empty(value: &Value) -> bool {
    value.is_null()
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
}

/// Renders the settings that differ from their defaults.
fn render_changed_settings(config: &Config) -> Value {
    let mut settings = serde_json::to_value(&config.settings).unwrap();
    let default = serde_json::to_value(Config::default().settings).unwrap();
    settings.as_object_mut().unwrap().retain(|key, value| *value != default[key]);
    settings
}

/// Renders a host with its rules. The catch-all host is in nearly every configuration, so its response to health
/// probes is omitted, and the whole host if its only other rule returns 404.
fn render_host(host: &VirtualHost) -> Option<(String, Value)> {
    let rules = host.routes.iter().flat_map(|route| &route.rules).filter(|rule| !answers_health_probes(rule));
    let rules: Vec<Value> = rules.map(render_rule).collect();
    if host.key.host.to_string() == "*" && rules == [json!("Prefix / -> 404 NoRoute")] {
        return None;
    }
    let certificate = host.certificate.as_ref().map(|key| format!(", {key}")).unwrap_or_default();
    let suites = match &host.suites {
        Some(suites) => format!(", {:?} chosen by {:?}", suites.offered, suites.chosen_by),
        None => String::new(),
    };
    Some((format!("{} ({:?}{certificate}{suites})", host.key.host, host.order), json!(rules)))
}

/// Whether Fairway added the rule to answer a load balancer's health probes.
fn answers_health_probes(rule: &Rule) -> bool {
    (&*rule.origin.kind, &*rule.origin.name) == ("Default", "health")
}

/// Renders a rule as one line, or as a map from that line to its phases and policy if these are not the defaults.
fn render_rule(rule: &Rule) -> Value {
    let path = match &rule.matches[0].path {
        PathMatch::Exact(path) => format!("Exact {path}"),
        PathMatch::Prefix(path) => format!("Prefix {path}"),
        PathMatch::Regex { pattern, .. } => format!("Regex {pattern}"),
    };
    let destination = match &rule.action {
        Action::Forward(backends) if backends.len() == 1 => backends[0].backend.to_string(),
        Action::Forward(backends) => {
            let shares = backends.iter().map(|share| format!("{} x {}", share.weight, share.backend));
            shares.collect::<Vec<_>>().join(" or ")
        }
        Action::FixedResponse(response) => format!("{} {:?}", response.status, response.reason),
    };
    let line = format!("{path}{} -> {destination}", render_conditions(&rule.matches[0]));
    // Rules of hosts with TLS set this header by default (the default of ingress-nginx).
    let default_hsts = ResponseEdit::StrictTransportSecurity("max-age=31536000; includeSubDomains".into());
    let mut changed_phases = Phases::clone(&rule.phases);
    changed_phases.answers.edits.retain(|edit| *edit != default_hsts);
    let details: Vec<_> =
        phases(&json!(changed_phases)).into_iter().chain(render_changed_policy(&rule.policy)).collect();
    if details.is_empty() { json!(line) } else { json!({line: details}) }
}

/// Renders the rank of a match and its header and cookie conditions; empty if the rank is 0.
fn render_conditions(route_match: &Match) -> String {
    let render_all = |kind: &str, conditions: &[NamedValueMatch]| -> String {
        let render_one = |condition: &NamedValueMatch| match &condition.value {
            TextMatch::Exact(text) => format!(", {kind} {} = {text}", condition.name),
            TextMatch::Regex(pattern) => format!(", {kind} {} ~ {pattern}", condition.name),
        };
        conditions.iter().map(render_one).collect()
    };
    match route_match.rank {
        0 => String::new(),
        rank => {
            let headers = render_all("header", &route_match.headers);
            let cookies = render_all("cookie", &route_match.cookies);
            format!(" ({rank}{headers}{cookies})")
        }
    }
}

/// Renders the parts of a policy that differ from the defaults of ingress-nginx; `None` if no part does.
fn render_changed_policy(policy: &Policy) -> Option<Value> {
    let timeouts = &policy.timeouts;
    let seconds = [timeouts.connect, timeouts.send, timeouts.read].map(|timeout| timeout.as_secs());
    let is_default = seconds == [5, 60, 60] && policy.max_body == Some(1 << 20);
    let mut rendered = json!({});
    if !is_default {
        rendered = json!({"connect, send, read": seconds, "body": policy.max_body});
    }
    let default_retry = Retry { tries: 3, connect_total: policy.timeouts.connect * 3, ..Retry::default() };
    if policy.retry != default_retry {
        let Retry { tries, connect_total, .. } = policy.retry;
        rendered["tries, seconds for them"] = json!([u64::from(tries), connect_total.as_secs()]);
    }
    if policy.forwarded_path != ForwardedPath::AsReceived {
        rendered["forwarded path"] = json!(policy.forwarded_path);
    }
    (rendered != json!({})).then_some(rendered)
}

/// Renders the endpoints of a backend, and its settings that differ from their defaults.
fn render_backend(backend: &fairway_model::Backend) -> Value {
    let endpoints: Vec<_> = backend.endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect();
    let mut rendered = json!({"endpoints": endpoints});
    if backend.protocol != fairway_model::BackendProtocol::Http1 {
        rendered["protocol"] = serde_json::to_value(backend.protocol).unwrap();
    }
    if backend.balancing != Balancing::RoundRobin {
        rendered["balancing"] = json!(backend.balancing);
    }
    if let Some(session) = &backend.session {
        rendered["session"] = json!(session);
    }
    if let Some(tls) = &backend.tls {
        rendered["tls"] = serde_json::to_value(tls).unwrap();
        if let Some(roots) = rendered["tls"].pointer_mut("/verification/Chain/roots") {
            // The certificates would fill the golden file.
            *roots = json!("(PEM)");
        }
    }
    rendered
}
