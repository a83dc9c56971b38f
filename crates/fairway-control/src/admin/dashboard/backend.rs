//! One backend: how it is spoken to, and its endpoints as they are now. Forwarded connections have no rule that would show theirs.

use fairway_model::BackendKey;
use serde::Serialize;

use super::endpoints::{EndpointTable, LiveEndpoints};
use super::inspector::Inspector;
use super::object::ObjectLink;
use super::page::Page;
use super::problem::Problem;
use super::query::{Query, parameters};
use super::words::Words;
use crate::pipeline::View;

#[derive(Serialize)]
struct OneBackend {
    /// How it is spoken to.
    details: String,
    object: ObjectLink,
    endpoints: EndpointTable,
}

/// The backend that the parameter `name` names.
pub(super) async fn page(
    view: &View,
    words: &dyn Words,
    inspector: &dyn Inspector,
    query: &Query,
) -> Result<Page, Problem> {
    let key = BackendKey::from(query.required("name")?);
    let backend = view.outcome.translation.config.backends.get(&key);
    let backend =
        backend.ok_or_else(|| Problem::missing("name", format!("there is no backend {:?}", &*key.0)))?;
    let live = LiveEndpoints::ask(inspector, vec![key]).await;
    let content = OneBackend {
        details: words.backend(backend),
        object: ObjectLink::from_origin(&backend.origin),
        endpoints: live.table(backend),
    };
    Ok(Page::new("backend.html", "hosts", format!("Backend {}", backend.key), content))
}

/// The parameters of the page of a backend.
pub(super) fn backend_query(backend: &BackendKey) -> String {
    parameters(&[("name", &backend.0)])
}
