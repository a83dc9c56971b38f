//! Faults that a test injects into requests.

use serde_json::json;

use super::request::ApiRequest;
use super::responses::Page;

/// The state of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// They arrive.
    #[default]
    Up,
    /// They fail at once.
    Refusing,
    /// Nothing comes back, also not later, and watches that are open are lost.
    Silent,
}

/// How lists are streamed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// As they should.
    #[default]
    Streams,
    /// The final bookmark is never sent.
    NeverComplete,
    /// They are refused with this status: 422 where a feature gate is off, 500 where etcd is too old.
    RefusesStreams(u16),
}

/// An injected response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 403: there is no permission.
    Forbidden,
    /// 403: the namespace is being deleted.
    Terminating,
    /// 404: there is no such resource.
    NoSuchResource,
    /// 409: the object was changed in between.
    Conflict,
    /// 500.
    Broken,
}

/// A failure of all requests of a sort.
pub(super) struct Fault {
    pub(super) failure: Failure,
    pub(super) applies_to: Box<dyn Fn(&ApiRequest) -> bool + Send>,
    /// How many more requests it applies to; `None` for all.
    pub(super) times: Option<u32>,
}

/// The injected response for a request, if a fault applies; uses up one of the first such fault's requests.
pub(super) fn page(faults: &mut Vec<Fault>, request: &ApiRequest) -> Option<Page> {
    let at = faults.iter().position(|fault| (fault.applies_to)(request))?;
    let fault = &mut faults[at];
    let page = fault.failure.page(request);
    if let Some(times) = &mut fault.times {
        *times -= 1;
        if *times == 0 {
            faults.remove(at);
        }
    }
    Some(page)
}

impl Failure {
    fn page(self, request: &ApiRequest) -> Page {
        match self {
            Self::Forbidden => {
                let user = "system:serviceaccount:edge:fairway";
                let wish = request.target.as_ref().map_or_else(String::new, |target| request.wish(target));
                let message = format!("{} is forbidden: User \"{user}\" cannot {wish}", request.resource());
                Page::failure(403, "Forbidden", &message)
            }
            Self::Terminating => Page::detailed_failure(
                (403, "Forbidden", "the namespace is being terminated"),
                &json!({ "causes": [{ "reason": "NamespaceTerminating", "message": "", "field": "metadata.namespace" }] }),
            ),
            Self::NoSuchResource => Page::no_such_resource(),
            Self::Conflict => Page::failure(409, "Conflict", "the object was changed in between"),
            Self::Broken => Page::failure(500, "InternalError", "etcd is not there"),
        }
    }
}
