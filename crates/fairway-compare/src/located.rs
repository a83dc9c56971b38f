//! Which rule of the configuration serves a probe. Asks the compiled configuration, as the data plane does.

use std::net::SocketAddr;
use std::sync::Arc;

use fairway_http::path;
use fairway_model::{
    Action, Answer, AnswerReason, HostPattern, Listener, ListenerProtocol, Rule, VirtualHost,
};
use fairway_routing::{Fields, Matched, Request, Snapshot, TableId};

use crate::probe::{Ask, Probe, Scheme};

/// What serves a probe.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Located<'s> {
    /// The host that covers its name.
    pub(crate) host: Option<&'s VirtualHost>,
    /// The rule.
    pub(crate) rule: Option<&'s Rule>,
}

/// Whether an object asks for the rule; else it is what is answered where no object says anything.
pub(crate) fn is_of_object(rule: &Rule) -> bool {
    let no_route = matches!(rule.action, Action::Answer(Answer { reason: AnswerReason::NoRoute, .. }));
    !(no_route && rule.origin.field.is_empty())
}

pub(crate) struct ProbeFields<'p>(&'p [(String, String)]);

impl Fields for ProbeFields<'_> {
    fn first(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_bytes())
    }
}

/// Finds what serves a probe.
pub(crate) fn located<'s>(snapshot: &'s Snapshot, probe: &Probe) -> Located<'s> {
    if probe.ask == Ask::Handshake {
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

/// Looks a request up where a rule of an object serves it, else where it comes first; `None` where no listener takes it, or it
/// cannot be read.
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
        method: probe.ask.method().unwrap_or_default().as_bytes(),
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

/// The tables of the listeners that a probe may come to: one for each address, where the listener for the most specific name takes
/// it. Gateways have addresses of their own beside that of Ingresses.
fn tables(snapshot: &Snapshot, probe: &Probe) -> Vec<TableId> {
    let takes = |it: &&Arc<Listener>| match probe.scheme {
        Scheme::Http => it.protocol == ListenerProtocol::Http,
        Scheme::Https => it.protocol.begins_with_tls(),
    };
    let covers = |it: &&Arc<Listener>| it.host == HostPattern::Any || it.host.covers(&probe.host);
    let mut fitting: Vec<_> = snapshot.config().listeners.values().filter(takes).filter(covers).collect();
    fitting.sort_by_key(|listener| specificity(&listener.host));
    let mut places: Vec<&[SocketAddr]> = Vec::new();
    let mut tables = Vec::new();
    for listener in fitting {
        if !places.contains(&&*listener.bind) {
            places.push(&listener.bind);
            let passes_through = probe.scheme == Scheme::Https
                && snapshot.passed_through(&listener.table, &probe.host).is_some();
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
