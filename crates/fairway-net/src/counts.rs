//! What policies count of each client: how often it asked, and what it has under way. All workers of the process share
//! the counts; there is no lock, and their memory is bounded (docs/design/0023-steps-that-wait-and-count.md). A policy is
//! whatever the caller tells apart.
//!
//! Both tables are sets of eight atomic entries. An entry belongs to whoever's key stands in it; one that says nothing any
//! more may be taken over. The keys are hashes with a secret of the process, so that nobody can choose who shares a set.
//!
//! Of a limit that replicas share, each counts its equal share. A replica may lend that of a client to another one, and pays for it in
//! advance by moving its own time (docs/design/0081-shares-that-replicas-lend.md).

mod shares;

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::clock::Instant;
use shares::{Share, Shares};

/// A lender keeps one sixteenth of a share that it lends, and the borrower has the others.
pub const LENT_SIXTEENTHS: u32 = 15;
/// Of an equal share.
const WHOLE_SIXTEENTHS: u32 = 16;

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
    shares: Shares,
}

/// Whose requests are counted: a hash with a secret of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey(
    /// Never 0.
    u64,
);

/// What lending a share has cost: the time that the client's count was moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payment(u64);

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

    /// The same where the share is so many sixteenths of itself.
    fn with_sixteenths(self, sixteenths: u32) -> Self {
        let whole = self.interval.saturating_mul(WHOLE_SIXTEENTHS).as_nanos();
        // In whole microseconds, and never less than is due.
        let micros = whole.div_ceil(u128::from(sixteenths.max(1))).div_ceil(1000);
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
        let (secret, epoch, shares) = (RandomState::new(), Instant::now(), Shares::default());
        Arc::new(Self { secret, epoch, rates, under_way, shares })
    }

    /// Counts a request at `now`, if it does not come too early: the generic cell rate algorithm (ITU-T I.371, Annex A),
    /// which lets through what nginx's leaky bucket does.
    ///
    /// When a set is full of clients that all asked just now, the one that may ask again soonest is forgotten.
    pub fn asks(&self, policy: impl Hash, client: IpAddr, rate: Rate, now: Instant) -> bool {
        self.counts_in_time(self.key(policy, client), rate, now)
    }

    /// As [`asks`](Self::asks), of a limit that `replicas` share: `rate` is the equal share of one of them. While a part of it is lent
    /// or borrowed, the client has less or more.
    ///
    /// # Errors
    /// The request comes too early; says whose it is.
    pub fn asks_share(
        &self,
        policy: impl Hash,
        client: IpAddr,
        rate: Rate,
        replicas: u32,
        now: Instant,
    ) -> Result<(), ClientKey> {
        let key = self.key(policy, client);
        let (counted, rate) = match self.shares.find(key, self.millis(now)) {
            Some(Share::Lent) => (kept(key), rate.with_sixteenths(WHOLE_SIXTEENTHS - LENT_SIXTEENTHS)),
            Some(Share::Borrowed { sixteenths, replicas: then }) if then == replicas => {
                (key, rate.with_sixteenths(sixteenths))
            }
            // What was borrowed are parts of another whole.
            Some(Share::Borrowed { .. }) | None => (key, rate),
        };
        if self.counts_in_time(counted, rate, now) { Ok(()) } else { Err(ClientKey(key)) }
    }

    fn counts_in_time(&self, key: u64, rate: Rate, now: Instant) -> bool {
        let now = self.micros(now);
        let update = |due: u64| {
            let due = due.max(now);
            (due - now <= micros(rate.burst)).then(|| due.saturating_add(micros(rate.interval).max(1)))
        };
        self.rate_entry(key).value.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).is_ok()
    }

    /// Whose requests [`asks_share`](Self::asks_share) counts.
    pub fn client_key(&self, policy: impl Hash, client: IpAddr) -> ClientKey {
        ClientKey(self.key(policy, client))
    }

    /// Lends the share of a client until `end`, if the client has left all of it unused, or has used nothing since the same borrower was
    /// lent it for `before`. `rate` is the share.
    ///
    /// The time of the client moves to where the whole share is used until then, with what may come early, and two requests more, by which the
    /// last requests of both sides may exceed their parts. It moves before the borrower hears of it.
    pub fn lend(
        &self,
        key: ClientKey,
        rate: Rate,
        end: Instant,
        now: Instant,
        before: Option<Payment>,
    ) -> Option<Payment> {
        if let Some(Share::Borrowed { .. }) = self.shares.find(key.0, self.millis(now)) {
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
        // Another client has taken the entry over meanwhile.
        let is_lost = entry.key.load(Ordering::Acquire) != key.0;
        if is_lost || !self.shares.set(key.0, Share::Lent, self.millis(end), self.millis(now)) {
            // Nobody was let through since.
            _ = due.compare_exchange(paid, was, Ordering::AcqRel, Ordering::Relaxed);
            return None;
        }
        Some(Payment(paid))
    }

    /// Until `end`, the client has so many sixteenths of an equal share, which is one of `replicas`; `false` where there is no room.
    pub fn borrow(&self, key: ClientKey, sixteenths: u32, replicas: u32, end: Instant, now: Instant) -> bool {
        self.shares.set(key.0, Share::Borrowed { sixteenths, replicas }, self.millis(end), self.millis(now))
    }

    /// Whether the time of the client is later than `since`: it has asked about then or later.
    pub fn has_asked_since(&self, key: ClientKey, since: Instant) -> bool {
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

/// The key of what a lender keeps of a share.
#[inline]
fn kept(key: u64) -> u64 {
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
    fn a_share_that_is_lent_is_paid_for_before_it_is_used() {
        let (counts, client, second) = (Counts::new(), address("192.0.2.1"), Duration::from_secs(1));
        let rate = Rate { interval: second, burst: Duration::from_secs(2) };
        let at = |seconds: f64| counts.epoch + Duration::from_secs_f64(seconds);
        let passed = |from: f64, to: f64| {
            let times = (0..).map(|step| from + f64::from(step) / 8.0).take_while(|time| *time < to);
            times.filter(|time| counts.asks_share("p", client, rate, 3, at(*time)).is_ok()).count()
        };
        let key = counts.client_key("p", client);
        assert!(counts.asks_share("p", client, rate, 3, at(10.0)).is_ok());
        assert_eq!(counts.lend(key, rate, at(14.0), at(10.5), None), None, "it is in use");
        let first = counts.lend(key, rate, at(20.0), at(12.0), None).unwrap();
        assert_eq!(counts.lend(key, rate, at(20.0), at(13.0), None), None, "it is lent");
        let renewed = counts.lend(key, rate, at(24.0), at(18.0), Some(first)).unwrap();
        assert_eq!(counts.lend(key, rate, at(26.0), at(19.0), Some(first)), None, "that is over");
        // A sixteenth: one request for each 16 seconds.
        assert_eq!(passed(18.0, 24.0), 1);
        // The early requests are used up, and two more.
        assert_eq!((passed(24.0, 26.0), passed(26.0, 26.1), passed(26.1, 36.0)), (0, 1, 9));
        assert_eq!(counts.lend(key, rate, at(40.0), at(36.0), Some(renewed)), None, "it was used since");

        let counts = Counts::new();
        let (key, at) = (counts.client_key("p", client), |seconds| counts.epoch + seconds * second);
        let asks =
            |step: u32| counts.asks_share("p", client, rate, 3, counts.epoch + step * second / 100).is_ok();
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
