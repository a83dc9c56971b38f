//! Session state shared by replicas: TLS ticket secrets and logouts. Secrets never appear in `Debug` output or
//! serialised data, and their memory is overwritten when the last reference is dropped.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// TLS session tickets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionTickets {
    /// Encrypted with keys that rotate automatically.
    #[default]
    Rotating,
    /// Encrypted with a fixed key that the operator provides, the same on every replica.
    Fixed {
        /// What the key is derived from. Not serialised: if it is empty, keys rotate automatically.
        #[serde(skip)]
        secret: TicketSecret,
    },
    /// Disabled: every handshake is a full one.
    Off,
}

/// What ticket keys are derived from. Compares by content; `Debug` omits the content.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TicketSecret(Arc<Zeroizing<Vec<u8>>>);

/// A secret shared by all replicas, as this replica sees it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedTicketSecret {
    /// The secret.
    pub secret: TicketSecret,
    /// Its age.
    pub age: Duration,
    /// How long it must not be used to encrypt, because other replicas may not have it yet.
    pub encrypts_in: Duration,
}

/// Sessions that a provider has ended (OpenID Connect Back-Channel Logout 1.0), as exchanged between replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logout {
    /// Common id of the sessions; does not identify their user.
    pub id: [u8; 16],
    /// Only sessions whose user logged in up to this time have ended; by the clock of the provider, in seconds since
    /// 1970.
    pub until_login_at: u64,
    /// When none of these sessions can be opened any more, in seconds since 1970. No replica re-encrypts an ended
    /// session.
    pub ends: u64,
}

impl TicketSecret {
    /// From bytes; the caller overwrites its own copies.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Zeroizing::new(bytes)))
    }

    /// The bytes. Use them only to derive keys, and for the Secret that replicas share.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is empty.
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
    fn ticket_secrets_are_not_printed() {
        let fixed = SessionTickets::Fixed { secret: TicketSecret::new(b"secret-bytes".to_vec()) };
        let json = serde_json::to_string(&fixed).unwrap();
        assert_eq!(json, r#"{"Fixed":{}}"#);
        assert!(!format!("{fixed:?}").contains("115, 101, 99"));
        let back: SessionTickets = serde_json::from_str(&json).unwrap();
        assert_eq!(back, SessionTickets::Fixed { secret: TicketSecret::default() });
    }
}
