//! `routes`: lists hosts and paths with their objects and Services.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use fairway_model::{
    Action, Config, HostPattern, ListenerProtocol, Match, NamedValueMatch, Origin, PathMatch,
    ReferenceStatus, ServiceName, TextMatch, WeightedBackend,
};
use serde::Serialize;

use super::endpoints::abbreviate;
use super::fleet::Fleet;
use super::host;
use super::listing::{self, Row};
use super::page::ConfigPage;
use super::scope::Scope;
use crate::args::RoutesArgs;

/// A match of a rule, or a route of byte streams.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct RouteRow {
    namespace: String,
    host: String,
    path: String,
    /// The path type, or the protocol of a stream route.
    #[serde(rename = "match")]
    kind: &'static str,
    /// The other conditions of the match.
    conditions: Vec<String>,
    object: String,
    services: Vec<ServiceShare>,
    /// The status if Fairway itself responds.
    #[serde(rename = "answer", skip_serializing_if = "Option::is_none")]
    fixed_status: Option<u16>,
}

/// A Service and its share of the requests.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceShare {
    service: String,
    weight: u32,
    /// Whether the reference is valid.
    valid: bool,
    endpoints: Vec<String>,
}

/// Prints the routes.
pub(super) async fn routes(args: &RoutesArgs) -> Result<ExitCode> {
    let fleet = Fleet::find_one(&args.target).await?;
    let scope = Scope::new(&args.scope, fleet.default_namespace());
    let page = ConfigPage::fetch(&fleet).await?;
    let rows = rows(&page.config, &scope, args.host.as_deref());
    let host = args.host.as_ref().map(|host| format!(" for the host {host}")).unwrap_or_default();
    let nothing = format!("{} serves no route{host} in {scope}{}", page.replica, scope.hint());
    listing::print(&rows, args.output, &nothing)?;
    Ok(ExitCode::SUCCESS)
}

fn rows(config: &Config, scope: &Scope, wanted_host: Option<&str>) -> Vec<RouteRow> {
    let patterns = || {
        let of_requests = config.hosts.values().map(|host| &host.key.host);
        of_requests.chain(config.streams.values().map(|stream| &stream.key.host))
    };
    let serving = wanted_host.map(|wanted| host::serving(patterns(), wanted));
    let is_wanted = |host: &HostPattern| serving.as_ref().is_none_or(|serving| serving.contains(&host));
    let mut rows = Vec::new();
    for virtual_host in config.hosts.values().filter(|it| is_wanted(&it.key.host)) {
        for route in virtual_host.routes.iter().filter(|route| scope.includes(&route.origin.namespace)) {
            for rule in &route.rules {
                let (services, fixed_status): (&[WeightedBackend], Option<u16>) = match &rule.action {
                    Action::Forward(backends) => (backends, None),
                    Action::FixedResponse(fixed_status) => (&[], Some(fixed_status.status)),
                };
                for matched in &rule.matches {
                    let (kind, path) = path(&matched.path);
                    rows.push(RouteRow {
                        path,
                        kind,
                        conditions: conditions(matched),
                        services: shares(services, config, &route.origin.namespace),
                        fixed_status,
                        ..row(&route.origin, &virtual_host.key.host)
                    });
                }
            }
        }
    }
    let streams = config.streams.values().filter(|it| is_wanted(&it.key.host));
    for stream in streams.filter(|stream| scope.includes(&stream.origin.namespace)) {
        rows.push(RouteRow {
            kind: protocol(config, &stream.key.table),
            services: shares(&stream.backends, config, &stream.origin.namespace),
            ..row(&stream.origin, &stream.key.host)
        });
    }
    rows
}

fn row(origin: &Origin, host: &HostPattern) -> RouteRow {
    RouteRow {
        namespace: origin.namespace.to_string(),
        host: host.to_string(),
        object: format!("{}/{}", origin.kind, origin.name),
        ..RouteRow::default()
    }
}

/// The path type and its text.
fn path(path: &PathMatch) -> (&'static str, String) {
    match path {
        PathMatch::Exact(text) => ("Exact", text.to_string()),
        PathMatch::Prefix(text) => ("Prefix", text.to_string()),
        PathMatch::Regex { pattern, .. } => ("Regex", pattern.to_string()),
    }
}

/// The protocol of the listener with this table.
fn protocol(config: &Config, table: &Arc<str>) -> &'static str {
    let listener = config.listeners.values().find(|listener| listener.table == *table);
    match listener.map(|listener| listener.protocol) {
        Some(ListenerProtocol::Udp) => "UDP",
        Some(ListenerProtocol::Tcp) => "TCP",
        Some(ListenerProtocol::Tls) => "TLS",
        // A stream route in a table of virtual hosts is TLS passthrough for its host.
        Some(ListenerProtocol::TlsPassthrough | ListenerProtocol::Https | ListenerProtocol::Http) | None => {
            "Passthrough"
        }
    }
}

/// The conditions of a match other than the path.
fn conditions(matched: &Match) -> Vec<String> {
    let Match { method, headers, query, cookies, .. } = matched;
    let fields = [("header", headers), ("query", query), ("cookie", cookies)];
    let fields =
        fields.into_iter().flat_map(|(kind, fields)| fields.iter().map(move |it| condition(kind, it)));
    method.iter().map(|method| format!("method {method}")).chain(fields).collect()
}

fn condition(kind: &str, field: &NamedValueMatch) -> String {
    let NamedValueMatch { name, value } = field;
    match value {
        TextMatch::Exact(text) => format!("{kind} {name}={text}"),
        TextMatch::Regex(text) => format!("{kind} {name}~{text}"),
    }
}

fn shares(backends: &[WeightedBackend], config: &Config, namespace: &str) -> Vec<ServiceShare> {
    let share = |share: &WeightedBackend| {
        let backend = config.backends.get(&share.backend);
        let endpoints = backend.map(|backend| &*backend.endpoints).unwrap_or_default();
        ServiceShare {
            service: match backend {
                Some(backend) if !backend.service.name.is_empty() => service(&backend.service, namespace),
                _ => share.backend.to_string(),
            },
            weight: share.weight,
            valid: share.reference == ReferenceStatus::Resolved,
            endpoints: endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect(),
        }
    };
    backends.iter().map(share).collect()
}

/// A Service with its port, and with its namespace if it differs from that of the route.
fn service(service: &ServiceName, namespace: &str) -> String {
    let ServiceName { namespace: own, name, port } = service;
    let namespace_prefix = if **own == *namespace { String::new() } else { format!("{own}/") };
    let port = if port.is_empty() { String::new() } else { format!(":{port}") };
    format!("{namespace_prefix}{name}{port}")
}

impl RouteRow {
    /// The Services, with weights if there are several, or the status of the response.
    fn service_cell(&self) -> String {
        if let Some(status) = self.fixed_status {
            return format!("returns {status}");
        }
        let shown = |share: &ServiceShare| {
            let weight = if self.services.len() > 1 { format!(" ({})", share.weight) } else { String::new() };
            let invalid = if share.valid { "" } else { " (invalid)" };
            format!("{}{weight}{invalid}", share.service)
        };
        self.services.iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    fn addresses(&self) -> Vec<String> {
        self.services.iter().flat_map(|share| share.endpoints.iter().cloned()).collect()
    }
}

impl Row for RouteRow {
    const HEADINGS: &'static [&'static str] =
        &["NAMESPACE", "HOST", "PATH", "MATCH", "OBJECT", "SERVICE", "ENDPOINTS"];
    const WIDE_HEADINGS: &'static [&'static str] = &["CONDITIONS", "ADDRESSES"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.namespace.clone(),
            self.host.clone(),
            self.path.clone(),
            self.kind.to_owned(),
            self.object.clone(),
            self.service_cell(),
            if self.fixed_status.is_some() { String::new() } else { self.addresses().len().to_string() },
        ]
    }

    fn wide_cells(&self) -> Vec<String> {
        vec![self.conditions.join(", "), abbreviate(&self.addresses())]
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use fairway_model::{Backend, BackendProtocol, Balancing, Endpoint};

    use super::*;

    fn backend(name: &str) -> Arc<Backend> {
        let service = ServiceName { namespace: "shop".into(), name: name.into(), port: "80".into() };
        Arc::new(Backend {
            key: format!("shop/{name}:80").as_str().into(),
            origin: Origin::object("Service", "shop", name),
            service,
            endpoints: vec![Endpoint::at("192.0.2.1:8080".parse().unwrap())],
            protocol: BackendProtocol::Http1,
            tls: None,
            balancing: Balancing::RoundRobin,
            session: None,
            traffic: None,
        })
    }

    #[test]
    fn services_have_weights_if_there_are_several() {
        let mut config = Config::default();
        for it in ["web", "canary"].map(backend) {
            config.backends.insert(it.key.clone(), it);
        }
        let web = WeightedBackend::new("shop/web:80".into(), 9);
        let (canary, gone) = ("shop/canary:80".into(), "shop/gone:80".into());
        let cell = |backends: &[WeightedBackend], namespace: &str| {
            let services = shares(backends, &config, namespace);
            let row = RouteRow { services, ..RouteRow::default() };
            (row.service_cell(), row.addresses().len())
        };
        assert_eq!(cell(slice::from_ref(&web), "shop"), ("web:80".to_owned(), 1));
        assert_eq!(cell(slice::from_ref(&web), "other"), ("shop/web:80".to_owned(), 1));
        let split = [web, WeightedBackend::new(canary, 1), WeightedBackend::invalid(gone, 1)];
        let shown = "web:80 (9), canary:80 (1), shop/gone:80 (1) (invalid)";
        assert_eq!(cell(&split, "shop"), (shown.to_owned(), 2));
    }

    #[test]
    fn conditions_exclude_the_path() {
        let field = |name: &str, value| NamedValueMatch { name: name.into(), value };
        let matched = Match {
            method: Some("POST".into()),
            headers: vec![field("x-a", TextMatch::Exact("b".into()))],
            cookies: vec![field("c", TextMatch::Regex("d.*".into()))],
            ..Match::default()
        };
        assert_eq!(conditions(&matched), ["method POST", "header x-a=b", "cookie c~d.*"]);
    }
}
