//! The listeners: where connections arrive, what is spoken there, which table serves them, and how many are open.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{Config, Listener, ListenerProtocol};
use serde::Serialize;

use super::inspector::{Connections, Inspector};
use super::listing::{Paging, list};
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
    /// Connections of clients that shake hands, and those whose listener is gone; `None` while nobody counts them.
    others: Option<[u64; 2]>,
}

#[derive(Serialize)]
struct ListenerRow {
    name: String,
    port: u16,
    protocol: &'static str,
    /// For which names it is chosen; empty for all.
    host: String,
    addresses: Vec<String>,
    /// What is wrong with some of them.
    problems: Vec<String>,
    table: String,
    serves: Vec<ServedTable>,
    /// Open connections by what they speak.
    connections: Vec<String>,
    object: ObjectLink,
    /// Whether an object asked for it: the others are of flags, which have no rules.
    is_of_object: bool,
}

/// What a table has of one kind, and the page with it.
#[derive(Clone, Serialize)]
struct ServedTable {
    text: String,
    page: &'static str,
    query: String,
}

/// How many hosts and stream routes a table has.
#[derive(Clone, Copy, Default)]
struct TableSize {
    hosts: usize,
    streams: usize,
}

/// The listeners that the parameters ask for.
pub(super) async fn page(view: &View, inspector: &dyn Inspector, query: &Query) -> Result<Page, Problem> {
    let config = &view.outcome.translation.config;
    let search = Search::read(query);
    let found = config.listeners.values().filter(|it| is_wanted(it, &search));
    let (shown, paging) = list(found, query)?;
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

/// How much the tables of these listeners have: one walk over the hosts for all of them.
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
        let what = if count == 1 { one } else { many };
        (count > 0).then(|| ServedTable { text: format!("{count} {what}"), page, query: query.clone() })
    };
    let hosts = served(size.hosts, ["host", "hosts"], "hosts");
    let streams = served(size.streams, ["route of connections", "routes of connections"], "streams");
    let own = connections.iter().flat_map(|open| &open.clients).filter(|of| of.listener == it.name);
    let unbound = connections.iter().flat_map(|open| &open.unbound).filter(|of| of.listener == it.name);
    ListenerRow {
        name: it.name.to_string(),
        port: it.public_port,
        protocol: protocol_name(it.protocol),
        host: if it.protocol.begins_with_tls() { it.host.to_string() } else { String::new() },
        addresses: it.bind.iter().map(ToString::to_string).collect(),
        problems: unbound.map(|of| format!("{} is not bound: {}", of.address, of.reason)).collect(),
        table: it.table.to_string(),
        serves: hosts.into_iter().chain(streams).collect(),
        connections: own.map(|of| format!("{} {}", of.count, of.speaks)).collect(),
        object: ObjectLink::from_origin(&it.origin),
        is_of_object: !it.origin.namespace.is_empty(),
    }
}

/// What a listener speaks, in words.
fn protocol_name(of: ListenerProtocol) -> &'static str {
    match of {
        ListenerProtocol::Http => "HTTP",
        ListenerProtocol::Https => "HTTPS",
        ListenerProtocol::Tls => "TLS, ended here",
        ListenerProtocol::TlsPassthrough => "TLS, passed through",
        ListenerProtocol::Tcp => "TCP",
        ListenerProtocol::Udp => "UDP",
    }
}
