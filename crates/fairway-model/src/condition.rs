//! Conditions on parts of a request, and the responses and headers that depend on them. They represent `if`,
//! `return`, `map` and `add_header` of nginx snippets.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::field::HeaderTemplate;
use crate::template::Template;

/// A test of text made from parts of the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// The text to test.
    pub value: Template,
    /// The test.
    pub test: ConditionTest,
    /// Whether the condition holds if the test fails.
    #[serde(default, skip_serializing_if = "is_default")]
    pub negated: bool,
}

/// How a text is tested.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConditionTest {
    /// It is neither empty nor `0`.
    Truth,
    /// It equals this text, byte for byte.
    Equal(Arc<str>),
    /// It equals this text, ignoring ASCII case.
    EqualIgnoringCase(Arc<str>),
    /// The regular expression matches somewhere in it.
    Pattern {
        /// In the PCRE subset of `fairway-pattern`.
        pattern: Arc<str>,
        /// Whether case is ignored.
        ignore_case: bool,
    },
    /// It is too long to be matched against a regular expression.
    TooLong,
}

/// Responds to requests that meet all conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionalResponse {
    /// Where it is written, for messages.
    pub origin: Arc<str>,
    /// All must hold; empty matches every request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Condition>,
    /// 200..=599.
    pub status: u16,
    /// The body or `Location` of the response.
    pub content: ResponseContent,
    /// Headers set on the response if it is sent for the host before a path is chosen. `None` if it is a response of
    /// the path: the rule then treats it like any other response.
    #[serde(rename = "of_host", default, skip_serializing_if = "Option::is_none")]
    pub host_headers: Option<Vec<ConditionalHeaders>>,
    /// Maximum request body in bytes; requests with a larger length get 413.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_body: Option<u64>,
}

/// The body or `Location` of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResponseContent {
    /// The reason phrase of the status; from 400 on, an error page may replace it.
    Status,
    /// An empty body.
    Empty,
    /// Text of this media type.
    Text(Template, Arc<str>),
    /// Text of this media type, whatever the path ends in.
    Fixed {
        /// The body.
        body: Arc<str>,
        /// `Content-Type`; `None` sends none.
        media_type: Option<Arc<str>>,
    },
    /// `Location`. If it begins with `/`, the scheme and host of the request are added.
    Location(Template),
    /// The same; nginx unescapes the part before the query (`rewrite`).
    UnescapedLocation(Template),
    /// `Location` built from the path with the captures of a pattern. The request's query is appended unless the
    /// replacement ends in `?`. If the pattern does not match, the request continues.
    Rewritten {
        /// Matched anywhere in the decoded path.
        pattern: Arc<str>,
        /// Whether case is ignored.
        ignore_case: bool,
        /// With `$1`..`$9`. Absolute, or a path as in [`Self::Location`].
        replacement: Arc<str>,
    },
}

/// Headers that are added if conditions hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionalHeaders {
    /// Where they are written, for messages.
    pub origin: Arc<str>,
    /// Conditions on the request; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Condition>,
    /// Response statuses, in ascending order; empty matches all. Always empty for request headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<u16>,
    /// What happens to headers of the same name.
    #[serde(rename = "manner")]
    pub operation: HeaderOperation,
    /// A header whose value is empty is removed, or not added.
    pub fields: Vec<HeaderTemplate>,
}

/// What happens to headers of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeaderOperation {
    /// They are replaced.
    Set,
    /// They stay, and the new header follows them.
    Add,
}

/// Statuses to which nginx's `add_header` applies without `always`.
pub const ADD_HEADER_STATUSES: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];
