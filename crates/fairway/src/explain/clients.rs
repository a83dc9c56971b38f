//! The checks of a listener before routing: which peers may name the client address, which header names are allowed, and whether
//! the client is refused.

use fairway_model::{HeaderNames, Listener};
use fairway_routing::{ClientLimits, Snapshot};
use ipnet::IpNet;

use super::descriptions;
use super::request::{RequestToExplain, Scheme};

/// The client settings of a listener, and why it refuses the request, if it does.
pub(super) struct Admission {
    pub(super) rows: Vec<String>,
    pub(super) refused: Option<String>,
}

/// Evaluates the request at an HTTP listener.
pub(super) fn admission(snapshot: &Snapshot, listener: &Listener, request: &RequestToExplain) -> Admission {
    let limits = ClientLimits::for_listener(&snapshot.config().settings, &listener.clients);
    let trust = &limits.forwarded;
    let mut rows = Vec::new();
    if !trust.ranges.is_empty() {
        let header = trust.header.as_deref().unwrap_or("x-forwarded-for");
        let alone = if trust.address_only { ", for the address only" } else { "" };
        rows.push(format!(
            "the client address comes from {header}, trusted from {}{alone}",
            join_ranges(&trust.ranges)
        ));
    }
    match limits.header_names {
        HeaderNames::Plain => {}
        HeaderNames::Underscores => rows.push("header names may contain _".to_owned()),
        HeaderNames::Any => rows.push("header names may contain every character that HTTP allows".to_owned()),
    }
    if let Some(most) = limits.max_body {
        rows.push(format!("request bodies: at most {most} bytes"));
    }
    rows.extend(limits.tracing.as_deref().map(descriptions::describe_tracing));
    let refused =
        refused_server_name(snapshot, listener, request, &limits).or_else(|| blocked(request, &limits));
    Admission { rows, refused }
}

fn refused_server_name(
    snapshot: &Snapshot,
    listener: &Listener,
    request: &RequestToExplain,
    limits: &ClientLimits,
) -> Option<String> {
    let over_tls = request.scheme == Scheme::Https && limits.rejects_unknown_names;
    let is_known = snapshot.table_of(listener).is_some_and(|table| snapshot.has_host(table, &request.host));
    (over_tls && !is_known).then(|| "no host has this name: the TLS handshake is refused".to_owned())
}

fn blocked(request: &RequestToExplain, limits: &ClientLimits) -> Option<String> {
    let header = limits.blocked.as_ref()?.by_header(&request.head())?;
    Some(format!("the client is blocked by its {} header: returns 403", header.name()))
}

fn join_ranges(ranges: &[IpNet]) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
