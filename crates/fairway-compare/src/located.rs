//! Finds the rule that serves a probe, by the same lookup in the compiled configuration as the data plane.

use std::net::SocketAddr;
use std::sync::Arc;

use fairway_http::path;
use fairway_model::{
    Action, FixedResponse, FixedResponseReason, HostPattern, Listener, ListenerProtocol, Rule, VirtualHost,
};
use fairway_routing::{Fields, Matched, Request, Snapshot, TableId};

use crate::probe::{Probe, ProbeKind, Scheme};

/// The host and rule that serve a probe.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Located<'s> {
    /// The host that covers its name.
    pub(crate) host: Option<&'s VirtualHost>,
    /// The rule.
    pub(crate) rule: Option<&'s Rule>,
}

/// Whether the rule comes from an object instead of being a built-in default.
pub(crate) fn is_of_object(rule: &Rule) -> bool {
    let no_route = matches!(
        rule.action,
        Action::FixedResponse(FixedResponse { reason: FixedResponseReason::NoRoute, .. })
    );
    !(no_route && rule.origin.field.is_empty())
}

pub(crate) struct ProbeFields<'p>(&'p [(String, String)]);

impl Fields for ProbeFields<'_> {
    fn first(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_bytes())
    }
}

/// Finds the host and rule that serve a probe.
pub(crate) fn located<'s>(snapshot: &'s Snapshot, probe: &Probe) -> Located<'s> {
    if probe.kind == ProbeKind::Handshake {
        let found = tables(snapshot, probe).into_iter().find_map(|table| snapshot.host(table, &probe.host));
        return Located { host: found.map(|host| &**host.model()), rule: None };
    }
    let found = looked_up(snapshot, probe, |_, matched| match matched {
        Matched::Rule { host, rule, .. } => Located { host: Some(host.model()), rule: Some(rule.rule()) },
        Matched::NoRule(host) => Located { host: Some(host.model()), rule: None },
        Matched::NoHost => Located::default(),
    });
    found.unwrap_or_default()
}

/// Looks a request up in the table in which a rule of an object serves it, otherwise in the first one. `None` if no listener takes
/// it or it is invalid.
pub(crate) fn looked_up<'s, R>(
    snapshot: &'s Snapshot,
    probe: &Probe,
    read: impl FnOnce(&Request<'_, ProbeFields<'_>>, Matched<'s>) -> R,
) -> Option<R> {
    let (path, query) = probe.target.split_once('?').unwrap_or((&probe.target, ""));
    let (mut normalised, mut decoded) = (Vec::new(), Vec::new());
    path::normalise(path.as_bytes(), &mut normalised).ok()?;
    path::decode(path.as_bytes(), &mut decoded).ok()?;
    let request = Request {
        host: &probe.host,
        method: probe.kind.method().unwrap_or_default().as_bytes(),
        normalised: &normalised,
        decoded: &decoded,
        query: query.as_bytes(),
        fields: &ProbeFields(&probe.fields),
    };
    let mut found: Vec<_> =
        tables(snapshot, probe).into_iter().map(|table| snapshot.lookup(table, &request)).collect();
    let serves = |matched: &Matched<'_>| match matched {
        Matched::Rule { rule, .. } => is_of_object(rule.rule()),
        Matched::NoRule(_) | Matched::NoHost => false,
    };
    let at = found.iter().position(serves).unwrap_or(0);
    (at < found.len()).then(|| read(&request, found.swap_remove(at)))
}

/// The tables of the listeners that may receive a probe: one per address, where the listener with the most specific name takes it.
/// Gateways have other addresses than Ingresses.
fn tables(snapshot: &Snapshot, probe: &Probe) -> Vec<TableId> {
    let takes = |it: &&Arc<Listener>| match probe.scheme {
        Scheme::Http => it.protocol == ListenerProtocol::Http,
        Scheme::Https => it.protocol.begins_with_tls(),
    };
    let covers = |it: &&Arc<Listener>| it.host == HostPattern::Any || it.host.covers(&probe.host);
    let mut fitting: Vec<_> = snapshot.config().listeners.values().filter(takes).filter(covers).collect();
    fitting.sort_by_key(|listener| specificity(&listener.host));
    let mut known_addresses: Vec<&[SocketAddr]> = Vec::new();
    let mut tables = Vec::new();
    for listener in fitting {
        if !known_addresses.contains(&&*listener.bind) {
            known_addresses.push(&listener.bind);
            let passes_through = probe.scheme == Scheme::Https
                && snapshot.passthrough_route(&listener.table, &probe.host).is_some();
            let ends_here = listener.protocol.is_http() && !passes_through;
            tables.extend(snapshot.table_of(listener).filter(|_| ends_here));
        }
    }
    tables
}

/// The exact name first, then the longest wildcard.
fn specificity(host: &HostPattern) -> (u8, usize) {
    match host {
        HostPattern::Exact(_) => (0, 0),
        HostPattern::Wildcard { suffix, .. } => (1, usize::MAX - suffix.len()),
        HostPattern::Any => (2, 0),
    }
}
