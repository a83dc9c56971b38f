//! Tests of a value as the entries of a `map` of nginx are: of the headers by which clients are blocked, and of the targets of
//! requests that are not logged.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What a value may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueTest {
    /// This, in upper or lower case.
    AnyCase(Arc<str>),
    /// A regular expression is found somewhere in it. None is found in an empty value.
    Found {
        /// In the syntax that `fairway-pattern` has of PCRE.
        pattern: Arc<str>,
        /// Whether upper and lower case are the same.
        ignore_case: bool,
    },
}

/// Clients that are refused with 403, whatever they ask for. Any test is enough. A header that is absent has an empty value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockedClients {
    /// Of `User-Agent`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_agents: Vec<ValueTest>,
    /// Of `Referer`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub referers: Vec<ValueTest>,
}

impl BlockedClients {
    /// Nothing where nobody is blocked.
    #[must_use]
    pub fn kept(self) -> Option<Arc<Self>> {
        (self != Self::default()).then(|| Arc::new(self))
    }
}
