//! Sessions that providers have ended, known to all workers of the process and shared with its other replicas.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use fairway_model::Logout;
use fairway_token::login::SessionId;
use rustls_pki_types::UnixTime;
use tokio::sync::oneshot;

/// More are refused. Each was signed by a provider, and is kept for as long as its sessions last.
const MAX_LOGOUTS: usize = 65_536;

/// Shares a logout with all replicas. The receiver is ready when they know it; `None` if it cannot be shared.
pub type ShareLogout = Box<dyn Fn(Logout) -> Option<oneshot::Receiver<()>> + Send + Sync>;

/// The logouts of a process. Clones share them.
///
/// Opening a session takes a read lock; a request with a remembered session only reads a counter.
#[derive(Clone, Default)]
pub struct Logouts(Arc<LogoutState>);

#[derive(Default)]
struct LogoutState {
    known_logouts: RwLock<HashMap<SessionId, Logout>>,
    changes: AtomicU64,
    share: OnceLock<ShareLogout>,
}

/// A logout could not be shared with all replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotShared;

impl Logouts {
    /// Sets the function that shares logouts with the other replicas. Only the first call has an effect; without one, this
    /// process is alone.
    pub fn set_share(&self, share: ShareLogout) {
        // Only the first one counts.
        _ = self.0.share.set(share);
    }

    /// Adds logouts from other replicas; known ones may be repeated.
    pub fn adopt_shared(&self, logouts: &[Logout]) {
        if !self.adopt(logouts, UnixTime::now().as_secs()) {
            tracing::error!("there are too many logouts: some sessions that providers have ended stay valid");
        }
    }

    /// Adds logouts, at `now` in seconds since 1970; returns whether there was room for all.
    fn adopt(&self, logouts: &[Logout], now: u64) -> bool {
        let mut known = self.0.known_logouts.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, logout| now < logout.ends);
        let (mut ends_more, mut has_room) = (false, true);
        for logout in logouts.iter().filter(|logout| now < logout.ends) {
            let before = known.get(&logout.id).copied();
            if before.is_none() && known.len() >= MAX_LOGOUTS {
                has_room = false;
                continue;
            }
            ends_more |= before.is_none_or(|before| before.until_login_at < logout.until_login_at);
            let before = before.unwrap_or(*logout);
            let until_login_at = before.until_login_at.max(logout.until_login_at);
            known.insert(logout.id, Logout { until_login_at, ends: before.ends.max(logout.ends), ..before });
        }
        if ends_more {
            // A worker that sees the new number forgets the sessions that it opened before.
            self.0.changes.fetch_add(1, Ordering::Release);
        }
        has_room
    }

    /// Ends sessions, in this process at once. The receiver is ready when the other replicas know; `None` if there are none.
    pub(crate) fn end(&self, logout: Logout, now: u64) -> Result<Option<oneshot::Receiver<()>>, NotShared> {
        if !self.adopt(&[logout], now) {
            return Err(NotShared);
        }
        match self.0.share.get() {
            None => Ok(None),
            Some(share) => share(logout).map(Some).ok_or(NotShared),
        }
    }

    /// Whether there are no logouts, so that no lookup is needed.
    pub(crate) fn are_none(&self) -> bool {
        self.changes() == 0
    }

    /// Whether a session with these IDs has ended whose user logged in at that time.
    pub(crate) fn have_ended(&self, ids: impl Iterator<Item = SessionId>, logged_in_at: u64) -> bool {
        let known = self.0.known_logouts.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = ids.filter_map(|id| known.get(&id));
        found.any(|logout| logged_in_at <= logout.until_login_at)
    }

    /// The number of changes.
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Logouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logouts(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logout(id: u8, until_login_at: u64, ends: u64) -> Logout {
        Logout { id: [id; 16], until_login_at, ends }
    }

    #[test]
    fn only_sessions_that_began_by_then_have_ended() {
        let logouts = Logouts::default();
        assert!(logouts.adopt(&[logout(1, 100, 1000), logout(2, u64::MAX, 1000)], 0));
        let ended = |id, at| logouts.have_ended([[9; 16], [id; 16]].into_iter(), at);
        assert!(ended(1, 99) && ended(1, 100) && !ended(1, 101) && ended(2, 5000) && !ended(3, 0));
    }

    #[test]
    fn a_logout_is_merged_and_forgotten_when_its_sessions_are_over() {
        let logouts = Logouts::default();
        assert!(logouts.adopt(&[logout(1, 100, 1000)], 0));
        let changes = logouts.changes();
        assert!(logouts.adopt(&[logout(1, 50, 900), logout(2, 1, 10)], 10));
        assert_eq!(logouts.changes(), changes, "nothing is new");
        assert!(logouts.adopt(&[logout(1, 200, 900)], 10));
        assert_eq!(logouts.changes(), changes + 1);
        let ended = |at| logouts.have_ended([[1; 16]].into_iter(), at);
        assert!(ended(200) && !ended(201));
        assert!(logouts.adopt(&[], 999) && ended(200));
        assert!(logouts.adopt(&[], 1000) && !ended(200));
    }

    #[test]
    fn a_logout_that_cannot_be_stored_is_not_reported_as_shared() {
        let logouts = Logouts::default();
        assert_eq!(logouts.end(logout(1, 1, 10), 0).map(|shared| shared.is_some()), Ok(false), "alone");
        let (ready, shared) = oneshot::channel();
        let shared = std::sync::Mutex::new(Some(shared));
        logouts.set_share(Box::new(move |_| shared.lock().unwrap().take()));
        drop(ready);
        assert_eq!(logouts.end(logout(2, 1, 10), 0).map(|shared| shared.is_some()), Ok(true));
        assert_eq!(logouts.end(logout(3, 1, 10), 0).map(drop), Err(NotShared));
        assert!(logouts.have_ended([[3; 16]].into_iter(), 1), "it has ended here all the same");
        let many: Vec<_> = (0..MAX_LOGOUTS as u128)
            .map(|number| Logout { id: (number << 8).to_be_bytes(), until_login_at: 1, ends: 20 })
            .collect();
        assert!(!logouts.adopt(&many, 0), "there are others already");
        assert_eq!(logouts.end(logout(4, 1, 10), 0).map(drop), Err(NotShared));
        assert!(logouts.adopt(&[logout(4, 1, 30)], 20), "there is room again");
    }
}
