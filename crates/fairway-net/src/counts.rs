//! What policies count of each client: how often it asked, and what it has under way. All workers of the process share
//! the counts; there is no lock, and their memory is bounded (docs/design/0023-steps-that-wait-and-count.md). A policy is
//! whatever the caller tells apart.
//!
//! Both tables are sets of eight atomic entries. An entry belongs to whoever's key stands in it; one that says nothing any
//! more may be taken over. The keys are hashes with a secret of the process, so that nobody can choose who shares a set.

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::clock::Instant;

/// Entries of a set.
const WAYS: usize = 8;
/// Sets of a table: 65,536 entries, 1 MiB.
const SETS: usize = 8192;

/// The counts of all policies.
pub struct Counts {
    secret: RandomState,
    epoch: Instant,
    /// The values are times, in microseconds since `epoch`.
    rates: OnceLock<Table>,
    /// The values are numbers of exchanges.
    under_way: OnceLock<Table>,
}

/// How often somebody may ask: one request for each `interval`, and so many early as fit into `burst`.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Between two requests.
    pub interval: Duration,
    /// How much earlier than its turn a request may come.
    pub burst: Duration,
}

impl Rate {
    /// The share of each of `replicas` that count apart. `burst` is a time, in which the share of what may come early fits.
    #[must_use]
    pub fn shared_by(self, replicas: u32) -> Self {
        Self { interval: self.interval.saturating_mul(replicas), ..self }
    }
}

/// An exchange that is counted, until this is dropped.
pub struct UnderWay {
    counts: Arc<Counts>,
    entry: usize,
}

struct Table(Box<[Entry]>);

#[derive(Default)]
struct Entry {
    /// 0 is nobody's.
    key: AtomicU64,
    value: AtomicU64,
}

impl Counts {
    /// Nothing counted, and no memory taken yet.
    pub fn new() -> Arc<Self> {
        let (rates, under_way) = (OnceLock::new(), OnceLock::new());
        Arc::new(Self { secret: RandomState::new(), epoch: Instant::now(), rates, under_way })
    }

    /// Counts a request at `now`, if it does not come too early: the generic cell rate algorithm (ITU-T I.371, Annex A),
    /// which lets through what nginx's leaky bucket does.
    ///
    /// When a set is full of clients that all asked just now, the one that may ask again soonest is forgotten.
    pub fn asks(&self, policy: impl Hash, client: IpAddr, rate: Rate, now: Instant) -> bool {
        let key = self.key(policy, client);
        let now = micros(now.saturating_duration_since(self.epoch));
        let table = self.rates.get_or_init(Table::new);
        let set = table.set(key);
        let entry = set.iter().find(|entry| entry.key.load(Ordering::Acquire) == key);
        let entry = entry.unwrap_or_else(|| take_over(set, key));
        let update = |due: u64| {
            let due = due.max(now);
            (due - now <= micros(rate.burst)).then(|| due.saturating_add(micros(rate.interval).max(1)))
        };
        entry.value.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).is_ok()
    }

    /// Counts an exchange, if fewer than `most` are under way. Where a set is full of clients that all have some, a
    /// further one is refused.
    pub fn begins(self: &Arc<Self>, policy: impl Hash, client: IpAddr, most: u32) -> Option<UnderWay> {
        let key = self.key(policy, client);
        let table = self.under_way.get_or_init(Table::new);
        let first = Table::first(key);
        let set = table.set(key);
        let begin = |way| self.begin_in(set, first, way, key, most);
        let is_mine = |way: &usize| set[*way].key.load(Ordering::Acquire) == key;
        let take_over = |way: &usize| {
            let found = set[*way].key.load(Ordering::Acquire);
            let is_free = set[*way].value.load(Ordering::Acquire) == 0;
            is_free && set[*way].key.compare_exchange(found, key, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let begun = (0..WAYS).filter(is_mine).find_map(begin);
        begun.or_else(|| (0..WAYS).filter(take_over).find_map(begin)).flatten()
    }

    /// None when the entry was taken over meanwhile.
    fn begin_in(
        self: &Arc<Self>,
        set: &[Entry],
        first: usize,
        way: usize,
        key: u64,
        most: u32,
    ) -> Option<Option<UnderWay>> {
        let before = set[way].value.fetch_add(1, Ordering::AcqRel);
        // From here on it is not free, and nobody takes it over.
        let begun = UnderWay { counts: Arc::clone(self), entry: first + way };
        if set[way].key.load(Ordering::Acquire) != key {
            return None;
        }
        Some((before < u64::from(most)).then_some(begun))
    }

    /// All exchanges that are counted.
    pub fn under_way(&self) -> u64 {
        let entries = self.under_way.get().into_iter().flat_map(|table| &table.0);
        entries.map(|entry| entry.value.load(Ordering::Acquire)).sum()
    }

    /// Who is counted; never 0. An IPv6 client is the network of 64 bits that it can choose its addresses from.
    fn key(&self, policy: impl Hash, client: IpAddr) -> u64 {
        let client = match client {
            IpAddr::V4(v4) => u64::from(v4.to_bits()),
            // No address of a client begins with 0::/32, so both kinds stay apart.
            IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
        };
        self.secret.hash_one((policy, client)) | 1
    }
}

impl Drop for UnderWay {
    #[inline]
    fn drop(&mut self) {
        if let Some(table) = self.counts.under_way.get() {
            table.0[self.entry].value.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Table {
    fn new() -> Self {
        Self((0..WAYS * SETS).map(|_| Entry::default()).collect())
    }

    /// The first entry of a key's set. The lowest bit of a key is always set.
    #[inline]
    fn first(key: u64) -> usize {
        ((key >> 1) as usize % SETS) * WAYS
    }

    #[inline]
    fn set(&self, key: u64) -> &[Entry] {
        let first = Self::first(key);
        &self.0[first..first + WAYS]
    }
}

/// An entry for somebody who has none. Whoever loses a race for it is counted with the winner for this once.
fn take_over(set: &[Entry], key: u64) -> &Entry {
    let entry = set.iter().min_by_key(|entry| entry.value.load(Ordering::Acquire));
    let entry = entry.expect("a set has entries");
    let before = entry.key.swap(key, Ordering::AcqRel);
    if before != key {
        entry.value.store(0, Ordering::Release);
    }
    entry
}

#[inline]
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// nginx's `limit_req` (ngx_http_limit_req_module): an excess in thousandths that drains with the rate.
    struct LeakyBucket {
        rate: u64,
        burst: u64,
        excess: u64,
        last: Option<u64>,
    }

    impl LeakyBucket {
        fn asks(&mut self, now: u64) -> bool {
            let excess = match self.last {
                None => 0,
                Some(last) => (self.excess + 1000).saturating_sub(self.rate * (now - last) / 1000),
            };
            if excess > self.burst {
                return false;
            }
            (self.excess, self.last) = (excess, Some(now));
            true
        }
    }

    #[test]
    fn it_lets_through_what_the_leaky_bucket_does() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let (requests, burst) = (random.u64(1..=50), random.u64(0..=20));
            // A rate that divides a second, so that neither rounds.
            let requests = [1, 2, 4, 5, 8, 10, 20, 25, 40, 50][requests as usize % 10];
            let interval = Duration::from_millis(1000 / requests);
            let rate = Rate { interval, burst: interval * burst as u32 };
            let mut bucket =
                LeakyBucket { rate: requests * 1000, burst: burst * 1000, excess: 0, last: None };
            let counts = Counts::new();
            let mut now = 0;
            for _ in 0..200 {
                now += random.u64(..2000 / requests);
                let at = counts.epoch + Duration::from_millis(now);
                let client = address("192.0.2.1");
                assert_eq!(
                    counts.asks("p", client, rate, at),
                    bucket.asks(now),
                    "{requests} a second, burst {burst}"
                );
            }
        }
    }

    #[test]
    fn clients_and_policies_are_counted_apart_and_networks_together() {
        let counts = Counts::new();
        let rate = Rate { interval: Duration::from_secs(1), burst: Duration::ZERO };
        let asks = |name: &str, from: &str| counts.asks(name, address(from), rate, counts.epoch);
        assert!(asks("a", "192.0.2.1"));
        assert!(!asks("a", "192.0.2.1"));
        assert!(asks("a", "192.0.2.2"));
        assert!(asks("b", "192.0.2.1"));
        assert!(asks("a", "2001:db8:1:2::1"));
        assert!(!asks("a", "2001:db8:1:2:ffff::1"), "the same network");
        assert!(asks("a", "2001:db8:1:3::1"), "another one");
    }

    #[test]
    fn what_is_under_way_is_bounded_until_it_ends() {
        let counts = Counts::new();
        let client = address("192.0.2.1");
        let mut held: Vec<_> = (0..3).map_while(|_| counts.begins("p", client, 3)).collect();
        assert_eq!(held.len(), 3);
        assert!(counts.begins("p", client, 3).is_none());
        assert!(counts.begins("q", client, 3).is_some());
        held.pop();
        assert!(counts.begins("p", client, 3).is_some(), "and what was refused is not counted");
    }

    #[test]
    fn threads_that_fight_for_one_entry_never_pass_its_bound() {
        let counts = Counts::new();
        let most = 3;
        // One of them stays, so that the entry never changes hands.
        let kept = counts.begins("p", address("198.51.100.1"), most);
        let (running, highest) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..20_000_u32 {
                        // Others come and go in the same set, so that its entries change hands.
                        let other = IpAddr::V4((round % 50_000).into());
                        drop(counts.begins("p", other, 1));
                        let held = counts.begins("p", address("198.51.100.1"), most);
                        if held.is_some() {
                            highest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            thread::yield_now();
                            running.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert!(highest.load(Ordering::SeqCst) < u64::from(most), "besides the one that stays");
        drop(kept);
        let left: u64 =
            counts.under_way.get().unwrap().0.iter().map(|e| e.value.load(Ordering::SeqCst)).sum();
        assert_eq!(left, 0, "all counts are at rest");
    }

    #[test]
    fn a_table_that_is_full_forgets_rates_and_refuses_what_begins() {
        let counts = Counts::new();
        let rate = Rate { interval: Duration::from_secs(1), burst: Duration::ZERO };
        let clients = || (0..u32::try_from(2 * WAYS * SETS).unwrap()).map(|n| IpAddr::V4(n.into()));
        assert!(clients().all(|client| counts.asks("p", client, rate, counts.epoch)));
        let held: Vec<_> = clients().filter_map(|client| counts.begins("p", client, 1)).collect();
        assert!(held.len() <= WAYS * SETS && held.len() > WAYS * SETS * 9 / 10, "{}", held.len());
    }
}
