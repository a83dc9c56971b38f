//! Which rule of the configuration serves a probe. Asks the compiled configuration, as the data plane does.

use fairway_message::path;
use fairway_model::{Action, Answer, AnswerReason, HostPattern, ListenerProtocol, Rule, VirtualHost};
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

struct ProbeFields<'p>(&'p [(String, String)]);

impl Fields for ProbeFields<'_> {
    fn first(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_bytes())
    }
}

/// Finds what serves a probe.
pub(crate) fn located<'s>(snapshot: &'s Snapshot, probe: &Probe) -> Located<'s> {
    let Some(table) = table(snapshot, probe) else { return Located::default() };
    if probe.ask == Ask::Handshake {
        let host = snapshot.host(table, &probe.host).map(|host| &**host.model());
        return Located { host, rule: None };
    }
    let (path, query) = probe.target.split_once('?').unwrap_or((&probe.target, ""));
    let (mut normalised, mut decoded) = (Vec::new(), Vec::new());
    let read = path::normalise(path.as_bytes(), &mut normalised)
        .and_then(|()| path::decode(path.as_bytes(), &mut decoded));
    if read.is_err() {
        return Located::default();
    }
    let request = Request {
        host: &probe.host,
        method: probe.ask.method().unwrap_or_default().as_bytes(),
        normalised: &normalised,
        decoded: &decoded,
        query: query.as_bytes(),
        fields: &ProbeFields(&probe.fields),
    };
    match snapshot.lookup(table, &request) {
        Matched::Rule { host, rule, .. } => Located { host: Some(host.model()), rule: Some(rule.rule()) },
        Matched::NoRule(host) => Located { host: Some(host.model()), rule: None },
        Matched::NoHost => Located::default(),
    }
}

/// The table of the listener that a probe comes to: of several, that for the most specific name.
fn table(snapshot: &Snapshot, probe: &Probe) -> Option<TableId> {
    let listeners = snapshot.config().listeners.values();
    let protocol = match probe.scheme {
        Scheme::Http => ListenerProtocol::Http,
        Scheme::Https => ListenerProtocol::Https,
    };
    let mut fitting: Vec<_> = listeners
        .filter(|it| it.protocol == protocol)
        .filter(|it| it.host == HostPattern::Any || it.host.covers(&probe.host))
        .collect();
    fitting.sort_by(|one, other| one.host.cmp(&other.host));
    snapshot.table(&fitting.first()?.table)
}
