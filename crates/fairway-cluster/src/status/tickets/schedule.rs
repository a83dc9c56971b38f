//! When a key starts to encrypt, when it expires, and when the leader creates the next one. No I/O and no clock: the time is
//! passed in.
//!
//! Clocks of machines may differ. The time in the record gives the age of a key when this replica first saw it; from then on it
//! ages by the replica's monotonic clock.

use std::time::Duration;

use fairway_model::SharedTicketSecret;
use jiff::Timestamp;
use tokio::time::Instant;

use super::record::KeyRecord;

/// A published key does not encrypt for this fraction of a rotation, so that replicas that receive it late can still decrypt its
/// tickets.
const ROTATION_PARTS_BEFORE_USE: u32 = 24;
/// A key from further in the future shows that a clock is wrong.
pub(super) const CLOCK_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// The known keys.
#[derive(Debug)]
pub(super) struct KeySchedule {
    rotation: Duration,
    /// Newest first.
    known_keys: Vec<KnownKey>,
    /// Whether the Secret was read before: keys that are new in it were then just published.
    has_read: bool,
}

#[derive(Clone, Debug)]
struct KnownKey {
    record: KeyRecord,
    seen_at: Instant,
    age_then: Duration,
    encrypts_from: Instant,
}

impl KeySchedule {
    pub(super) fn new(rotation: Duration) -> Self {
        Self { rotation, known_keys: Vec::new(), has_read: false }
    }

    /// Replaces the known keys by those of the Secret.
    pub(super) fn set_keys(&mut self, keys: &[KeyRecord], now: Instant, wall: Timestamp) {
        let settling = self.rotation / ROTATION_PARTS_BEFORE_USE;
        let mut known = Vec::with_capacity(keys.len());
        for record in keys {
            // A key whose time was edited keeps its age.
            if let Some(before) = self.known_keys.iter().find(|it| it.record.secret == record.secret) {
                known.push(KnownKey { record: record.clone(), ..before.clone() });
                continue;
            }
            let age = Duration::try_from(wall.duration_since(record.created_at)).unwrap_or_default();
            let wait = if self.has_read { settling } else { settling.saturating_sub(age) };
            known.push(KnownKey {
                record: record.clone(),
                seen_at: now,
                age_then: age,
                encrypts_from: now + wait,
            });
        }
        (self.known_keys, self.has_read) = (known, true);
    }

    /// The keys for the data plane.
    pub(super) fn shared_secrets(&self, now: Instant) -> Vec<SharedTicketSecret> {
        let shared = |known: &KnownKey| SharedTicketSecret {
            secret: known.record.secret.clone(),
            age: known.age(now),
            encrypts_in: known.encrypts_from.saturating_duration_since(now),
        };
        self.known_keys.iter().map(shared).collect()
    }

    /// Whether the newest key is from the future, by this replica's clock.
    pub(super) fn is_newest_from_future(&self, wall: Timestamp) -> bool {
        let ahead = self.known_keys.first().map(|known| known.record.created_at.duration_since(wall));
        ahead.and_then(|ahead| Duration::try_from(ahead).ok()).is_some_and(|ahead| ahead > CLOCK_TOLERANCE)
    }

    /// How long until the leader creates the next key.
    pub(super) fn time_to_rotation(&self, now: Instant) -> Duration {
        self.known_keys.first().map_or(Duration::ZERO, |newest| self.rotation.saturating_sub(newest.age(now)))
    }

    /// The keys that the leader writes: `new`, then the newest that is still valid.
    pub(super) fn rotated_keys(&self, new: KeyRecord, now: Instant) -> Vec<KeyRecord> {
        let previous = self.known_keys.first().filter(|known| known.age(now) < 2 * self.rotation);
        let previous = previous.map(|known| KeyRecord {
            secret: known.record.secret.clone(),
            // The times define the order; a clock that was ahead must not reverse it.
            created_at: known.record.created_at.min(new.created_at),
        });
        std::iter::once(new).chain(previous).collect()
    }

    /// The previous keys, to restore a damaged Secret; `None` if the newest is too old.
    pub(super) fn restored_keys(&self, now: Instant) -> Option<Vec<KeyRecord>> {
        let newest = self.known_keys.first()?;
        (newest.age(now) < self.rotation)
            .then(|| self.known_keys.iter().map(|known| known.record.clone()).collect())
    }
}

impl KnownKey {
    fn age(&self, now: Instant) -> Duration {
        self.age_then + now.saturating_duration_since(self.seen_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);
    const ROTATION: Duration = Duration::from_secs(12 * 60 * 60);

    fn wall(hours: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + hours * 3600).unwrap()
    }

    fn key(hours: i64) -> KeyRecord {
        KeyRecord::new(wall(hours)).unwrap()
    }

    fn settles(schedule: &KeySchedule, now: Instant) -> Vec<u64> {
        schedule.shared_secrets(now).iter().map(|key| key.encrypts_in.as_secs() / 60).collect()
    }

    #[test]
    fn new_keys_wait_before_use_and_keys_found_at_start_only_if_young() {
        let (now, keys) = (Instant::now(), [key(12), key(0)]);
        let mut running = KeySchedule::new(ROTATION);
        running.set_keys(&keys[1..], now, wall(11));
        assert_eq!(settles(&running, now), [0]);
        running.set_keys(&keys, now + HOUR, wall(12));
        assert_eq!(settles(&running, now + HOUR), [30, 0]);
        assert_eq!(settles(&running, now + HOUR + HOUR / 4), [15, 0]);
        let mut started = KeySchedule::new(ROTATION);
        started.set_keys(&keys, now, wall(15));
        assert_eq!(settles(&started, now), [0, 0]);
    }

    #[test]
    fn a_replica_with_a_wrong_clock_waits_too() {
        let (now, keys) = (Instant::now(), [key(12), key(0)]);
        for skew in [-48, -1, 0, 1, 48] {
            let mut schedule = KeySchedule::new(ROTATION);
            schedule.set_keys(&keys[1..], now, wall(skew));
            schedule.set_keys(&keys, now + 12 * HOUR, wall(12 + skew));
            assert_eq!(settles(&schedule, now + 12 * HOUR)[0], 30, "{skew} h");
            let newest = schedule.shared_secrets(now + 24 * HOUR)[0].age;
            assert!(newest >= 12 * HOUR, "it ages by the clock of the replica: {newest:?}, {skew} h");
            assert_eq!(schedule.is_newest_from_future(wall(12 + skew)), skew < 0);
        }
    }

    #[test]
    fn the_leader_rotates_an_old_key_and_keeps_the_previous_one() {
        let now = Instant::now();
        let mut schedule = KeySchedule::new(ROTATION);
        assert_eq!(schedule.time_to_rotation(now), Duration::ZERO);
        let (first, second) = (key(0), key(12));
        schedule.set_keys(std::slice::from_ref(&first), now, wall(3));
        assert_eq!(schedule.time_to_rotation(now), 9 * HOUR);
        let later = now + 9 * HOUR;
        assert_eq!(schedule.time_to_rotation(later), Duration::ZERO);
        assert_eq!(schedule.rotated_keys(second.clone(), later), [second.clone(), first]);
        assert_eq!(
            schedule.rotated_keys(key(40), now + 21 * HOUR).len(),
            1,
            "what is over is not published again"
        );
        // Its clock was a year ahead.
        let ahead = key(24 * 365);
        schedule.set_keys(std::slice::from_ref(&ahead), now, wall(0));
        assert_eq!(schedule.time_to_rotation(now), ROTATION);
        let keys = schedule.rotated_keys(second.clone(), now + ROTATION);
        assert_eq!((keys[1].secret.clone(), keys[1].created_at), (ahead.secret, second.created_at));
    }

    #[test]
    fn a_malformed_secret_is_restored_unless_its_keys_are_old() {
        let now = Instant::now();
        let mut schedule = KeySchedule::new(ROTATION);
        assert_eq!(schedule.restored_keys(now), None);
        let keys = [key(12), key(0)];
        schedule.set_keys(&keys, now, wall(12));
        assert_eq!(schedule.restored_keys(now + 11 * HOUR).as_deref(), Some(&keys[..]));
        assert_eq!(schedule.restored_keys(now + 12 * HOUR), None);
    }
}
