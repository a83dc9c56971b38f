//! Whose pages replace error answers, and what the owner of the pages is told of the request (ingress-nginx,
//! `custom-errors`).

use std::sync::Arc;

use fairway_model::{BackendKey, ErrorPages, Fallback, Filter, Origin, RuleLabels};

use crate::object::ObjectKey;

/// Whose pages replace which answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Errors {
    /// The Service of `default-backend`, of which the first port counts, and where it is named.
    pub(crate) backend: Option<(ObjectKey, Origin)>,
    /// In ascending order.
    pub(crate) statuses: Vec<u16>,
}

impl Errors {
    /// The filters of a rule with these labels, whose pages come from `backend`.
    pub(crate) fn filters(&self, backend: &BackendKey, labels: &RuleLabels) -> Vec<Filter> {
        let about = || {
            let field = |name: &str, value: &Arc<str>| (name.into(), value.clone());
            vec![
                field("X-Namespace", &labels.namespace),
                field("X-Ingress-Name", &labels.ingress),
                field("X-Service-Name", &labels.service),
                field("X-Service-Port", &labels.service_port),
            ]
        };
        let mut fields = about();
        fields.push(("X-Code".into(), "503".into()));
        let mut filters = vec![Filter::Fallback(Fallback { backend: backend.clone(), fields })];
        if !self.statuses.is_empty() {
            let statuses = self.statuses.clone();
            filters.push(Filter::ErrorPages(ErrorPages { statuses, backend: backend.clone(), fields: about() }));
        }
        filters
    }
}
