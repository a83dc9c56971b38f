//! Whose pages replace error answers, and what the owner of the pages is told of the request (ingress-nginx,
//! `custom-errors`).

use std::sync::Arc;

use fairway_model::{
    BackendKey, ErrorPages, Fallback, HeaderEdit, HeaderField, Origin, Phases, RequestEdit, RuleLabels,
};
use fairway_objects::backend::BackendRef;
use fairway_objects::object::ObjectKey;

/// Whose pages replace which answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Errors {
    /// The Service of `default-backend`, of which the first port counts, and where it is named.
    pub(crate) backend: Option<Box<(ObjectKey, Origin)>>,
    /// In ascending order.
    pub(crate) statuses: Vec<u16>,
}

impl Errors {
    /// What a rule with these labels does: pages come from the Service of `default-backend`, else from the default
    /// backend of all Ingresses, else there are none and the answers become 404.
    pub(crate) fn phases(
        &self,
        own: Option<BackendKey>,
        by_default: Option<&BackendRef>,
        labels: &RuleLabels,
    ) -> Phases {
        let fallback =
            |backend: &BackendKey| Fallback { backend: backend.clone(), fields: unavailable(labels) };
        let mut phases = own.iter().map(fallback).map(Phases::from).collect::<Phases>();
        if !self.statuses.is_empty() {
            let backend = own.or_else(|| by_default.map(|reference| reference.key.clone()));
            let fields = if backend.is_some() { labels.fields_for_pages() } else { Vec::new() };
            phases.add(ErrorPages { statuses: self.statuses.clone(), backend, fields });
        }
        phases
    }

    /// What a rule does that only the owner of the pages serves, because its own Service does not exist.
    pub(crate) fn instead(labels: &RuleLabels) -> Phases {
        let field = |(name, value)| HeaderField { name, value };
        let set = unavailable(labels).into_iter().map(field).collect();
        RequestEdit::Headers(HeaderEdit { set, ..HeaderEdit::default() }).into()
    }
}

type Fields = Vec<(Arc<str>, Arc<str>)>;

/// What the owner of the pages is told of a request that has no endpoint.
fn unavailable(labels: &RuleLabels) -> Fields {
    let mut fields = labels.fields_for_pages();
    fields.push(("X-Code".into(), "503".into()));
    fields
}
