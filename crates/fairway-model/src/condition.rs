//! Conditions on parts of a request, and what depends on them: answers and fields. They say what `if`, `return`, `map` and
//! `add_header` of an nginx snippet say, as values.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::field::FieldTemplate;
use crate::template::Template;

/// A test of a text that is made of parts of the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// What is tested.
    pub value: Template,
    /// What it is tested for.
    pub test: Test,
    /// Whether the condition holds where the test does not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub negated: bool,
}

/// What a text is tested for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Test {
    /// It is neither empty nor `0`.
    Truth,
    /// It is this text, byte for byte.
    Equal(Arc<str>),
    /// It is this text, without regard to the case of ASCII letters.
    EqualIgnoringCase(Arc<str>),
    /// The regular expression is found somewhere in it.
    Pattern {
        /// In the syntax that `fairway-pattern` has of PCRE.
        pattern: Arc<str>,
        /// Whether upper and lower case are the same.
        ignore_case: bool,
    },
    /// It is longer than what a regular expression is compared with.
    TooLong,
}

/// Answers the requests that meet all conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Respond {
    /// Where it is written, for people.
    pub origin: Arc<str>,
    /// All must hold; none is every request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Condition>,
    /// 200..=599.
    pub status: u16,
    /// What the answer says.
    pub content: Content,
    /// Done to the answer, where it is made for the host before one of its paths is chosen; `None` is an answer of the path,
    /// to which the rule does what it does to all answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_host: Option<Vec<ChosenFields>>,
    /// Bytes that the body of such a request may have; one whose length is larger is answered 413.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_body: Option<u64>,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// What its status means; from 400 on a page may replace it.
    Status,
    /// Nothing.
    Empty,
    /// This text, which is of this type.
    Text(Template, Arc<str>),
    /// This text of this type, whatever the path ends in.
    Fixed {
        /// The body.
        body: Arc<str>,
        /// `Content-Type`; `None` sends none.
        media_type: Option<Arc<str>>,
    },
    /// `Location`. One that begins with `/` gets the scheme and the host of the request.
    Location(Template),
    /// The same, of which nginx unescapes what stands before the query (`rewrite`).
    UnescapedLocation(Template),
    /// `Location`, made of the path by the captures of the pattern that it is found by, with the request's query behind it unless the
    /// replacement ends in `?`. Where the pattern is not found, the request goes on.
    Rewritten {
        /// Found somewhere in the decoded path.
        pattern: Arc<str>,
        /// Whether upper and lower case are the same.
        ignore_case: bool,
        /// With `$1`..`$9`. Absolute, or a path, as in [`Self::Location`].
        replacement: Arc<str>,
    },
}

/// Fields that some messages get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenFields {
    /// Where they are written, for people.
    pub origin: Arc<str>,
    /// Of the request; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Condition>,
    /// Of the answer; in ascending order. None is all, and fields of requests have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<u16>,
    /// What becomes of fields that have the name already.
    pub manner: Manner,
    /// A value that comes out empty removes the name, or adds nothing.
    pub fields: Vec<FieldTemplate>,
}

/// What becomes of fields that have the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Manner {
    /// They are replaced.
    Set,
    /// They stay, and the new one comes behind them.
    Add,
}

/// The statuses of the answers that nginx's `add_header` is for without `always`.
pub const OF_SUCCESS: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];
