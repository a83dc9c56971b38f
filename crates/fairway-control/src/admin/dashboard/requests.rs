//! The requests recorded by the data plane: failed ones, or all.

use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::page::Page;
use super::problem::Problem;
use super::query::{Query, parameters};

/// Reads the last exchanges recorded by the data plane, with the query of `/requests`: returns JSON, or what is wrong with the
/// query.
pub type RecordedRequests =
    Arc<dyn Fn(Option<String>) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send>> + Send + Sync>;

#[derive(Serialize)]
struct Requests<'q> {
    id: &'q str,
    host: &'q str,
    status: &'q str,
    all: bool,
    exchanges: Value,
}

/// The requests that match the parameters; without any, failed requests.
pub(super) async fn page(recorded: &RecordedRequests, query: &Query) -> Result<Page, Problem> {
    let [id, host, status, all] = ["id", "host", "status", "all"].map(|name| query.value(name));
    let filters = [("id", id), ("host", host), ("status", status)];
    let mut given_parameters: Vec<_> =
        filters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    // A request looked up by id is shown whether it failed or not.
    if all.is_none() && id.is_none() {
        given_parameters.push(("failed", "true"));
    }
    let json = recorded(Some(parameters(&given_parameters))).await.map_err(Problem::bad_query)?;
    let mut found: Value = serde_json::from_str(&json).unwrap_or_default();
    let content = Requests {
        id: id.unwrap_or_default(),
        host: host.unwrap_or_default(),
        status: status.unwrap_or_default(),
        all: all.is_some(),
        exchanges: found["exchanges"].take(),
    };
    Ok(Page::new("requests.html", "requests", "Requests", content))
}
