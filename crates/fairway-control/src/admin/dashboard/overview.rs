//! The first page: what is served, the traffic, and problems.

use std::collections::BTreeMap;

use fairway_objects::diagnostic::Severity;
use serde::Serialize;

use super::counter::NumbersSample;
use super::diagnostics;
use super::inspector::FleetReplicas;
use super::live;
use super::page::Page;
use super::process::Process;
use super::replicas::{self, ReplicasView};
use super::time_format::utc_of;
use crate::pipeline::{Freshness, View};

/// At most this many fault reasons are shown.
const MAX_REASONS: usize = 20;

#[derive(Serialize)]
struct Overview {
    is_ready: bool,
    /// The values that events update, by key.
    live: BTreeMap<&'static str, String>,
    causes: [(&'static str, &'static str); 5],
    classes: [&'static str; 5],
    reasons: Vec<ReasonRow>,
    configuration: Option<Configuration>,
    replicas: ReplicasView,
}

#[derive(Serialize)]
struct ReasonRow {
    reason: &'static str,
    caused_by: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct Configuration {
    version: u64,
    is_stale: bool,
    published: String,
    delay: String,
    counts: Vec<CountRow>,
    diagnostics: [(Severity, usize); 3],
}

#[derive(Serialize)]
struct CountRow {
    name: &'static str,
    count: usize,
    /// The page that lists them; empty if there is none.
    page: &'static str,
}

/// The first page.
pub(super) fn page(process: &Process, counted: &NumbersSample, replicas: &FleetReplicas) -> Page {
    let view = process.viewer.view();
    let readiness = (process.readiness)();
    let numbers = counted.numbers.as_ref();
    let mut reasons: Vec<_> = numbers
        .iter()
        .flat_map(|numbers| &numbers.faults)
        .map(|fault| ReasonRow { reason: fault.reason, caused_by: fault.caused_by, count: fault.count })
        .collect();
    reasons.sort_by_key(|row| std::cmp::Reverse(row.count));
    reasons.truncate(MAX_REASONS);
    let content = Overview {
        is_ready: readiness.is_ready(),
        live: live::live_values(&readiness, view.as_ref(), numbers, None),
        causes: live::FAULT_CAUSES.map(|cause| (cause.key, cause.description)),
        classes: live::STATUS_CLASSES,
        reasons,
        configuration: view.as_ref().map(configuration),
        replicas: replicas::replicas_view(replicas, view.as_ref()),
    };
    Page::new("overview.html", "overview", "Overview", content)
}

fn configuration(view: &View) -> Configuration {
    let config = &view.outcome.translation.config;
    let routes: usize = config.hosts.values().map(|host| host.routes.len()).sum();
    let counts = [
        ("Listeners", config.listeners.len(), "listeners"),
        ("Hosts", config.hosts.len(), "hosts"),
        ("Routes", routes, "hosts"),
        ("TCP, UDP and TLS routes", config.streams.len(), "streams"),
        ("Backends", config.backends.len(), ""),
        ("Certificates", config.certificates.len(), "certificates"),
        ("Gateways, routes and policies", view.outcome.translation.gateway.statuses.len(), "gateways"),
    ];
    Configuration {
        version: view.outcome.snapshot.version(),
        is_stale: view.freshness == Freshness::Stale,
        published: utc_of(view.published),
        delay: format!("{} ms", view.delay.as_millis()),
        counts: counts.map(|(name, count, page)| CountRow { name, count, page }).into(),
        diagnostics: diagnostics::counts(view),
    }
}
