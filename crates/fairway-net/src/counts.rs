//! Per-client counters for policies: request rates and exchanges in flight. Shared by all workers of the process,
//! without locks and with bounded memory (docs/design/0023-steps-that-wait-and-count.md). The caller defines what a
//! policy is.
//!
//! Both tables are sets of eight atomic entries. An entry belongs to the key stored in it; one that no longer matters
//! may be taken over. Keys are hashed with a secret of the process, so that clients cannot choose to share a set.
//!
//! If replicas share a limit, each counts its equal share. A replica may lend a client's share to another one, and pays
//! for it in advance by moving its own time (docs/design/0081-shares-that-replicas-lend.md).

mod shares;

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::clock::Instant;
use shares::{LentShares, ShareState};

/// A lender keeps one sixteenth of a share; the borrower gets the rest.
pub const LENT_SIXTEENTHS: u32 = 15;
/// An equal share.
const FULL_SHARE_SIXTEENTHS: u32 = 16;

/// Entries of a set.
const ENTRIES_PER_SET: usize = 8;
/// Sets of a table: 65,536 entries, 1 MiB.
const SET_COUNT: usize = 8192;

/// The counters of all policies.
pub struct ClientCounts {
    secret: RandomState,
    epoch: Instant,
    /// The values are times, in microseconds since `epoch`.
    rates: OnceLock<Table>,
    /// The values are numbers of exchanges.
    in_flight: OnceLock<Table>,
    shares: LentShares,
}

/// Identifies a client of a policy: a hash with a secret of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey(
    /// Never 0.
    u64,
);

/// The cost of lending a share: the time that the client's counter was moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payment(u64);

/// A request rate: one request per `interval`, and bursts of as many early requests as fit into `burst`.
#[derive(Clone, Copy, Debug)]
pub struct RequestRate {
    /// The time between two requests.
    pub interval: Duration,
    /// How much too early a request may come.
    pub burst: Duration,
}

impl RequestRate {
    /// The share of each of `replicas`. `burst` is a time, so it shrinks with the share.
    #[must_use]
    pub fn shared_by(self, replicas: u32) -> Self {
        Self { interval: self.interval.saturating_mul(replicas), ..self }
    }

    /// This many sixteenths of the rate.
    fn with_sixteenths(self, sixteenths: u32) -> Self {
        let full_interval = self.interval.saturating_mul(FULL_SHARE_SIXTEENTHS).as_nanos();
        // In whole microseconds, and never shorter than exact.
        let micros = full_interval.div_ceil(u128::from(sixteenths.max(1))).div_ceil(1000);
        Self { interval: Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)), ..self }
    }
}

impl ClientKey {
    /// The hash, for tables of this process.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A counted exchange, until this is dropped.
pub struct CountedExchange {
    counts: Arc<ClientCounts>,
    entry: usize,
}

struct Table(Box<[Entry]>);

#[derive(Default)]
struct Entry {
    /// 0 if free.
    key: AtomicU64,
    value: AtomicU64,
}

impl ClientCounts {
    /// Counts nothing and allocates nothing yet.
    pub fn new() -> Arc<Self> {
        let (rates, under_way) = (OnceLock::new(), OnceLock::new());
        let (secret, epoch, shares) = (RandomState::new(), Instant::now(), LentShares::default());
        Arc::new(Self { secret, epoch, rates, in_flight: under_way, shares })
    }

    /// Counts a request at `now` unless it comes too early. Uses the generic cell rate algorithm (ITU-T I.371, Annex
    /// A), which admits the same requests as nginx's leaky bucket.
    ///
    /// If a set is full of recent clients, the one that may request again soonest is forgotten.
    pub fn admit(&self, policy: impl Hash, client: IpAddr, rate: RequestRate, now: Instant) -> bool {
        self.admit_key(self.key(policy, client), rate, now)
    }

    /// As [`admit`](Self::admit), for a limit that `replicas` share: `rate` is the equal share of one replica. While
    /// part of it is lent or borrowed, the client has less or more.
    ///
    /// # Errors
    /// The request comes too early; returns the client's key.
    pub fn admit_shared(
        &self,
        policy: impl Hash,
        client: IpAddr,
        rate: RequestRate,
        replicas: u32,
        now: Instant,
    ) -> Result<(), ClientKey> {
        let key = self.key(policy, client);
        let (counted, rate) = match self.shares.find(key, self.millis(now)) {
            Some(ShareState::Lent) => {
                (lender_key(key), rate.with_sixteenths(FULL_SHARE_SIXTEENTHS - LENT_SIXTEENTHS))
            }
            Some(ShareState::Borrowed { sixteenths, replicas: then }) if then == replicas => {
                (key, rate.with_sixteenths(sixteenths))
            }
            // The borrowed share belongs to another number of replicas.
            Some(ShareState::Borrowed { .. }) | None => (key, rate),
        };
        if self.admit_key(counted, rate, now) { Ok(()) } else { Err(ClientKey(key)) }
    }

    fn admit_key(&self, key: u64, rate: RequestRate, now: Instant) -> bool {
        let now = self.micros(now);
        let update = |due: u64| {
            let due = due.max(now);
            (due - now <= micros(rate.burst)).then(|| due.saturating_add(micros(rate.interval).max(1)))
        };
        self.rate_entry(key).value.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).is_ok()
    }

    /// The client key that [`admit_shared`](Self::admit_shared) counts.
    pub fn client_key(&self, policy: impl Hash, client: IpAddr) -> ClientKey {
        ClientKey(self.key(policy, client))
    }

    /// Lends a client's share until `end`, if the client has left all of it unused, or has used nothing since it was
    /// lent to the same borrower for `before`. `rate` is the share.
    ///
    /// The client's time moves to where the whole share is used until `end`, including the burst and two more requests,
    /// by which the last requests on both sides may exceed their parts. It moves before the borrower is told.
    pub fn lend(
        &self,
        key: ClientKey,
        rate: RequestRate,
        end: Instant,
        now: Instant,
        before: Option<Payment>,
    ) -> Option<Payment> {
        if let Some(ShareState::Borrowed { .. }) = self.shares.find(key.0, self.millis(now)) {
            return None;
        }
        let entry = self.rate_entry(key.0);
        let due = &entry.value;
        let was = due.load(Ordering::Acquire);
        if was > self.micros(now) && before != Some(Payment(was)) {
            return None;
        }
        let in_advance = rate.burst.saturating_add(rate.interval.saturating_mul(2));
        let paid = self.micros(end).saturating_add(micros(in_advance)).max(was);
        due.compare_exchange(was, paid, Ordering::AcqRel, Ordering::Acquire).ok()?;
        // Another client has taken over the entry in the meantime.
        let is_lost = entry.key.load(Ordering::Acquire) != key.0;
        if is_lost || !self.shares.set(key.0, ShareState::Lent, self.millis(end), self.millis(now)) {
            // No request was admitted since.
            _ = due.compare_exchange(paid, was, Ordering::AcqRel, Ordering::Relaxed);
            return None;
        }
        Some(Payment(paid))
    }

    /// Until `end`, the client has this many sixteenths of an equal share, which is one of `replicas`; `false` if there
    /// is no room.
    pub fn borrow(&self, key: ClientKey, sixteenths: u32, replicas: u32, end: Instant, now: Instant) -> bool {
        self.shares.set(
            key.0,
            ShareState::Borrowed { sixteenths, replicas },
            self.millis(end),
            self.millis(now),
        )
    }

    /// Whether the client's time is later than `since`: it has made a request around then or later.
    pub fn has_requested_since(&self, key: ClientKey, since: Instant) -> bool {
        self.rate_entry(key.0).value.load(Ordering::Acquire) > self.micros(since)
    }

    fn rate_entry(&self, key: u64) -> &Entry {
        let set = self.rates.get_or_init(Table::new).set(key);
        let entry = set.iter().find(|entry| entry.key.load(Ordering::Acquire) == key);
        entry.unwrap_or_else(|| take_over(set, key))
    }

    #[inline]
    fn micros(&self, at: Instant) -> u64 {
        micros(at.saturating_duration_since(self.epoch))
    }

    #[inline]
    fn millis(&self, at: Instant) -> u64 {
        self.micros(at) / 1000
    }

    /// Counts an exchange if fewer than `most` are in flight. If a set is full of clients with exchanges in flight,
    /// another client is refused.
    pub fn begin_exchange(
        self: &Arc<Self>,
        policy: impl Hash,
        client: IpAddr,
        most: u32,
    ) -> Option<CountedExchange> {
        let key = self.key(policy, client);
        let table = self.in_flight.get_or_init(Table::new);
        let first = Table::first_index(key);
        let set = table.set(key);
        let begin = |way| self.begin_in_set(set, first, way, key, most);
        let is_mine = |way: &usize| set[*way].key.load(Ordering::Acquire) == key;
        let take_over = |way: &usize| {
            let found = set[*way].key.load(Ordering::Acquire);
            let is_free = set[*way].value.load(Ordering::Acquire) == 0;
            is_free && set[*way].key.compare_exchange(found, key, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let started = (0..ENTRIES_PER_SET).filter(is_mine).find_map(begin);
        started.or_else(|| (0..ENTRIES_PER_SET).filter(take_over).find_map(begin)).flatten()
    }

    /// `None` if the entry was taken over in the meantime.
    fn begin_in_set(
        self: &Arc<Self>,
        set: &[Entry],
        first: usize,
        way: usize,
        key: u64,
        most: u32,
    ) -> Option<Option<CountedExchange>> {
        let before = set[way].value.fetch_add(1, Ordering::AcqRel);
        // From here on the entry is in use and cannot be taken over.
        let started = CountedExchange { counts: Arc::clone(self), entry: first + way };
        if set[way].key.load(Ordering::Acquire) != key {
            return None;
        }
        Some((before < u64::from(most)).then_some(started))
    }

    /// All counted exchanges.
    pub fn in_flight(&self) -> u64 {
        let entries = self.in_flight.get().into_iter().flat_map(|table| &table.0);
        entries.map(|entry| entry.value.load(Ordering::Acquire)).sum()
    }

    /// The key of a client; never 0. An IPv6 client is its /64 network, whose addresses it can choose freely.
    fn key(&self, policy: impl Hash, client: IpAddr) -> u64 {
        let client = match client {
            IpAddr::V4(v4) => u64::from(v4.to_bits()),
            // No client address begins with 0::/32, so the two families stay distinct.
            IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
        };
        self.secret.hash_one((policy, client)) | 1
    }
}

impl Drop for CountedExchange {
    #[inline]
    fn drop(&mut self) {
        if let Some(table) = self.counts.in_flight.get() {
            table.0[self.entry].value.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Table {
    fn new() -> Self {
        Self((0..ENTRIES_PER_SET * SET_COUNT).map(|_| Entry::default()).collect())
    }

    /// The first entry of a key's set. The lowest bit of a key is always set.
    #[inline]
    fn first_index(key: u64) -> usize {
        ((key >> 1) as usize % SET_COUNT) * ENTRIES_PER_SET
    }

    #[inline]
    fn set(&self, key: u64) -> &[Entry] {
        let first = Self::first_index(key);
        &self.0[first..first + ENTRIES_PER_SET]
    }
}

/// Takes over an entry for a new client. A client that loses a race for it is counted with the winner this once.
fn take_over(set: &[Entry], key: u64) -> &Entry {
    let entry = set.iter().min_by_key(|entry| entry.value.load(Ordering::Acquire));
    let entry = entry.expect("a set has entries");
    let before = entry.key.swap(key, Ordering::AcqRel);
    if before != key {
        entry.value.store(0, Ordering::Release);
    }
    entry
}

/// The key of the part of a share that the lender keeps.
#[inline]
fn lender_key(key: u64) -> u64 {
    key.rotate_left(32) | 1
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

    /// nginx's `limit_req` (ngx_http_limit_req_module): an excess in thousandths that drains at the rate.
    struct LeakyBucket {
        rate: u64,
        burst: u64,
        excess: u64,
        last: Option<u64>,
    }

    impl LeakyBucket {
        fn should_report(&mut self, now: u64) -> bool {
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
    fn the_admitted_requests_match_a_leaky_bucket() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let (requests, burst) = (random.u64(1..=50), random.u64(0..=20));
            // A rate that divides a second, so that neither rounds.
            let requests = [1, 2, 4, 5, 8, 10, 20, 25, 40, 50][requests as usize % 10];
            let interval = Duration::from_millis(1000 / requests);
            let rate = RequestRate { interval, burst: interval * burst as u32 };
            let mut bucket =
                LeakyBucket { rate: requests * 1000, burst: burst * 1000, excess: 0, last: None };
            let counts = ClientCounts::new();
            let mut now = 0;
            for _ in 0..200 {
                now += random.u64(..2000 / requests);
                let at = counts.epoch + Duration::from_millis(now);
                let client = address("192.0.2.1");
                assert_eq!(
                    counts.admit("p", client, rate, at),
                    bucket.should_report(now),
                    "{requests} a second, burst {burst}"
                );
            }
        }
    }

    #[test]
    fn clients_and_policies_are_counted_apart_and_networks_together() {
        let counts = ClientCounts::new();
        let rate = RequestRate { interval: Duration::from_secs(1), burst: Duration::ZERO };
        let asks = |name: &str, from: &str| counts.admit(name, address(from), rate, counts.epoch);
        assert!(asks("a", "192.0.2.1"));
        assert!(!asks("a", "192.0.2.1"));
        assert!(asks("a", "192.0.2.2"));
        assert!(asks("b", "192.0.2.1"));
        assert!(asks("a", "2001:db8:1:2::1"));
        assert!(!asks("a", "2001:db8:1:2:ffff::1"), "the same network");
        assert!(asks("a", "2001:db8:1:3::1"), "another one");
    }

    #[test]
    fn requests_in_flight_are_bounded_until_they_end() {
        let counts = ClientCounts::new();
        let client = address("192.0.2.1");
        let mut exchanges: Vec<_> = (0..3).map_while(|_| counts.begin_exchange("p", client, 3)).collect();
        assert_eq!(exchanges.len(), 3);
        assert!(counts.begin_exchange("p", client, 3).is_none());
        assert!(counts.begin_exchange("q", client, 3).is_some());
        exchanges.pop();
        assert!(counts.begin_exchange("p", client, 3).is_some(), "and what was refused is not counted");
    }

    #[test]
    fn a_lent_share_is_paid_for_before_it_is_used() {
        let (counts, client, second) = (ClientCounts::new(), address("192.0.2.1"), Duration::from_secs(1));
        let rate = RequestRate { interval: second, burst: Duration::from_secs(2) };
        let at = |seconds: f64| counts.epoch + Duration::from_secs_f64(seconds);
        let passed = |from: f64, to: f64| {
            let times = (0..).map(|step| from + f64::from(step) / 8.0).take_while(|time| *time < to);
            times.filter(|time| counts.admit_shared("p", client, rate, 3, at(*time)).is_ok()).count()
        };
        let key = counts.client_key("p", client);
        assert!(counts.admit_shared("p", client, rate, 3, at(10.0)).is_ok());
        assert_eq!(counts.lend(key, rate, at(14.0), at(10.5), None), None, "it is in use");
        let first = counts.lend(key, rate, at(20.0), at(12.0), None).unwrap();
        assert_eq!(counts.lend(key, rate, at(20.0), at(13.0), None), None, "it is lent");
        let renewed = counts.lend(key, rate, at(24.0), at(18.0), Some(first)).unwrap();
        assert_eq!(counts.lend(key, rate, at(26.0), at(19.0), Some(first)), None, "that is over");
        // A sixteenth: one request every 16 seconds.
        assert_eq!(passed(18.0, 24.0), 1);
        // The burst is used up, and two more.
        assert_eq!((passed(24.0, 26.0), passed(26.0, 26.1), passed(26.1, 36.0)), (0, 1, 9));
        assert_eq!(counts.lend(key, rate, at(40.0), at(36.0), Some(renewed)), None, "it was used since");

        let counts = ClientCounts::new();
        let (key, at) = (counts.client_key("p", client), |seconds| counts.epoch + seconds * second);
        let asks =
            |step: u32| counts.admit_shared("p", client, rate, 3, counts.epoch + step * second / 100).is_ok();
        let passed = |from: u32, to: u32| (from * 100..to * 100).filter(|step| asks(*step)).count();
        assert!(counts.borrow(key, 46, 3, at(10), at(0)));
        assert_eq!(counts.lend(key, rate, at(5), at(1), None), None, "what is borrowed is lent to nobody");
        let borrowed = passed(0, 10);
        assert!((34..=36).contains(&borrowed), "{borrowed} of (10 + 2) x 46 / 16, and one");
        assert_eq!(passed(10, 20), 10, "it is over");
        assert!(counts.borrow(key, 46, 6, at(40), at(20)));
        assert_eq!(passed(20, 30), 10, "parts of another whole");
    }

    #[test]
    fn threads_that_fight_for_one_entry_never_pass_its_bound() {
        let counts = ClientCounts::new();
        let limit = 3;
        // One of them stays, so that the entry never changes hands.
        let first = counts.begin_exchange("p", address("198.51.100.1"), limit);
        let (running, highest) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..20_000_u32 {
                        // Others come and go in the same set, so that its entries change hands.
                        let other = IpAddr::V4((round % 50_000).into());
                        drop(counts.begin_exchange("p", other, 1));
                        let first = counts.begin_exchange("p", address("198.51.100.1"), limit);
                        if first.is_some() {
                            highest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            thread::yield_now();
                            running.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert!(highest.load(Ordering::SeqCst) < u64::from(limit), "besides the one that stays");
        drop(first);
        let remaining: u64 =
            counts.in_flight.get().unwrap().0.iter().map(|e| e.value.load(Ordering::SeqCst)).sum();
        assert_eq!(remaining, 0, "all counts are at rest");
    }

    #[test]
    fn a_full_table_forgets_rates_and_refuses_new_exchanges() {
        let counts = ClientCounts::new();
        let rate = RequestRate { interval: Duration::from_secs(1), burst: Duration::ZERO };
        let clients =
            || (0..u32::try_from(2 * ENTRIES_PER_SET * SET_COUNT).unwrap()).map(|n| IpAddr::V4(n.into()));
        assert!(clients().all(|client| counts.admit("p", client, rate, counts.epoch)));
        let exchanges: Vec<_> =
            clients().filter_map(|client| counts.begin_exchange("p", client, 1)).collect();
        assert!(
            exchanges.len() <= ENTRIES_PER_SET * SET_COUNT
                && exchanges.len() > ENTRIES_PER_SET * SET_COUNT * 9 / 10,
            "{}",
            exchanges.len()
        );
    }
}
