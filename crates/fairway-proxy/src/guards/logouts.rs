//! Sessions that providers have ended, known to all workers of a process and told to its other replicas.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use fairway_model::Logout;
use fairway_token::login::SessionId;
use rustls_pki_types::UnixTime;
use tokio::sync::oneshot;

/// More are refused: each is there because a provider has signed it, and for as long as its sessions last.
const MAX_LOGOUTS: usize = 65_536;

/// Tells all replicas of a logout, and says when they know it; `None` where they cannot be told.
pub type ShareLogout = Box<dyn Fn(Logout) -> Option<oneshot::Receiver<()>> + Send + Sync>;

/// The logouts of a process. A clone has the same ones.
///
/// A lock is taken to read when a session is opened; a request with a session that was opened before looks at a counter.
#[derive(Clone, Default)]
pub struct Logouts(Arc<Shared>);

#[derive(Default)]
struct Shared {
    known: RwLock<HashMap<SessionId, Logout>>,
    changes: AtomicU64,
    share: OnceLock<ShareLogout>,
}

/// Why a logout is not known everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotShared;

impl Logouts {
    /// Logouts that providers tell this process are told to all replicas by `share`. Only the first call does something; without one, this
    /// process is alone.
    pub fn share_by(&self, share: ShareLogout) {
        // A process has one way.
        _ = self.0.share.set(share);
    }

    /// Takes the logouts that all replicas know; those that are known already may come again.
    pub fn adopt_shared(&self, logouts: &[Logout]) {
        if !self.adopt(logouts, UnixTime::now().as_secs()) {
            tracing::error!("there are too many logouts: some sessions that providers have ended go on");
        }
    }

    /// Takes logouts, at `now` in seconds since 1970; says whether there was room for all.
    fn adopt(&self, logouts: &[Logout], now: u64) -> bool {
        let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
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
            // Whoever sees the number before it changes forgets what was opened until then.
            self.0.changes.fetch_add(1, Ordering::Release);
        }
        has_room
    }

    /// Ends sessions, here at once. What is returned is ready when the other replicas have heard of it; `None` where there are none.
    pub(crate) fn end(&self, logout: Logout, now: u64) -> Result<Option<oneshot::Receiver<()>>, NotShared> {
        if !self.adopt(&[logout], now) {
            return Err(NotShared);
        }
        match self.0.share.get() {
            None => Ok(None),
            Some(share) => share(logout).map(Some).ok_or(NotShared),
        }
    }

    /// Whether there are none, so that nothing has to be looked for.
    pub(crate) fn are_none(&self) -> bool {
        self.changes() == 0
    }

    /// Whether a session has ended whose user logged in then.
    pub(crate) fn have_ended(&self, ids: impl Iterator<Item = SessionId>, logged_in_at: u64) -> bool {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = ids.filter_map(|id| known.get(&id));
        found.any(|logout| logged_in_at <= logout.until_login_at)
    }

    /// How often something was new.
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
    fn what_has_no_room_or_cannot_be_told_is_not_said_to_be_shared() {
        let logouts = Logouts::default();
        assert_eq!(logouts.end(logout(1, 1, 10), 0).map(|told| told.is_some()), Ok(false), "alone");
        let (ready, told) = oneshot::channel();
        let told = std::sync::Mutex::new(Some(told));
        logouts.share_by(Box::new(move |_| told.lock().unwrap().take()));
        drop(ready);
        assert_eq!(logouts.end(logout(2, 1, 10), 0).map(|told| told.is_some()), Ok(true));
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
