//! What replicas share of sessions: secrets behind the tickets with which TLS clients resume theirs, and logouts. Secrets never leave
//! through `Debug` or serialisation, and their memory is overwritten when the last reference goes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Which tickets clients get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionTickets {
    /// Tickets under keys that change by themselves.
    #[default]
    Rotating,
    /// Tickets under a key that an operator gave, on every replica and for good.
    Fixed {
        /// What the key is derived from. Left out of what is shown and kept: where it is empty, keys change by themselves.
        #[serde(skip)]
        secret: TicketSecret,
    },
    /// None: every handshake is a full one.
    Off,
}

/// What ticket keys are derived from. Compares by content, prints as nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TicketSecret(Arc<Zeroizing<Vec<u8>>>);

/// A secret that all replicas have, as one of them sees it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedTicketSecret {
    /// The secret.
    pub secret: TicketSecret,
    /// How long ago it was made.
    pub age: Duration,
    /// How long it may not encrypt yet, because other replicas may not have it.
    pub encrypts_in: Duration,
}

/// Sessions that a provider has ended (OpenID Connect Back-Channel Logout 1.0), as replicas tell each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logout {
    /// What they have in common; says nothing of their user.
    pub id: [u8; 16],
    /// Only those are meant whose user logged in by then, by the clock of the provider, in seconds since 1970.
    pub until_login_at: u64,
    /// When none of them opens any more, in seconds since 1970: no replica encrypts one that has ended anew.
    pub ends: u64,
}

impl TicketSecret {
    /// Takes the bytes; whoever calls overwrites copies of its own.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Zeroizing::new(bytes)))
    }

    /// The bytes: for deriving keys, and for the Secret that replicas share.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is nothing to derive a key from.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_secret_is_in_no_output() {
        let fixed = SessionTickets::Fixed { secret: TicketSecret::new(b"secret-bytes".to_vec()) };
        let json = serde_json::to_string(&fixed).unwrap();
        assert_eq!(json, r#"{"Fixed":{}}"#);
        assert!(!format!("{fixed:?}").contains("115, 101, 99"));
        let back: SessionTickets = serde_json::from_str(&json).unwrap();
        assert_eq!(back, SessionTickets::Fixed { secret: TicketSecret::default() });
    }
}
