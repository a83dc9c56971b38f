//! What a rule asks of a request: its path, method, headers, query parameters and cookies.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Conditions that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// On the path.
    pub path: PathMatch,
    /// On the method, in upper case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Arc<str>>,
    /// On headers; names in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<FieldMatch>,
    /// On query parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<FieldMatch>,
    /// On cookies; names are case-sensitive (RFC 6265 §4.1.1).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cookies: Vec<FieldMatch>,
    /// Among matches on the same path the higher rank comes first, whatever else they ask for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rank: u8,
    /// A regular expression for the path comes after all prefixes but `/`, not before them (Gateway API GRPCRoute
    /// precedence: the characters of a service count before those of a method).
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_prefixes: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(rank: &u8) -> bool {
    *rank == 0
}

/// A condition on the path, which is in the host's [`PathForm`](crate::PathForm).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathMatch {
    /// The path, byte for byte.
    Exact(Arc<str>),
    /// The path or anything below it, by path elements: `/a` covers `/a`, `/a/` and `/a/b`, not `/ab`. A trailing slash
    /// is part of the pattern: `/a/` covers `/a/` and `/a/b`, not `/a`. `/` covers everything.
    Prefix(Arc<str>),
    /// A regular expression anchored at the start of the path and not at its end. As in nginx, where `^` stands before
    /// its text, of several alternatives outside of groups only the first is anchored.
    Regex {
        /// In the syntax that `fairway-pattern` has of PCRE, without the anchor.
        pattern: Arc<str>,
        /// Whether upper and lower case are the same (ingress-nginx).
        ignore_case: bool,
    },
}

impl Default for PathMatch {
    fn default() -> Self {
        Self::Prefix("/".into())
    }
}

/// A condition on a named value: a header, a query parameter or a cookie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldMatch {
    /// The header (lower case), the query parameter (exact) or the cookie (exact).
    pub name: Arc<str>,
    /// What its value must be.
    pub value: TextMatch,
}

/// A condition on a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextMatch {
    /// Byte for byte.
    Exact(Arc<str>),
    /// A regular expression that must cover the whole value.
    Regex(Arc<str>),
}
