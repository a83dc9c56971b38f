//! Where a request arrives: the listener that takes it at the address of the Ingresses, and at that of each Gateway. A URL does not
//! say which address its name stands for, so each of them is a possible answer.

use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::{HostPattern, Listener, ListenerProtocol, StreamRoute};
use fairway_routing::{Matched, Snapshot};

use super::asked::{Asked, Scheme};

/// A listener that takes the request.
pub(super) struct Arrival<'s> {
    pub(super) listener: &'s Arc<Listener>,
    /// Whether something that an object asks for serves it there.
    pub(super) is_served: bool,
}

/// The listeners that may take a request, one for each address: those where an object serves it, or else all.
pub(super) fn arrivals<'s>(snapshot: &'s Snapshot, asked: &Asked) -> Vec<Arrival<'s>> {
    let all: Vec<_> = snapshot.config().listeners.values().filter(|it| speaks(it, asked.scheme)).collect();
    let at_port: Vec<_> = all.iter().copied().filter(|it| is_at_port(it, asked)).collect();
    let mut places: Vec<(&[SocketAddr], Vec<&Arc<Listener>>)> = Vec::new();
    for listener in if at_port.is_empty() { all } else { at_port } {
        match places.iter_mut().find(|(bind, _)| *bind == &*listener.bind) {
            Some((_, listeners)) => listeners.push(listener),
            None => places.push((&listener.bind, vec![listener])),
        }
    }
    let chosen = places.into_iter().filter_map(|(_, listeners)| chosen(&listeners, &asked.host));
    let arrivals =
        chosen.map(|listener| Arrival { listener, is_served: is_served(snapshot, asked, listener) });
    let (served, others): (Vec<_>, Vec<_>) = arrivals.partition(|arrival| arrival.is_served);
    if served.is_empty() { others } else { served }
}

/// The route of connections that are not taken apart.
pub(super) fn stream<'s>(snapshot: &'s Snapshot, listener: &Listener, host: &str) -> Option<&'s StreamRoute> {
    let stream = match listener.protocol {
        ListenerProtocol::Https => snapshot.passed_through(&listener.table, host)?,
        _ => snapshot.stream(&listener.table, Some(host))?,
    };
    snapshot.config().streams.get(stream.key()).map(|stream| &**stream)
}

/// Whether the listener passes TLS through that asks for this name.
pub(super) fn passes_through(snapshot: &Snapshot, listener: &Listener, host: &str) -> bool {
    match listener.protocol {
        ListenerProtocol::TlsPassthrough => true,
        ListenerProtocol::Https => snapshot.passed_through(&listener.table, host).is_some(),
        _ => false,
    }
}

fn speaks(listener: &Listener, scheme: Scheme) -> bool {
    match scheme {
        Scheme::Http => listener.protocol == ListenerProtocol::Http,
        Scheme::Https => listener.protocol.begins_with_tls(),
    }
}

/// Whether clients see the listener on the port of the URL, or it is bound there.
fn is_at_port(listener: &Listener, asked: &Asked) -> bool {
    listener.public_port == asked.port || listener.bind.iter().any(|address| address.port() == asked.port)
}

/// Of the listeners of an address, the one for the name: the exact one, else that for the longest wildcard.
fn chosen<'s>(listeners: &[&'s Arc<Listener>], host: &str) -> Option<&'s Arc<Listener>> {
    let covering = listeners.iter().filter(|it| it.host == HostPattern::Any || it.host.covers(host));
    let specificity = |host: &HostPattern| match host {
        HostPattern::Exact(_) => (2, 0),
        HostPattern::Wildcard { suffix, .. } => (1, suffix.len()),
        HostPattern::Any => (0, 0),
    };
    covering.copied().max_by_key(|listener| specificity(&listener.host))
}

fn is_served(snapshot: &Snapshot, asked: &Asked, listener: &Listener) -> bool {
    if !listener.protocol.is_http() || passes_through(snapshot, listener, &asked.host) {
        return stream(snapshot, listener, &asked.host).is_some();
    }
    let Some(table) = snapshot.table_of(listener) else { return false };
    match snapshot.lookup(table, &asked.request()) {
        Matched::Rule { rule, .. } => *rule.rule().origin.kind != *"Default",
        Matched::NoRule(_) | Matched::NoHost => false,
    }
}
