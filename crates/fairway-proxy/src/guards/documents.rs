//! What issuers publish, their keys and what they say of themselves, shared by all workers: asked for when the first request needs it,
//! refreshed before it is old, and kept for a day while its issuer does not answer.
//!
//! Whoever finds out that a document is due begins a [`Fetch`], of which there is one at a time for each; all others go on with the one
//! that is there, or wait for the outcome where there is none. A worker looks at an atomic number per request, and takes no lock while
//! that is the same.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use fairway_net::clock::Instant;
use fairway_token::{Digest, digest};
use tokio::sync::watch;

/// How long a document is used where the issuer does not say it.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);
/// The shortest and the longest time for which it is used, whatever the issuer says.
const LIFETIMES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(3600)];
/// How long it is still used after that, while it is being refreshed.
const REFRESH_TIME: Duration = Duration::from_secs(60);
/// For how long an attempt that failed says that the issuer does not answer: longer than one takes with the pause behind it.
const OUTAGE_MEMORY: Duration = Duration::from_secs(60);
/// How old a document may become whose issuer does not answer.
const MAX_AGE: Duration = Duration::from_secs(86_400);
/// Between two attempts: how often an issuer is asked at most, whatever requests come.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The documents of a kind that a process has.
pub(crate) struct Shared<T>(Arc<Mutex<HashMap<Digest, Weak<SharedDocument<T>>>>>);

/// Those that a worker has looked at.
pub(crate) struct Documents<T> {
    shared: Shared<T>,
    known: RefCell<HashMap<Digest, Known<T>>>,
    /// How often one has become another.
    changes: Cell<u64>,
}

struct Known<T> {
    document: Arc<SharedDocument<T>>,
    updates: watch::Receiver<State<T>>,
    state: State<T>,
    /// When it was asked for last; at least as often as it is due.
    used: Instant,
}

/// A document, with everybody who waits for it.
struct SharedDocument<T> {
    state: watch::Sender<State<T>>,
    is_fetching: AtomicBool,
}

/// What is known of a document.
struct State<T> {
    fetched: Option<Fetched<T>>,
    /// When it was asked for last.
    attempted: Option<Instant>,
    /// Whether the issuer did not answer then.
    failed: bool,
}

struct Fetched<T> {
    document: Arc<T>,
    /// Of its text.
    digest: Digest,
    at: Instant,
    lifetime: Duration,
}

/// What there is of a document.
pub(crate) enum Found<T> {
    /// This. It should be refreshed where there is a fetch.
    Ready(Arc<T>, Option<Fetch<T>>),
    /// Nothing yet: it comes with the next update. Whoever has the fetch must make it.
    Awaited(Updates<T>, Option<Fetch<T>>),
    /// Nothing, and the issuer was asked only just now.
    Unavailable,
}

/// Tells when a fetch is over.
pub(crate) struct Updates<T>(watch::Receiver<State<T>>);

/// The right to ask an issuer for a document; dropped without an outcome, it failed.
pub(crate) struct Fetch<T> {
    document: Arc<SharedDocument<T>>,
    is_over: bool,
}

impl<T> Documents<T> {
    /// Those of a worker.
    pub(crate) fn new(shared: Shared<T>) -> Self {
        Self { shared, known: RefCell::default(), changes: Cell::new(0) }
    }

    /// How often one has become another, as far as the worker has seen it: what was verified with keys must be verified again.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Whether it is there, and nothing has to be done for it.
    pub(crate) fn is_settled(&self, id: &Digest, now: Instant) -> bool {
        let mut known = self.known.borrow_mut();
        let Some(known) = known.get_mut(id) else { return false };
        self.note(known.update());
        let is_asked_for = !known.state.may_be_asked_for(now) || known.document.is_fetching();
        known.state.usable(now).is_some() && is_asked_for
    }

    /// Finds a document.
    pub(crate) fn find(&self, id: &Digest, now: Instant) -> Found<T> {
        let mut known = self.known.borrow_mut();
        if !known.contains_key(id) {
            // Those that no rule asks for any more.
            known.retain(|_, known| now < known.used + MAX_AGE);
        }
        let known = known.entry(*id).or_insert_with(|| Known::new(self.shared.find(id), now));
        known.used = now;
        loop {
            self.note(known.update());
            let fetch = if known.state.is_due(now) { known.document.begin(now) } else { None };
            if let Some(document) = known.state.usable(now) {
                return Found::Ready(document, fetch);
            }
            if fetch.is_some() || known.document.is_fetching() {
                return Found::Awaited(Updates(known.updates.clone()), fetch);
            }
            // A fetch of another worker may have ended just now.
            if !known.updates.has_changed().unwrap_or(false) {
                return Found::Unavailable;
            }
        }
    }

    fn note(&self, is_change: bool) {
        self.changes.set(self.changes.get() + u64::from(is_change));
    }

    /// The document after the issuer was asked again, since a token has a key that is not there. `None` where it was asked just now.
    pub(crate) fn refresh(&self, id: &Digest, now: Instant) -> Option<(Updates<T>, Option<Fetch<T>>)> {
        let known = self.known.borrow();
        let known = known.get(id)?;
        let fetch = known.document.begin(now);
        (fetch.is_some() || known.document.is_fetching()).then(|| (Updates(known.updates.clone()), fetch))
    }
}

impl<T> Known<T> {
    fn new(document: Arc<SharedDocument<T>>, now: Instant) -> Self {
        let mut updates = document.state.subscribe();
        let state = updates.borrow_and_update().clone();
        Self { document, updates, state, used: now }
    }

    /// Takes what is new, and says whether it is another document.
    fn update(&mut self) -> bool {
        if !self.updates.has_changed().unwrap_or(false) {
            return false;
        }
        let before = std::mem::replace(&mut self.state, self.updates.borrow_and_update().clone());
        let digest = |state: &State<T>| state.fetched.as_ref().map(|fetched| fetched.digest);
        digest(&before) != digest(&self.state)
    }
}

impl<T> Shared<T> {
    fn find(&self, id: &Digest) -> Arc<SharedDocument<T>> {
        let mut documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = documents.get(id).and_then(Weak::upgrade) {
            return document;
        }
        documents.retain(|_, document| document.strong_count() > 0);
        let state = watch::Sender::new(State { fetched: None, attempted: None, failed: false });
        let document = Arc::new(SharedDocument { state, is_fetching: AtomicBool::new(false) });
        documents.insert(*id, Arc::downgrade(&document));
        document
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self { fetched: self.fetched.clone(), ..*self }
    }
}

impl<T> Clone for Fetched<T> {
    fn clone(&self) -> Self {
        Self { document: Arc::clone(&self.document), ..*self }
    }
}

impl<T> State<T> {
    fn is_due(&self, now: Instant) -> bool {
        match &self.fetched {
            Some(fetched) => now >= fetched.at + fetched.lifetime,
            None => true,
        }
    }

    /// Whether it is due, and was not tried only just now.
    fn may_be_asked_for(&self, now: Instant) -> bool {
        self.is_due(now) && self.attempted.is_none_or(|at| now >= at + RETRY_INTERVAL)
    }

    fn usable(&self, now: Instant) -> Option<Arc<T>> {
        let fetched = self.fetched.as_ref()?;
        let age = now.saturating_duration_since(fetched.at);
        let fails = self.failed && self.attempted.is_some_and(|at| now < at + OUTAGE_MEMORY);
        let most = if fails { MAX_AGE } else { fetched.lifetime + REFRESH_TIME };
        (age < most).then(|| Arc::clone(&fetched.document))
    }
}

impl<T> SharedDocument<T> {
    fn is_fetching(&self) -> bool {
        self.is_fetching.load(Ordering::Acquire)
    }

    /// Begins to ask the issuer, unless somebody does, or has only just done.
    fn begin(self: &Arc<Self>, now: Instant) -> Option<Fetch<T>> {
        let is_too_early = || self.state.borrow().attempted.is_some_and(|at| now < at + RETRY_INTERVAL);
        if is_too_early() || self.is_fetching.swap(true, Ordering::AcqRel) {
            return None;
        }
        if is_too_early() {
            // Another fetch began and ended in between.
            self.is_fetching.store(false, Ordering::Release);
            return None;
        }
        Some(Fetch { document: Arc::clone(self), is_over: false })
    }
}

impl<T> Fetch<T> {
    /// The issuer answered with this document, of this text, which is to be used for so long.
    pub(crate) fn succeed(mut self, document: T, text: &[u8], lifetime: Option<Duration>) {
        let [shortest, longest] = LIFETIMES;
        let fetched = Fetched {
            document: Arc::new(document),
            digest: digest(text),
            at: Instant::now(),
            lifetime: lifetime.unwrap_or(DEFAULT_LIFETIME).clamp(shortest, longest),
        };
        self.end(|state| {
            state.failed = false;
            state.fetched = Some(fetched);
        });
    }

    fn end(&mut self, change: impl FnOnce(&mut State<T>)) {
        self.is_over = true;
        self.document.state.send_modify(|state| {
            state.attempted = Some(Instant::now());
            change(state);
            // Before whoever waits can look again.
            self.document.is_fetching.store(false, Ordering::Release);
        });
    }
}

impl<T> Drop for Fetch<T> {
    /// A worker that ends, or a client that leaves, is an attempt that failed: others may make the next one.
    fn drop(&mut self) {
        if !self.is_over {
            self.end(|state| state.failed = true);
        }
    }
}

impl<T> Updates<T> {
    /// Waits until a fetch that is under way is over.
    pub(crate) async fn next(&mut self) {
        // The document outlives whoever waits for it.
        _ = self.0.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "keys";
    const ID: Digest = [1; 32];

    fn two_workers() -> [Documents<String>; 2] {
        let shared = Shared::default();
        [Documents::new(shared.clone()), Documents::new(shared)]
    }

    fn fetch(sets: &Documents<String>) -> Option<Fetch<String>> {
        match sets.find(&ID, Instant::now()) {
            Found::Ready(_, fetch) | Found::Awaited(_, fetch) => fetch,
            Found::Unavailable => None,
        }
    }

    fn is_ready(sets: &Documents<String>) -> bool {
        matches!(sets.find(&ID, Instant::now()), Found::Ready(..))
    }

    #[tokio::test(start_paused = true)]
    async fn one_worker_asks_and_all_get_the_keys() {
        let [one, other] = two_workers();
        let asked = fetch(&one).expect("nobody has asked");
        let Found::Awaited(mut updates, None) = other.find(&ID, Instant::now()) else {
            panic!("somebody asks")
        };
        asked.succeed(SET.to_owned(), SET.as_bytes(), None);
        updates.next().await;
        assert!(is_ready(&one) && is_ready(&other));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_refreshed_while_they_are_used_and_kept_while_the_issuer_is_away() {
        let [sets, _] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(
            SET.to_owned(),
            SET.as_bytes(),
            Some(Duration::from_secs(100)),
        );
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
        fetch(&sets).expect("nobody has asked").succeed(SET.to_owned(), SET.as_bytes(), None);
        tokio::time::advance(DEFAULT_LIFETIME + REFRESH_TIME).await;
        assert!(matches!(sets.find(&ID, Instant::now()), Found::Awaited(_, Some(_))));
    }

    /// One attempt that failed says nothing about the issuer hours later.
    #[tokio::test(start_paused = true)]
    async fn an_outage_that_is_long_over_keeps_no_old_keys() {
        let [sets, _] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(SET.to_owned(), SET.as_bytes(), None);
        tokio::time::advance(DEFAULT_LIFETIME).await;
        drop(fetch(&sets).expect("they are due"));
        assert!(is_ready(&sets));
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(matches!(sets.find(&ID, Instant::now()), Found::Awaited(_, Some(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_key_asks_once_in_an_interval() {
        let [sets, _] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(SET.to_owned(), SET.as_bytes(), None);
        assert!(sets.refresh(&ID, Instant::now()).is_none(), "it was asked just now");
        tokio::time::advance(RETRY_INTERVAL).await;
        let (_, asked) = sets.refresh(&ID, Instant::now()).expect("it may be asked");
        let waiting = sets.refresh(&ID, Instant::now());
        assert!(matches!(waiting, Some((_, None))), "others wait for it");
        asked.expect("it was the first").succeed(SET.to_owned(), SET.as_bytes(), None);
        assert!(sets.refresh(&ID, Instant::now()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn only_other_keys_are_a_change() {
        let [sets, other] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(SET.to_owned(), SET.as_bytes(), None);
        assert!(is_ready(&other));
        tokio::time::advance(DEFAULT_LIFETIME).await;
        fetch(&sets).expect("they are due").succeed(SET.to_owned(), SET.as_bytes(), None);
        assert!(other.is_settled(&ID, Instant::now()));
        assert_eq!(other.changes(), 0, "they are the same");
        tokio::time::advance(DEFAULT_LIFETIME).await;
        fetch(&sets).expect("they are due").succeed("others".to_owned(), b"others", None);
        for _ in 0..2 {
            assert!(other.is_settled(&ID, Instant::now()) && is_ready(&other));
            assert_eq!(other.changes(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_issuer_that_does_not_answer_is_asked_again_later() {
        let [sets, _] = two_workers();
        drop(fetch(&sets).expect("nobody has asked"));
        assert!(matches!(sets.find(&ID, Instant::now()), Found::Unavailable));
        tokio::time::advance(RETRY_INTERVAL).await;
        assert!(fetch(&sets).is_some());
    }
}
