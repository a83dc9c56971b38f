//! Documents that issuers publish (keys and metadata), shared by all workers: fetched when the first request needs them,
//! refreshed before they expire, and kept for a day while the issuer does not respond.
//!
//! The first request that finds a document due starts a [`Fetch`]; there is one at a time per document. Other requests use the
//! current document, or wait for the fetch if there is none. A worker reads an atomic number per request, and takes no lock
//! while it is unchanged.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use fairway_net::clock::Instant;
use fairway_token::{Digest, digest};
use tokio::sync::watch;

/// How long a document is used if the issuer sets no lifetime.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);
/// The minimum and maximum lifetime, whatever the issuer sets.
const LIFETIME_RANGE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(3600)];
/// How long an expired document is still used while it is refreshed.
const STALE_USE_TIME: Duration = Duration::from_secs(60);
/// How long a failed attempt counts as an outage of the issuer: longer than an attempt and the pause after it.
const OUTAGE_MEMORY: Duration = Duration::from_secs(60);
/// The maximum age of a document while its issuer does not respond.
const MAX_AGE: Duration = Duration::from_secs(86_400);
/// The minimum interval between two attempts, whatever requests come.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The documents of one kind in the process.
pub(crate) struct SharedDocuments<T>(Arc<Mutex<HashMap<Digest, Weak<SharedDocument<T>>>>>);

/// A worker's view of the documents that it has used.
pub(crate) struct Documents<T> {
    shared: SharedDocuments<T>,
    known_documents: RefCell<HashMap<Digest, CachedDocument<T>>>,
    /// The number of documents that were replaced.
    changes: Cell<u64>,
}

struct CachedDocument<T> {
    document: Arc<SharedDocument<T>>,
    updates: watch::Receiver<DocumentState<T>>,
    state: DocumentState<T>,
    /// When it was last used.
    used: Instant,
}

/// A document and the receivers that wait for it.
struct SharedDocument<T> {
    state: watch::Sender<DocumentState<T>>,
    is_fetching: AtomicBool,
}

/// The state of a document.
struct DocumentState<T> {
    fetched: Option<Fetched<T>>,
    /// When the last fetch ended.
    attempted: Option<Instant>,
    /// Whether that fetch failed.
    failed: bool,
}

struct Fetched<T> {
    document: Arc<T>,
    /// The digest of its text.
    digest: Digest,
    at: Instant,
    lifetime: Duration,
}

/// The result of looking a document up.
pub(crate) enum DocumentLookup<T> {
    /// The document. If there is a fetch, the caller should make it.
    Ready(Arc<T>, Option<Fetch<T>>),
    /// Not available yet: wait for the next update. If there is a fetch, the caller must make it.
    Awaited(Updates<T>, Option<Fetch<T>>),
    /// Not available, and the last fetch was only just made.
    Unavailable,
}

/// Waits for the end of a fetch.
pub(crate) struct Updates<T>(watch::Receiver<DocumentState<T>>);

/// The right to fetch a document. Dropping it without an outcome is a failure.
pub(crate) struct Fetch<T> {
    document: Arc<SharedDocument<T>>,
    is_over: bool,
}

impl<T> Documents<T> {
    /// Creates a worker's view.
    pub(crate) fn new(shared: SharedDocuments<T>) -> Self {
        Self { shared, known_documents: RefCell::default(), changes: Cell::new(0) }
    }

    /// The number of replacements that the worker has seen: what was verified with old keys must be verified again.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Whether the document is usable and no fetch is needed.
    pub(crate) fn is_current(&self, id: &Digest, now: Instant) -> bool {
        let mut known = self.known_documents.borrow_mut();
        let Some(known) = known.get_mut(id) else { return false };
        self.count_change(known.update());
        let is_asked_for = !known.state.may_be_fetched(now) || known.document.is_fetching();
        known.state.usable_document(now).is_some() && is_asked_for
    }

    /// Looks a document up.
    pub(crate) fn find(&self, id: &Digest, now: Instant) -> DocumentLookup<T> {
        let mut known = self.known_documents.borrow_mut();
        if !known.contains_key(id) {
            // Drop documents that no rule uses any more.
            known.retain(|_, known| now < known.used + MAX_AGE);
        }
        let known = known.entry(*id).or_insert_with(|| CachedDocument::new(self.shared.find(id), now));
        known.used = now;
        loop {
            self.count_change(known.update());
            let fetch = if known.state.is_due(now) { known.document.begin_fetch(now) } else { None };
            if let Some(document) = known.state.usable_document(now) {
                return DocumentLookup::Ready(document, fetch);
            }
            if fetch.is_some() || known.document.is_fetching() {
                return DocumentLookup::Awaited(Updates(known.updates.clone()), fetch);
            }
            // A fetch of another worker may just have ended.
            if !known.updates.has_changed().unwrap_or(false) {
                return DocumentLookup::Unavailable;
            }
        }
    }

    fn count_change(&self, is_change: bool) {
        self.changes.set(self.changes.get() + u64::from(is_change));
    }

    /// Starts or joins a fetch because a token names an unknown key. `None` if the last fetch was only just made.
    pub(crate) fn refresh(&self, id: &Digest, now: Instant) -> Option<(Updates<T>, Option<Fetch<T>>)> {
        let known = self.known_documents.borrow();
        let known = known.get(id)?;
        let fetch = known.document.begin_fetch(now);
        (fetch.is_some() || known.document.is_fetching()).then(|| (Updates(known.updates.clone()), fetch))
    }
}

impl<T> CachedDocument<T> {
    fn new(document: Arc<SharedDocument<T>>, now: Instant) -> Self {
        let mut updates = document.state.subscribe();
        let state = updates.borrow_and_update().clone();
        Self { document, updates, state, used: now }
    }

    /// Takes an update. Returns whether the document has changed.
    fn update(&mut self) -> bool {
        if !self.updates.has_changed().unwrap_or(false) {
            return false;
        }
        let before = std::mem::replace(&mut self.state, self.updates.borrow_and_update().clone());
        let digest = |state: &DocumentState<T>| state.fetched.as_ref().map(|fetched| fetched.digest);
        digest(&before) != digest(&self.state)
    }
}

impl<T> SharedDocuments<T> {
    fn find(&self, id: &Digest) -> Arc<SharedDocument<T>> {
        let mut documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = documents.get(id).and_then(Weak::upgrade) {
            return document;
        }
        documents.retain(|_, document| document.strong_count() > 0);
        let state = watch::Sender::new(DocumentState { fetched: None, attempted: None, failed: false });
        let document = Arc::new(SharedDocument { state, is_fetching: AtomicBool::new(false) });
        documents.insert(*id, Arc::downgrade(&document));
        document
    }
}

impl<T> Default for SharedDocuments<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for SharedDocuments<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Clone for DocumentState<T> {
    fn clone(&self) -> Self {
        Self { fetched: self.fetched.clone(), ..*self }
    }
}

impl<T> Clone for Fetched<T> {
    fn clone(&self) -> Self {
        Self { document: Arc::clone(&self.document), ..*self }
    }
}

impl<T> DocumentState<T> {
    fn is_due(&self, now: Instant) -> bool {
        match &self.fetched {
            Some(fetched) => now >= fetched.at + fetched.lifetime,
            None => true,
        }
    }

    /// Whether it is due, and the last attempt was not just made.
    fn may_be_fetched(&self, now: Instant) -> bool {
        self.is_due(now) && self.attempted.is_none_or(|at| now >= at + RETRY_INTERVAL)
    }

    fn usable_document(&self, now: Instant) -> Option<Arc<T>> {
        let fetched = self.fetched.as_ref()?;
        let age = now.saturating_duration_since(fetched.at);
        let fails = self.failed && self.attempted.is_some_and(|at| now < at + OUTAGE_MEMORY);
        let max_age = if fails { MAX_AGE } else { fetched.lifetime + STALE_USE_TIME };
        (age < max_age).then(|| Arc::clone(&fetched.document))
    }
}

impl<T> SharedDocument<T> {
    fn is_fetching(&self) -> bool {
        self.is_fetching.load(Ordering::Acquire)
    }

    /// Starts a fetch, unless one is in progress or was only just made.
    fn begin_fetch(self: &Arc<Self>, now: Instant) -> Option<Fetch<T>> {
        let is_too_early = || self.state.borrow().attempted.is_some_and(|at| now < at + RETRY_INTERVAL);
        if is_too_early() || self.is_fetching.swap(true, Ordering::AcqRel) {
            return None;
        }
        if is_too_early() {
            // Another fetch started and ended in between.
            self.is_fetching.store(false, Ordering::Release);
            return None;
        }
        Some(Fetch { document: Arc::clone(self), is_over: false })
    }
}

impl<T> Fetch<T> {
    /// Stores the fetched document, its text and its lifetime.
    pub(crate) fn succeed(mut self, document: T, text: &[u8], lifetime: Option<Duration>) {
        let [shortest, longest] = LIFETIME_RANGE;
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

    fn end(&mut self, change: impl FnOnce(&mut DocumentState<T>)) {
        self.is_over = true;
        self.document.state.send_modify(|state| {
            state.attempted = Some(Instant::now());
            change(state);
            // Before the waiting receivers look again.
            self.document.is_fetching.store(false, Ordering::Release);
        });
    }
}

impl<T> Drop for Fetch<T> {
    /// A worker or client that goes away counts as a failed attempt; others may make the next one.
    fn drop(&mut self) {
        if !self.is_over {
            self.end(|state| state.failed = true);
        }
    }
}

impl<T> Updates<T> {
    /// Waits until the current fetch is over.
    pub(crate) async fn next(&mut self) {
        // The sender outlives the receivers.
        _ = self.0.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "keys";
    const ID: Digest = [1; 32];

    fn two_workers() -> [Documents<String>; 2] {
        let shared = SharedDocuments::default();
        [Documents::new(shared.clone()), Documents::new(shared)]
    }

    fn fetch(sets: &Documents<String>) -> Option<Fetch<String>> {
        match sets.find(&ID, Instant::now()) {
            DocumentLookup::Ready(_, fetch) | DocumentLookup::Awaited(_, fetch) => fetch,
            DocumentLookup::Unavailable => None,
        }
    }

    fn is_ready(sets: &Documents<String>) -> bool {
        matches!(sets.find(&ID, Instant::now()), DocumentLookup::Ready(..))
    }

    #[tokio::test(start_paused = true)]
    async fn one_worker_fetches_the_keys_and_all_get_them() {
        let [one, other] = two_workers();
        let fetched = fetch(&one).expect("nobody has asked");
        let DocumentLookup::Awaited(mut updates, None) = other.find(&ID, Instant::now()) else {
            panic!("somebody asks")
        };
        fetched.succeed(SET.to_owned(), SET.as_bytes(), None);
        updates.next().await;
        assert!(is_ready(&one) && is_ready(&other));
    }

    #[tokio::test(start_paused = true)]
    async fn used_keys_are_refreshed_and_kept_while_the_issuer_is_down() {
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
        assert!(sets.is_current(&ID, Instant::now()), "nothing can be done for a while");
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
    async fn keys_unused_for_long_are_refreshed_before_use() {
        let [sets, _] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(SET.to_owned(), SET.as_bytes(), None);
        tokio::time::advance(DEFAULT_LIFETIME + STALE_USE_TIME).await;
        assert!(matches!(sets.find(&ID, Instant::now()), DocumentLookup::Awaited(_, Some(_))));
    }

    /// A failed attempt says nothing about the issuer hours later.
    #[tokio::test(start_paused = true)]
    async fn an_outage_long_ago_does_not_keep_old_keys() {
        let [sets, _] = two_workers();
        fetch(&sets).expect("nobody has asked").succeed(SET.to_owned(), SET.as_bytes(), None);
        tokio::time::advance(DEFAULT_LIFETIME).await;
        drop(fetch(&sets).expect("they are due"));
        assert!(is_ready(&sets));
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(matches!(sets.find(&ID, Instant::now()), DocumentLookup::Awaited(_, Some(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_key_causes_one_fetch_per_interval() {
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
        assert!(other.is_current(&ID, Instant::now()));
        assert_eq!(other.changes(), 0, "they are the same");
        tokio::time::advance(DEFAULT_LIFETIME).await;
        fetch(&sets).expect("they are due").succeed("others".to_owned(), b"others", None);
        for _ in 0..2 {
            assert!(other.is_current(&ID, Instant::now()) && is_ready(&other));
            assert_eq!(other.changes(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_unresponsive_issuer_is_queried_again_later() {
        let [sets, _] = two_workers();
        drop(fetch(&sets).expect("nobody has asked"));
        assert!(matches!(sets.find(&ID, Instant::now()), DocumentLookup::Unavailable));
        tokio::time::advance(RETRY_INTERVAL).await;
        assert!(fetch(&sets).is_some());
    }
}
