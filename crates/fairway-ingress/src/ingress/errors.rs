//! Error pages: which backend generates them, and which headers it gets about the request (ingress-nginx,
//! `custom-errors`).

use std::sync::Arc;

use fairway_model::{
    BackendKey, ErrorPages, Fallback, HeaderEdit, HeaderField, Origin, Phases, RequestEdit, RuleLabels,
};
use fairway_objects::backend::BackendRef;
use fairway_objects::object::ObjectKey;

/// Which responses are replaced, and by which backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorPageSettings {
    /// The Service of `default-backend`, of which the first port counts, and its origin.
    pub(crate) backend: Option<Box<(ObjectKey, Origin)>>,
    /// In ascending order.
    pub(crate) statuses: Vec<u16>,
}

impl ErrorPageSettings {
    /// The error pages of a rule with these labels: from `default-backend`, else from the default backend of all
    /// Ingresses; without either, the responses become 404.
    pub(crate) fn phases(
        &self,
        own: Option<BackendKey>,
        by_default: Option<&BackendRef>,
        labels: &RuleLabels,
    ) -> Phases {
        let fallback =
            |backend: &BackendKey| Fallback { backend: backend.clone(), fields: unavailable_headers(labels) };
        let mut phases = own.iter().map(fallback).map(Phases::from).collect::<Phases>();
        if !self.statuses.is_empty() {
            let backend = own.or_else(|| by_default.map(|reference| reference.key.clone()));
            let fields = if backend.is_some() { labels.error_page_headers() } else { Vec::new() };
            phases.add(ErrorPages { statuses: self.statuses.clone(), backend, fields });
        }
        phases
    }

    /// The phases of a rule whose Service does not exist and that the error page backend serves instead.
    pub(crate) fn fallback_phases(labels: &RuleLabels) -> Phases {
        let field = |(name, value)| HeaderField { name, value };
        let set = unavailable_headers(labels).into_iter().map(field).collect();
        RequestEdit::Headers(HeaderEdit { set, ..HeaderEdit::default() }).into()
    }
}

type HeaderPairs = Vec<(Arc<str>, Arc<str>)>;

/// Headers for the error page backend about a request without endpoint.
fn unavailable_headers(labels: &RuleLabels) -> HeaderPairs {
    let mut fields = labels.error_page_headers();
    fields.push(("X-Code".into(), "503".into()));
    fields
}
