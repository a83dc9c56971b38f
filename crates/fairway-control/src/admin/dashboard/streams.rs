//! TCP, UDP and TLS routes: where forwarded connections go.

use fairway_model::{Config, HostPattern, ReferenceStatus, StreamRoute, WeightedBackend};
use serde::Serialize;

use super::backend::backend_query;
use super::listing::{Paging, paginate};
use super::object::ObjectLink;
use super::page::Page;
use super::problem::Problem;
use super::query::Query;
use super::search::Search;
use crate::pipeline::View;

/// At most this many listeners of a table are named.
const MAX_NAMED: usize = 5;

#[derive(Serialize)]
struct Streams<'q> {
    q: &'q str,
    table: &'q str,
    paging: Paging,
    streams: Vec<StreamRow>,
}

#[derive(Serialize)]
struct StreamRow {
    /// The host names; empty if the protocol has none.
    host: String,
    table: String,
    listeners: Vec<String>,
    targets: Vec<TargetView>,
    object: ObjectLink,
}

#[derive(Serialize)]
struct TargetView {
    backend: String,
    /// The parameters of its page; empty for a missing backend.
    query: String,
    /// Its share of the connections, if there are several.
    weight: String,
    problem: &'static str,
}

/// The stream routes that match the parameters.
pub(super) fn page(view: &View, query: &Query) -> Result<Page, Problem> {
    let config = &view.outcome.translation.config;
    let (search, table) = (Search::from_query(query), query.value("table"));
    let is_wanted = |it: &StreamRoute| {
        let is_of_table = table.is_none_or(|table| table == &*it.key.table);
        is_of_table && (search.is_empty() || search.finds(&mut searched_text(it)))
    };
    let (shown, paging) = paginate(config.streams.values().filter(|it| is_wanted(it)), query)?;
    let content = Streams {
        q: query.value("q").unwrap_or_default(),
        table: table.unwrap_or_default(),
        paging,
        streams: shown.into_iter().map(|it| row(it, config)).collect(),
    };
    Ok(Page::new("streams.html", "listeners", "TCP, UDP and TLS routes", content))
}

/// The text that a search covers.
fn searched_text(it: &StreamRoute) -> String {
    let mut text = format!("{} {} {}", it.key.table, it.key.host, it.origin);
    for target in &it.backends {
        text.push(' ');
        text.push_str(&target.backend.0);
    }
    text
}

fn row(it: &StreamRoute, config: &Config) -> StreamRow {
    let listeners = config.listeners.values().filter(|listener| listener.table == it.key.table);
    let total_weight: u32 = it.backends.iter().map(|target| target.weight).sum();
    let target = |target: &WeightedBackend| {
        let backend = config.backends.get(&target.backend);
        TargetView {
            backend: target.backend.to_string(),
            query: backend.map(|backend| backend_query(&backend.key)).unwrap_or_default(),
            weight: match it.backends.len() {
                1 => String::new(),
                _ => format!("{} of {total_weight}", target.weight),
            },
            problem: match (target.reference, backend) {
                (ReferenceStatus::Invalid, _) => "the reference is invalid",
                (ReferenceStatus::Resolved, None) => "there is no such backend",
                (ReferenceStatus::Resolved, Some(backend)) if backend.endpoints.is_empty() => {
                    "it has no endpoint"
                }
                _ => "",
            },
        }
    };
    StreamRow {
        host: if it.key.host == HostPattern::Any { String::new() } else { it.key.host.to_string() },
        table: it.key.table.to_string(),
        listeners: listeners
            .take(MAX_NAMED)
            .map(|it| format!("{}, port {}", it.name, it.public_port))
            .collect(),
        targets: it.backends.iter().map(target).collect(),
        object: ObjectLink::from_origin(&it.origin),
    }
}
