//! Writes the chain: listener -> certificate -> virtual host -> route, rule, match -> phases -> backend -> endpoints.

use std::fmt::Write;
use std::sync::Arc;

use fairway_http::path;
use fairway_model::{
    Action, BackendKey, Buffering, Certificate, Config, ForwardedPath, Guard, HostPattern, Listener,
    ListenerProtocol, Origin, PathForm, Phases, Reference, Rule, RuleOrder, Step, WeightedBackend,
};
use fairway_routing::explain::Criterion;
use fairway_routing::{
    Carried, CompiledHost, CompiledRule, Explanation, HostStep, HostVerdict, MatchVerdict, Matched, Port,
    Snapshot,
};

use super::arrival::{self, Arrival};
use super::asked::{Asked, Scheme};
use super::clients::{self, Admission};
use super::served::Served;
use super::words;

/// Appends the whole answer.
pub(super) fn chain(out: &mut String, asked: &Asked, served: &Served) {
    // Writing to a String cannot fail: the results of all writes in this file are of no interest.
    _ = writeln!(out, "{} {}://{}{}\n", asked.method, asked.scheme.as_str(), asked.host, asked.target);
    let arrivals = arrival::arrivals(&served.snapshot, asked);
    if arrivals.is_empty() {
        row(out, "listener", "none speaks this protocol for the name: the connection is refused");
    }
    for (number, Arrival { listener, .. }) in arrivals.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        at(out, asked, served, listener);
    }
}

/// Whether a listener serves HTTP/3 at one of its addresses.
fn has_http3(snapshot: &Snapshot, listener: &Listener) -> bool {
    let serves = |it: &Carried| matches!(it, Carried::Served(one) if one.name == listener.name);
    snapshot.ports().any(|(_, port)| matches!(port, Port::Quic(_)) && port.carried().any(serves))
}

/// What happens at one listener.
fn at(out: &mut String, asked: &Asked, served: &Served, listener: &Listener) {
    let config = served.snapshot.config();
    let passes_through = arrival::passes_through(&served.snapshot, listener, &asked.host);
    let spoken = match listener.protocol {
        _ if passes_through => "TLS is passed through as it comes".to_owned(),
        ListenerProtocol::Http | ListenerProtocol::Https => {
            let settings = &config.settings.downstream;
            let early_data = listener.clients.early_data.unwrap_or(settings.http3.early_data);
            let early_data = has_http3(&served.snapshot, listener).then_some(early_data);
            words::versions(settings.http2, early_data)
        }
        ListenerProtocol::Tls => "TLS ends here, and what is inside is forwarded as it comes".to_owned(),
        _ => "forwarded as it comes".to_owned(),
    };
    // Those of flags have no namespace.
    let by = match listener.origin.namespace.is_empty() {
        true => String::new(),
        false => format!("; {}", listener.origin),
    };
    row(out, "listener", &format!("{}, public port {}: {spoken}{by}", listener.name, listener.public_port));
    if !listener.protocol.is_http() || passes_through {
        return stream(out, asked, served, listener);
    }
    let Admission { rows, refused } = clients::admission(&served.snapshot, listener, asked);
    for (number, said) in rows.iter().enumerate() {
        row(out, if number == 0 { "client" } else { "" }, said);
    }
    if let Some(refused) = refused {
        return row(out, "outcome", &refused);
    }
    let Some(table) = served.snapshot.table_of(listener) else {
        row(out, "host", "none is configured: answered 404");
        return;
    };
    let explanation = served.snapshot.explain(table, &asked.request());
    if asked.scheme == Scheme::Https {
        let host = served.snapshot.host(table, &asked.host);
        certificate(out, config, listener, asked, host);
    }
    hosts(out, &explanation);
    match explanation.outcome {
        Matched::Rule { rule, prefix, .. } => won(out, asked, served, rule, prefix),
        Matched::NoRule(host) => {
            row(out, "outcome", &format!("no rule of {} matches: answered 404", host.key().host));
        }
        Matched::NoHost => row(out, "outcome", "no host covers the name: answered 404"),
    }
}

/// Where a connection goes that is not taken apart.
fn stream(out: &mut String, asked: &Asked, served: &Served, listener: &Listener) {
    let config = served.snapshot.config();
    if listener.protocol == ListenerProtocol::Tls {
        certificate(out, config, listener, asked, None);
    }
    let Some(route) = arrival::stream(&served.snapshot, listener, &asked.host) else {
        return row(out, "outcome", "no route is for the name: the connection is closed");
    };
    row(out, "route", &format!("{}: {}", route.key.host, route.origin));
    let whole: u32 = route.backends.iter().map(|backend| backend.weight).sum();
    if whole == 0 {
        row(out, "outcome", "it has no backend: the connection is closed");
    }
    for weighted in &route.backends {
        let share = shown_share(weighted, route.backends.len(), whole);
        match weighted.reference {
            Reference::Resolved => backend(out, config, &weighted.backend, Meets::Connections, &share),
            Reference::Invalid => {
                let problem = "the reference is invalid, its connections are closed";
                row(out, "backend", &format!("{}{share}: {problem}", weighted.backend));
            }
        }
    }
    diagnostics(out, served, &route.origin);
}

fn shown_share(of: &WeightedBackend, count: usize, whole: u32) -> String {
    if count > 1 { format!(" ({} of {whole})", of.weight) } else { String::new() }
}

/// That of the host, else one of its listener's, else the default one. At the address of Ingresses one of a Gateway's listener comes
/// before that of a host which is not more specific.
fn certificate(
    out: &mut String,
    config: &Config,
    listener: &Listener,
    asked: &Asked,
    host: Option<&CompiledHost>,
) {
    let own = host.and_then(|host| config.certificates.get(host.certificate()?));
    let listed = of_listener(config, listener, &asked.host);
    let gives_way = host.is_some_and(|host| host.key().host.specificity() <= listener.host.specificity());
    let own = match listener.routes.is_some() && gives_way {
        true => listed.or(own),
        false => own.or(listed),
    };
    let default = config.default_certificate.as_ref().and_then(|key| config.certificates.get(key));
    let (certificate, why) = match (own, default) {
        (Some(own), _) => (own, format!("chosen by the name {} (SNI)", asked.host)),
        (None, Some(default)) => (default, "the default one: no certificate for the name".to_owned()),
        (None, None) => {
            row(
                out,
                "certificate",
                "the self-signed one of the process: no certificate for the name, no default one",
            );
            return;
        }
    };
    row(out, "certificate", &format!("{}, {why}", certificate.origin));
    row(out, "", &format!("for {}", certificate.names.join(", ")));
}

/// Of the certificates of a listener the first for exactly the name, else the first with a wildcard for it, else the first.
fn of_listener<'c>(config: &'c Config, listener: &Listener, name: &str) -> Option<&'c Arc<Certificate>> {
    let all = || listener.tls.certificates.iter().filter_map(|key| config.certificates.get(key));
    let below = |of: &str| {
        of.strip_prefix("*.").is_some_and(|suffix| name.split_once('.').is_some_and(|it| it.1 == suffix))
    };
    let exact = all().find(|it| it.names.iter().any(|of| **of == *name));
    exact.or_else(|| all().find(|it| it.names.iter().any(|of| below(of)))).or_else(|| all().next())
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
                "  a regular expression is in use on it: the first rule that matches, as listed, counts",
            );
        }
        for (position, matched) in step.matches.iter().enumerate() {
            let label = if position == 0 { "candidates" } else { "" };
            let mark = if matched.verdict == MatchVerdict::Wins { "*" } else { "-" };
            let line = format!("{mark} {}: {}", words::matched(matched.of), words::verdict(&matched.verdict));
            row(out, label, &line);
            row(out, "", &format!("    {}", matched.rule.rule().origin));
        }
    }
}

fn verdict(step: &HostStep<'_>) -> &'static str {
    match (step.verdict, &step.host.key().host) {
        (HostVerdict::Serves, HostPattern::Any) => "serves every name that no other host covers",
        (HostVerdict::Serves, _) => "serves",
        (HostVerdict::FallsThrough, _) => "no rule matches, the next less specific host is tried",
        (HostVerdict::Stops, _) => "no rule matches, less specific hosts are not tried",
        (HostVerdict::LessSpecific, _) => "lost: a more specific host covers the name",
        (HostVerdict::Outranked(by), _) => match by {
            Criterion::Hostname => "lost: the other API has a rule for a more specific host",
            Criterion::PathKind => "lost: the other API has a rule for exactly the path",
            Criterion::PathLength => "lost: the other API has a rule for a longer path",
            by => words::outranked(by),
        },
    }
}

fn won(out: &mut String, asked: &Asked, served: &Served, rule: &CompiledRule, prefix: usize) {
    let model = &rule.rule().without_secrets();
    row(out, "rule", &model.origin.to_string());
    for (index, step) in model.phases.steps().enumerate() {
        row(out, if index == 0 { "filters" } else { "" }, &words::step(step));
    }
    if let Some(answer) = answered_by_guard(asked, model) {
        row(out, "outcome", &answer);
        return diagnostics(out, served, &model.origin);
    }
    match &model.action {
        Action::Answer(answer) => {
            row(out, "outcome", &format!("answered {}: {}", answer.status, words::reason(answer.reason)));
        }
        Action::Forward(backends) => {
            row(out, "path", &forwarded(asked, rule, prefix));
            let whole: u32 = backends.iter().map(|backend| backend.weight).sum();
            for weighted in backends {
                let share = shown_share(weighted, backends.len(), whole);
                one_share(out, served.snapshot.config(), weighted, &share);
            }
            row(out, "policy", &words::policy(&model.policy));
        }
    }
    diagnostics(out, served, &model.origin);
}

fn one_share(out: &mut String, config: &Config, of: &WeightedBackend, share: &str) {
    if of.reference == Reference::Invalid {
        return row(
            out,
            "backend",
            &format!("{}{share}: the reference is invalid, answered 500", of.backend),
        );
    }
    backend(out, config, &of.backend, Meets::Requests, share);
    if let Some(filters) = of.filters.as_deref() {
        for step in Phases::from(filters.clone()).steps() {
            row(out, "its filters", &words::step(step));
        }
    }
    if let Some(bodies) = of.bodies.as_deref() {
        if let Some(most) = bodies.max_request {
            row(out, "its bodies", &format!("requests have at most {most} bytes"));
        }
        if let Some(compression) = &bodies.compression {
            row(out, "its bodies", &words::step(Step::Compression(compression)));
        }
        if bodies.buffering != Buffering::default() {
            row(out, "its bodies", &words::step(Step::Buffering(bodies.buffering)));
        }
    }
}

/// What a guard answers whoever asks; those that depend on the client are only listed.
fn answered_by_guard(asked: &Asked, rule: &Rule) -> Option<String> {
    let plain = asked.scheme == Scheme::Http;
    rule.phases.guards.iter().find_map(|guard| match guard {
        Guard::HttpsRedirect(it) if plain => Some(format!("answered {}: redirected to https", it.status)),
        Guard::Redirect(it) => Some(format!("answered {}: redirected", it.status)),
        _ => None,
    })
}

fn forwarded(asked: &Asked, rule: &CompiledRule, prefix: usize) -> String {
    let request = asked.request();
    let Some(rewrite) = rule.rewrite() else {
        return match rule.rule().policy.forwarded_path {
            ForwardedPath::AsReceived => format!("{} as received", asked.target),
            ForwardedPath::Normalised => {
                let (path, query) =
                    asked.target.split_at(asked.target.find('?').unwrap_or(asked.target.len()));
                let mut forwarded = Vec::new();
                let as_decoded = rule.path_form() == PathForm::Decoded;
                if !as_decoded || path::normalise_as_decoded(path.as_bytes(), &mut forwarded).is_err() {
                    forwarded = request.normalised.to_vec();
                }
                format!("{}{query} normalised", String::from_utf8_lossy(&forwarded))
            }
        };
    };
    let path = match rewrite.path_form() {
        PathForm::Normalised => request.normalised,
        PathForm::Decoded => request.decoded,
    };
    let mut target = Vec::new();
    if rewrite.apply(path, request.query, prefix, &mut target) {
        format!("{} after the rewrite", String::from_utf8_lossy(&target))
    } else {
        format!("{} as received: the rewrite's pattern is not found in it", asked.target)
    }
}

/// What goes to a backend.
#[derive(Clone, Copy)]
enum Meets {
    Requests,
    Connections,
}

impl Meets {
    /// What becomes of it where nothing takes it.
    fn without_endpoint(self) -> &'static str {
        match self {
            Self::Requests => "answered 503",
            Self::Connections => "the connection is closed",
        }
    }
}

fn backend(out: &mut String, config: &Config, key: &BackendKey, meets: Meets, share: &str) {
    let otherwise = meets.without_endpoint();
    let Some(backend) = config.backends.get(key) else {
        row(out, "backend", &format!("{key}{share}: does not exist, {otherwise}"));
        return;
    };
    let spoken = match meets {
        Meets::Requests => words::protocol(backend.protocol, backend.tls.as_deref()),
        Meets::Connections => "bytes as they come".to_owned(),
    };
    let balancing = words::balancing(backend.balancing);
    let session = backend.session.as_ref().map(words::session).unwrap_or_default();
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

/// What is wrong with the object that won.
fn diagnostics(out: &mut String, served: &Served, object: &Origin) {
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
