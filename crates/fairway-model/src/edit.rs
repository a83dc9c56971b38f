//! Changes to request and response heads.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::condition::ConditionalHeaders;
use crate::cors::Cors;
use crate::field::HeaderTemplate;
use crate::response::{CookieRewrite, LocationRewrite};

/// A change to the head of a request that passed all guards. It never responds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestEdit {
    /// Changes headers. Headers that Fairway writes itself are changed after they are written.
    Headers(HeaderEdit),
    /// Sets the `Host` sent to the endpoint.
    Host(Arc<str>),
    /// Sets the `X-Forwarded-Prefix` sent to the endpoint, computed from the path. If the pattern does not match, the
    /// header stays unchanged (ingress-nginx `x-forwarded-prefix` with captures).
    ForwardedPrefix(PathRewrite),
}

/// A change to the response head of an endpoint, before the proxy adds headers of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpstreamResponseEdit {
    /// Removes these headers; names in lower case.
    Hide(Arc<[Arc<str>]>),
    /// Rewrites attributes of cookies.
    Cookies(CookieRewrite),
    /// Rewrites redirect targets.
    Location(LocationRewrite),
}

/// A change to the head of every response of a rule, including the proxy's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResponseEdit {
    /// Adds CORS headers.
    Cors(Arc<Cors>),
    /// Changes headers.
    Headers(HeaderEdit),
    /// Sets headers.
    Fields(Arc<[HeaderTemplate]>),
    /// Sets or adds headers if conditions hold.
    Chosen(Arc<ConditionalHeaders>),
    /// Value of `Strict-Transport-Security` (RFC 6797 §6.1), set on responses over TLS.
    StrictTransportSecurity(Arc<str>),
}

/// Changes to a header list, in this order: remove, set (replaces all headers of the name), add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderEdit {
    /// Names in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<Arc<str>>,
    /// Replace all headers of the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<HeaderField>,
    /// Added after existing headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<HeaderField>,
}

/// A header to send. Whoever creates it must validate it (RFC 9110 §5.1, §5.5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderField {
    /// As written; compared case-insensitively.
    pub name: Arc<str>,
    /// No CR, LF or NUL.
    pub value: Arc<str>,
}

/// A path replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathRewrite {
    /// Replaces the whole path.
    Full(Arc<str>),
    /// Replaces the prefix that the rule matched (Gateway API `ReplacePrefixMatch`).
    Prefix(Arc<str>),
    /// ingress-nginx `rewrite`: if `pattern` matches the decoded path (at its start, or anywhere if it has several
    /// alternatives outside of groups), `replacement`, with `$1`..`$9` from the captures, replaces the *whole* path.
    /// Otherwise the path stays. A `?` in the replacement starts the new query, and the request's query is appended.
    Regex {
        /// In the PCRE subset of `fairway-pattern`.
        pattern: Arc<str>,
        /// With `$1`..`$9`.
        replacement: Arc<str>,
        /// Whether case is ignored.
        ignore_case: bool,
    },
}
