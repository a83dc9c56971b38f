//! One of the two configurations, and where requests arrive in it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fairway_model::{HostPattern, Listener, ListenerProtocol};

use super::known::Prepared;
use crate::client_limits::ClientLimits;
use crate::host::CompiledHost;
use crate::snapshot::Snapshot;

/// A configuration.
pub(super) struct Side<'s> {
    pub(super) snapshot: &'s Snapshot,
    /// Those of HTTP, by name.
    pub(super) listeners: BTreeMap<&'s str, Place<'s>>,
    /// Whether it was made without some of the objects that its rules refer to.
    pub(super) lacks_objects: bool,
    /// By where it is: whether a rule of the host asks for parameters of the query.
    asks_for_query: RefCell<HashMap<*const CompiledHost, bool>>,
}

/// A listener of HTTP.
pub(super) struct Place<'s> {
    pub(super) listener: &'s Arc<Listener>,
    pub(super) limits: ClientLimits,
    /// Where clients find over TLS what it serves.
    pub(super) https_port: u16,
}

impl<'s> Side<'s> {
    pub(super) fn new(snapshot: &'s Snapshot) -> Self {
        let config = snapshot.config();
        let over_tls = |table: &str| {
            let mut all = config.listeners.values();
            all.find(|it| it.protocol == ListenerProtocol::Https && *it.table == *table)
        };
        let place = |listener: &'s Arc<Listener>| {
            let https = match listener.protocol {
                ListenerProtocol::Https => Some(listener),
                _ => over_tls(&listener.table),
            };
            let place = Place {
                listener,
                limits: ClientLimits::of(&config.settings, &listener.clients),
                https_port: https.map_or(443, |https| https.public_port),
            };
            (&*listener.name, place)
        };
        let listeners = config.listeners.values().filter(|it| it.protocol.is_http()).map(place).collect();
        Self { snapshot, listeners, lacks_objects: false, asks_for_query: RefCell::default() }
    }

    /// The listeners that speak what the connection spoke, the first of each table.
    pub(super) fn speaking(&self, over_tls: bool) -> Vec<&Place<'s>> {
        let protocol = if over_tls { ListenerProtocol::Https } else { ListenerProtocol::Http };
        let mut tables: BTreeMap<_, &Place<'s>> = BTreeMap::new();
        for place in self.listeners.values().filter(|place| place.listener.protocol == protocol) {
            tables.entry((&place.listener.table, &place.listener.routes)).or_insert(place);
        }
        tables.into_values().collect()
    }

    /// The listener that takes what came to `before` in the other configuration: the one of the same name, or of the same address.
    /// Where several of TLS share that, the name that is asked for decides.
    pub(super) fn instead_of(&self, before: &Listener, host: &str) -> Option<&Place<'s>> {
        let same = |place: &&Place<'s>| place.listener.protocol == before.protocol;
        let named = self.listeners.get(&*before.name).filter(same);
        let anchor = named.or_else(|| {
            let shares =
                |place: &&Place<'s>| place.listener.bind.iter().any(|address| before.bind.contains(address));
            self.listeners.values().filter(same).find(shares)
        })?;
        if !before.protocol.begins_with_tls() || anchor.listener.bind.is_empty() {
            return Some(anchor);
        }
        let all = self.snapshot.config().listeners.values();
        let beside = all.filter(|it| it.protocol.begins_with_tls() && it.bind == anchor.listener.bind);
        let chosen = beside.filter(|it| it.host.covers(host)).max_by_key(|it| specificity(&it.host))?;
        self.listeners.get(&*chosen.name)
    }

    /// Whether a rule of the host asks for parameters of the query.
    pub(super) fn asks_for_query(&self, host: &'s CompiledHost) -> bool {
        let look = || {
            let mut rules = host.model().routes.iter().flat_map(|route| &route.rules);
            rules.any(|rule| rule.matches.iter().any(|of| !of.query.is_empty()))
        };
        *self.asks_for_query.borrow_mut().entry(std::ptr::from_ref(host)).or_insert_with(look)
    }

    /// Whether the TLS of the request's host does not end here.
    pub(super) fn passes_through(&self, place: &Place<'s>, request: &Prepared<'_>) -> bool {
        place.listener.protocol == ListenerProtocol::Https
            && self.snapshot.passed_through(&place.listener.table, request.known.host).is_some()
    }
}

fn specificity(host: &HostPattern) -> (u8, usize) {
    match host {
        HostPattern::Exact(_) => (2, 0),
        HostPattern::Wildcard { suffix, .. } => (1, suffix.len()),
        HostPattern::Any => (0, 0),
    }
}
