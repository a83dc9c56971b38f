//! Who of a backend's endpoints gets a request, and what tells backends of the same Service and port apart by it.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fairway_model::{Balancing, SessionCookie, SessionKey, SessionPart};

/// Who gets a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Balance {
    pub(crate) balancing: Balancing,
    /// What requests have in common that belong to the same endpoint.
    pub(crate) hash: Option<HashBy>,
    /// The cookie of sessions, which counts for more.
    pub(crate) cookie: Option<Arc<SessionCookie>>,
}

/// What requests have in common, as it was written and as it is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HashBy {
    pub(crate) text: Arc<str>,
    pub(crate) parts: Vec<SessionPart>,
}

impl Default for Balance {
    fn default() -> Self {
        Self { balancing: Balancing::RoundRobin, hash: None, cookie: None }
    }
}

impl Balance {
    /// What tells backends of the same Service and port apart; empty for requests in turn.
    pub(crate) fn suffix(&self) -> String {
        let mut suffix = match self.balancing {
            Balancing::RoundRobin => String::new(),
            Balancing::PeakEwma => ";ewma".to_owned(),
            Balancing::LeastRequests => ";least-requests".to_owned(),
            Balancing::Random => ";random".to_owned(),
        };
        if let Some(cookie) = &self.cookie {
            let mut hasher = DefaultHasher::new();
            cookie.hash(&mut hasher);
            _ = write!(suffix, ";session={}-{:08x}", cookie.name, hasher.finish() >> 32);
        } else if let Some(by) = &self.hash {
            suffix.extend([";hash=", &by.text]);
        }
        suffix
    }

    /// The same for the data plane.
    pub(crate) fn session(&self) -> Option<SessionKey> {
        match (&self.cookie, &self.hash) {
            (Some(cookie), _) => Some(SessionKey::Cookie((**cookie).clone())),
            (None, by) => by.as_ref().map(|by| SessionKey::Hash(by.parts.clone())),
        }
    }
}
