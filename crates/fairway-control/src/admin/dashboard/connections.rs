//! The open connections: those of clients by listener and protocol, and those to endpoints.

use serde::Serialize;

use super::inspector::{ClientConnections, Connections, Inspector};
use super::listing::{Paging, paginate};
use super::page::Page;
use super::problem::Problem;
use super::query::{Query, parameters};

#[derive(Serialize)]
struct ConnectionsPage {
    /// `None` before the data plane has started.
    totals: Option<Totals>,
    paging: Paging,
    clients: Vec<ClientRow>,
}

#[derive(Serialize)]
struct Totals {
    clients: u64,
    greeted: u64,
    orphaned: u64,
    busy: usize,
    idle: usize,
    under_way: u32,
}

#[derive(Serialize)]
struct ClientRow {
    listener: String,
    /// The parameters of the listener's page.
    query: String,
    speaks: &'static str,
    count: u64,
}

/// The connections that are open now.
pub(super) async fn page(inspector: &dyn Inspector, query: &Query) -> Result<Page, Problem> {
    let open = inspector.connections().await;
    let all = open.iter().flat_map(|open| &open.clients);
    let (shown, paging) = paginate(all, query)?;
    let content = ConnectionsPage {
        totals: open.as_ref().map(totals),
        paging,
        clients: shown.into_iter().map(row).collect(),
    };
    Ok(Page::new("connections.html", "connections", "Connections", content))
}

fn totals(open: &Connections) -> Totals {
    let &Connections { greeted, orphaned, busy, idle, under_way, .. } = open;
    let served: u64 = open.clients.iter().map(|clients| clients.count).sum();
    Totals { clients: served + greeted + orphaned, greeted, orphaned, busy, idle, under_way }
}

fn row(client: &ClientConnections) -> ClientRow {
    ClientRow {
        listener: client.listener.to_string(),
        query: parameters(&[("q", &client.listener)]),
        speaks: client.speaks,
        count: client.count,
    }
}
