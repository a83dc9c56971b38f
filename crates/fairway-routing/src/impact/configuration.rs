//! One of the two compared configurations, and its listeners.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fairway_model::{HostPattern, Listener, ListenerProtocol};

use super::recorded_request::RequestPaths;
use crate::client_limits::ClientLimits;
use crate::host::CompiledHost;
use crate::snapshot::Snapshot;

/// A configuration to compare.
pub(super) struct ComparedConfig<'s> {
    pub(super) snapshot: &'s Snapshot,
    /// The HTTP listeners by name.
    pub(super) listeners: BTreeMap<&'s str, HttpListener<'s>>,
    /// Whether it was compiled without some of the objects that its rules refer to.
    pub(super) lacks_objects: bool,
    /// By address of the host: whether a rule matches on query parameters.
    asks_for_query: RefCell<HashMap<*const CompiledHost, bool>>,
}

/// An HTTP listener.
pub(super) struct HttpListener<'s> {
    pub(super) listener: &'s Arc<Listener>,
    pub(super) limits: ClientLimits,
    /// The port where clients reach the same hosts over TLS.
    pub(super) https_port: u16,
}

impl<'s> ComparedConfig<'s> {
    pub(super) fn new(snapshot: &'s Snapshot) -> Self {
        let config = snapshot.config();
        let over_tls = |table: &str| {
            let mut all = config.listeners.values();
            all.find(|it| it.protocol == ListenerProtocol::Https && *it.table == *table)
        };
        let to_http_listener = |listener: &'s Arc<Listener>| {
            let https = match listener.protocol {
                ListenerProtocol::Https => Some(listener),
                _ => over_tls(&listener.table),
            };
            let http_listener = HttpListener {
                listener,
                limits: ClientLimits::for_listener(&config.settings, &listener.clients),
                https_port: https.map_or(443, |https| https.public_port),
            };
            (&*listener.name, http_listener)
        };
        let listeners =
            config.listeners.values().filter(|it| it.protocol.is_http()).map(to_http_listener).collect();
        Self { snapshot, listeners, lacks_objects: false, asks_for_query: RefCell::default() }
    }

    /// The listeners for cleartext or TLS connections, the first one of each table.
    pub(super) fn speaking(&self, over_tls: bool) -> Vec<&HttpListener<'s>> {
        let protocol = if over_tls { ListenerProtocol::Https } else { ListenerProtocol::Http };
        let mut tables: BTreeMap<_, &HttpListener<'s>> = BTreeMap::new();
        for place in self.listeners.values().filter(|place| place.listener.protocol == protocol) {
            tables.entry((&place.listener.table, &place.listener.routes)).or_insert(place);
        }
        tables.into_values().collect()
    }

    /// The listener that receives the traffic of `before` from the other configuration: the one with the same name, or
    /// with the same address. If several TLS listeners share the address, the server name decides.
    pub(super) fn instead_of(&self, before: &Listener, host: &str) -> Option<&HttpListener<'s>> {
        let has_same_protocol = |listener: &&HttpListener<'s>| listener.listener.protocol == before.protocol;
        let named = self.listeners.get(&*before.name).filter(has_same_protocol);
        let anchor = named.or_else(|| {
            let shares_address = |listener: &&HttpListener<'s>| {
                listener.listener.bind.iter().any(|address| before.bind.contains(address))
            };
            self.listeners.values().filter(has_same_protocol).find(shares_address)
        })?;
        if !before.protocol.begins_with_tls() || anchor.listener.bind.is_empty() {
            return Some(anchor);
        }
        let all = self.snapshot.config().listeners.values();
        let beside = all.filter(|it| it.protocol.begins_with_tls() && it.bind == anchor.listener.bind);
        let successor = beside.filter(|it| it.host.covers(host)).max_by_key(|it| specificity(&it.host))?;
        self.listeners.get(&*successor.name)
    }

    /// Whether a rule of the host matches on query parameters.
    pub(super) fn asks_for_query(&self, host: &'s CompiledHost) -> bool {
        let look = || {
            let mut rules = host.model().routes.iter().flat_map(|route| &route.rules);
            rules.any(|rule| rule.matches.iter().any(|route_match| !route_match.query.is_empty()))
        };
        *self.asks_for_query.borrow_mut().entry(std::ptr::from_ref(host)).or_insert_with(look)
    }

    /// Whether the TLS connection of the request's host is passed through.
    pub(super) fn passes_through(&self, listener: &HttpListener<'s>, request: &RequestPaths<'_>) -> bool {
        listener.listener.protocol == ListenerProtocol::Https
            && self.snapshot.passthrough_route(&listener.listener.table, request.known_request.host).is_some()
    }
}

fn specificity(host: &HostPattern) -> (u8, usize) {
    match host {
        HostPattern::Exact(_) => (2, 0),
        HostPattern::Wildcard { suffix, .. } => (1, suffix.len()),
        HostPattern::Any => (0, 0),
    }
}
