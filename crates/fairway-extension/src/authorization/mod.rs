//! `ext_authz`: a service decides whether a request may continue. The check request is built from the client's request, and the
//! response is decoded and validated as a whole: a contradictory response is invalid, and the request is denied.

mod decision;
mod question;

pub use crate::change::{HeaderAction, HeaderChange, apply};
pub use decision::{Allowed, Decision, Denied, InvalidDecision, read_decision};
pub use question::{CheckedRequest, check_request};

/// The path of the call.
pub const CHECK_PATH: &str = "/envoy.service.auth.v3.Authorization/Check";
