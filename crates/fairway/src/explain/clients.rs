//! What a listener makes of a client before a host is looked for: whose word about its address counts, which names its headers may
//! have, and whether it is refused.

use fairway_model::{HeaderNames, Listener};
use fairway_routing::{ClientLimits, Snapshot};
use ipnet::IpNet;

use super::asked::{Asked, Scheme};
use super::words;

/// What there is to say of the clients of a listener, and why the request is refused, where it is.
pub(super) struct Admission {
    pub(super) rows: Vec<String>,
    pub(super) refused: Option<String>,
}

/// What becomes of the request at a listener of HTTP.
pub(super) fn admission(snapshot: &Snapshot, listener: &Listener, asked: &Asked) -> Admission {
    let limits = ClientLimits::of(&snapshot.config().settings, &listener.clients);
    let trust = &limits.forwarded;
    let mut rows = Vec::new();
    if !trust.ranges.is_empty() {
        let header = trust.header.as_deref().unwrap_or("x-forwarded-for");
        let alone = if trust.address_only { ", and believed about nothing else" } else { "" };
        rows.push(format!("the address is that in {header} of {}{alone}", listed(&trust.ranges)));
    }
    match limits.header_names {
        HeaderNames::Plain => {}
        HeaderNames::Underscores => rows.push("names of headers may have _".to_owned()),
        HeaderNames::Any => rows.push("names of headers may have every character of HTTP".to_owned()),
    }
    if let Some(most) = limits.max_body {
        rows.push(format!("bodies of requests have at most {most} bytes"));
    }
    rows.extend(limits.tracing.as_deref().map(words::traced));
    let refused = unknown_name(snapshot, listener, asked, &limits).or_else(|| blocked(asked, &limits));
    Admission { rows, refused }
}

fn unknown_name(
    snapshot: &Snapshot,
    listener: &Listener,
    asked: &Asked,
    limits: &ClientLimits,
) -> Option<String> {
    let over_tls = asked.scheme == Scheme::Https && limits.rejects_unknown_names;
    let is_known = snapshot.table_of(listener).is_some_and(|table| snapshot.has_host(table, &asked.host));
    (over_tls && !is_known).then(|| "no host has the name: the TLS handshake is refused".to_owned())
}

fn blocked(asked: &Asked, limits: &ClientLimits) -> Option<String> {
    let header = limits.blocked.as_ref()?.by_header(&asked.head())?;
    Some(format!("the client is blocked by its {}: answered 403", header.name()))
}

fn listed(ranges: &[IpNet]) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
