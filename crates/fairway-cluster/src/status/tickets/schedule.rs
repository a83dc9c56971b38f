//! When a key encrypts, when it is over, and when the leader makes the next one. No input or output, no clock: the time is
//! passed in.
//!
//! Clocks of machines need not agree. The time in the record says how old a key was when this replica saw it first; from then on it
//! ages by the replica's own clock that never jumps.

use std::time::Duration;

use fairway_model::SharedTicketSecret;
use jiff::Timestamp;
use tokio::time::Instant;

use super::record::KeyRecord;

/// A key that was published does not encrypt for this part of a rotation: replicas that hear of it late can then open its tickets.
const SETTLING_PARTS: u32 = 24;
/// A key that comes from further in the future shows that clocks are wrong.
pub(super) const TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// The keys that are known.
#[derive(Debug)]
pub(super) struct Schedule {
    rotation: Duration,
    /// The newest first.
    known: Vec<Known>,
    /// Whether the Secret was read before: what is new in it then has just been published.
    has_read: bool,
}

#[derive(Clone, Debug)]
struct Known {
    record: KeyRecord,
    seen: Instant,
    age_then: Duration,
    encrypts_from: Instant,
}

impl Schedule {
    pub(super) fn new(rotation: Duration) -> Self {
        Self { rotation, known: Vec::new(), has_read: false }
    }

    /// Takes the keys that the Secret has now in place of those before.
    pub(super) fn see(&mut self, keys: &[KeyRecord], now: Instant, wall: Timestamp) {
        let settling = self.rotation / SETTLING_PARTS;
        let mut known = Vec::with_capacity(keys.len());
        for record in keys {
            // A key whose time somebody has changed is as old as it was.
            if let Some(before) = self.known.iter().find(|it| it.record.secret == record.secret) {
                known.push(Known { record: record.clone(), ..before.clone() });
                continue;
            }
            let age = Duration::try_from(wall.duration_since(record.made)).unwrap_or_default();
            let wait = if self.has_read { settling } else { settling.saturating_sub(age) };
            known.push(Known { record: record.clone(), seen: now, age_then: age, encrypts_from: now + wait });
        }
        (self.known, self.has_read) = (known, true);
    }

    /// What the data plane is told.
    pub(super) fn shared(&self, now: Instant) -> Vec<SharedTicketSecret> {
        let shared = |known: &Known| SharedTicketSecret {
            secret: known.record.secret.clone(),
            age: known.age(now),
            encrypts_in: known.encrypts_from.saturating_duration_since(now),
        };
        self.known.iter().map(shared).collect()
    }

    /// Whether the newest key comes from the future, by this replica's clock.
    pub(super) fn is_ahead(&self, wall: Timestamp) -> bool {
        let ahead = self.known.first().map(|known| known.record.made.duration_since(wall));
        ahead.and_then(|ahead| Duration::try_from(ahead).ok()).is_some_and(|ahead| ahead > TOLERANCE)
    }

    /// How long the leader waits until it makes the next key.
    pub(super) fn rotates_in(&self, now: Instant) -> Duration {
        self.known.first().map_or(Duration::ZERO, |newest| self.rotation.saturating_sub(newest.age(now)))
    }

    /// The keys that the leader writes: `new` in front of the newest that still counts.
    pub(super) fn rotated(&self, new: KeyRecord, now: Instant) -> Vec<KeyRecord> {
        let previous = self.known.first().filter(|known| known.age(now) < 2 * self.rotation);
        let previous = previous.map(|known| KeyRecord {
            secret: known.record.secret.clone(),
            // The order of the times says which is which; a clock that was ahead must not turn it round.
            made: known.record.made.min(new.made),
        });
        std::iter::once(new).chain(previous).collect()
    }

    /// The keys as they were, to be written over a Secret that is torn; none where the newest is too old to go on with.
    pub(super) fn restored(&self, now: Instant) -> Option<Vec<KeyRecord>> {
        let newest = self.known.first()?;
        (newest.age(now) < self.rotation)
            .then(|| self.known.iter().map(|known| known.record.clone()).collect())
    }
}

impl Known {
    fn age(&self, now: Instant) -> Duration {
        self.age_then + now.saturating_duration_since(self.seen)
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

    fn settles(schedule: &Schedule, now: Instant) -> Vec<u64> {
        schedule.shared(now).iter().map(|key| key.encrypts_in.as_secs() / 60).collect()
    }

    #[test]
    fn a_new_key_waits_on_every_replica_and_one_that_was_there_at_the_start_only_if_it_is_young() {
        let (now, keys) = (Instant::now(), [key(12), key(0)]);
        let mut running = Schedule::new(ROTATION);
        running.see(&keys[1..], now, wall(11));
        assert_eq!(settles(&running, now), [0]);
        running.see(&keys, now + HOUR, wall(12));
        assert_eq!(settles(&running, now + HOUR), [30, 0]);
        assert_eq!(settles(&running, now + HOUR + HOUR / 4), [15, 0]);
        let mut started = Schedule::new(ROTATION);
        started.see(&keys, now, wall(15));
        assert_eq!(settles(&started, now), [0, 0]);
    }

    #[test]
    fn a_replica_whose_clock_is_wrong_waits_all_the_same() {
        let (now, keys) = (Instant::now(), [key(12), key(0)]);
        for skew in [-48, -1, 0, 1, 48] {
            let mut schedule = Schedule::new(ROTATION);
            schedule.see(&keys[1..], now, wall(skew));
            schedule.see(&keys, now + 12 * HOUR, wall(12 + skew));
            assert_eq!(settles(&schedule, now + 12 * HOUR)[0], 30, "{skew} h");
            let newest = schedule.shared(now + 24 * HOUR)[0].age;
            assert!(newest >= 12 * HOUR, "it ages by the clock of the replica: {newest:?}, {skew} h");
            assert_eq!(schedule.is_ahead(wall(12 + skew)), skew < 0);
        }
    }

    #[test]
    fn the_leader_rotates_when_the_newest_key_is_old_and_keeps_the_one_before() {
        let now = Instant::now();
        let mut schedule = Schedule::new(ROTATION);
        assert_eq!(schedule.rotates_in(now), Duration::ZERO);
        let (first, second) = (key(0), key(12));
        schedule.see(std::slice::from_ref(&first), now, wall(3));
        assert_eq!(schedule.rotates_in(now), 9 * HOUR);
        let later = now + 9 * HOUR;
        assert_eq!(schedule.rotates_in(later), Duration::ZERO);
        assert_eq!(schedule.rotated(second.clone(), later), [second.clone(), first]);
        assert_eq!(
            schedule.rotated(key(40), now + 21 * HOUR).len(),
            1,
            "what is over is not published again"
        );
        // Its clock was a year ahead.
        let ahead = key(24 * 365);
        schedule.see(std::slice::from_ref(&ahead), now, wall(0));
        assert_eq!(schedule.rotates_in(now), ROTATION);
        let keys = schedule.rotated(second.clone(), now + ROTATION);
        assert_eq!((keys[1].secret.clone(), keys[1].made), (ahead.secret, second.made));
    }

    #[test]
    fn what_a_torn_secret_gets_back_is_what_was_in_it_unless_that_is_old() {
        let now = Instant::now();
        let mut schedule = Schedule::new(ROTATION);
        assert_eq!(schedule.restored(now), None);
        let keys = [key(12), key(0)];
        schedule.see(&keys, now, wall(12));
        assert_eq!(schedule.restored(now + 11 * HOUR).as_deref(), Some(&keys[..]));
        assert_eq!(schedule.restored(now + 12 * HOUR), None);
    }
}
