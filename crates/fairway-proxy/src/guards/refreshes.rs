//! Sessions that are being refreshed or were just refreshed: a browser sends several requests with one session at once, and a
//! refresh token may be valid only once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairway_net::clock::Instant;
use fairway_token::Digest;
use fairway_token::login::Tokens;
use tokio::sync::watch;

/// How long the outcome is kept for concurrent requests with the old session.
const OUTCOME_LIFETIME: Duration = Duration::from_secs(60);
/// How long a failed refresh is not retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum number of remembered refreshes.
const MAX_REFRESHES: usize = 10_000;

/// The refreshes of all workers of a process, by a digest of the session and its refresh token.
#[derive(Clone, Default)]
pub(crate) struct Refreshes(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    entries: HashMap<Digest, RefreshEntry>,
    /// In the order in which they started.
    order: VecDeque<(Digest, Instant)>,
}

struct RefreshEntry {
    outcome: watch::Receiver<Option<RefreshOutcome>>,
    began: Instant,
}

/// The result of a refresh.
pub(crate) type RefreshOutcome = Result<Arc<Refreshed>, RefreshFailure>;

/// New tokens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refreshed {
    pub(crate) tokens: Tokens,
    /// When they arrived, since 1970.
    pub(crate) at: Duration,
}

/// Why there are no new tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefreshFailure {
    /// The provider has ended the session.
    Refused,
    /// It is unavailable for now.
    Unavailable,
}

/// A refresh to wait for.
pub(crate) struct Refresh {
    outcome: watch::Receiver<Option<RefreshOutcome>>,
    /// If set, the caller must make the request to the provider.
    pub(crate) to_begin: Option<watch::Sender<Option<RefreshOutcome>>>,
}

impl Refreshes {
    /// Joins the refresh with this token, or starts it.
    pub(crate) fn join(&self, token: Digest, now: Instant) -> Refresh {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.make_room(now);
        if let Some(entry) = table.entries.get(&token)
            && !entry.is_over(now)
        {
            return Refresh { outcome: entry.outcome.clone(), to_begin: None };
        }
        let (begin, outcome) = watch::channel(None);
        table.entries.insert(token, RefreshEntry { outcome: outcome.clone(), began: now });
        table.order.push_back((token, now));
        Refresh { outcome, to_begin: Some(begin) }
    }
}

impl Table {
    /// Removes finished refreshes, which contain users' tokens, and the oldest one if there are too many.
    fn make_room(&mut self, now: Instant) {
        while let Some((token, began)) = self.order.front().copied() {
            if now < began + OUTCOME_LIFETIME && self.order.len() < MAX_REFRESHES {
                return;
            }
            self.order.pop_front();
            if self.entries.get(&token).is_some_and(|entry| entry.began == began) {
                self.entries.remove(&token);
            }
        }
    }
}

impl RefreshEntry {
    fn is_over(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.began);
        let failed = match &*self.outcome.borrow() {
            Some(outcome) => outcome.is_err(),
            // The sender was dropped without an outcome.
            None => self.outcome.has_changed().is_err(),
        };
        age >= if failed { RETRY_INTERVAL } else { OUTCOME_LIFETIME }
    }
}

impl Refresh {
    /// Waits for the outcome.
    pub(crate) async fn outcome(&mut self) -> RefreshOutcome {
        match self.outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Err(RefreshFailure::Unavailable)),
            Err(_) => Err(RefreshFailure::Unavailable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Digest = [1; 32];

    fn tokens() -> Arc<Refreshed> {
        let text = br#"{"access_token": "a", "token_type": "Bearer"}"#;
        Arc::new(Refreshed { tokens: Tokens::parse(text).expect("they are tokens"), at: Duration::ZERO })
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_refreshes_a_session_and_all_get_its_tokens() {
        let refreshes = Refreshes::default();
        let mut first = refreshes.join(TOKEN, Instant::now());
        let mut second = refreshes.join(TOKEN, Instant::now());
        assert!(second.to_begin.is_none());
        let begin = first.to_begin.take().expect("nobody has begun");
        begin.send_replace(Some(Ok(tokens())));
        drop(begin);
        assert_eq!(first.outcome().await, Ok(tokens()));
        assert_eq!(second.outcome().await, Ok(tokens()));
        tokio::time::advance(OUTCOME_LIFETIME - Duration::from_secs(1)).await;
        let mut late = refreshes.join(TOKEN, Instant::now());
        assert!(late.to_begin.is_none());
        assert_eq!(late.outcome().await, Ok(tokens()));
        assert!(refreshes.join([2; 32], Instant::now()).to_begin.is_some(), "that is another session");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(refreshes.join(TOKEN, Instant::now()).to_begin.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_forgotten_after_a_minute_and_the_oldest_gives_way() {
        let refreshes = Refreshes::default();
        let digest = |number: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_be_bytes());
            digest
        };
        for number in 0..=MAX_REFRESHES {
            drop(refreshes.join(digest(number), Instant::now()));
        }
        let count = || refreshes.0.lock().map(|table| (table.entries.len(), table.order.len())).ok();
        assert_eq!(count(), Some((MAX_REFRESHES, MAX_REFRESHES)));
        tokio::time::advance(OUTCOME_LIFETIME).await;
        drop(refreshes.join(TOKEN, Instant::now()));
        assert_eq!(count(), Some((1, 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refresh_that_failed_is_tried_again_after_a_pause() {
        let refreshes = Refreshes::default();
        let mut given_up = refreshes.join(TOKEN, Instant::now());
        drop(given_up.to_begin.take());
        assert_eq!(given_up.outcome().await, Err(RefreshFailure::Unavailable));
        assert!(refreshes.join(TOKEN, Instant::now()).to_begin.is_none());
        tokio::time::advance(RETRY_INTERVAL).await;
        let begin = refreshes.join(TOKEN, Instant::now()).to_begin.expect("it may be tried again");
        begin.send_replace(Some(Err(RefreshFailure::Refused)));
        assert!(refreshes.join(TOKEN, Instant::now()).to_begin.is_none());
        tokio::time::advance(RETRY_INTERVAL).await;
        assert!(refreshes.join(TOKEN, Instant::now()).to_begin.is_some());
    }
}
