//! The key of stateless resets, which replicas have in common where they share the secret of session tickets. Knows no connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use aws_lc_rs::digest::SHA256_OUTPUT_LEN;
use aws_lc_rs::{constant_time, hmac, rand};
use quinn_proto::crypto::{CryptoError, HmacKey};

use crate::tls::SessionTickets;

/// What the secret that replicas share is expanded for here.
const RESET_LABEL: &[u8] = b"quic stateless reset v1";

/// What the tokens of stateless resets (RFC 9000 §10.3) are made with. Where replicas share a secret for session tickets, each of them
/// makes the same token for an id, so that a client whose packets come to another replica than before learns at once that its
/// connection is gone there.
pub(super) struct ResetKey {
    tickets: SessionTickets,
    own: hmac::Key,
}

impl ResetKey {
    /// Derived from what `tickets` says that replicas share, else random.
    pub(super) fn new(tickets: SessionTickets) -> Self {
        Self { tickets, own: hmac::Key::new(hmac::HMAC_SHA256, &random_secret()) }
    }

    /// What an id that is issued now says of the secret that its token is made with: its last byte. Replicas know a secret for as long
    /// as it opens tickets, so that the token of an id stays the same when another secret follows.
    pub(super) fn name(&self) -> u8 {
        self.tickets.shared_name().unwrap_or_default()
    }

    /// Whether other replicas make the same token for an id.
    pub(super) fn is_shared(&self, id: &[u8]) -> bool {
        self.shared(id).is_some()
    }

    fn shared(&self, id: &[u8]) -> Option<hmac::Key> {
        let secret = self.tickets.derive_shared(*id.last()?, RESET_LABEL)?;
        Some(hmac::Key::new(hmac::HMAC_SHA256, &secret[..]))
    }

    /// For the ids of the connections at one address.
    pub(super) fn at(self: &Arc<Self>, address: SocketAddr) -> Arc<PortResetKey> {
        Arc::new(PortResetKey { key: Arc::clone(self), address })
    }
}

/// Makes the tokens for the ids of connections at one address. Those of another address are different: what a packet draws there that
/// was copied here ends no connection. Replicas listen at the same address, as a rule at that of no interface.
pub(super) struct PortResetKey {
    key: Arc<ResetKey>,
    address: SocketAddr,
}

impl PortResetKey {
    fn tag(&self, id: &[u8]) -> hmac::Tag {
        let shared = self.key.shared(id);
        let mut context = hmac::Context::with_key(shared.as_ref().unwrap_or(&self.key.own));
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
        let key = key.at(address.parse().unwrap());
        let mut token = vec![0; key.signature_len()];
        key.sign(id, &mut token);
        assert!(key.verify(id, &token).is_ok() && key.verify(b"another id", &token).is_err());
        token
    }

    #[test]
    fn replicas_with_one_secret_make_the_same_tokens_and_processes_without_one_never_do() {
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
        let id = [b'i', b'd', keys[0].name()];
        assert!(keys.iter().all(|key| key.is_shared(&id)));
        assert_eq!(token(&keys[0], &id), token(&keys[1], &id));
        two.adopt(&[secret(b"another"), secret(b"shared")]);
        assert_ne!(keys[0].name(), keys[1].name());
        assert_eq!(token(&keys[0], &id), token(&keys[1], &id), "the next secret changes no token");
        two.adopt(&[secret(b"another")]);
        assert!(!keys[1].is_shared(&id), "a secret that is over");
        assert_ne!(token(&keys[0], &id), token(&keys[1], &id));
    }

    #[test]
    fn each_port_has_tokens_of_its_own() {
        let tickets = SessionTickets::default();
        let key = Arc::new(ResetKey::new(tickets.clone()));
        let addresses = [ADDRESS, "[::]:8444", "0.0.0.0:8443", "192.0.2.1:8443", "192.0.2.2:8443"];
        for is_shared in [false, true] {
            let id = [b'i', b'd', key.name()];
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
