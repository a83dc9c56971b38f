//! Prints the chain for a request: listener -> certificate -> virtual host -> route, rule, match -> phases -> backend -> endpoints.

use std::fmt::Write;
use std::sync::Arc;

use fairway_http::path;
use fairway_model::{
    Action, BackendKey, Buffering, Certificate, Config, ForwardedPath, Guard, HostPattern, Listener,
    ListenerProtocol, Origin, PathForm, Phases, ReferenceStatus, Rule, RuleOrder, RuleStep, WeightedBackend,
};
use fairway_routing::explain::Criterion;
use fairway_routing::{
    CompiledHost, CompiledRule, Explanation, HostStep, HostVerdict, MatchVerdict, Matched, Port,
    PortListener, Snapshot,
};

use super::clients::{self, Admission};
use super::descriptions;
use super::receiving_listeners::{self, Arrival};
use super::request::{RequestToExplain, Scheme};
use super::served::ServedConfig;

/// Appends the explanation of a request.
pub(super) fn chain(out: &mut String, request: &RequestToExplain, served: &ServedConfig) {
    // Writing to a String cannot fail, so this file ignores the results of all writes.
    _ = writeln!(
        out,
        "{} {}://{}{}\n",
        request.method,
        request.scheme.as_str(),
        request.host,
        request.target
    );
    let arrivals = receiving_listeners::arrivals(&served.snapshot, request);
    if arrivals.is_empty() {
        row(out, "listener", "no listener serves this protocol for the host: the connection is refused");
    }
    for (number, Arrival { listener, .. }) in arrivals.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        explain_listener(out, request, served, listener);
    }
}

/// Whether a listener serves HTTP/3 at one of its addresses.
fn has_http3(snapshot: &Snapshot, listener: &Listener) -> bool {
    let serves = |it: &PortListener| matches!(it, PortListener::Served(one) if one.name == listener.name);
    snapshot.ports().any(|(_, port)| matches!(port, Port::Quic(_)) && port.carried().any(serves))
}

/// Explains what happens to the request at one listener.
fn explain_listener(
    out: &mut String,
    request: &RequestToExplain,
    served: &ServedConfig,
    listener: &Listener,
) {
    let config = served.snapshot.config();
    let passes_through = receiving_listeners::passes_through(&served.snapshot, listener, &request.host);
    let spoken = match listener.protocol {
        _ if passes_through => "TLS passthrough".to_owned(),
        ListenerProtocol::Http | ListenerProtocol::Https => {
            let settings = &config.settings.downstream;
            let early_data = listener.clients.early_data.unwrap_or(settings.http3.early_data);
            let early_data = has_http3(&served.snapshot, listener).then_some(early_data);
            descriptions::describe_http_versions(settings.http2, early_data)
        }
        ListenerProtocol::Tls => "TLS is terminated, the decrypted bytes are forwarded".to_owned(),
        _ => "raw bytes are forwarded".to_owned(),
    };
    // Listeners of flags have no namespace.
    let service = match listener.origin.namespace.is_empty() {
        true => String::new(),
        false => format!("; {}", listener.origin),
    };
    row(
        out,
        "listener",
        &format!("{}, public port {}: {spoken}{service}", listener.name, listener.public_port),
    );
    if !listener.protocol.is_http() || passes_through {
        return explain_stream(out, request, served, listener);
    }
    let Admission { rows, refused } = clients::admission(&served.snapshot, listener, request);
    for (number, description) in rows.iter().enumerate() {
        row(out, if number == 0 { "client" } else { "" }, description);
    }
    if let Some(refused) = refused {
        return row(out, "outcome", &refused);
    }
    let Some(table) = served.snapshot.table_of(listener) else {
        row(out, "host", "no host is configured: returns 404");
        return;
    };
    let explanation = served.snapshot.explain(table, &request.lookup_request());
    if request.scheme == Scheme::Https {
        let host = served.snapshot.host(table, &request.host);
        certificate(out, config, listener, request, host);
    }
    hosts(out, &explanation);
    match explanation.outcome {
        Matched::Rule { rule, prefix, .. } => explain_rule(out, request, served, rule, prefix),
        Matched::NoRule(host) => {
            row(out, "outcome", &format!("no rule of {} matches: returns 404", host.key().host));
        }
        Matched::NoHost => row(out, "outcome", "no host matches the name: returns 404"),
    }
}

/// Explains where a connection goes that is forwarded as a byte stream.
fn explain_stream(out: &mut String, request: &RequestToExplain, served: &ServedConfig, listener: &Listener) {
    let config = served.snapshot.config();
    if listener.protocol == ListenerProtocol::Tls {
        certificate(out, config, listener, request, None);
    }
    let Some(route) = receiving_listeners::stream(&served.snapshot, listener, &request.host) else {
        return row(out, "outcome", "no route matches the name: the connection is closed");
    };
    row(out, "route", &format!("{}: {}", route.key.host, route.origin));
    let total_weight: u32 = route.backends.iter().map(|backend| backend.weight).sum();
    if total_weight == 0 {
        row(out, "outcome", "the route has no backend: the connection is closed");
    }
    for weighted in &route.backends {
        let share = share_text(weighted, route.backends.len(), total_weight);
        match weighted.reference {
            ReferenceStatus::Resolved => {
                backend(out, config, &weighted.backend, BackendTraffic::Connections, &share);
            }
            ReferenceStatus::Invalid => {
                let problem = "the reference is invalid: its connections are closed";
                row(out, "backend", &format!("{}{share}: {problem}", weighted.backend));
            }
        }
    }
    diagnostics(out, served, &route.origin);
}

fn share_text(backend: &WeightedBackend, count: usize, total_weight: u32) -> String {
    if count > 1 { format!(" ({} of {total_weight})", backend.weight) } else { String::new() }
}

/// The certificate of the host, otherwise one of its listener, otherwise the default one. At the address of Ingresses, the
/// certificate of a Gateway's listener takes precedence unless the host is more specific.
fn certificate(
    out: &mut String,
    config: &Config,
    listener: &Listener,
    request: &RequestToExplain,
    host: Option<&CompiledHost>,
) {
    let own_certificate = host.and_then(|host| config.certificates.get(host.certificate()?));
    let listed = listener_certificate(config, listener, &request.host);
    let gives_way = host.is_some_and(|host| host.key().host.specificity() <= listener.host.specificity());
    let own_certificate = match listener.routes.is_some() && gives_way {
        true => listed.or(own_certificate),
        false => own_certificate.or(listed),
    };
    let default = config.default_certificate.as_ref().and_then(|key| config.certificates.get(key));
    let (certificate, why) = match (own_certificate, default) {
        (Some(own), _) => (own, format!("selected by the server name {} (SNI)", request.host)),
        (None, Some(default)) => (default, "the default certificate: none matches the name".to_owned()),
        (None, None) => {
            row(
                out,
                "certificate",
                "the self-signed certificate of the process: none matches the name, and there is no default",
            );
            return;
        }
    };
    row(out, "certificate", &format!("{}, {why}", certificate.origin));
    row(out, "", &format!("for {}", certificate.names.join(", ")));
}

/// The listener's first certificate with exactly this name, otherwise its first with a matching wildcard, otherwise its first.
fn listener_certificate<'c>(
    config: &'c Config,
    listener: &Listener,
    name: &str,
) -> Option<&'c Arc<Certificate>> {
    let all = || listener.tls.certificates.iter().filter_map(|key| config.certificates.get(key));
    let below = |text_below: &str| {
        text_below
            .strip_prefix("*.")
            .is_some_and(|suffix| name.split_once('.').is_some_and(|it| it.1 == suffix))
    };
    let exact = all().find(|it| it.names.iter().any(|covered| **covered == *name));
    exact.or_else(|| all().find(|it| it.names.iter().any(|covered| below(covered)))).or_else(|| all().next())
}

fn hosts(out: &mut String, explanation: &Explanation<'_>) {
    for (index, step) in explanation.hosts.iter().enumerate() {
        let label = if index == 0 { "host" } else { "" };
        row(out, label, &format!("{}: {}", step.host.key().host, verdict(step)));
        if step.matches.is_empty() {
            continue;
        }
        if step.host.model().order == RuleOrder::Listed {
            row(
                out,
                "",
                "  one of its paths is a regular expression: the first matching rule in this order wins",
            );
        }
        for (position, matched) in step.matches.iter().enumerate() {
            let label = if position == 0 { "candidates" } else { "" };
            let mark = if matched.verdict == MatchVerdict::Wins { "*" } else { "-" };
            let line = format!(
                "{mark} {}: {}",
                descriptions::describe_match(matched.source),
                descriptions::describe_verdict(&matched.verdict)
            );
            row(out, label, &line);
            row(out, "", &format!("    {}", matched.rule.rule().origin));
        }
    }
}

fn verdict(step: &HostStep<'_>) -> &'static str {
    match (step.verdict, &step.host.key().host) {
        (HostVerdict::Serves, HostPattern::Any) => "serves all names that no other host matches",
        (HostVerdict::Serves, _) => "serves",
        (HostVerdict::FallsThrough, _) => "no rule matches, the next less specific host is tried",
        (HostVerdict::Stops, _) => "no rule matches, less specific hosts are not tried",
        (HostVerdict::LessSpecific, _) => "lost: a more specific host matches the name",
        (HostVerdict::Outranked(by), _) => match by {
            Criterion::Hostname => "lost: the other API has a rule for a more specific host",
            Criterion::PathKind => "lost: the other API has a rule for exactly this path",
            Criterion::PathLength => "lost: the other API has a rule for a longer path",
            by => descriptions::describe_precedence(by),
        },
    }
}

fn explain_rule(
    out: &mut String,
    request: &RequestToExplain,
    served: &ServedConfig,
    rule: &CompiledRule,
    prefix: usize,
) {
    let model = &rule.rule().without_secrets();
    row(out, "rule", &model.origin.to_string());
    for (index, step) in model.phases.steps().enumerate() {
        row(out, if index == 0 { "filters" } else { "" }, &descriptions::describe_step(step));
    }
    if let Some(response) = answered_by_guard(request, model) {
        row(out, "outcome", &response);
        return diagnostics(out, served, &model.origin);
    }
    match &model.action {
        Action::FixedResponse(response) => {
            row(
                out,
                "outcome",
                &format!(
                    "returns {}: {}",
                    response.status,
                    descriptions::describe_response_reason(response.reason)
                ),
            );
        }
        Action::Forward(backends) => {
            row(out, "path", &forwarded(request, rule, prefix));
            let total_weight: u32 = backends.iter().map(|backend| backend.weight).sum();
            for weighted in backends {
                let share = share_text(weighted, backends.len(), total_weight);
                weighted_backend(out, served.snapshot.config(), weighted, &share);
            }
            row(out, "policy", &descriptions::describe_policy(&model.policy));
        }
    }
    diagnostics(out, served, &model.origin);
}

fn weighted_backend(out: &mut String, config: &Config, weighted: &WeightedBackend, share: &str) {
    if weighted.reference == ReferenceStatus::Invalid {
        return row(
            out,
            "backend",
            &format!("{}{share}: the reference is invalid: returns 500", weighted.backend),
        );
    }
    backend(out, config, &weighted.backend, BackendTraffic::Requests, share);
    if let Some(filters) = weighted.filters.as_deref() {
        for step in Phases::from(filters.clone()).steps() {
            row(out, "its filters", &descriptions::describe_step(step));
        }
    }
    if let Some(bodies) = weighted.bodies.as_deref() {
        if let Some(most) = bodies.max_request {
            row(out, "its bodies", &format!("request bodies: at most {most} bytes"));
        }
        if let Some(compression) = &bodies.compression {
            row(out, "its bodies", &descriptions::describe_step(RuleStep::Compression(compression)));
        }
        if bodies.buffering != Buffering::default() {
            row(out, "its bodies", &descriptions::describe_step(RuleStep::Buffering(bodies.buffering)));
        }
    }
}

/// The response of a guard that answers every request. Guards that depend on the client are only listed.
fn answered_by_guard(request: &RequestToExplain, rule: &Rule) -> Option<String> {
    let plain = request.scheme == Scheme::Http;
    rule.phases.guards.iter().find_map(|guard| match guard {
        Guard::HttpsRedirect(it) if plain => Some(format!("returns {}: redirect to https", it.status)),
        Guard::Redirect(it) => Some(format!("returns {}: redirect", it.status)),
        _ => None,
    })
}

fn forwarded(request: &RequestToExplain, rule: &CompiledRule, prefix: usize) -> String {
    let lookup = request.lookup_request();
    let Some(rewrite) = rule.rewrite() else {
        return match rule.rule().policy.forwarded_path {
            ForwardedPath::AsReceived => format!("{} as received", request.target),
            ForwardedPath::Normalised => {
                let (path, query) =
                    request.target.split_at(request.target.find('?').unwrap_or(request.target.len()));
                let mut forwarded = Vec::new();
                let as_decoded = rule.path_form() == PathForm::Decoded;
                if !as_decoded || path::normalise_as_decoded(path.as_bytes(), &mut forwarded).is_err() {
                    forwarded = lookup.normalised.to_vec();
                }
                format!("{}{query} normalised", String::from_utf8_lossy(&forwarded))
            }
        };
    };
    let path = match rewrite.path_form() {
        PathForm::Normalised => lookup.normalised,
        PathForm::Decoded => lookup.decoded,
    };
    let mut target = Vec::new();
    if rewrite.apply(path, lookup.query, prefix, &mut target) {
        format!("{} after the rewrite", String::from_utf8_lossy(&target))
    } else {
        format!("{} as received: the rewrite pattern does not match", request.target)
    }
}

/// What a backend receives.
#[derive(Clone, Copy)]
enum BackendTraffic {
    Requests,
    Connections,
}

impl BackendTraffic {
    /// The consequence if no endpoint is available.
    fn without_endpoint(self) -> &'static str {
        match self {
            Self::Requests => "returns 503",
            Self::Connections => "the connection is closed",
        }
    }
}

fn backend(out: &mut String, config: &Config, key: &BackendKey, meets: BackendTraffic, share: &str) {
    let otherwise = meets.without_endpoint();
    let Some(backend) = config.backends.get(key) else {
        row(out, "backend", &format!("{key}{share}: does not exist, {otherwise}"));
        return;
    };
    let spoken = match meets {
        BackendTraffic::Requests => {
            descriptions::describe_backend_protocol(backend.protocol, backend.tls.as_deref())
        }
        BackendTraffic::Connections => "raw bytes".to_owned(),
    };
    let balancing = descriptions::describe_balancing(backend.balancing);
    let session = backend.session.as_ref().map(descriptions::describe_affinity).unwrap_or_default();
    row(out, "backend", &format!("{key}{share}: {spoken}, {balancing}{session}; {}", backend.origin));
    if backend.endpoints.is_empty() {
        row(out, "endpoints", &format!("none: {otherwise}"));
    }
    for (index, endpoint) in backend.endpoints.iter().enumerate() {
        let name = endpoint.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let zone = endpoint.place.as_ref().and_then(|place| place.zone.as_ref());
        let zone = zone.map(|zone| format!(", zone {zone}")).unwrap_or_default();
        row(out, if index == 0 { "endpoints" } else { "" }, &format!("{}{name}{zone}", endpoint.address));
    }
}

/// Appends the diagnostics of the object whose rule serves the request.
fn diagnostics(out: &mut String, served: &ServedConfig, object: &Origin) {
    let same = |origin: &Origin| {
        (&origin.kind, &origin.namespace, &origin.name) == (&object.kind, &object.namespace, &object.name)
    };
    let about = served.diagnostics.iter().filter(|(origin, _)| same(origin));
    for (index, (_, line)) in about.enumerate() {
        row(out, if index == 0 { "diagnostics" } else { "" }, line);
    }
}

pub(super) fn row(out: &mut String, label: &str, text: &str) {
    _ = writeln!(out, "{}", format!("{label:<12} {text}").trim_end());
}
