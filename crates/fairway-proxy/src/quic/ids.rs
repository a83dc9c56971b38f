//! Connection ids that name the worker which issued them (RFC 9000 §5.1).
//!
//! ```text
//! | nonce, 5 bytes, random | worker, 2 bytes, masked | check, 3 bytes | secret, 1 byte |
//! ```
//!
//! Keyed hashes produce the mask and the check, so that an observer cannot read the worker, and an id of
//! another process or port is recognized with a probability of 1 - 2^-24. The check is no protection: forged
//! ids only move datagrams to another worker, which drops them. The last byte names the secret of the id's
//! stateless reset ([`ResetKey::secret_name`]), which other replicas need; all ids issued at the same time
//! share it.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

use super::resets::ResetKey;
use crate::listener::PortId;

/// Length of issued ids.
pub(super) const ID_BYTES: usize = NONCE_BYTES + WORKER_BYTES + CHECK_BYTES + 1;

const NONCE_BYTES: usize = 5;
const WORKER_BYTES: usize = 2;
const CHECK_BYTES: usize = 3;

/// Set in the first byte of a long header (RFC 8999 §5.1).
const LONG_HEADER: u8 = 0x80;

/// Offset of the destination id's length in a long header, behind first byte and version.
const LONG_HEADER_ID_LENGTH_OFFSET: usize = 5;

/// Key with which all workers of a process issue and read ids.
#[derive(Clone)]
pub(super) struct IdKey {
    secret: RandomState,
    /// Port of the connections: elsewhere the ids are unknown, so that no stateless reset can be obtained
    /// there.
    port: Option<PortId>,
}

impl IdKey {
    /// A random key.
    pub(super) fn new() -> Self {
        Self { secret: RandomState::new(), port: None }
    }

    /// The key for connections of one port.
    pub(super) fn for_port(&self, port: PortId) -> Self {
        Self { secret: self.secret.clone(), port: Some(port) }
    }

    /// A new id of a worker, whose stateless reset uses this secret.
    pub(super) fn issue(&self, worker: u16, secret: u8) -> [u8; ID_BYTES] {
        let mut id = [0; ID_BYTES];
        let (nonce, rest) = id.split_at_mut(NONCE_BYTES);
        rand::fill(nonce).expect("AWS-LC ends the process rather than give no random numbers");
        rest[..WORKER_BYTES].copy_from_slice(&(worker ^ self.mask(nonce)).to_be_bytes());
        rest[WORKER_BYTES..][..CHECK_BYTES].copy_from_slice(&self.checksum(nonce, worker));
        rest[WORKER_BYTES + CHECK_BYTES] = secret;
        id
    }

    /// The worker that issued an id; `None` if another process or a client did.
    pub(super) fn worker_of(&self, id: &[u8]) -> Option<u16> {
        let id: &[u8; ID_BYTES] = id.try_into().ok()?;
        let (nonce, rest) = id.split_at(NONCE_BYTES);
        let worker = u16::from_be_bytes([rest[0], rest[1]]) ^ self.mask(nonce);
        (rest[WORKER_BYTES..][..CHECK_BYTES] == self.checksum(nonce, worker)).then_some(worker)
    }

    fn mask(&self, nonce: &[u8]) -> u16 {
        let [first, second, ..] = self.secret.hash_one((self.port, nonce)).to_be_bytes();
        u16::from_be_bytes([first, second])
    }

    fn checksum(&self, nonce: &[u8], worker: u16) -> [u8; CHECK_BYTES] {
        let [check @ .., _, _, _, _, _] = self.secret.hash_one((self.port, nonce, worker)).to_be_bytes();
        check
    }
}

/// Issues the ids of one worker.
pub(super) struct IdGenerator {
    key: IdKey,
    worker: u16,
    resets: Arc<ResetKey>,
}

impl IdGenerator {
    /// For this worker. Packets with ids of other processes are answered if `resets` can make their tokens.
    pub(super) fn new(key: IdKey, worker: u16, resets: Arc<ResetKey>) -> Self {
        Self { key, worker, resets }
    }
}

impl ConnectionIdGenerator for IdGenerator {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.key.issue(self.worker, self.resets.secret_name()))
    }

    /// Called before sending a stateless reset for an unknown id.
    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        let may_be_known = self.key.worker_of(id).is_some() || self.resets.is_shared(id);
        if may_be_known { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

impl fmt::Debug for IdGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdGenerator").field("worker", &self.worker).finish_non_exhaustive()
    }
}

/// Destination id of the first packet in a datagram, in any QUIC version (RFC 8999 §5). In a short header it
/// has the length of issued ids.
pub(super) fn destination_id(datagram: &[u8]) -> Option<&[u8]> {
    if has_short_header(datagram) {
        return datagram.get(1..=ID_BYTES);
    }
    let length = usize::from(*datagram.get(LONG_HEADER_ID_LENGTH_OFFSET)?);
    datagram[LONG_HEADER_ID_LENGTH_OFFSET + 1..].get(..length)
}

/// Whether the first packet in a datagram has a short header, as all do after the handshake (RFC 8999 §5.2).
pub(super) fn has_short_header(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & LONG_HEADER == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::SessionTickets;

    #[test]
    fn an_id_names_its_worker_at_its_own_port_and_cannot_be_altered() {
        let key = IdKey::new();
        let (one, two) = (key.for_port(PortId(1)), key.for_port(PortId(2)));
        let (mut elsewhere, mut bent) = (0, 0);
        for worker in 0..1000 {
            let mut id = one.issue(worker, 0);
            assert_eq!(one.worker_of(&id), Some(worker));
            elsewhere += u32::from(two.worker_of(&id).is_some());
            id[NONCE_BYTES] ^= 1;
            bent += u32::from(one.worker_of(&id).is_some());
        }
        assert!(elsewhere <= 1 && bent <= 1, "{elsewhere}, {bent}: once in 2^24");
    }

    #[test]
    fn an_id_names_its_worker_only_in_the_process_that_issued_it() {
        let (ours, other) = (IdKey::new(), IdKey::new());
        let mut mistaken = 0;
        for number in 0..10_000 {
            let worker = number % 300;
            let id = ours.issue(worker, 0);
            assert_eq!(ours.clone().worker_of(&id), Some(worker));
            mistaken += u32::from(other.worker_of(&id).is_some());
        }
        assert!(mistaken <= 1, "{mistaken} of 10,000");
    }

    #[test]
    fn ids_have_only_their_length_in_common() {
        let key = IdKey::new();
        let (one, two) = (key.issue(1, 0), key.issue(1, 0));
        assert_ne!(one[..NONCE_BYTES], two[..NONCE_BYTES]);
        let workers: std::collections::HashSet<_> =
            (0..200).map(|_| key.issue(1, 0)[NONCE_BYTES..][..WORKER_BYTES].to_vec()).collect();
        assert!(workers.len() > 150, "{} different masks", workers.len());
        assert_eq!(key.worker_of(&one[1..]), None, "too short");
        assert_eq!(key.worker_of(&[&one[..], &[0]].concat()), None, "too long");
    }

    #[test]
    fn foreign_ids_get_a_reset_only_if_their_token_can_be_made() {
        let tickets = SessionTickets::default();
        let resets = Arc::new(ResetKey::new(tickets.clone()));
        let mut generator = IdGenerator::new(IdKey::new(), 3, Arc::clone(&resets));
        let own_id = generator.generate_cid();
        let foreign = |secret| ConnectionId::new(&IdKey::new().issue(0, secret));
        assert!(
            generator.validate(&own_id).is_ok()
                && generator.validate(&foreign(resets.secret_name())).is_err()
        );
        tickets.adopt(&[fairway_model::SharedTicketSecret {
            secret: fairway_model::TicketSecret::new(b"shared".to_vec()),
            age: Duration::ZERO,
            encrypts_in: Duration::ZERO,
        }]);
        let name = resets.secret_name();
        assert_eq!(generator.generate_cid().last(), Some(&name));
        assert!(generator.validate(&own_id).is_ok() && generator.validate(&foreign(name)).is_ok());
        assert!(generator.validate(&foreign(!name)).is_err(), "of a secret that is not known");
    }

    #[test]
    fn the_destination_is_read_from_both_kinds_of_header() {
        let short: Vec<u8> = (0x40..0x60).collect();
        assert_eq!(destination_id(&short), Some(&short[1..12]));
        assert_eq!(destination_id(&short[..11]), None);
        let long = [0xc0, 0, 0, 0, 1, 3, 7, 8, 9, 0, 0];
        assert_eq!(destination_id(&long), Some(&[7, 8, 9][..]));
        for end in 0..9 {
            assert_eq!(destination_id(&long[..end]), None, "{end} bytes");
        }
        assert!(has_short_header(&short) && !has_short_header(&long) && !has_short_header(&[]));
    }
}
