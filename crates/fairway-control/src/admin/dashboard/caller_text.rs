//! Text that the dashboard gets from its caller: descriptions of parts of a configuration, and explanations of requests. What it
//! passes on has no secrets, except the values that an explanation needs.

use fairway_model::{Backend, FixedResponseReason, Match, Policy, RuleStep};
use fairway_routing::MatchVerdict;

use crate::pipeline::View;

/// Describes parts of a configuration as text.
pub trait ConfigDescriber: Send + Sync {
    /// What a match requires of a request.
    fn describe_match(&self, matched: &Match) -> String;

    /// The result of a match.
    fn describe_verdict(&self, verdict: &MatchVerdict) -> String;

    /// One step of a rule.
    fn describe_step(&self, step: RuleStep<'_>) -> String;

    /// The timeouts, sizes and retries of a rule.
    fn describe_policy(&self, policy: &Policy) -> String;

    /// How the endpoints of a backend are contacted and balanced.
    fn describe_backend(&self, backend: &Backend) -> String;

    /// Why the configuration itself responds.
    fn describe_reason(&self, fixed_reason: FixedResponseReason) -> String;

    /// How a request is served, and why. Must not contain secrets.
    ///
    /// # Errors
    /// The reason why no client could send such a request.
    fn explain(&self, view: &View, request: &ExplainedRequest) -> Result<String, String>;
}

/// A request to explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRequest {
    /// As a client would request it.
    pub url: String,
    /// Its method.
    pub method: String,
    /// Each as `name: value`.
    pub headers: Vec<String>,
}
