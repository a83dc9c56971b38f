//! The result of a lookup.

use crate::host::CompiledHost;
use crate::rule::CompiledRule;

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
    /// The host is known, but none of its rules matches. If hosts fall through: the most specific host.
    NoRule(&'s CompiledHost),
    /// No host covers the name.
    NoHost,
}
