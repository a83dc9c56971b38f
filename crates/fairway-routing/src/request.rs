//! What a lookup is asked and what it answers. Owns no bytes of either.

use crate::{CompiledHost, CompiledRule};

/// The header fields of a request, as far as conditions need them.
pub trait Fields {
    /// The value of the field `name` (lower case); how several of one name are joined is the caller's business.
    fn first(&self, name: &str) -> Option<&[u8]>;
}

/// A request as lookup sees it.
#[derive(Debug)]
pub struct Request<'a, F> {
    /// The host in lower case without a port; empty when there is none.
    pub host: &'a str,
    /// As received; methods are case-sensitive (RFC 9110 §9.1).
    pub method: &'a [u8],
    /// The path in [`fairway_model::PathForm::Normalised`].
    pub normalised: &'a [u8],
    /// The path in [`fairway_model::PathForm::Decoded`].
    pub decoded: &'a [u8],
    /// The query without its `?`; empty when there is none.
    pub query: &'a [u8],
    /// The header fields.
    pub fields: &'a F,
}

/// What serves a request.
#[derive(Clone, Copy, Debug)]
pub enum Matched<'s> {
    /// This rule.
    Rule {
        /// Its host.
        host: &'s CompiledHost,
        /// The rule.
        rule: &'s CompiledRule,
        /// How many bytes of the path (in the host's form) its match covered, for
        /// [`fairway_model::PathRewrite::Prefix`]: a prefix without its trailing slash, all of an exact path, nothing
        /// of a regular expression.
        prefix: usize,
    },
    /// The host is known, but none of its rules matches. With hosts that fall through: the most specific one.
    NoRule(&'s CompiledHost),
    /// No host covers the name.
    NoHost,
}
