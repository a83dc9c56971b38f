//! A key for tickets, and the bytes of a ticket: the name of the key (16 bytes), a nonce (12), and what is encrypted with a tag
//! behind it (16): the second in which the ticket was made (8), then the session.
//!
//! Keys are derived by HKDF (RFC 5869) from a secret, one for each [`Group`]; the name is derived without the group. Tickets are
//! encrypted with AES-256-GCM-SIV (RFC 8452) under a random nonce. Several replicas use one key at the same time, and plain GCM
//! loses everything with the first nonce that is used twice; here a repeated nonce shows at most that two tickets have the same
//! content, which their fresh secrets rule out. With 2^40 tickets under one key, which is 12 hours of 25 million tickets a
//! second, two nonces are equal with a probability of 2^-17.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use fairway_model::TicketSecret;
use zeroize::Zeroizing;

use crate::tls::tickets::group::Group;

/// What the tickets of this construction are made for; another construction gets another label.
const LABEL: &[u8] = b"fairway session tickets v1";
const NAME_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
const TIME_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
const HEAD_BYTES: usize = NAME_BYTES + NONCE_LEN;
/// The largest ticket: a session has the certificates of its client.
const MAX_TICKET_BYTES: usize = 16 << 10;

/// A key for another purpose than tickets, overwritten when it is dropped.
pub(super) type DerivedKey = Zeroizing<[u8; KEY_BYTES]>;

/// Makes and opens tickets. What it was derived with is overwritten when it is dropped, by aws-lc.
pub(super) struct TicketKey {
    extracted: Prk,
    name: [u8; NAME_BYTES],
    unasked: LessSafeKey,
}

/// An opened ticket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenedTicket {
    /// When it was made, in seconds since 1970 by the clock of the replica that made it.
    pub(super) made: u64,
    pub(super) session: Vec<u8>,
}

impl TicketKey {
    pub(super) fn new(secret: &TicketSecret) -> Self {
        let extracted = Salt::new(HKDF_SHA256, LABEL).extract(secret.bytes());
        let mut name = [0; NAME_BYTES];
        name.copy_from_slice(&expand::<NAME_BYTES>(&extracted, &[b"name"])[..]);
        let unasked = derive(&extracted, Group::UNASKED);
        Self { extracted, name, unasked }
    }

    /// A key for `purpose`, which says nothing of those of tickets.
    pub(super) fn derive_for(&self, purpose: &[u8]) -> DerivedKey {
        expand(&self.extracted, &[b"purpose", purpose])
    }

    /// One byte of its name, for where a whole one is too long. Another key may have the same.
    pub(super) fn short_name(&self) -> u8 {
        self.name[0]
    }

    /// Whether a ticket says that this key made it. Takes the same time whatever it says.
    pub(super) fn is_named_in(&self, ticket: &[u8]) -> bool {
        ticket.get(..NAME_BYTES).is_some_and(|name| verify_slices_are_equal(name, &self.name).is_ok())
    }

    /// Encrypts a session at `made`; `None` where it is too large, or the system gives no random numbers.
    pub(super) fn seal(&self, group: Group, made: u64, session: &[u8]) -> Option<Vec<u8>> {
        let length = HEAD_BYTES + TIME_BYTES + session.len() + TAG_BYTES;
        if length > MAX_TICKET_BYTES {
            return None;
        }
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut ticket = Vec::with_capacity(length);
        ticket.extend_from_slice(&self.name);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(&made.to_be_bytes());
        ticket.extend_from_slice(session);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let (head, body) = ticket.split_at_mut(HEAD_BYTES);
        let aad = Aad::from(&head[..NAME_BYTES]);
        let tag = self.with(group, |key| key.seal_in_place_separate_tag(nonce, aad, body)).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    /// Opens what [`seal`](Self::seal) made for the same group, with this key or one of the same secret.
    pub(super) fn open(&self, group: Group, ticket: &[u8]) -> Option<OpenedTicket> {
        if ticket.len() > MAX_TICKET_BYTES {
            return None;
        }
        let (head, body) = ticket.split_at_checked(HEAD_BYTES)?;
        let (name, nonce) = head.split_at(NAME_BYTES);
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut body = Zeroizing::new(body.to_vec());
        let plain = self.with(group, |key| key.open_in_place(nonce, Aad::from(name), &mut body).ok())?;
        let (made, session) = plain.split_first_chunk::<TIME_BYTES>()?;
        Some(OpenedTicket { made: u64::from_be_bytes(*made), session: session.to_vec() })
    }

    fn with<T>(&self, group: Group, act: impl FnOnce(&LessSafeKey) -> T) -> T {
        if group == Group::UNASKED { act(&self.unasked) } else { act(&derive(&self.extracted, group)) }
    }
}

fn derive(extracted: &Prk, group: Group) -> LessSafeKey {
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
    use fairway_model::{ClientDemand, ClientVerification};

    use super::*;

    fn key(secret: &[u8]) -> TicketKey {
        TicketKey::new(&TicketSecret::new(secret.to_vec()))
    }

    fn group(roots: &str) -> Group {
        Group::asked(&ClientVerification {
            roots: roots.into(),
            revoked: "".into(),
            depth: None,
            demand: ClientDemand::Required,
        })
    }

    #[test]
    fn a_ticket_opens_with_the_same_secret_and_group_only() {
        let (ours, same, other) = (key(b"one"), key(b"one"), key(b"two"));
        let groups = [Group::UNASKED, group("a"), group("b")];
        for sealed in groups {
            let ticket = ours.seal(sealed, 7, b"session").unwrap();
            assert!(same.is_named_in(&ticket) && !other.is_named_in(&ticket));
            for opened in groups {
                let expected = OpenedTicket { made: 7, session: b"session".to_vec() };
                let expected = (sealed == opened).then_some(expected);
                assert_eq!(same.open(opened, &ticket), expected, "{sealed:?} {opened:?}");
                assert_eq!(other.open(opened, &ticket), None);
            }
        }
    }

    #[test]
    fn a_byte_that_is_changed_cut_off_or_added_spoils_a_ticket() {
        let key = key(b"one");
        let ticket = key.seal(Group::UNASKED, 7, b"session").unwrap();
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(key.open(Group::UNASKED, &changed), None, "byte {at}");
            assert_eq!(key.open(Group::UNASKED, &ticket[..at]), None, "{at} bytes");
        }
        assert_eq!(key.open(Group::UNASKED, &[&ticket[..], &[0]].concat()), None);
        assert!(!key.is_named_in(b""));
    }

    #[test]
    fn two_tickets_of_one_session_have_nothing_but_the_name_in_common() {
        let key = key(b"one");
        let [one, two] = [(); 2].map(|()| key.seal(Group::UNASKED, 7, b"session").unwrap());
        assert_eq!(one[..NAME_BYTES], two[..NAME_BYTES]);
        assert_ne!(one[NAME_BYTES..HEAD_BYTES], two[NAME_BYTES..HEAD_BYTES]);
        assert_ne!(one[HEAD_BYTES..], two[HEAD_BYTES..]);
    }

    #[test]
    fn tickets_are_no_larger_than_their_bound() {
        let key = key(b"one");
        let room = MAX_TICKET_BYTES - HEAD_BYTES - TIME_BYTES - TAG_BYTES;
        let largest = key.seal(Group::UNASKED, 7, &vec![0; room]).unwrap();
        assert_eq!(largest.len(), MAX_TICKET_BYTES);
        assert!(key.open(Group::UNASKED, &largest).is_some());
        assert!(key.seal(Group::UNASKED, 7, &vec![0; room + 1]).is_none());
        assert!(key.open(Group::UNASKED, &[&largest[..], &[0]].concat()).is_none());
    }
}
