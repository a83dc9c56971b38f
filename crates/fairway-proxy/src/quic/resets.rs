//! The key of stateless resets, shared by replicas that share the secret of session tickets. Knows no
//! connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use aws_lc_rs::digest::SHA256_OUTPUT_LEN;
use aws_lc_rs::{constant_time, hmac, rand};
use quinn_proto::crypto::{CryptoError, HmacKey};

use crate::tls::SessionTickets;

/// HKDF label for deriving the key from the shared secret.
const RESET_LABEL: &[u8] = b"quic stateless reset v1";

/// Makes stateless reset tokens (RFC 9000 §10.3). Replicas that share a secret for session tickets make the
/// same token for an id, so that a client whose packets reach another replica learns at once that its
/// connection is gone.
pub(super) struct ResetKey {
    tickets: SessionTickets,
    local_key: hmac::Key,
}

impl ResetKey {
    /// Derived from the shared secret of `tickets`, otherwise random.
    pub(super) fn new(tickets: SessionTickets) -> Self {
        Self { tickets, local_key: hmac::Key::new(hmac::HMAC_SHA256, &random_secret()) }
    }

    /// The last byte of newly issued ids, which names the secret of their token. Replicas know a secret while
    /// it opens tickets, so that an id keeps its token when a newer secret follows.
    pub(super) fn secret_name(&self) -> u8 {
        self.tickets.shared_name().unwrap_or_default()
    }

    /// Whether other replicas make the same token for an id.
    pub(super) fn is_shared(&self, id: &[u8]) -> bool {
        self.shared_key(id).is_some()
    }

    fn shared_key(&self, id: &[u8]) -> Option<hmac::Key> {
        let secret = self.tickets.derive_shared(*id.last()?, RESET_LABEL)?;
        Some(hmac::Key::new(hmac::HMAC_SHA256, &secret[..]))
    }

    /// The key for connections at one address.
    pub(super) fn for_address(self: &Arc<Self>, address: SocketAddr) -> Arc<PortResetKey> {
        Arc::new(PortResetKey { key: Arc::clone(self), address })
    }
}

/// Makes tokens for connections at one address. Tokens differ by address: a reset obtained at another address
/// ends no connection here. Replicas listen at the same address, usually the unspecified one.
pub(super) struct PortResetKey {
    key: Arc<ResetKey>,
    address: SocketAddr,
}

impl PortResetKey {
    fn tag(&self, id: &[u8]) -> hmac::Tag {
        let shared = self.key.shared_key(id);
        let mut context = hmac::Context::with_key(shared.as_ref().unwrap_or(&self.key.local_key));
        match self.address.ip() {
            IpAddr::V4(ip) => context.update(&ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => context.update(&ip.octets()),
        }
        context.update(&self.address.port().to_be_bytes());
        context.update(id);
        context.sign()
    }
}

impl HmacKey for PortResetKey {
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

    const ADDRESS: &str = "[::]:8443";

    fn token(key: &Arc<ResetKey>, address: &str, id: &[u8]) -> Vec<u8> {
        let key = key.for_address(address.parse().unwrap());
        let mut token = vec![0; key.signature_len()];
        key.sign(id, &mut token);
        assert!(key.verify(id, &token).is_ok() && key.verify(b"another id", &token).is_err());
        token
    }

    #[test]
    fn only_replicas_with_a_shared_secret_make_the_same_tokens() {
        let [one, two] = [(); 2].map(|()| SessionTickets::default());
        let keys = [one.clone(), two.clone()].map(|tickets| Arc::new(ResetKey::new(tickets)));
        let token = |key: &Arc<ResetKey>, id: &[u8]| token(key, ADDRESS, id);
        assert!(!keys[0].is_shared(b"id"));
        assert_ne!(token(&keys[0], b"id"), token(&keys[1], b"id"));
        assert_eq!(token(&keys[0], b"id"), token(&keys[0], b"id"));
        let secret = |text: &[u8]| SharedTicketSecret {
            secret: TicketSecret::new(text.to_vec()),
            age: Duration::ZERO,
            encrypts_in: Duration::ZERO,
        };
        one.adopt(&[secret(b"shared")]);
        two.adopt(&[secret(b"shared")]);
        let id = [b'i', b'd', keys[0].secret_name()];
        assert!(keys.iter().all(|key| key.is_shared(&id)));
        assert_eq!(token(&keys[0], &id), token(&keys[1], &id));
        two.adopt(&[secret(b"another"), secret(b"shared")]);
        assert_ne!(keys[0].secret_name(), keys[1].secret_name());
        assert_eq!(token(&keys[0], &id), token(&keys[1], &id), "the next secret changes no token");
        two.adopt(&[secret(b"another")]);
        assert!(!keys[1].is_shared(&id), "a secret that is over");
        assert_ne!(token(&keys[0], &id), token(&keys[1], &id));
    }

    #[test]
    fn tokens_differ_by_port() {
        let tickets = SessionTickets::default();
        let key = Arc::new(ResetKey::new(tickets.clone()));
        let addresses = [ADDRESS, "[::]:8444", "0.0.0.0:8443", "192.0.2.1:8443", "192.0.2.2:8443"];
        for is_shared in [false, true] {
            let id = [b'i', b'd', key.secret_name()];
            assert_eq!(key.is_shared(&id), is_shared);
            let tokens = addresses.map(|address| token(&key, address, &id));
            let different: std::collections::HashSet<_> = tokens.iter().collect();
            assert_eq!(different.len(), addresses.len());
            tickets.adopt(&[SharedTicketSecret {
                secret: TicketSecret::new(b"shared".to_vec()),
                age: Duration::ZERO,
                encrypts_in: Duration::ZERO,
            }]);
        }
    }
}
