//! Reports hosts that both routes and Ingresses serve. During a migration, users want to know which hosts exist in
//! both, and who serves them: each side at its own address, or both at that of Ingresses.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{Config, HostKey, HostPattern, VirtualHost, WildcardSpan};
use fairway_objects::diagnostic::{Diagnostic, DiagnosticScope, Severity};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::listeners::ingress_table;
use crate::translator::state::TranslatorState;

type Hosts = OrdMap<HostKey, Arc<VirtualHost>>;

impl TranslatorState {
    /// Compares the hosts that differ from `before` with those of the other side, at a cost proportional to the
    /// difference.
    pub(super) fn report_also_ingress(&mut self, before: &Hosts) {
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
            self.current.diagnostics.replace(DiagnosticScope::AlsoIngress(host), found);
        }
    }
}

/// Route tables other than that of Ingresses: one for each port of a Gateway.
fn tables_of_routes(hosts: &Hosts) -> Vec<Arc<str>> {
    let mut tables: Vec<Arc<str>> = Vec::new();
    // The catch-all host is the last of a table.
    let after = |table: &Arc<str>| {
        hosts.range((std::ops::Bound::Excluded(last_key(table)), std::ops::Bound::Unbounded)).next()
    };
    let mut next = hosts.iter().next();
    while let Some((key, _)) = next {
        next = after(&key.table);
        tables.push(Arc::clone(&key.table));
    }
    tables.retain(|table| *table != ingress_table());
    tables
}

fn last_key(table: &Arc<str>) -> HostKey {
    HostKey { table: Arc::clone(table), host: HostPattern::Any }
}

/// The host in the form that Ingresses use; `None` for the catch-all host, which both sides have.
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

/// A diagnostic for each table in which routes have the host.
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
