//! Tests of a value, as entries of an nginx `map` define them: for headers by which clients are blocked, and for
//! targets of requests that are not logged.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A test of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueTest {
    /// The value equals this text, ignoring case.
    AnyCase(Arc<str>),
    /// A regular expression matches somewhere in the value. Empty values never match.
    Found {
        /// In the PCRE subset of `fairway-pattern`.
        pattern: Arc<str>,
        /// Whether case is ignored.
        ignore_case: bool,
    },
}

/// Clients whose requests get 403. One match suffices. An absent header has an empty value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockedClients {
    /// Tests of `User-Agent`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_agents: Vec<ValueTest>,
    /// Tests of `Referer`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub referers: Vec<ValueTest>,
}

impl BlockedClients {
    /// `None` if no client is blocked.
    #[must_use]
    pub fn if_not_empty(self) -> Option<Arc<Self>> {
        (self != Self::default()).then(|| Arc::new(self))
    }
}
