//! The filters of a rule as steps: one ordered list for each phase, with everything prepared that does not depend on the
//! request. The data plane runs them; here they are only made.
//!
//! A rule without filters has empty lists and costs nothing.

use std::sync::Arc;

use fairway_message::Known;
use fairway_model::{
    AccessList, Cors, Filter, HeaderEdit, HeaderField, HttpsRedirect, PathForm, PathRewrite, Redirect,
    RedirectTarget,
};

use crate::rewrite::CompiledRewrite;
use crate::unserved;

/// The steps of a rule.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// Between the match and the action, up to the first that answers.
    pub request: Box<[RequestStep]>,
    /// With the head of every answer of the rule, whoever made it.
    pub answer: Box<[AnswerStep]>,
}

/// What is done with a request's head.
#[derive(Clone, Debug)]
pub enum RequestStep {
    /// Answers requests in the clear.
    HttpsRedirect(HttpsRedirect),
    /// Answers every request.
    Redirect(CompiledRedirect),
    /// Refuses clients by address.
    Access(AccessList),
    /// Answers preflights of allowed origins.
    Preflight(Arc<Cors>),
    /// Edits fields.
    Edit(FieldEdits),
    /// Sets `Host`.
    Host(Arc<str>),
    /// Makes another target.
    Path(CompiledRewrite),
}

/// What is done with an answer's head.
#[derive(Clone, Debug)]
pub enum AnswerStep {
    /// Adds what browsers ask for.
    Cors(Arc<Cors>),
    /// Edits fields.
    Edit(FieldEdits),
    /// Sets `Strict-Transport-Security` on answers over TLS.
    StrictTransportSecurity(Arc<str>),
}

/// A redirect whose new path is prepared.
#[derive(Clone, Debug)]
pub struct CompiledRedirect {
    /// 300..=308.
    pub status: u16,
    /// Where to.
    pub target: RedirectTarget,
    /// The new path, where the target has one.
    pub path: Option<CompiledRewrite>,
}

/// Edits of fields that may be made: not of those that say where the message ends or what becomes of the connection, and
/// there is always one `Host`. In the order of their lists.
#[derive(Clone, Debug)]
pub struct FieldEdits {
    /// All fields of these names go.
    pub remove: Box<[Arc<str>]>,
    /// These replace all of their name.
    pub set: Box<[HeaderField]>,
    /// These come beside what is there.
    pub add: Box<[HeaderField]>,
}

impl Steps {
    /// Compiles `filters` for a host whose rules see `form`.
    ///
    /// # Errors
    /// With the rewrite that cannot be compiled or the filter that is not served, as a sentence.
    pub(crate) fn compiled(filters: &[Filter], form: PathForm) -> Result<Self, String> {
        let (mut request, mut answer) = (Vec::new(), Vec::new());
        for filter in filters {
            match filter {
                Filter::HttpsRedirect(to) => request.push(RequestStep::HttpsRedirect(to.clone())),
                Filter::Redirect(to) => {
                    request.push(RequestStep::Redirect(CompiledRedirect::compiled(to, form)?));
                }
                Filter::Access(list) => request.push(RequestStep::Access(list.clone())),
                Filter::Cors(cors) => {
                    let cors = Arc::new(cors.clone());
                    request.push(RequestStep::Preflight(Arc::clone(&cors)));
                    answer.push(AnswerStep::Cors(cors));
                }
                Filter::RequestHeaders(edit) => request.push(RequestStep::Edit(FieldEdits::of(edit))),
                Filter::ResponseHeaders(edit) => answer.push(AnswerStep::Edit(FieldEdits::of(edit))),
                Filter::StrictTransportSecurity(value) => {
                    answer.push(AnswerStep::StrictTransportSecurity(Arc::clone(value)));
                }
                Filter::RewritePath(path) => {
                    request.push(RequestStep::Path(CompiledRewrite::compiled(path, form)?));
                }
                Filter::RewriteHost(host) => request.push(RequestStep::Host(Arc::clone(host))),
                Filter::Mirror(_) => return Err(unserved::MIRROR.to_owned()),
            }
        }
        Ok(Self { request: request.into(), answer: answer.into() })
    }

    /// All rewrites of paths.
    pub(crate) fn rewrites(&self) -> impl Iterator<Item = &CompiledRewrite> {
        self.request.iter().filter_map(|step| match step {
            RequestStep::Path(rewrite) => Some(rewrite),
            RequestStep::Redirect(redirect) => redirect.path.as_ref(),
            _ => None,
        })
    }
}

impl CompiledRedirect {
    fn compiled(to: &Redirect, form: PathForm) -> Result<Self, String> {
        let path = match &to.target {
            // What is said in full is said as it is, without a query of its own.
            RedirectTarget::Parts {
                path: Some(path @ (PathRewrite::Prefix(_) | PathRewrite::Regex { .. })),
                ..
            } => Some(CompiledRewrite::compiled(path, form)?),
            RedirectTarget::Parts { .. } | RedirectTarget::Url(_) => None,
        };
        Ok(Self { status: to.status, target: to.target.clone(), path })
    }
}

impl FieldEdits {
    fn of(edit: &HeaderEdit) -> Self {
        let known = |name: &str| Known::of(name.as_bytes());
        let may = |field: &&HeaderField| !known(&field.name).is_of_one_hop();
        let is_host = |field: &HeaderField| known(&field.name) == Known::Host;
        let removed =
            edit.remove.iter().filter(|name| !known(name).is_of_one_hop() && known(name) != Known::Host);
        // One more `Host` is another `Host`.
        let hosts = edit.add.iter().filter(|field| is_host(field));
        Self {
            remove: removed.cloned().collect(),
            set: edit.set.iter().filter(may).chain(hosts).cloned().collect(),
            add: edit.add.iter().filter(may).filter(|field| !is_host(field)).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str) -> HeaderField {
        HeaderField { name: name.into(), value: "v".into() }
    }

    fn names(fields: &[HeaderField]) -> Vec<&str> {
        fields.iter().map(|field| &*field.name).collect()
    }

    #[test]
    fn what_belongs_to_the_hop_is_not_edited_and_there_is_one_host() {
        let edits = FieldEdits::of(&HeaderEdit {
            remove: ["x-a", "host", "Connection", "content-length"].map(Into::into).into(),
            set: vec![field("X-B"), field("Transfer-Encoding"), field("Host")],
            add: vec![field("X-C"), field("host"), field("Upgrade")],
        });
        assert_eq!(edits.remove.iter().map(|name| &**name).collect::<Vec<_>>(), ["x-a"]);
        assert_eq!((names(&edits.set), names(&edits.add)), (vec!["X-B", "Host", "host"], vec!["X-C"]));
    }

    #[test]
    fn steps_keep_the_order_of_the_filters_within_their_phase() {
        let edit = || HeaderEdit { set: vec![field("X-A")], ..HeaderEdit::default() };
        let filters = [
            Filter::ResponseHeaders(edit()),
            Filter::RewriteHost("a".into()),
            Filter::StrictTransportSecurity("max-age=1".into()),
            Filter::RequestHeaders(edit()),
        ];
        let steps = Steps::compiled(&filters, PathForm::Decoded).unwrap();
        assert!(matches!(*steps.request, [RequestStep::Host(_), RequestStep::Edit(_)]));
        assert!(matches!(*steps.answer, [AnswerStep::Edit(_), AnswerStep::StrictTransportSecurity(_)]));
        assert_eq!(steps.rewrites().count(), 0);
    }
}
