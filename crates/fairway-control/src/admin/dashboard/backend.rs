//! The page of one backend: its transport and its current endpoints. Forwarded connections have no rule page that would show
//! them.

use fairway_model::BackendKey;
use serde::Serialize;

use super::caller_text::ConfigDescriber;
use super::endpoints::{EndpointTable, LiveEndpoints};
use super::inspector::Inspector;
use super::object::ObjectLink;
use super::page::Page;
use super::problem::Problem;
use super::query::{Query, parameters};
use crate::pipeline::View;

#[derive(Serialize)]
struct OneBackend {
    /// How endpoints are contacted.
    details: String,
    object: ObjectLink,
    endpoints: EndpointTable,
}

/// The backend named by the parameter `name`.
pub(super) async fn page(
    view: &View,
    words: &dyn ConfigDescriber,
    inspector: &dyn Inspector,
    query: &Query,
) -> Result<Page, Problem> {
    let key = BackendKey::from(query.required("name")?);
    let backend = view.outcome.translation.config.backends.get(&key);
    let backend =
        backend.ok_or_else(|| Problem::not_found("name", format!("there is no backend {:?}", &*key.0)))?;
    let live = LiveEndpoints::fetch(inspector, vec![key]).await;
    let content = OneBackend {
        details: words.describe_backend(backend),
        object: ObjectLink::from_origin(&backend.origin),
        endpoints: live.table(backend),
    };
    Ok(Page::new("backend.html", "hosts", format!("Backend {}", backend.key), content))
}

/// The parameters of a backend's page.
pub(super) fn backend_query(backend: &BackendKey) -> String {
    parameters(&[("name", &backend.0)])
}
