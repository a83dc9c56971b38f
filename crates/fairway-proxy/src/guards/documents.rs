//! The keys that issuers publish, shared by all workers: asked for when the first token comes, refreshed before they are old, and kept
//! for a day while their issuer does not answer.
//!
//! Whoever finds out that a set is due begins a [`Fetch`], of which there is one at a time for each set; all others go on with the keys
//! that are there, or wait for the outcome where there are none. A worker looks at an atomic number per request, and takes no lock while
//! that is the same.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use fairway_net::clock::Instant;
use fairway_token::{Digest, InvalidKeySet, KeySet, digest};
use tokio::sync::watch;

/// How long keys are used where the issuer does not say it.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);
/// The shortest and the longest time for which they are used, whatever the issuer says.
const LIFETIMES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(3600)];
/// How long they are still used after that, while they are being refreshed.
const REFRESH_TIME: Duration = Duration::from_secs(60);
/// For how long an attempt that failed says that the issuer does not answer: longer than one takes with the pause behind it.
const OUTAGE_MEMORY: Duration = Duration::from_secs(60);
/// How old keys may become whose issuer does not answer.
const MAX_AGE: Duration = Duration::from_secs(86_400);
/// Between two attempts: how often an issuer is asked at most, whatever tokens come.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The key sets of a process.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<HashMap<Digest, Weak<SharedSet>>>>);

/// The key sets that a worker has looked at.
pub(crate) struct KeySets {
    shared: Shared,
    known: RefCell<HashMap<Digest, Known>>,
    /// How often the keys of a set have become others.
    changes: Cell<u64>,
}

struct Known {
    set: Arc<SharedSet>,
    updates: watch::Receiver<State>,
    state: State,
    /// When it was asked for last; at least as often as it is due.
    used: Instant,
}

/// A key set, with everybody who waits for it.
pub(crate) struct SharedSet {
    state: watch::Sender<State>,
    is_fetching: AtomicBool,
}

/// What is known of a key set.
#[derive(Clone, Default)]
struct State {
    keys: Option<Fetched>,
    /// When it was asked for last.
    attempted: Option<Instant>,
    /// Whether the issuer did not answer then.
    failed: bool,
}

#[derive(Clone)]
struct Fetched {
    keys: Arc<KeySet>,
    /// Of its text.
    digest: Digest,
    at: Instant,
    lifetime: Duration,
}

/// What there is to verify a token with.
pub(crate) enum Keys {
    /// These. They should be refreshed where there is a fetch.
    Ready(Arc<KeySet>, Option<Fetch>),
    /// None yet: they come with the next update. Whoever has the fetch must make it.
    Awaited(Updates, Option<Fetch>),
    /// None, and the issuer was asked only just now.
    Unavailable,
}

/// Tells when a fetch is over.
pub(crate) struct Updates(watch::Receiver<State>);

/// The right to ask an issuer for its keys; dropped without an outcome, it failed.
pub(crate) struct Fetch {
    set: Arc<SharedSet>,
    is_over: bool,
}

impl KeySets {
    /// Those of a worker.
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared, known: RefCell::default(), changes: Cell::new(0) }
    }

    /// How often the keys of a set have become others, as far as the worker has seen it: what was verified before must be verified again.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Whether there are keys, and nothing has to be done for them.
    pub(crate) fn is_settled(&self, id: &Digest, now: Instant) -> bool {
        let mut known = self.known.borrow_mut();
        let Some(known) = known.get_mut(id) else { return false };
        self.note(known.update());
        let is_asked_for = !known.state.may_be_asked_for(now) || known.set.is_fetching();
        known.state.usable(now).is_some() && is_asked_for
    }

    /// The keys of a set.
    pub(crate) fn find(&self, id: &Digest, now: Instant) -> Keys {
        let mut known = self.known.borrow_mut();
        if !known.contains_key(id) {
            // Those that no rule asks for any more.
            known.retain(|_, known| now < known.used + MAX_AGE);
        }
        let known = known.entry(*id).or_insert_with(|| Known::new(self.shared.find(id), now));
        known.used = now;
        loop {
            self.note(known.update());
            let fetch = if known.state.is_due(now) { known.set.begin(now) } else { None };
            if let Some(keys) = known.state.usable(now) {
                return Keys::Ready(keys, fetch);
            }
            if fetch.is_some() || known.set.is_fetching() {
                return Keys::Awaited(Updates(known.updates.clone()), fetch);
            }
            // A fetch of another worker may have ended just now.
            if !known.updates.has_changed().unwrap_or(false) {
                return Keys::Unavailable;
            }
        }
    }

    fn note(&self, is_change: bool) {
        self.changes.set(self.changes.get() + u64::from(is_change));
    }

    /// The keys after the issuer was asked again, since a token has a key that is not there. `None` where it was asked just now.
    pub(crate) fn refresh(&self, id: &Digest, now: Instant) -> Option<(Updates, Option<Fetch>)> {
        let known = self.known.borrow();
        let known = known.get(id)?;
        let fetch = known.set.begin(now);
        (fetch.is_some() || known.set.is_fetching()).then(|| (Updates(known.updates.clone()), fetch))
    }
}

impl Known {
    fn new(set: Arc<SharedSet>, now: Instant) -> Self {
        let mut updates = set.state.subscribe();
        let state = updates.borrow_and_update().clone();
        Self { set, updates, state, used: now }
    }

    /// Takes what is new, and says whether these are other keys.
    fn update(&mut self) -> bool {
        if !self.updates.has_changed().unwrap_or(false) {
            return false;
        }
        let before = std::mem::replace(&mut self.state, self.updates.borrow_and_update().clone());
        let digest = |state: &State| state.keys.as_ref().map(|keys| keys.digest);
        digest(&before) != digest(&self.state)
    }
}

impl Shared {
    fn find(&self, id: &Digest) -> Arc<SharedSet> {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = sets.get(id).and_then(Weak::upgrade) {
            return set;
        }
        sets.retain(|_, set| set.strong_count() > 0);
        let set =
            Arc::new(SharedSet { state: watch::Sender::default(), is_fetching: AtomicBool::new(false) });
        sets.insert(*id, Arc::downgrade(&set));
        set
    }
}

impl State {
    fn is_due(&self, now: Instant) -> bool {
        match &self.keys {
            Some(keys) => now >= keys.at + keys.lifetime,
            None => true,
        }
    }

    /// Whether the keys are due, and it was not tried only just now.
    fn may_be_asked_for(&self, now: Instant) -> bool {
        self.is_due(now) && self.attempted.is_none_or(|at| now >= at + RETRY_INTERVAL)
    }

    fn usable(&self, now: Instant) -> Option<Arc<KeySet>> {
        let fetched = self.keys.as_ref()?;
        let age = now.saturating_duration_since(fetched.at);
        let fails = self.failed && self.attempted.is_some_and(|at| now < at + OUTAGE_MEMORY);
        let most = if fails { MAX_AGE } else { fetched.lifetime + REFRESH_TIME };
        (age < most).then(|| Arc::clone(&fetched.keys))
    }
}

impl SharedSet {
    fn is_fetching(&self) -> bool {
        self.is_fetching.load(Ordering::Acquire)
    }

    /// Begins to ask the issuer, unless somebody does, or has only just done.
    fn begin(self: &Arc<Self>, now: Instant) -> Option<Fetch> {
        let is_too_early = || self.state.borrow().attempted.is_some_and(|at| now < at + RETRY_INTERVAL);
        if is_too_early() || self.is_fetching.swap(true, Ordering::AcqRel) {
            return None;
        }
        if is_too_early() {
            // Another fetch began and ended in between.
            self.is_fetching.store(false, Ordering::Release);
            return None;
        }
        Some(Fetch { set: Arc::clone(self), is_over: false })
    }
}

impl Fetch {
    /// The issuer answered with this text, which is to be used for so long.
    pub(crate) fn succeed(mut self, text: &[u8], lifetime: Option<Duration>) {
        let keys = match KeySet::parse(text) {
            Ok(keys) => keys,
            // It has withdrawn all of them.
            Err(InvalidKeySet::NoneUsable) => KeySet::default(),
            Err(_) => return,
        };
        let [shortest, longest] = LIFETIMES;
        let fetched = Fetched {
            keys: Arc::new(keys),
            digest: digest(text),
            at: Instant::now(),
            lifetime: lifetime.unwrap_or(DEFAULT_LIFETIME).clamp(shortest, longest),
        };
        self.end(|state| {
            state.failed = false;
            state.keys = Some(fetched);
        });
    }

    fn end(&mut self, change: impl FnOnce(&mut State)) {
        self.is_over = true;
        self.set.state.send_modify(|state| {
            state.attempted = Some(Instant::now());
            change(state);
            // Before whoever waits can look again.
            self.set.is_fetching.store(false, Ordering::Release);
        });
    }
}

impl Drop for Fetch {
    /// A worker that ends, or a client that leaves, is an attempt that failed: others may make the next one.
    fn drop(&mut self) {
        if !self.is_over {
            self.end(|state| state.failed = true);
        }
    }
}

impl Updates {
    /// Waits until a fetch that is under way is over.
    pub(crate) async fn next(&mut self) {
        // The set outlives whoever waits for it.
        _ = self.0.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &[u8] =
        br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    const ID: Digest = [1; 32];

    fn two_workers() -> [KeySets; 2] {
        let shared = Shared::default();
        [KeySets::new(shared.clone()), KeySets::new(shared)]
    }

    fn fetch(sets: &KeySets) -> Option<Fetch> {
        match sets.find(&ID, Instant::now()) {
            Keys::Ready(_, fetch) | Keys::Awaited(_, fetch) => fetch,
            Keys::Unavailable => None,
        }
    }

    fn is_ready(sets: &KeySets) -> bool {
        matches!(sets.find(&ID, Instant::now()), Keys::Ready(..))
    }

    #[tokio::test(start_paused = true)]
    async fn one_worker_asks_and_all_get_the_keys() {
        let [one, other] = two_workers();
        let asked = fetch(&one).expect("nobody has asked");
        let Keys::Awaited(mut updates, None) = other.find(&ID, Instant::now()) else {
            panic!("somebody asks")
        };
        asked.succeed(SET, None);
        updates.next().await;
        assert!(is_ready(&one) && is_ready(&other));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_refreshed_while_they_are_used_and_kept_while_the_issuer_is_away() {
        let [sets, _] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(SET, Some(Duration::from_secs(100)));
        tokio::time::advance(Duration::from_secs(99)).await;
        assert!(fetch(&sets).is_none() && is_ready(&sets));
        tokio::time::advance(Duration::from_secs(1)).await;
        let refresh = fetch(&sets).expect("they are due");
        assert!(is_ready(&sets), "they are still used");
        drop(refresh);
        assert!(sets.is_settled(&ID, Instant::now()), "nothing can be done for a while");
        assert!(is_ready(&sets) && fetch(&sets).is_none(), "the issuer is not asked at once again");
        for _ in 0..23 {
            tokio::time::advance(Duration::from_secs(3600)).await;
            drop(fetch(&sets).expect("it is asked again"));
            assert!(is_ready(&sets));
        }
        tokio::time::advance(Duration::from_secs(3600)).await;
        drop(fetch(&sets).expect("it is asked again"));
        assert!(!is_ready(&sets), "they are too old for anything");
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_nobody_used_for_long_are_not_used_before_they_are_refreshed() {
        let [sets, _] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(SET, None);
        tokio::time::advance(DEFAULT_LIFETIME + REFRESH_TIME).await;
        assert!(matches!(sets.find(&ID, Instant::now()), Keys::Awaited(_, Some(_))));
    }

    /// One attempt that failed says nothing about the issuer hours later.
    #[tokio::test(start_paused = true)]
    async fn an_outage_that_is_long_over_keeps_no_old_keys() {
        let [sets, _] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(SET, None);
        tokio::time::advance(DEFAULT_LIFETIME).await;
        drop(fetch(&sets).expect("they are due"));
        assert!(is_ready(&sets));
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(matches!(sets.find(&ID, Instant::now()), Keys::Awaited(_, Some(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn an_issuer_can_withdraw_all_of_its_keys() {
        let [sets, _] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(SET, None);
        assert!(is_ready(&sets));
        let changes = sets.changes();
        tokio::time::advance(DEFAULT_LIFETIME).await;
        fetch(&sets).expect("they are due").succeed(b"{\"keys\":[]}", None);
        let Keys::Ready(keys, None) = sets.find(&ID, Instant::now()) else { panic!("the issuer answered") };
        assert!(keys.is_empty());
        assert_eq!(sets.changes(), changes + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_key_asks_once_in_an_interval() {
        let [sets, _] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(SET, None);
        assert!(sets.refresh(&ID, Instant::now()).is_none(), "it was asked just now");
        tokio::time::advance(RETRY_INTERVAL).await;
        let (_, asked) = sets.refresh(&ID, Instant::now()).expect("it may be asked");
        let waiting = sets.refresh(&ID, Instant::now());
        assert!(matches!(waiting, Some((_, None))), "others wait for it");
        asked.expect("it was the first").succeed(SET, None);
        assert!(sets.refresh(&ID, Instant::now()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn only_other_keys_are_a_change() {
        let [sets, other] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(SET, None);
        assert!(is_ready(&other));
        tokio::time::advance(DEFAULT_LIFETIME).await;
        fetch(&sets).expect("they are due").succeed(SET, None);
        assert!(other.is_settled(&ID, Instant::now()));
        assert_eq!(other.changes(), 0, "they are the same");
        tokio::time::advance(DEFAULT_LIFETIME).await;
        let changed = String::from_utf8_lossy(SET).replace("\"kty\"", "\"kid\":\"a\",\"kty\"");
        fetch(&sets).expect("they are due").succeed(changed.as_bytes(), None);
        for _ in 0..2 {
            assert!(other.is_settled(&ID, Instant::now()) && is_ready(&other));
            assert_eq!(other.changes(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_issuer_that_sends_no_keys_has_not_answered() {
        let [sets, _] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(b"<html>", None);
        assert!(matches!(sets.find(&ID, Instant::now()), Keys::Unavailable));
        tokio::time::advance(RETRY_INTERVAL).await;
        assert!(fetch(&sets).is_some());
    }
}
