//! A ticket key and the ticket format: key name (16 bytes), nonce (12), then the encrypted part with its tag
//! (16): time of issue in seconds (8) and the session.
//!
//! Keys are derived by HKDF (RFC 5869) from a secret, one per [`TicketGroup`]; the name is derived without the
//! group. Tickets are encrypted with AES-256-GCM-SIV (RFC 8452) under a random nonce. Several replicas use one
//! key at the same time, and plain GCM loses everything with the first repeated nonce; here a repeated nonce at
//! most reveals that two tickets have the same content, which their fresh secrets rule out. With 2^40 tickets
//! under one key, 12 hours of 25 million tickets a second, two nonces are equal with a probability of 2^-17.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use fairway_model::TicketSecret;
use zeroize::Zeroizing;

use crate::tls::tickets::group::TicketGroup;

/// HKDF label of this construction; another construction gets another label.
const TICKET_LABEL: &[u8] = b"fairway session tickets v1";
const NAME_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
const TIME_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
const HEAD_BYTES: usize = NAME_BYTES + NONCE_LEN;
/// Ticket limit in bytes; a session contains its client's certificates.
const MAX_TICKET_BYTES: usize = 16 << 10;

/// A key for another purpose than tickets, zeroized on drop.
pub(super) type DerivedKey = Zeroizing<[u8; KEY_BYTES]>;

/// Encrypts and decrypts tickets. aws-lc zeroizes the secret on drop.
pub(super) struct TicketKey {
    extracted: Prk,
    name: [u8; NAME_BYTES],
    default_key: LessSafeKey,
}

/// A decrypted ticket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenedTicket {
    /// Time of issue in seconds since 1970, by the clock of the issuing replica.
    pub(super) made_at: u64,
    pub(super) session: Vec<u8>,
}

impl TicketKey {
    pub(super) fn new(secret: &TicketSecret) -> Self {
        let extracted = Salt::new(HKDF_SHA256, TICKET_LABEL).extract(secret.bytes());
        let mut name = [0; NAME_BYTES];
        name.copy_from_slice(&expand::<NAME_BYTES>(&extracted, &[b"name"])[..]);
        let default_key = derive(&extracted, TicketGroup::NO_CLIENT_AUTH);
        Self { extracted, name, default_key }
    }

    /// A key for `purpose`, which reveals nothing about ticket keys.
    pub(super) fn derive_for(&self, purpose: &[u8]) -> DerivedKey {
        expand(&self.extracted, &[b"purpose", purpose])
    }

    /// One byte of its name, for places too short for all of it. Not unique.
    pub(super) fn short_name(&self) -> u8 {
        self.name[0]
    }

    /// Whether a ticket names this key. Constant time.
    pub(super) fn is_named_in(&self, ticket: &[u8]) -> bool {
        ticket.get(..NAME_BYTES).is_some_and(|name| verify_slices_are_equal(name, &self.name).is_ok())
    }

    /// Encrypts a session issued at `made`; `None` if it is too large or there is no random number.
    pub(super) fn seal(&self, group: TicketGroup, made_at: u64, session: &[u8]) -> Option<Vec<u8>> {
        let length = HEAD_BYTES + TIME_BYTES + session.len() + TAG_BYTES;
        if length > MAX_TICKET_BYTES {
            return None;
        }
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut ticket = Vec::with_capacity(length);
        ticket.extend_from_slice(&self.name);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(&made_at.to_be_bytes());
        ticket.extend_from_slice(session);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let (head, body) = ticket.split_at_mut(HEAD_BYTES);
        let aad = Aad::from(&head[..NAME_BYTES]);
        let tag = self.with_group_key(group, |key| key.seal_in_place_separate_tag(nonce, aad, body)).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    /// Decrypts what [`seal`](Self::seal) made for the same group, with this key or another of the same secret.
    pub(super) fn open(&self, group: TicketGroup, ticket: &[u8]) -> Option<OpenedTicket> {
        if ticket.len() > MAX_TICKET_BYTES {
            return None;
        }
        let (head, body) = ticket.split_at_checked(HEAD_BYTES)?;
        let (name, nonce) = head.split_at(NAME_BYTES);
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut body = Zeroizing::new(body.to_vec());
        let plain =
            self.with_group_key(group, |key| key.open_in_place(nonce, Aad::from(name), &mut body).ok())?;
        let (made, session) = plain.split_first_chunk::<TIME_BYTES>()?;
        Some(OpenedTicket { made_at: u64::from_be_bytes(*made), session: session.to_vec() })
    }

    fn with_group_key<T>(&self, group: TicketGroup, act: impl FnOnce(&LessSafeKey) -> T) -> T {
        if group == TicketGroup::NO_CLIENT_AUTH {
            act(&self.default_key)
        } else {
            act(&derive(&self.extracted, group))
        }
    }
}

fn derive(extracted: &Prk, group: TicketGroup) -> LessSafeKey {
    let bytes = expand::<KEY_BYTES>(extracted, &[b"key", group.bytes()]);
    let key = UnboundKey::new(&AES_256_GCM_SIV, &bytes[..]);
    LessSafeKey::new(key.expect("it has the length of a key"))
}

fn expand<const N: usize>(extracted: &Prk, context: &[&[u8]]) -> Zeroizing<[u8; N]> {
    let mut bytes = Zeroizing::new([0; N]);
    let expanded = extracted.expand(context, Length(N)).and_then(|okm| okm.fill(&mut bytes[..]));
    expanded.expect("HKDF gives up to 255 times 32 bytes (RFC 5869 §2.3)");
    bytes
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::{ClientCertificateMode, ClientVerification};

    use super::*;

    fn key(secret: &[u8]) -> TicketKey {
        TicketKey::new(&TicketSecret::new(secret.to_vec()))
    }

    fn group(roots: &str) -> TicketGroup {
        TicketGroup::client_auth(&ClientVerification {
            roots: roots.into(),
            revoked: "".into(),
            depth: None,
            demand: ClientCertificateMode::Required,
        })
    }

    #[test]
    fn a_ticket_opens_with_the_same_secret_and_group_only() {
        let (ours, same, other) = (key(b"one"), key(b"one"), key(b"two"));
        let groups = [TicketGroup::NO_CLIENT_AUTH, group("a"), group("b")];
        for sealed in groups {
            let ticket = ours.seal(sealed, 7, b"session").unwrap();
            assert!(same.is_named_in(&ticket) && !other.is_named_in(&ticket));
            for opened in groups {
                let expected = OpenedTicket { made_at: 7, session: b"session".to_vec() };
                let expected = (sealed == opened).then_some(expected);
                assert_eq!(same.open(opened, &ticket), expected, "{sealed:?} {opened:?}");
                assert_eq!(other.open(opened, &ticket), None);
            }
        }
    }

    #[test]
    fn a_changed_removed_or_added_byte_invalidates_a_ticket() {
        let key = key(b"one");
        let ticket = key.seal(TicketGroup::NO_CLIENT_AUTH, 7, b"session").unwrap();
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(key.open(TicketGroup::NO_CLIENT_AUTH, &changed), None, "byte {at}");
            assert_eq!(key.open(TicketGroup::NO_CLIENT_AUTH, &ticket[..at]), None, "{at} bytes");
        }
        assert_eq!(key.open(TicketGroup::NO_CLIENT_AUTH, &[&ticket[..], &[0]].concat()), None);
        assert!(!key.is_named_in(b""));
    }

    #[test]
    fn tickets_of_one_session_share_only_the_key_name() {
        let key = key(b"one");
        let [one, two] = [(); 2].map(|()| key.seal(TicketGroup::NO_CLIENT_AUTH, 7, b"session").unwrap());
        assert_eq!(one[..NAME_BYTES], two[..NAME_BYTES]);
        assert_ne!(one[NAME_BYTES..HEAD_BYTES], two[NAME_BYTES..HEAD_BYTES]);
        assert_ne!(one[HEAD_BYTES..], two[HEAD_BYTES..]);
    }

    #[test]
    fn tickets_never_exceed_their_size_limit() {
        let key = key(b"one");
        let room = MAX_TICKET_BYTES - HEAD_BYTES - TIME_BYTES - TAG_BYTES;
        let largest = key.seal(TicketGroup::NO_CLIENT_AUTH, 7, &vec![0; room]).unwrap();
        assert_eq!(largest.len(), MAX_TICKET_BYTES);
        assert!(key.open(TicketGroup::NO_CLIENT_AUTH, &largest).is_some());
        assert!(key.seal(TicketGroup::NO_CLIENT_AUTH, 7, &vec![0; room + 1]).is_none());
        assert!(key.open(TicketGroup::NO_CLIENT_AUTH, &[&largest[..], &[0]].concat()).is_none());
    }
}
