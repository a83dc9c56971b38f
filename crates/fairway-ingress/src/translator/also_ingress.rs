//! Says which hosts of routes are hosts of Ingresses too. Whoever moves from one to the other wants to know which hosts are at both,
//! and who serves them: each side at its own address, or both at that of Ingresses.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{Config, HostKey, HostPattern, VirtualHost, WildcardSpan};
use fairway_objects::diagnostic::{Diagnostic, Scope, Severity};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::listeners::ingress_table;
use crate::translator::state::State;

type Hosts = OrdMap<HostKey, Arc<VirtualHost>>;

impl State {
    /// Compares the hosts that differ from `before` with those of the other side, at a cost of what differs.
    pub(super) fn tell_also_ingress(&mut self, before: &Hosts) {
        let hosts = &self.current.config.hosts;
        let key = |item: DiffItem<'_, '_, HostKey, Arc<VirtualHost>>| match item {
            DiffItem::Add(key, _) | DiffItem::Remove(key, _) | DiffItem::Update { new: (key, _), .. } => {
                as_in_ingress(&key.host)
            }
        };
        let changed: BTreeSet<HostPattern> = before.diff(hosts).filter_map(key).collect();
        if changed.is_empty() {
            return;
        }
        let tables = tables_of_routes(hosts);
        for host in changed {
            let found = diagnostics(&host, &self.current.config, &tables);
            self.current.diagnostics.replace(Scope::AlsoIngress(host), found);
        }
    }
}

/// The route tables that are not the one of Ingresses: one for each port of a Gateway.
fn tables_of_routes(hosts: &Hosts) -> Vec<Arc<str>> {
    let mut tables: Vec<Arc<str>> = Vec::new();
    // Of a table, the host without a name is the last.
    let after = |table: &Arc<str>| {
        hosts.range((std::ops::Bound::Excluded(last(table)), std::ops::Bound::Unbounded)).next()
    };
    let mut next = hosts.iter().next();
    while let Some((key, _)) = next {
        next = after(&key.table);
        tables.push(Arc::clone(&key.table));
    }
    tables.retain(|table| *table != ingress_table());
    tables
}

fn last(table: &Arc<str>) -> HostKey {
    HostKey { table: Arc::clone(table), host: HostPattern::Any }
}

/// A host as Ingresses have it; `None` for the one without a name, which each side has.
fn as_in_ingress(host: &HostPattern) -> Option<HostPattern> {
    with_span(host, WildcardSpan::OneLabel)
}

fn with_span(host: &HostPattern, span: WildcardSpan) -> Option<HostPattern> {
    match host {
        HostPattern::Exact(_) => Some(host.clone()),
        HostPattern::Wildcard { suffix, .. } => Some(HostPattern::Wildcard { suffix: suffix.clone(), span }),
        HostPattern::Any => None,
    }
}

/// One for each table in which routes have the host.
fn diagnostics(host: &HostPattern, config: &Config, tables: &[Arc<str>]) -> Vec<Diagnostic> {
    let hosts = &config.hosts;
    let first = |table: &Arc<str>, host: &HostPattern| {
        let key = HostKey { table: Arc::clone(table), host: host.clone() };
        hosts.get(&key).and_then(|host| host.routes.first()).map(|route| &route.origin)
    };
    let Some(ingress) = first(&ingress_table(), host) else { return Vec::new() };
    let Some(in_routes) = with_span(host, WildcardSpan::ManyLabels) else { return Vec::new() };
    let of_routes = tables.iter().filter_map(|table| Some((table, first(table, &in_routes)?)));
    let is_shared = |table: &Arc<str>| config.listeners.values().any(|it| it.routes.as_ref() == Some(table));
    of_routes
        .map(|(table, route)| {
            let problem =
                format!("{host} is a host of {} {}/{} too", ingress.kind, ingress.namespace, ingress.name);
            let consequence = match is_shared(table) {
                true => {
                    "of a path of both the more specific one is served, and the route where they are the same"
                }
                false => {
                    "the addresses of Gateways serve it by routes, those of --http and --https by Ingresses"
                }
            };
            let found = Diagnostic::new(Severity::Note, "host-also-ingress", route.at("spec.hostnames"));
            found.because(problem, consequence)
        })
        .collect()
}
