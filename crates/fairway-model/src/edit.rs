//! Changes to the heads of requests and of answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::answer::{CookieRewrite, LocationRewrite};
use crate::condition::ChosenFields;
use crate::cors::Cors;
use crate::field::FieldTemplate;

/// A change to the head of a request that every guard let pass. It never answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestEdit {
    /// Changes the request's headers. Those that Fairway writes itself are changed once they are written.
    Headers(HeaderEdit),
    /// Sets the `Host` that is forwarded.
    Host(Arc<str>),
    /// Sets the `X-Forwarded-Prefix` that is forwarded to what this makes of the path; a path in which its pattern is not found
    /// leaves the field as it is (ingress-nginx `x-forwarded-prefix` with captures).
    ForwardedPrefix(PathRewrite),
}

/// A change to the head of an endpoint's answer, before the proxy adds anything of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceivedEdit {
    /// Removes these fields; names in lower case.
    Hide(Arc<[Arc<str>]>),
    /// Changes attributes of the cookies that endpoints set.
    Cookies(CookieRewrite),
    /// Changes where endpoints send clients.
    Location(LocationRewrite),
}

/// A change to the head of every answer of a rule, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerEdit {
    /// Adds what answers to other origins carry.
    Cors(Arc<Cors>),
    /// Changes headers.
    Headers(HeaderEdit),
    /// Sets fields.
    Fields(Arc<[FieldTemplate]>),
    /// Sets or adds fields, where conditions hold.
    Chosen(Arc<ChosenFields>),
    /// Sets `Strict-Transport-Security` on answers over TLS; the header's value (RFC 6797 §6.1).
    StrictTransportSecurity(Arc<str>),
}

/// Changes to a list of headers: first removed, then set (replacing all of the name), then added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderEdit {
    /// Names in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<Arc<str>>,
    /// Replace all of the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<HeaderField>,
    /// Come beside what is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<HeaderField>,
}

/// A header as it will be sent; validated (RFC 9110 §5.1, §5.5) by whoever makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderField {
    /// As written; compared without case.
    pub name: Arc<str>,
    /// No CR, LF or NUL.
    pub value: Arc<str>,
}

/// A new path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathRewrite {
    /// The whole path becomes this.
    Full(Arc<str>),
    /// The part that the rule's prefix matched becomes this (Gateway API `ReplacePrefixMatch`).
    Prefix(Arc<str>),
    /// ingress-nginx `rewrite`: where `pattern` is found in the decoded path (at its start, or anywhere when it has several
    /// alternatives outside of groups), the *whole* path
    /// becomes `replacement` with `$1`..`$9` from the captures; else the path stays. A `?` in the replacement starts the
    /// new query, to which the request's own is appended.
    Regex {
        /// In the syntax that `fairway-pattern` has of PCRE.
        pattern: Arc<str>,
        /// With `$1`..`$9`.
        replacement: Arc<str>,
        /// Whether upper and lower case are the same.
        ignore_case: bool,
    },
}
