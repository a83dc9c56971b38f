//! The listeners: their addresses, protocol and route table, and how many connections are open.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{Config, Listener, ListenerProtocol};
use serde::Serialize;

use super::inspector::{Connections, Inspector};
use super::listing::{Paging, paginate};
use super::object::ObjectLink;
use super::page::Page;
use super::problem::Problem;
use super::query::{Query, parameters};
use super::search::Search;
use crate::pipeline::View;

#[derive(Serialize)]
struct Listeners<'q> {
    q: &'q str,
    paging: Paging,
    listeners: Vec<ListenerRow>,
    /// Client connections in a handshake, and those whose listener is gone; `None` before the data plane has started.
    others: Option<[u64; 2]>,
}

#[derive(Serialize)]
struct ListenerRow {
    name: String,
    port: u16,
    protocol: &'static str,
    /// The host name it serves; empty for all.
    host: String,
    addresses: Vec<String>,
    /// Problems with some of the addresses.
    problems: Vec<String>,
    table: String,
    serves: Vec<ServedTable>,
    /// Open connections by protocol.
    connections: Vec<String>,
    object: ObjectLink,
    /// Whether an object defines it: listeners from flags have no rules.
    is_of_object: bool,
}

/// Part of a table, with a link to its page.
#[derive(Clone, Serialize)]
struct ServedTable {
    text: String,
    page: &'static str,
    query: String,
}

/// The number of hosts and stream routes of a table.
#[derive(Clone, Copy, Default)]
struct TableSize {
    hosts: usize,
    streams: usize,
}

/// The listeners that match the parameters.
pub(super) async fn page(view: &View, inspector: &dyn Inspector, query: &Query) -> Result<Page, Problem> {
    let config = &view.outcome.translation.config;
    let search = Search::from_query(query);
    let found = config.listeners.values().filter(|it| is_wanted(it, &search));
    let (shown, paging) = paginate(found, query)?;
    let connections = inspector.connections().await;
    let sizes = sizes(config, &shown);
    let row = |it: &&Arc<Listener>| {
        row(it, sizes.get(&*it.table).copied().unwrap_or_default(), connections.as_ref())
    };
    let content = Listeners {
        q: query.value("q").unwrap_or_default(),
        paging,
        listeners: shown.iter().map(row).collect(),
        others: connections.as_ref().map(|open| [open.greeted, open.orphaned]),
    };
    Ok(Page::new("listeners.html", "listeners", "Listeners", content))
}

fn is_wanted(it: &Listener, search: &Search) -> bool {
    let Listener { name, protocol, public_port, host, table, origin, .. } = it;
    let text = || format!("{name} {} {public_port} {host} {table} {origin}", protocol_name(*protocol));
    search.is_empty() || search.finds(&mut text())
}

/// The sizes of the tables of these listeners, found in one pass over the hosts.
fn sizes<'c>(config: &Config, shown: &[&'c Arc<Listener>]) -> BTreeMap<&'c str, TableSize> {
    let mut sizes: BTreeMap<&str, TableSize> =
        shown.iter().map(|it| (&*it.table, TableSize::default())).collect();
    for key in config.hosts.keys() {
        if let Some(size) = sizes.get_mut(&*key.table) {
            size.hosts += 1;
        }
    }
    for key in config.streams.keys() {
        if let Some(size) = sizes.get_mut(&*key.table) {
            size.streams += 1;
        }
    }
    sizes
}

fn row(it: &Listener, size: TableSize, connections: Option<&Connections>) -> ListenerRow {
    let query = parameters(&[("table", &it.table)]);
    let served = |count: usize, [one, many]: [&str; 2], page: &'static str| {
        let unit = if count == 1 { one } else { many };
        (count > 0).then(|| ServedTable { text: format!("{count} {unit}"), page, query: query.clone() })
    };
    let hosts = served(size.hosts, ["host", "hosts"], "hosts");
    let streams = served(size.streams, ["route of connections", "routes of connections"], "streams");
    let own_connections =
        connections.iter().flat_map(|open| &open.clients).filter(|entry| entry.listener == it.name);
    let unbound = connections.iter().flat_map(|open| &open.unbound).filter(|entry| entry.listener == it.name);
    ListenerRow {
        name: it.name.to_string(),
        port: it.public_port,
        protocol: protocol_name(it.protocol),
        host: if it.protocol.begins_with_tls() { it.host.to_string() } else { String::new() },
        addresses: it.bind.iter().map(ToString::to_string).collect(),
        problems: unbound.map(|entry| format!("{} is not bound: {}", entry.address, entry.reason)).collect(),
        table: it.table.to_string(),
        serves: hosts.into_iter().chain(streams).collect(),
        connections: own_connections.map(|entry| format!("{} {}", entry.count, entry.speaks)).collect(),
        object: ObjectLink::from_origin(&it.origin),
        is_of_object: !it.origin.namespace.is_empty(),
    }
}

/// The protocol of a listener as text.
fn protocol_name(protocol: ListenerProtocol) -> &'static str {
    match protocol {
        ListenerProtocol::Http => "HTTP",
        ListenerProtocol::Https => "HTTPS",
        ListenerProtocol::Tls => "TLS, ended here",
        ListenerProtocol::TlsPassthrough => "TLS, passed through",
        ListenerProtocol::Tcp => "TCP",
        ListenerProtocol::Udp => "UDP",
    }
}
