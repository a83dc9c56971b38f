//! The keys of this process: which one encrypts, and which still open tickets. No clock: the time is passed in.
//!
//! The key of an operator goes first, then those that the replicas share, then the process's own. A key encrypts for one rotation
//! and opens tickets for two; after that a ticket is worth nothing, whoever has the key. Of the shared keys the newest encrypts as soon
//! as every replica has had the time to adopt it, and until then the one before it.

use std::time::{Duration, Instant};

use fairway_model::{SharedTicketSecret, TicketSecret};

use crate::tls::tickets::group::Group;
use crate::tls::tickets::key::{DerivedKey, TicketKey};

/// How often keys change where nobody says otherwise.
const ROTATION: Duration = Duration::from_secs(12 * 60 * 60);
/// Replicas adopt a key within this part of a rotation, and their clocks differ by less.
const SETTLING_PARTS: u32 = 24;
const SECRET_BYTES: usize = 32;

/// A moment by both clocks: keys age by the one that never jumps, tickets by the one that replicas have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) instant: Instant,
    /// Seconds since 1970.
    pub(super) wall: u64,
}

/// All keys.
pub(super) struct Ring {
    rotation: Duration,
    fixed: Option<Fixed>,
    /// The newest first.
    shared: Vec<RingKey>,
    /// The newest first.
    own: Vec<RingKey>,
}

/// The key of an operator.
struct Fixed {
    secret: TicketSecret,
    key: TicketKey,
}

struct RingKey {
    key: TicketKey,
    made: Instant,
    encrypts_from: Instant,
    expires: Instant,
}

/// Where the key that encrypts comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// An operator gave it.
    Fixed,
    /// All replicas have it.
    Shared,
    /// Only this process has it.
    Own,
}

/// What metrics say about the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyFigures {
    pub(crate) source: KeySource,
    /// The age of the key that encrypts; zero for one that does not age.
    pub(crate) age: Duration,
    /// How many keys open tickets.
    pub(crate) accepted: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self { rotation: ROTATION, fixed: None, shared: Vec::new(), own: Vec::new() }
    }
}

impl Ring {
    /// Whether [`tidy`](Self::tidy) has something to do.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let expired = |key: &RingKey| key.expires <= now;
        self.shared.iter().chain(&self.own).any(expired) || self.wants_own_key(now)
    }

    /// Forgets the keys that are over, and makes one where none can encrypt.
    pub(super) fn tidy(&mut self, now: Instant) {
        for keys in [&mut self.shared, &mut self.own] {
            keys.retain(|key| now < key.expires);
        }
        if !self.wants_own_key(now) {
            return;
        }
        let mut bytes = vec![0; SECRET_BYTES];
        // Without random numbers there are no tickets, and no handshakes either.
        if aws_lc_rs::rand::fill(&mut bytes).is_ok() {
            let key = RingKey {
                key: TicketKey::new(&TicketSecret::new(bytes)),
                made: now,
                encrypts_from: now,
                expires: now + 2 * self.rotation,
            };
            self.own.insert(0, key);
        }
    }

    /// How often keys change; keys that are there keep their times.
    pub(super) fn rotate_every(&mut self, rotation: Duration) {
        self.rotation = rotation;
    }

    /// Takes the key of an operator, or none.
    pub(super) fn fix(&mut self, secret: Option<&TicketSecret>) {
        if self.fixed.as_ref().map(|fixed| &fixed.secret) != secret {
            self.fixed = secret.map(|secret| Fixed { secret: secret.clone(), key: TicketKey::new(secret) });
        }
    }

    /// Takes the keys that replicas share in place of those before, the newest first.
    pub(super) fn adopt(&mut self, secrets: &[SharedTicketSecret], now: Instant) {
        let key = |shared: &SharedTicketSecret| {
            let left = (2 * self.rotation).checked_sub(shared.age).filter(|left| !left.is_zero())?;
            Some(RingKey {
                key: TicketKey::new(&shared.secret),
                made: now.checked_sub(shared.age).unwrap_or(now),
                encrypts_from: now + shared.encrypts_in,
                expires: now + left,
            })
        };
        self.shared = secrets.iter().filter_map(key).collect();
    }

    /// Encrypts a session; `None` where no key can.
    pub(super) fn seal(&self, group: Group, now: Moment, session: &[u8]) -> Option<Vec<u8>> {
        let key = match self.encrypting(now.instant) {
            Encrypting::Fixed(fixed) => &fixed.key,
            Encrypting::Shared(key) | Encrypting::Own(key) => &key.key,
            Encrypting::None => return None,
        };
        key.seal(group, now.wall, session)
    }

    /// The session of a ticket; `None` where no key opens it for the group, or the ticket is too old.
    pub(super) fn open(&self, group: Group, now: Moment, ticket: &[u8]) -> Option<Vec<u8>> {
        let alive = |key: &&RingKey| now.instant < key.expires;
        let changing = self.shared.iter().chain(&self.own).filter(alive).map(|key| &key.key);
        let mut named = None;
        for key in self.fixed.iter().map(|fixed| &fixed.key).chain(changing) {
            if key.is_named_in(ticket) {
                named = Some(key);
            }
        }
        let opened = named?.open(group, ticket)?;
        let age = Duration::from_secs(now.wall.saturating_sub(opened.made));
        (age <= 2 * self.rotation).then_some(opened.session)
    }

    /// How long a ticket that is made now opens for sure, in seconds: what clients are told.
    pub(super) fn lifetime(&self, now: Instant) -> u32 {
        let lifetime = match self.encrypting(now) {
            Encrypting::Fixed(_) => self.rotation,
            Encrypting::Shared(key) | Encrypting::Own(key) => {
                let left = key.expires.saturating_duration_since(now);
                left.saturating_sub(self.rotation / SETTLING_PARTS)
            }
            Encrypting::None => Duration::ZERO,
        };
        u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX)
    }

    /// How long a ticket opens at most.
    pub(super) fn longest(&self) -> Duration {
        2 * self.rotation
    }

    /// What metrics say; `None` while there is no key, because no client has come yet.
    pub(super) fn figures(&self, now: Instant) -> Option<KeyFigures> {
        let aged = |key: &RingKey| now.saturating_duration_since(key.made);
        let (source, age) = match self.encrypting(now) {
            Encrypting::Fixed(_) => (KeySource::Fixed, Duration::ZERO),
            Encrypting::Shared(key) => (KeySource::Shared, aged(key)),
            Encrypting::Own(key) => (KeySource::Own, aged(key)),
            Encrypting::None => return None,
        };
        let alive = self.shared.iter().chain(&self.own).filter(|key| now < key.expires).count();
        Some(KeyFigures { source, age, accepted: alive + usize::from(self.fixed.is_some()) })
    }

    /// Encrypts a login with a key that changes: whoever knows the key of an operator must not log in as anybody.
    pub(super) fn seal_login(&self, group: Group, now: Moment, value: &[u8]) -> Option<Vec<u8>> {
        match self.changing(now.instant) {
            Encrypting::Shared(key) | Encrypting::Own(key) => key.key.seal(group, now.wall, value),
            Encrypting::Fixed(_) | Encrypting::None => None,
        }
    }

    /// What a login holds, and whether another key would encrypt it now.
    pub(super) fn open_login(&self, group: Group, now: Moment, sealed: &[u8]) -> Option<(Vec<u8>, bool)> {
        let alive = |key: &&RingKey| now.instant < key.expires && key.key.is_named_in(sealed);
        let key = self.shared.iter().chain(&self.own).find(alive)?;
        let opened = key.key.open(group, sealed)?;
        let is_old = match self.changing(now.instant) {
            Encrypting::Shared(newest) | Encrypting::Own(newest) => !std::ptr::eq(newest, key),
            Encrypting::Fixed(_) | Encrypting::None => false,
        };
        let age = Duration::from_secs(now.wall.saturating_sub(opened.made));
        (age <= 2 * self.rotation).then_some((opened.session, is_old))
    }

    /// Encrypts what one replica says to another; `None` where they share no key that changes.
    pub(super) fn seal_shared(&self, group: Group, now: Moment, message: &[u8]) -> Option<Vec<u8>> {
        match self.changing(now.instant) {
            Encrypting::Shared(key) => key.key.seal(group, now.wall, message),
            Encrypting::Fixed(_) | Encrypting::Own(_) | Encrypting::None => None,
        }
    }

    /// When another replica said it, by its clock, and what.
    pub(super) fn open_shared(&self, group: Group, now: Instant, sealed: &[u8]) -> Option<(u64, Vec<u8>)> {
        let is_named = |key: &&RingKey| now < key.expires && key.key.is_named_in(sealed);
        let opened = self.shared.iter().find(is_named)?.key.open(group, sealed)?;
        Some((opened.made, opened.session))
    }

    /// The name of the secret that replicas share and that encrypts tickets now; `None` where only this process has one.
    pub(super) fn shared_name(&self, now: Instant) -> Option<u8> {
        match self.encrypting(now) {
            Encrypting::Fixed(fixed) => Some(fixed.key.short_name()),
            Encrypting::Shared(key) => Some(key.key.short_name()),
            Encrypting::Own(_) | Encrypting::None => None,
        }
    }

    /// A key that all replicas derive for `purpose` from the secret of this name, for as long as it opens tickets.
    pub(super) fn derive_shared(&self, now: Instant, name: u8, purpose: &[u8]) -> Option<DerivedKey> {
        let shared = self.shared.iter().filter(|key| now < key.expires).map(|key| &key.key);
        let mut keys = self.fixed.iter().map(|fixed| &fixed.key).chain(shared);
        keys.find(|key| key.short_name() == name).map(|key| key.derive_for(purpose))
    }

    fn encrypting(&self, now: Instant) -> Encrypting<'_> {
        match &self.fixed {
            Some(fixed) => Encrypting::Fixed(fixed),
            None => self.changing(now),
        }
    }

    /// The key that encrypts, of those that change.
    fn changing(&self, now: Instant) -> Encrypting<'_> {
        let mut shared = self.shared.iter().filter(|key| now < key.expires).peekable();
        if shared.peek().is_some() {
            let (mut oldest, mut settled) = (None, None);
            for key in shared {
                oldest = Some(key);
                settled = settled.or(Some(key).filter(|key| key.encrypts_from <= now));
            }
            // A key that some replica may lack is still better than one that only this process has.
            return settled.or(oldest).map_or(Encrypting::None, Encrypting::Shared);
        }
        match self.own.first().filter(|key| now < key.made + self.rotation) {
            Some(key) => Encrypting::Own(key),
            None => Encrypting::None,
        }
    }

    fn wants_own_key(&self, now: Instant) -> bool {
        matches!(self.changing(now), Encrypting::None)
    }
}

/// The key that encrypts.
enum Encrypting<'r> {
    Fixed(&'r Fixed),
    Shared(&'r RingKey),
    Own(&'r RingKey),
    /// None, until one is made.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 60 * 60;

    /// A replica's keys, and its time.
    struct Replica {
        ring: Ring,
        start: Instant,
    }

    impl Replica {
        fn new(start: Instant) -> Self {
            Self { ring: Ring::default(), start }
        }

        fn at(&self, seconds: u64) -> Moment {
            Moment { instant: self.start + Duration::from_secs(seconds), wall: 1_000_000 + seconds }
        }

        fn ticket(&mut self, seconds: u64) -> Vec<u8> {
            let now = self.at(seconds);
            if self.ring.is_due(now.instant) {
                self.ring.tidy(now.instant);
            }
            self.ring.seal(Group::UNASKED, now, b"session").unwrap()
        }

        fn opens(&mut self, seconds: u64, ticket: &[u8]) -> bool {
            let now = self.at(seconds);
            if self.ring.is_due(now.instant) {
                self.ring.tidy(now.instant);
            }
            self.ring.open(Group::UNASKED, now, ticket).is_some()
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
    fn a_process_alone_changes_its_keys_and_opens_tickets_for_two_rotations() {
        let mut replica = Replica::new(Instant::now());
        let early = replica.ticket(0);
        let late = replica.ticket(12 * HOUR - 1);
        let next = replica.ticket(12 * HOUR);
        assert_eq!(early[..16], late[..16], "one key for a rotation");
        assert_ne!(early[..16], next[..16]);
        assert!(replica.opens(24 * HOUR - 1, &early) && replica.opens(24 * HOUR - 1, &late));
        assert!(!replica.opens(24 * HOUR, &early) && !replica.opens(24 * HOUR, &late), "the key is over");
        assert!(replica.opens(36 * HOUR - 1, &next) && !replica.opens(36 * HOUR, &next));
        assert!(replica.ring.own.iter().all(|key| key.made > replica.start), "and forgotten");
    }

    #[test]
    fn no_ticket_is_promised_to_open_longer_than_its_key_does() {
        for made in [0, 1, HOUR, 12 * HOUR - 1, 12 * HOUR, 30 * HOUR] {
            let mut replica = Replica::new(Instant::now());
            replica.ticket(0);
            let ticket = replica.ticket(made);
            let promised = u64::from(replica.ring.lifetime(replica.at(made).instant));
            assert!(promised >= 11 * HOUR, "{promised} s at {made} s");
            assert!(replica.opens(made + promised, &ticket), "{promised} s at {made} s");
        }
    }

    #[test]
    fn replicas_open_the_tickets_of_each_other_before_while_and_after_a_key_is_rotated() {
        let start = Instant::now();
        let mut replicas = [Replica::new(start), Replica::new(start)];
        // The second one hears of everything ten minutes later.
        let heard = |replicas: &mut [Replica; 2], at: u64, secrets: &[SharedTicketSecret]| {
            replicas[0].adopt(at, secrets);
            let mut late = secrets.to_vec();
            late.iter_mut().for_each(|it| it.age += Duration::from_secs(600));
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
                pending =
                    Some(heard(&mut replicas, now, &[shared(&new, 0, settling), shared(&old, 12 * HOUR, 0)]));
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
                    assert!(replica.opens(now, ticket), "made at {made}, shown at {now}");
                }
            }
        }
        assert!(issued.len() > 100 && replicas.iter().all(|it| it.ring.own.is_empty()));
    }

    #[test]
    fn a_shared_key_is_worth_nothing_after_24_hours_though_no_other_comes() {
        let mut replica = Replica::new(Instant::now());
        replica.adopt(0, &[shared("1", 2 * HOUR, 0)]);
        // Somebody who stole the secret makes a ticket of his own each hour.
        let stolen = TicketKey::new(&TicketSecret::new(b"1".to_vec()));
        for hour in 0..48 {
            let now = replica.at(hour * HOUR);
            let forged = stolen.seal(Group::UNASKED, now.wall, b"session").unwrap();
            assert_eq!(replica.opens(hour * HOUR, &forged), hour < 22, "hour {hour}");
        }
        let own = replica.ticket(48 * HOUR);
        assert!(!stolen.is_named_in(&own) && replica.opens(48 * HOUR, &own), "it helps itself");
    }

    #[test]
    fn a_key_that_replicas_no_longer_share_opens_nothing_more() {
        let mut replica = Replica::new(Instant::now());
        replica.adopt(0, &[shared("2", 0, HOUR), shared("1", 12 * HOUR, 0)]);
        let ticket = replica.ticket(1);
        replica.adopt(2, &[shared("2", 0, HOUR)]);
        assert!(!replica.opens(3, &ticket));
        replica.adopt(4, &[]);
        assert!(replica.ring.figures(replica.at(4).instant).is_none());
        replica.ticket(4);
        assert_eq!(replica.ring.figures(replica.at(4).instant).unwrap().source, KeySource::Own);
    }

    #[test]
    fn tickets_of_the_own_key_still_open_once_a_key_is_shared() {
        let mut replica = Replica::new(Instant::now());
        let own = replica.ticket(0);
        replica.adopt(1, &[shared("1", 0, HOUR)]);
        let ticket = replica.ticket(2);
        assert_ne!(own[..16], ticket[..16], "the only shared key encrypts at once");
        assert!(replica.opens(3, &own) && replica.opens(3, &ticket));
        let figures = replica.ring.figures(replica.at(3).instant).unwrap();
        let age = Duration::from_secs(2);
        assert_eq!(figures, KeyFigures { source: KeySource::Shared, age, accepted: 2 });
    }

    #[test]
    fn the_key_of_an_operator_encrypts_and_its_tickets_age_all_the_same() {
        let mut replica = Replica::new(Instant::now());
        replica.adopt(0, &[shared("1", 0, 0)]);
        let before = replica.ticket(0);
        replica.ring.fix(Some(&TicketSecret::new(vec![7; 80])));
        let fixed = replica.ticket(1);
        let mut other = Replica::new(replica.start);
        other.ring.fix(Some(&TicketSecret::new(vec![7; 80])));
        assert!(other.opens(2, &fixed) && !other.opens(2, &before) && replica.opens(2, &before));
        assert!(other.opens(24 * HOUR + 1, &fixed) && !other.opens(24 * HOUR + 2, &fixed));
        assert_eq!(u64::from(other.ring.lifetime(other.at(2).instant)), 12 * HOUR);
        replica.ring.fix(None);
        assert!(!replica.opens(3, &fixed));
    }
}
