//! The key of stateless resets, which replicas have in common where they share the secret of session tickets. Knows no connection.

use aws_lc_rs::digest::SHA256_OUTPUT_LEN;
use aws_lc_rs::{constant_time, hmac, rand};
use quinn_proto::crypto::{CryptoError, HmacKey};

use crate::tls::SessionTickets;

/// What the secret that replicas share is expanded for here.
const RESET_LABEL: &[u8] = b"quic stateless reset v1";

/// Makes the tokens of stateless resets (RFC 9000 §10.3). Where replicas share a secret for session tickets, each of them makes the
/// same token for an id, so that a client whose packets come to another replica than before learns at once that its connection is
/// gone there.
pub(super) struct ResetKey {
    tickets: SessionTickets,
    own: hmac::Key,
}

impl ResetKey {
    /// Derived from what `tickets` says that replicas share, else random.
    pub(super) fn new(tickets: SessionTickets) -> Self {
        Self { tickets, own: hmac::Key::new(hmac::HMAC_SHA256, &random_secret()) }
    }

    /// Whether other replicas make the same tokens.
    pub(super) fn is_shared(&self) -> bool {
        self.tickets.is_shared()
    }

    fn tag(&self, data: &[u8]) -> hmac::Tag {
        match self.tickets.derive_shared(RESET_LABEL) {
            Some(secret) => hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret[..]), data),
            None => hmac::sign(&self.own, data),
        }
    }
}

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature: &mut [u8]) {
        signature.copy_from_slice(self.tag(data).as_ref());
    }

    fn signature_len(&self) -> usize {
        SHA256_OUTPUT_LEN
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        constant_time::verify_slices_are_equal(self.tag(data).as_ref(), signature).map_err(|_| CryptoError)
    }
}

/// A random secret.
pub(super) fn random_secret() -> [u8; 32] {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).expect("AWS-LC ends the process rather than give no random numbers");
    bytes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fairway_model::{SharedTicketSecret, TicketSecret};

    use super::*;

    fn token(key: &ResetKey, id: &[u8]) -> Vec<u8> {
        let mut token = vec![0; key.signature_len()];
        key.sign(id, &mut token);
        assert!(key.verify(id, &token).is_ok() && key.verify(b"another id", &token).is_err());
        token
    }

    #[test]
    fn replicas_with_one_secret_make_the_same_tokens_and_processes_without_one_never_do() {
        let [one, two] = [(); 2].map(|()| SessionTickets::default());
        let keys = [one.clone(), two.clone()].map(ResetKey::new);
        assert!(!keys[0].is_shared());
        assert_ne!(token(&keys[0], b"id"), token(&keys[1], b"id"));
        assert_eq!(token(&keys[0], b"id"), token(&keys[0], b"id"));
        let secret = |text: &[u8]| SharedTicketSecret {
            secret: TicketSecret::new(text.to_vec()),
            age: Duration::ZERO,
            encrypts_in: Duration::ZERO,
        };
        one.adopt(&[secret(b"shared")]);
        two.adopt(&[secret(b"shared")]);
        assert!(keys[0].is_shared() && keys[1].is_shared());
        assert_eq!(token(&keys[0], b"id"), token(&keys[1], b"id"));
        two.adopt(&[secret(b"another")]);
        assert_ne!(token(&keys[0], b"id"), token(&keys[1], b"id"));
    }
}
