//! `ext_authz`: a service decides whether a request may pass. The question is made of the request, the decision is read once and
//! whole; an answer that contradicts itself is none, so that its request does not pass.

mod decision;
mod question;

pub use crate::change::{HeaderAction, HeaderChange, apply};
pub use decision::{Allowed, Decision, Denied, InvalidDecision, read_decision};
pub use question::{CheckedRequest, check_request};

/// The path of the call.
pub const CHECK_PATH: &str = "/envoy.service.auth.v3.Authorization/Check";
