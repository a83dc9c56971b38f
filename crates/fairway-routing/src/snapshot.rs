//! The immutable, compiled configuration that workers use.

use std::sync::Arc;

use fairway_model::{Backend, BackendKey, Config, HostKey, HostPattern, Listener};
use imbl::OrdMap;

use crate::explain;
use crate::explain::Explanation;
use crate::host::CompiledHost;
use crate::hosts::{Hosts, RouteTable};
use crate::matched::Matched;
use crate::ports::{Port, PortKey, PortListener, Ports};
use crate::request::{Fields, Request};
use crate::sharing::{self, TableMatch, TableSide};
use crate::slots::{BackendSlot, Slots};
use crate::streams::{CompiledStream, Streams};
use crate::table::TableId;

/// A compiled configuration. Shares whatever did not change with the previous one.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(crate) config: Config,
    pub(crate) version: u64,
    pub(crate) hosts: Hosts,
    pub(crate) ports: Arc<Ports>,
    pub(crate) streams: Streams,
    pub(crate) slots: Slots,
    /// Hosts with something that could not be compiled.
    pub(crate) flawed: OrdMap<HostKey, Arc<CompiledHost>>,
    /// Whether a rule of this snapshot or of an earlier one reads the name of the handshake.
    pub(crate) reads_server_names: bool,
}

impl Snapshot {
    /// The configuration that was compiled.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// One more than that of the previous snapshot; the first is 1.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether connections must keep the name (SNI) that their client requested. Stays true once a rule has read the
    /// name: finding out that no rule does any more would mean a look at all of them.
    #[inline]
    #[must_use]
    pub fn reads_server_names(&self) -> bool {
        self.reads_server_names
    }

    /// The id of a route table of a host or listener.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<TableId> {
        self.hosts.id(name)
    }

    /// The id of the table that a listener searches first: that of its routes if it has two.
    #[must_use]
    pub fn table_of(&self, listener: &Listener) -> Option<TableId> {
        self.table(listener.routes.as_ref().unwrap_or(&listener.table))
    }

    /// The listener with this name.
    #[must_use]
    pub fn listener(&self, name: &str) -> Option<&Listener> {
        self.config.listeners.get(name).map(|listener| &**listener)
    }

    /// The addresses of the listeners, in order, and what they serve.
    pub fn ports(&self) -> impl Iterator<Item = (&PortKey, &Port<PortListener>)> {
        self.ports.by_key.iter()
    }

    /// The port numbers with HTTP/3, once for each address.
    pub fn http3_ports(&self) -> impl Iterator<Item = u16> {
        let of_quic = self.ports().filter(|(_, port)| matches!(port, Port::Quic(_)));
        of_quic.map(|(key, _)| key.address.port())
    }

    /// Where a connection of this table goes whose client requests `name` (lower case), or no name.
    #[must_use]
    pub fn stream(&self, table: &str, name: Option<&str>) -> Option<&Arc<CompiledStream>> {
        self.streams.find(table, name)
    }

    /// Whether a host of this table may have TLS passthrough: see [`Self::passthrough_route`].
    #[must_use]
    pub fn has_streams(&self, table: &str) -> bool {
        self.streams.has(table)
    }

    /// The stream route for TLS passthrough of a virtual host: the one with exactly its pattern. The most specific host
    /// that covers `name` (lower case) decides, regardless of stream routes of less specific ones.
    #[must_use]
    pub fn passthrough_route(&self, table: &str, name: &str) -> Option<&Arc<CompiledStream>> {
        let stream = self.streams.find(table, Some(name))?;
        let host = self.host(self.table(table)?, name)?;
        (host.key().host == stream.key().host).then_some(stream)
    }

    /// The rule that serves a request.
    #[inline]
    pub fn lookup<'s, F: Fields>(&'s self, table: TableId, request: &Request<'_, F>) -> Matched<'s> {
        let Some(table) = self.hosts.table(table) else { return Matched::NoHost };
        let found = Self::find_in(table, request);
        match table.beside() {
            None => found,
            Some(other) => self.chosen_between(table, found, other, request),
        }
    }

    /// Separate from [`Self::lookup`], which is inlined: hardly any listener has two tables.
    #[inline(never)]
    fn chosen_between<'s, F: Fields>(
        &'s self,
        own: &'s RouteTable,
        routes: Matched<'s>,
        other: TableId,
        request: &Request<'_, F>,
    ) -> Matched<'s> {
        let Some(other) = self.hosts.table(other) else { return routes };
        let found = |table: &'s RouteTable, matched| {
            TableMatch::new(matched, table.covering(request.host).map(|host| &**host), request)
        };
        let (routes, other) = (found(own, routes), found(other, Self::find_in(other, request)));
        match sharing::decided(routes, other, request).side {
            TableSide::Routes => routes.matched,
            TableSide::Other => other.matched,
        }
    }

    #[inline]
    fn find_in<'s, F: Fields>(table: &'s RouteTable, request: &Request<'_, F>) -> Matched<'s> {
        let mut nearest = None;
        for host in table.covering(request.host) {
            if let Some((rule, prefix)) = host.find(request) {
                return Matched::Rule { host, rule, prefix };
            }
            let nearest = *nearest.get_or_insert(host);
            if !host.falls_through() || host.is_too_long(host.path(request)) {
                return Matched::NoRule(nearest);
            }
        }
        nearest.map_or(Matched::NoHost, |host| Matched::NoRule(host))
    }

    /// The most specific host that covers `name` (lower case), whose certificate a TLS client gets. Of two tables, the
    /// host of the companion table: hosts of routes have no TLS settings.
    #[must_use]
    pub fn host(&self, table: TableId, name: &str) -> Option<&CompiledHost> {
        let own_host = self.hosts.table(table)?;
        let table = own_host.beside().and_then(|other| self.hosts.table(other)).unwrap_or(own_host);
        table.covering(name).next().map(|host| &**host)
    }

    /// Whether a host other than the catch-all covers `name` (lower case), in the table or its companion.
    #[must_use]
    pub fn has_host(&self, table: TableId, name: &str) -> bool {
        let named = |host: &&Arc<CompiledHost>| host.key().host != HostPattern::Any;
        self.with_beside(table).any(|table| table.covering(name).next().as_ref().is_some_and(named))
    }

    /// All hosts that cover `name`, most specific first, and then those of the companion table. Allocates.
    #[must_use]
    pub fn covering(&self, table: TableId, name: &str) -> Vec<&CompiledHost> {
        let all = self.with_beside(table).flat_map(|table| table.covering(name));
        all.map(|host| &**host).collect()
    }

    fn with_beside(&self, table: TableId) -> impl Iterator<Item = &RouteTable> {
        let own_host = self.hosts.table(table);
        own_host
            .into_iter()
            .chain(own_host.and_then(RouteTable::beside).and_then(|other| self.hosts.table(other)))
    }

    /// The backend of a slot; `None` if rules name one that the configuration does not contain. The `Arc` changes only
    /// if its content does.
    #[inline]
    #[must_use]
    pub fn backend(&self, slot: BackendSlot) -> Option<&Arc<Backend>> {
        self.slots.backend(slot)
    }

    /// The slots whose backend differs from that in `older`, or is another value of the same one, or was added or
    /// removed. If one snapshot was compiled from the other, the cost is proportional to the changes.
    pub fn backends_changed_since<'s>(&'s self, older: &'s Self) -> impl Iterator<Item = BackendSlot> + 's {
        self.slots.changed_since(&older.slots)
    }

    /// Distinguishes the backends that used a slot one after the other.
    #[must_use]
    pub fn generation(&self, slot: BackendSlot) -> Option<u64> {
        self.slots.generation(slot)
    }

    /// The slot of a backend that the configuration contains or a rule names.
    #[must_use]
    pub fn slot(&self, key: &BackendKey) -> Option<BackendSlot> {
        self.slots.named(key)
    }

    /// An upper bound of all slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Every candidate in the order considered, why it lost, and the winner. Slow.
    pub fn explain<'s, F: Fields>(&'s self, table: TableId, request: &Request<'_, F>) -> Explanation<'s> {
        let mut each = self.with_beside(table).map(|table| {
            let covering: Vec<_> = table.covering(request.host).map(|host| &**host).collect();
            explain::explained(&covering, request)
        });
        let own_explanation = each.next().unwrap_or_else(|| explain::explained(&[], request));
        match each.next() {
            None => own_explanation,
            Some(other) => own_explanation.beside(other, request),
        }
    }
}
