//! Request matching by path, method, headers, query parameters and cookies.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Conditions that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// The path.
    pub path: PathMatch,
    /// The method, in upper case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Arc<str>>,
    /// Headers; names in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<NamedValueMatch>,
    /// Query parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<NamedValueMatch>,
    /// Cookies; names are case-sensitive (RFC 6265 §4.1.1).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cookies: Vec<NamedValueMatch>,
    /// Among matches on the same path, a higher rank comes first, whatever the other conditions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rank: u8,
    /// Places a regular expression for the path after all prefixes except `/`, rather than before them (Gateway API
    /// GRPCRoute precedence: characters of the service count before those of the method).
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

/// A condition on the path, in the host's [`PathForm`](crate::PathForm).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathMatch {
    /// The path, byte for byte.
    Exact(Arc<str>),
    /// The path or anything below it, by path elements: `/a` matches `/a`, `/a/` and `/a/b`, not `/ab`. A trailing
    /// slash is part of the pattern: `/a/` matches `/a/` and `/a/b`, not `/a`. `/` matches everything.
    Prefix(Arc<str>),
    /// A regular expression anchored at the start of the path but not at its end. As in nginx, which puts `^` before
    /// the text, only the first of several top-level alternatives is anchored.
    Regex {
        /// In the PCRE subset of `fairway-pattern`, without the anchor.
        pattern: Arc<str>,
        /// Whether case is ignored (ingress-nginx).
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
pub struct NamedValueMatch {
    /// The header (lower case), the query parameter (exact) or the cookie (exact).
    pub name: Arc<str>,
    /// The required value.
    pub value: TextMatch,
}

/// A condition on a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextMatch {
    /// Byte for byte.
    Exact(Arc<str>),
    /// A regular expression that must match the whole value.
    Regex(Arc<str>),
}
