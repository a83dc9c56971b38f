//! Finds the listeners that may receive a request, at the address of the Ingresses and at that of each Gateway. A URL does not tell
//! which address its host resolves to, so there can be several.

use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::{HostPattern, Listener, ListenerProtocol, StreamRoute};
use fairway_routing::{Matched, Snapshot};

use super::request::{RequestToExplain, Scheme};

/// A listener that may receive the request.
pub(super) struct Arrival<'s> {
    pub(super) listener: &'s Arc<Listener>,
    /// Whether an object serves the request at this listener.
    pub(super) is_served: bool,
}

/// The listeners that may receive a request, one per address: those at which an object serves it, or all if there are none.
pub(super) fn arrivals<'s>(snapshot: &'s Snapshot, request: &RequestToExplain) -> Vec<Arrival<'s>> {
    let all: Vec<_> = snapshot.config().listeners.values().filter(|it| speaks(it, request.scheme)).collect();
    let at_port: Vec<_> = all.iter().copied().filter(|it| is_at_port(it, request)).collect();
    let mut listeners_by_address: Vec<(&[SocketAddr], Vec<&Arc<Listener>>)> = Vec::new();
    for listener in if at_port.is_empty() { all } else { at_port } {
        match listeners_by_address.iter_mut().find(|(bind, _)| *bind == &*listener.bind) {
            Some((_, listeners)) => listeners.push(listener),
            None => listeners_by_address.push((&listener.bind, vec![listener])),
        }
    }
    let receiving = listeners_by_address
        .into_iter()
        .filter_map(|(_, listeners)| most_specific(&listeners, &request.host));
    let arrivals =
        receiving.map(|listener| Arrival { listener, is_served: is_served(snapshot, request, listener) });
    let (served, others): (Vec<_>, Vec<_>) = arrivals.partition(|arrival| arrival.is_served);
    if served.is_empty() { others } else { served }
}

/// The route of connections that are forwarded as byte streams.
pub(super) fn stream<'s>(snapshot: &'s Snapshot, listener: &Listener, host: &str) -> Option<&'s StreamRoute> {
    let stream = match listener.protocol {
        ListenerProtocol::Https => snapshot.passthrough_route(&listener.table, host)?,
        _ => snapshot.stream(&listener.table, Some(host))?,
    };
    snapshot.config().streams.get(stream.key()).map(|stream| &**stream)
}

/// Whether the listener passes TLS connections for this name through.
pub(super) fn passes_through(snapshot: &Snapshot, listener: &Listener, host: &str) -> bool {
    match listener.protocol {
        ListenerProtocol::TlsPassthrough => true,
        ListenerProtocol::Https => snapshot.passthrough_route(&listener.table, host).is_some(),
        _ => false,
    }
}

fn speaks(listener: &Listener, scheme: Scheme) -> bool {
    match scheme {
        Scheme::Http => listener.protocol == ListenerProtocol::Http,
        Scheme::Https => listener.protocol.begins_with_tls(),
    }
}

/// Whether the port of the URL is the public port of the listener or one that it is bound to.
fn is_at_port(listener: &Listener, request: &RequestToExplain) -> bool {
    listener.public_port == request.port || listener.bind.iter().any(|address| address.port() == request.port)
}

/// The listener of an address for a host: the exact one, otherwise the one with the longest wildcard.
fn most_specific<'s>(listeners: &[&'s Arc<Listener>], host: &str) -> Option<&'s Arc<Listener>> {
    let covering = listeners.iter().filter(|it| it.host == HostPattern::Any || it.host.covers(host));
    let specificity = |host: &HostPattern| match host {
        HostPattern::Exact(_) => (2, 0),
        HostPattern::Wildcard { suffix, .. } => (1, suffix.len()),
        HostPattern::Any => (0, 0),
    };
    covering.copied().max_by_key(|listener| specificity(&listener.host))
}

fn is_served(snapshot: &Snapshot, request: &RequestToExplain, listener: &Listener) -> bool {
    if !listener.protocol.is_http() || passes_through(snapshot, listener, &request.host) {
        return stream(snapshot, listener, &request.host).is_some();
    }
    let Some(table) = snapshot.table_of(listener) else { return false };
    match snapshot.lookup(table, &request.lookup_request()) {
        Matched::Rule { rule, .. } => *rule.rule().origin.kind != *"Default",
        Matched::NoRule(_) | Matched::NoHost => false,
    }
}
