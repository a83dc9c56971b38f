//! Sessions that are being refreshed, or were only just: a browser sends several requests with one session at the same time, and a
//! refresh token may be good for one refresh only.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairway_net::clock::Instant;
use fairway_token::Digest;
use fairway_token::login::Tokens;
use tokio::sync::watch;

/// For how long the outcome is there for requests that were under way with the session of before.
const MEMORY: Duration = Duration::from_secs(60);
/// For how long one that failed is not tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The most refreshes that are remembered.
const MAX_REFRESHES: usize = 10_000;

/// The refreshes of all workers of a process, by what tells the session and its refresh token apart.
#[derive(Clone, Default)]
pub(crate) struct Refreshes(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    entries: HashMap<Digest, Entry>,
    /// In the order in which they began.
    order: VecDeque<(Digest, Instant)>,
}

struct Entry {
    outcome: watch::Receiver<Option<Outcome>>,
    began: Instant,
}

/// What the provider answers.
pub(crate) type Outcome = Result<Arc<Refreshed>, RefreshFailure>;

/// New tokens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refreshed {
    pub(crate) tokens: Tokens,
    /// When they came, since 1970.
    pub(crate) at: Duration,
}

/// Why there are no new tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefreshFailure {
    /// The provider has ended the session.
    Refused,
    /// It is out of order; later it may not be.
    Unavailable,
}

/// A refresh that whoever has it waits for.
pub(crate) struct Refresh {
    outcome: watch::Receiver<Option<Outcome>>,
    /// Whoever gets this must ask the provider.
    pub(crate) begin: Option<watch::Sender<Option<Outcome>>>,
}

impl Refreshes {
    /// Joins the refresh with a token, or begins it.
    pub(crate) fn join(&self, token: Digest, now: Instant) -> Refresh {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.make_room(now);
        if let Some(entry) = table.entries.get(&token)
            && !entry.is_over(now)
        {
            return Refresh { outcome: entry.outcome.clone(), begin: None };
        }
        let (begin, outcome) = watch::channel(None);
        table.entries.insert(token, Entry { outcome: outcome.clone(), began: now });
        table.order.push_back((token, now));
        Refresh { outcome, begin: Some(begin) }
    }
}

impl Table {
    /// Forgets what is over: it has the tokens of users. The oldest gives way to what is too much.
    fn make_room(&mut self, now: Instant) {
        while let Some((token, began)) = self.order.front().copied() {
            if now < began + MEMORY && self.order.len() < MAX_REFRESHES {
                return;
            }
            self.order.pop_front();
            if self.entries.get(&token).is_some_and(|entry| entry.began == began) {
                self.entries.remove(&token);
            }
        }
    }
}

impl Entry {
    fn is_over(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.began);
        let failed = match &*self.outcome.borrow() {
            Some(outcome) => outcome.is_err(),
            // Whoever began it has ended without an outcome.
            None => self.outcome.has_changed().is_err(),
        };
        age >= if failed { RETRY_INTERVAL } else { MEMORY }
    }
}

impl Refresh {
    /// Waits for the outcome.
    pub(crate) async fn outcome(&mut self) -> Outcome {
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
        assert!(second.begin.is_none());
        let begin = first.begin.take().expect("nobody has begun");
        begin.send_replace(Some(Ok(tokens())));
        drop(begin);
        assert_eq!(first.outcome().await, Ok(tokens()));
        assert_eq!(second.outcome().await, Ok(tokens()));
        tokio::time::advance(MEMORY - Duration::from_secs(1)).await;
        let mut late = refreshes.join(TOKEN, Instant::now());
        assert!(late.begin.is_none());
        assert_eq!(late.outcome().await, Ok(tokens()));
        assert!(refreshes.join([2; 32], Instant::now()).begin.is_some(), "that is another session");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(refreshes.join(TOKEN, Instant::now()).begin.is_some());
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
        tokio::time::advance(MEMORY).await;
        drop(refreshes.join(TOKEN, Instant::now()));
        assert_eq!(count(), Some((1, 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refresh_that_failed_is_tried_again_after_a_pause() {
        let refreshes = Refreshes::default();
        let mut given_up = refreshes.join(TOKEN, Instant::now());
        drop(given_up.begin.take());
        assert_eq!(given_up.outcome().await, Err(RefreshFailure::Unavailable));
        assert!(refreshes.join(TOKEN, Instant::now()).begin.is_none());
        tokio::time::advance(RETRY_INTERVAL).await;
        let begin = refreshes.join(TOKEN, Instant::now()).begin.expect("it may be tried again");
        begin.send_replace(Some(Err(RefreshFailure::Refused)));
        assert!(refreshes.join(TOKEN, Instant::now()).begin.is_none());
        tokio::time::advance(RETRY_INTERVAL).await;
        assert!(refreshes.join(TOKEN, Instant::now()).begin.is_some());
    }
}
