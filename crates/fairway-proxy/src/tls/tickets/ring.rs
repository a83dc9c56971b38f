//! The key ring decides which key encrypts tickets, and which keys still decrypt them. Callers pass the time in.
//!
//! Tickets are encrypted with the operator's key if there is one, otherwise with a key shared by all replicas,
//! otherwise with a local key of this process. A rotating key encrypts for one rotation interval and decrypts for
//! two. After that the ring refuses its tickets, so a stolen key forges tickets for a limited time only. A new shared
//! key decrypts at once, but encrypts only when every replica has had time to adopt it; until then the previous
//! shared key encrypts.

use std::time::{Duration, Instant};

use fairway_model::{SharedTicketSecret, TicketSecret};

use crate::tls::tickets::group::TicketGroup;
use crate::tls::tickets::key::{DerivedKey, TicketKey};

/// Rotation interval unless the configuration sets one; as keys decrypt for two, tickets live for at most a day.
const DEFAULT_ROTATION: Duration = Duration::from_secs(12 * 60 * 60);
/// Divides the rotation interval into the time that replicas have to adopt a shared key: 30 minutes by default. The
/// difference between their clocks must be smaller.
const SETTLING_FRACTION: u32 = 24;
/// Length of a local secret: that of the AES-256 keys derived from it.
const SECRET_BYTES: usize = 32;

/// The time by two clocks. The age of a key is measured by the monotonic clock, which is never set back; the age of a
/// ticket by the wall clock, because another replica may have issued the ticket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) instant: Instant,
    /// Seconds since 1970.
    pub(super) wall: u64,
}

/// All ticket keys of a process.
pub(super) struct KeyRing {
    rotation: Duration,
    operator_key: Option<OperatorKey>,
    /// Newest first.
    shared_keys: Vec<RingKey>,
    /// Newest first.
    local_keys: Vec<RingKey>,
}

/// The key configured by the operator, which does not rotate.
struct OperatorKey {
    secret: TicketSecret,
    key: TicketKey,
}

/// A shared or local key, which rotates.
struct RingKey {
    key: TicketKey,
    made_at: Instant,
    encrypts_from: Instant,
    /// When the key stops decrypting.
    expires: Instant,
}

/// The origin of the key that encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// Configured by the operator.
    Operator,
    /// Shared by all replicas.
    Shared,
    /// Known only to this process.
    Local,
}

/// Metrics of the ticket keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyMetrics {
    pub(crate) source: KeySource,
    /// The age of the key that encrypts; zero for the operator's key, which does not rotate.
    pub(crate) age: Duration,
    /// The number of keys that decrypt tickets.
    pub(crate) accepted: usize,
}

impl Default for KeyRing {
    fn default() -> Self {
        Self {
            rotation: DEFAULT_ROTATION,
            operator_key: None,
            shared_keys: Vec::new(),
            local_keys: Vec::new(),
        }
    }
}

impl KeyRing {
    /// Whether [`rotate`](Self::rotate) would change the ring, so that callers take the lock only then.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let is_expired = |key: &RingKey| key.expires <= now;
        self.shared_keys.iter().chain(&self.local_keys).any(is_expired) || self.needs_local_key(now)
    }

    /// Drops expired keys, and generates a local key if no shared or local key can encrypt.
    pub(super) fn rotate(&mut self, now: Instant) {
        for keys in [&mut self.shared_keys, &mut self.local_keys] {
            keys.retain(|key| now < key.expires);
        }
        if !self.needs_local_key(now) {
            return;
        }
        let mut bytes = vec![0; SECRET_BYTES];
        // If the system has no random numbers, handshakes fail anyway, so the ring can do without a key.
        if aws_lc_rs::rand::fill(&mut bytes).is_ok() {
            let key = RingKey {
                key: TicketKey::new(&TicketSecret::new(bytes)),
                made_at: now,
                encrypts_from: now,
                expires: now + 2 * self.rotation,
            };
            self.local_keys.insert(0, key);
        }
    }

    /// Sets the rotation interval; existing keys expire at the time set when they were added.
    pub(super) fn rotate_every(&mut self, rotation: Duration) {
        self.rotation = rotation;
    }

    /// Sets or removes the operator's key.
    pub(super) fn set_operator_key(&mut self, secret: Option<&TicketSecret>) {
        if self.operator_key.as_ref().map(|operator| &operator.secret) != secret {
            self.operator_key =
                secret.map(|secret| OperatorKey { secret: secret.clone(), key: TicketKey::new(secret) });
        }
    }

    /// Replaces the shared keys by those of `secrets`, which are sorted from newest to oldest.
    pub(super) fn adopt(&mut self, secrets: &[SharedTicketSecret], now: Instant) {
        let ring_key = |shared: &SharedTicketSecret| {
            let remaining =
                (2 * self.rotation).checked_sub(shared.age).filter(|remaining| !remaining.is_zero())?;
            Some(RingKey {
                key: TicketKey::new(&shared.secret),
                made_at: now.checked_sub(shared.age).unwrap_or(now),
                encrypts_from: now + shared.encrypts_in,
                expires: now + remaining,
            })
        };
        self.shared_keys = secrets.iter().filter_map(ring_key).collect();
    }

    /// Encrypts a session as a ticket; `None` if there is no key or encryption fails.
    pub(super) fn seal(&self, group: TicketGroup, now: Moment, session: &[u8]) -> Option<Vec<u8>> {
        let key = match self.encryption_key(now.instant) {
            EncryptionKey::Operator(operator) => &operator.key,
            EncryptionKey::Shared(key) | EncryptionKey::Local(key) => &key.key,
            EncryptionKey::None => return None,
        };
        key.seal(group, now.wall, session)
    }

    /// Decrypts a ticket; `None` if no key decrypts it for the group, or it is older than two rotation intervals.
    pub(super) fn open(&self, group: TicketGroup, now: Moment, ticket: &[u8]) -> Option<Vec<u8>> {
        let is_valid = |key: &&RingKey| now.instant < key.expires;
        let rotating_keys =
            self.shared_keys.iter().chain(&self.local_keys).filter(is_valid).map(|key| &key.key);
        let mut named_key = None;
        // The loop compares every key instead of stopping at a match, so that its duration does not depend on the
        // position of the key in the ring.
        for key in self.operator_key.iter().map(|operator| &operator.key).chain(rotating_keys) {
            if key.is_named_in(ticket) {
                named_key = Some(key);
            }
        }
        let opened = named_key?.open(group, ticket)?;
        let age = Duration::from_secs(now.wall.saturating_sub(opened.made_at));
        (age <= 2 * self.rotation).then_some(opened.session)
    }

    /// The lifetime that TLS announces to the client with a ticket issued now, in seconds. Replicas accept the ticket
    /// for that long even if their clocks differ.
    pub(super) fn lifetime(&self, now: Instant) -> u32 {
        let lifetime = match self.encryption_key(now) {
            EncryptionKey::Operator(_) => self.rotation,
            EncryptionKey::Shared(key) | EncryptionKey::Local(key) => {
                let remaining = key.expires.saturating_duration_since(now);
                remaining.saturating_sub(self.rotation / SETTLING_FRACTION)
            }
            EncryptionKey::None => Duration::ZERO,
        };
        u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX)
    }

    /// The age at which every ticket is refused.
    pub(super) fn max_lifetime(&self) -> Duration {
        2 * self.rotation
    }

    /// Metrics of the keys; `None` if no key encrypts, as before the first handshake.
    pub(super) fn metrics(&self, now: Instant) -> Option<KeyMetrics> {
        let age_of = |key: &RingKey| now.saturating_duration_since(key.made_at);
        let (source, age) = match self.encryption_key(now) {
            EncryptionKey::Operator(_) => (KeySource::Operator, Duration::ZERO),
            EncryptionKey::Shared(key) => (KeySource::Shared, age_of(key)),
            EncryptionKey::Local(key) => (KeySource::Local, age_of(key)),
            EncryptionKey::None => return None,
        };
        let rotating_keys =
            self.shared_keys.iter().chain(&self.local_keys).filter(|key| now < key.expires).count();
        Some(KeyMetrics { source, age, accepted: rotating_keys + usize::from(self.operator_key.is_some()) })
    }

    /// Encrypts a login. It uses a rotating key because everyone who has the operator's key could forge a login for
    /// any user.
    pub(super) fn seal_login(&self, group: TicketGroup, now: Moment, value: &[u8]) -> Option<Vec<u8>> {
        match self.rotating_key(now.instant) {
            EncryptionKey::Shared(key) | EncryptionKey::Local(key) => key.key.seal(group, now.wall, value),
            EncryptionKey::Operator(_) | EncryptionKey::None => None,
        }
    }

    /// Decrypts a login. The flag says that another key encrypts now, so the caller should encrypt the login again.
    pub(super) fn open_login(
        &self,
        group: TicketGroup,
        now: Moment,
        sealed: &[u8],
    ) -> Option<(Vec<u8>, bool)> {
        let is_usable = |key: &&RingKey| now.instant < key.expires && key.key.is_named_in(sealed);
        let key = self.shared_keys.iter().chain(&self.local_keys).find(is_usable)?;
        let opened = key.key.open(group, sealed)?;
        let is_old = match self.rotating_key(now.instant) {
            EncryptionKey::Shared(newest) | EncryptionKey::Local(newest) => !std::ptr::eq(newest, key),
            EncryptionKey::Operator(_) | EncryptionKey::None => false,
        };
        let age = Duration::from_secs(now.wall.saturating_sub(opened.made_at));
        (age <= 2 * self.rotation).then_some((opened.session, is_old))
    }

    /// Encrypts a message between replicas; `None` if they share no rotating key.
    pub(super) fn seal_shared(&self, group: TicketGroup, now: Moment, message: &[u8]) -> Option<Vec<u8>> {
        match self.rotating_key(now.instant) {
            EncryptionKey::Shared(key) => key.key.seal(group, now.wall, message),
            EncryptionKey::Operator(_) | EncryptionKey::Local(_) | EncryptionKey::None => None,
        }
    }

    /// Decrypts a message of another replica. The number is the time of encryption in seconds since 1970, by that
    /// replica's clock.
    pub(super) fn open_shared(
        &self,
        group: TicketGroup,
        now: Instant,
        sealed: &[u8],
    ) -> Option<(u64, Vec<u8>)> {
        let is_usable = |key: &&RingKey| now < key.expires && key.key.is_named_in(sealed);
        let opened = self.shared_keys.iter().find(is_usable)?.key.open(group, sealed)?;
        Some((opened.made_at, opened.session))
    }

    /// The short name of the operator's or shared key that encrypts tickets now; `None` if replicas share no key.
    pub(super) fn shared_name(&self, now: Instant) -> Option<u8> {
        match self.encryption_key(now) {
            EncryptionKey::Operator(operator) => Some(operator.key.short_name()),
            EncryptionKey::Shared(key) => Some(key.key.short_name()),
            EncryptionKey::Local(_) | EncryptionKey::None => None,
        }
    }

    /// Derives a key for `purpose` from the operator's or shared key with this short name; all replicas derive the
    /// same key. `None` if no key that still decrypts tickets has this name.
    pub(super) fn derive_shared(&self, now: Instant, name: u8, purpose: &[u8]) -> Option<DerivedKey> {
        let shared = self.shared_keys.iter().filter(|key| now < key.expires).map(|key| &key.key);
        let mut keys = self.operator_key.iter().map(|operator| &operator.key).chain(shared);
        keys.find(|key| key.short_name() == name).map(|key| key.derive_for(purpose))
    }

    fn encryption_key(&self, now: Instant) -> EncryptionKey<'_> {
        match &self.operator_key {
            Some(operator) => EncryptionKey::Operator(operator),
            None => self.rotating_key(now),
        }
    }

    /// The shared or local key that encrypts.
    fn rotating_key(&self, now: Instant) -> EncryptionKey<'_> {
        let mut shared = self.shared_keys.iter().filter(|key| now < key.expires).peekable();
        if shared.peek().is_some() {
            let (mut oldest, mut settled) = (None, None);
            for key in shared {
                oldest = Some(key);
                settled = settled.or(Some(key).filter(|key| key.encrypts_from <= now));
            }
            // Some replicas may lack even the oldest shared key, but all others lack a local key.
            return settled.or(oldest).map_or(EncryptionKey::None, EncryptionKey::Shared);
        }
        match self.local_keys.first().filter(|key| now < key.made_at + self.rotation) {
            Some(key) => EncryptionKey::Local(key),
            None => EncryptionKey::None,
        }
    }

    fn needs_local_key(&self, now: Instant) -> bool {
        matches!(self.rotating_key(now), EncryptionKey::None)
    }
}

/// The key that encrypts.
enum EncryptionKey<'r> {
    Operator(&'r OperatorKey),
    Shared(&'r RingKey),
    Local(&'r RingKey),
    /// No key encrypts until [`KeyRing::rotate`] generates one.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 60 * 60;

    /// A replica with its keys. Tests count time in seconds from `start`.
    struct Replica {
        ring: KeyRing,
        start: Instant,
    }

    impl Replica {
        fn new(start: Instant) -> Self {
            Self { ring: KeyRing::default(), start }
        }

        fn at(&self, seconds: u64) -> Moment {
            Moment { instant: self.start + Duration::from_secs(seconds), wall: 1_000_000 + seconds }
        }

        fn ticket(&mut self, seconds: u64) -> Vec<u8> {
            let now = self.at(seconds);
            if self.ring.is_due(now.instant) {
                self.ring.rotate(now.instant);
            }
            self.ring.seal(TicketGroup::NO_CLIENT_AUTH, now, b"session").unwrap()
        }

        fn opens(&mut self, seconds: u64, ticket: &[u8]) -> bool {
            let now = self.at(seconds);
            if self.ring.is_due(now.instant) {
                self.ring.rotate(now.instant);
            }
            self.ring.open(TicketGroup::NO_CLIENT_AUTH, now, ticket).is_some()
        }

        fn adopt(&mut self, seconds: u64, secrets: &[SharedTicketSecret]) {
            let now = self.at(seconds).instant;
            self.ring.adopt(secrets, now);
        }
    }

    fn shared(name: &str, age: u64, encrypts_in: u64) -> SharedTicketSecret {
        SharedTicketSecret {
            secret: TicketSecret::new(name.as_bytes().to_vec()),
            age: Duration::from_secs(age),
            encrypts_in: Duration::from_secs(encrypts_in),
        }
    }

    #[test]
    fn a_single_process_rotates_its_keys_and_opens_tickets_for_two_rotations() {
        let mut replica = Replica::new(Instant::now());
        let early = replica.ticket(0);
        let late = replica.ticket(12 * HOUR - 1);
        let next = replica.ticket(12 * HOUR);
        assert_eq!(early[..16], late[..16], "one key encrypts for a whole rotation");
        assert_ne!(early[..16], next[..16], "the next rotation has another key");
        assert!(replica.opens(24 * HOUR - 1, &early) && replica.opens(24 * HOUR - 1, &late));
        let opens_expired = replica.opens(24 * HOUR, &early) || replica.opens(24 * HOUR, &late);
        assert!(!opens_expired, "the key expires after two rotations");
        assert!(replica.opens(36 * HOUR - 1, &next) && !replica.opens(36 * HOUR, &next));
        assert!(
            replica.ring.local_keys.iter().all(|key| key.made_at > replica.start),
            "the ring drops expired keys"
        );
    }

    #[test]
    fn no_ticket_outlives_its_key() {
        for made in [0, 1, HOUR, 12 * HOUR - 1, 12 * HOUR, 30 * HOUR] {
            let mut replica = Replica::new(Instant::now());
            replica.ticket(0);
            let ticket = replica.ticket(made);
            let lifetime = u64::from(replica.ring.lifetime(replica.at(made).instant));
            assert!(
                lifetime >= 11 * HOUR,
                "a ticket made at {made} s must live 11 hours, but lives {lifetime} s"
            );
            assert!(
                replica.opens(made + lifetime, &ticket),
                "a ticket made at {made} s must open until its lifetime of {lifetime} s ends"
            );
        }
    }

    #[test]
    fn replicas_open_each_others_tickets_throughout_a_rotation() {
        let start = Instant::now();
        let mut replicas = [Replica::new(start), Replica::new(start)];
        // The first replica adopts new keys at once, the second ten minutes later.
        let adopt_with_delay = |replicas: &mut [Replica; 2], at: u64, secrets: &[SharedTicketSecret]| {
            replicas[0].adopt(at, secrets);
            let mut late = secrets.to_vec();
            late.iter_mut().for_each(|secret| secret.age += Duration::from_secs(600));
            late[0].encrypts_in += Duration::from_secs(600);
            (at + 600, late)
        };
        let mut issued = Vec::new();
        let settling = HOUR / 2;
        replicas.iter_mut().for_each(|it| it.adopt(0, &[shared("1", 0, settling)]));
        let (mut pending, mut rotation) = (None, 1);
        for minute in 0..72 * 60 {
            let now = minute * 60;
            if minute > 0 && minute % (12 * 60) == 0 {
                rotation += 1;
                let [new, old] = [rotation, rotation - 1].map(|it| it.to_string());
                let secrets = [shared(&new, 0, settling), shared(&old, 12 * HOUR, 0)];
                pending = Some(adopt_with_delay(&mut replicas, now, &secrets));
            }
            if let Some((at, late)) = pending.take_if(|(at, _)| *at <= now) {
                replicas[1].adopt(at, &late);
            }
            if minute % 7 == 0 {
                for replica in &mut replicas {
                    let ticket = replica.ticket(now);
                    let until = now + u64::from(replica.ring.lifetime(replica.at(now).instant));
                    issued.push((ticket, now, until));
                }
            }
            issued.retain(|(_, _, until)| now <= *until);
            for (ticket, made, _) in &issued {
                for replica in &mut replicas {
                    assert!(replica.opens(now, ticket), "a ticket made at {made} s must open at {now} s");
                }
            }
        }
        assert!(issued.len() > 100 && replicas.iter().all(|it| it.ring.local_keys.is_empty()));
    }

    #[test]
    fn a_shared_key_expires_after_24_hours_even_without_a_successor() {
        let mut replica = Replica::new(Instant::now());
        replica.adopt(0, &[shared("1", 2 * HOUR, 0)]);
        // Someone who stole the secret forges a ticket every hour.
        let stolen = TicketKey::new(&TicketSecret::new(b"1".to_vec()));
        for hour in 0..48 {
            let now = replica.at(hour * HOUR);
            let forged = stolen.seal(TicketGroup::NO_CLIENT_AUTH, now.wall, b"session").unwrap();
            assert_eq!(replica.opens(hour * HOUR, &forged), hour < 22, "hour {hour}");
        }
        let local = replica.ticket(48 * HOUR);
        let opens_local = replica.opens(48 * HOUR, &local);
        assert!(!stolen.is_named_in(&local) && opens_local, "the replica generates a local key");
    }

    #[test]
    fn a_key_that_is_no_longer_shared_opens_no_ticket() {
        let mut replica = Replica::new(Instant::now());
        replica.adopt(0, &[shared("2", 0, HOUR), shared("1", 12 * HOUR, 0)]);
        let ticket = replica.ticket(1);
        replica.adopt(2, &[shared("2", 0, HOUR)]);
        assert!(!replica.opens(3, &ticket));
        replica.adopt(4, &[]);
        assert!(replica.ring.metrics(replica.at(4).instant).is_none());
        replica.ticket(4);
        assert_eq!(replica.ring.metrics(replica.at(4).instant).unwrap().source, KeySource::Local);
    }

    #[test]
    fn tickets_of_the_local_key_still_open_once_a_key_is_shared() {
        let mut replica = Replica::new(Instant::now());
        let local = replica.ticket(0);
        replica.adopt(1, &[shared("1", 0, HOUR)]);
        let ticket = replica.ticket(2);
        assert_ne!(local[..16], ticket[..16], "the only shared key encrypts at once");
        assert!(replica.opens(3, &local) && replica.opens(3, &ticket));
        let metrics = replica.ring.metrics(replica.at(3).instant).unwrap();
        let age = Duration::from_secs(2);
        assert_eq!(metrics, KeyMetrics { source: KeySource::Shared, age, accepted: 2 });
    }

    #[test]
    fn tickets_of_the_operators_key_expire_as_well() {
        let mut replica = Replica::new(Instant::now());
        replica.adopt(0, &[shared("1", 0, 0)]);
        let before = replica.ticket(0);
        replica.ring.set_operator_key(Some(&TicketSecret::new(vec![7; 80])));
        let operators = replica.ticket(1);
        let mut other = Replica::new(replica.start);
        other.ring.set_operator_key(Some(&TicketSecret::new(vec![7; 80])));
        assert!(other.opens(2, &operators) && !other.opens(2, &before) && replica.opens(2, &before));
        assert!(other.opens(24 * HOUR + 1, &operators) && !other.opens(24 * HOUR + 2, &operators));
        assert_eq!(u64::from(other.ring.lifetime(other.at(2).instant)), 12 * HOUR);
        replica.ring.set_operator_key(None);
        assert!(!replica.opens(3, &operators));
    }
}
