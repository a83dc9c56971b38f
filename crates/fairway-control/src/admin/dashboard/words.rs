//! What the dashboard lets others say: how parts of a configuration read in words, and why a request is served as it is. What it
//! passes on has no secrets, but for what a request is explained by.

use fairway_model::{AnswerReason, Backend, Match, Policy, Step};
use fairway_routing::MatchVerdict;

use crate::pipeline::View;

/// How parts of a configuration read in words.
pub trait Words: Send + Sync {
    /// What a rule asks of a request.
    fn matched(&self, of: &Match) -> String;

    /// What became of a match.
    fn verdict(&self, of: &MatchVerdict) -> String;

    /// One thing that a rule does.
    fn step(&self, of: Step<'_>) -> String;

    /// The timeouts, sizes and retries of a rule.
    fn policy(&self, of: &Policy) -> String;

    /// How the endpoints of a backend are spoken to, and which of them gets a request.
    fn backend(&self, of: &Backend) -> String;

    /// Why the configuration itself answers.
    fn reason(&self, of: AnswerReason) -> String;

    /// Why a request is served as it is. It must show no secret.
    ///
    /// # Errors
    /// No client could send such a request; says why.
    fn explain(&self, view: &View, request: &AskedRequest) -> Result<String, String>;
}

/// A request that somebody asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedRequest {
    /// As a client would ask for it.
    pub url: String,
    /// Its method.
    pub method: String,
    /// Each as `name: value`.
    pub headers: Vec<String>,
}
