//! The ticket keys of the process, shared by all workers and changed while they serve.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use fairway_model::SharedTicketSecret;
use rustls::server::ProducesTickets;
use rustls_pki_types::UnixTime;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::tls::tickets::group::TicketGroup;
use crate::tls::tickets::ring::{KeyMetrics, KeyRing, Moment};

/// Ticket keys of a process. Clones share them.
///
/// Handshakes take a read lock, as rustls's own tickets do; changing keys takes the write lock.
#[derive(Clone, Default)]
pub struct SessionTickets(Arc<TicketState>);

#[derive(Default)]
struct TicketState {
    ring: RwLock<KeyRing>,
    is_off: AtomicBool,
    rejected: AtomicU64,
}

/// Numbers about tickets for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TicketFigures {
    /// About the keys, if there are any.
    pub(crate) keys: Option<KeyMetrics>,
    /// Tickets that no key decrypted.
    pub(crate) unopened: u64,
}

impl SessionTickets {
    /// Keys that rotate at this interval.
    #[must_use]
    pub fn rotating(rotation: Duration) -> Self {
        let tickets = Self::default();
        tickets.0.write().rotate_every(rotation);
        tickets
    }

    /// Replaces the secrets shared by replicas, newest first. Without any, this process uses keys of its own;
    /// tickets of removed keys become worthless.
    pub fn adopt(&self, secrets: &[SharedTicketSecret]) {
        self.0.write().adopt(secrets, Instant::now().into_std());
    }

    /// Applies the configuration.
    pub(crate) fn configure(&self, tickets: &fairway_model::SessionTickets) {
        let (off, secret) = match tickets {
            fairway_model::SessionTickets::Rotating => (false, None),
            fairway_model::SessionTickets::Fixed { secret } => {
                (false, Some(secret).filter(|secret| !secret.is_empty()))
            }
            fairway_model::SessionTickets::Off => (true, None),
        };
        self.0.is_off.store(off, Ordering::Relaxed);
        self.0.write().set_operator_key(secret);
    }

    /// The ticketer of a group.
    pub(crate) fn ticketer(&self, group: TicketGroup) -> Arc<dyn ProducesTickets> {
        Arc::new(Ticketer { keys: Arc::clone(&self.0), group })
    }

    /// Encrypts a login for a browser cookie.
    pub(crate) fn seal_login(&self, group: TicketGroup, value: &[u8]) -> Option<Vec<u8>> {
        let now = current_moment();
        self.0.current(now.instant).seal_login(group, now, value)
    }

    /// Decrypts what [`seal_login`](Self::seal_login) made for the group on any replica, and returns whether it
    /// should be encrypted again.
    pub(crate) fn open_login(&self, group: TicketGroup, sealed: &[u8]) -> Option<(Vec<u8>, bool)> {
        let now = current_moment();
        self.0.current(now.instant).open_login(group, now, sealed)
    }

    /// Maximum lifetime of an encrypted login.
    pub(crate) fn max_login_lifetime(&self) -> Duration {
        self.0.read().max_lifetime()
    }

    /// Encrypts a message to another replica, sent at `wall` in seconds since 1970; `None` if they share no
    /// key.
    pub(crate) fn seal_shared(&self, group: TicketGroup, wall: u64, message: &[u8]) -> Option<Vec<u8>> {
        let now = Moment { wall, ..current_moment() };
        self.0.current(now.instant).seal_shared(group, now, message)
    }

    /// Decrypts what [`seal_shared`](Self::seal_shared) made for the group; returns the time by the sender's
    /// clock.
    pub(crate) fn open_shared(&self, group: TicketGroup, sealed: &[u8]) -> Option<(u64, Vec<u8>)> {
        let now = Instant::now().into_std();
        self.0.current(now).open_shared(group, now, sealed)
    }

    /// One-byte name of the secret shared by replicas now; `None` without one.
    pub(crate) fn shared_name(&self) -> Option<u8> {
        let now = Instant::now().into_std();
        self.0.current(now).shared_name(now)
    }

    /// A key for `purpose` that all replicas derive from the named secret; `None` if they do not, or no longer,
    /// share it.
    pub(crate) fn derive_shared(&self, name: u8, purpose: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
        let now = Instant::now().into_std();
        self.0.current(now).derive_shared(now, name, purpose)
    }

    pub(crate) fn figures(&self) -> TicketFigures {
        let keys = if self.0.is_off.load(Ordering::Relaxed) {
            None
        } else {
            let now = Instant::now().into_std();
            self.0.current(now).metrics(now)
        };
        TicketFigures { keys, unopened: self.0.rejected.load(Ordering::Relaxed) }
    }
}

impl fmt::Debug for SessionTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionTickets(..)")
    }
}

impl TicketState {
    /// The current keys, without expired ones.
    fn current(&self, now: std::time::Instant) -> RwLockReadGuard<'_, KeyRing> {
        let ring = self.read();
        if !ring.is_due(now) {
            return ring;
        }
        drop(ring);
        self.write().rotate(now);
        self.read()
    }

    // Insertions and removals are atomic: a panic leaves the ring consistent.
    fn read(&self) -> RwLockReadGuard<'_, KeyRing> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KeyRing> {
        self.ring.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tickets of one group.
struct Ticketer {
    keys: Arc<TicketState>,
    group: TicketGroup,
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        !self.keys.is_off.load(Ordering::Relaxed)
    }

    fn lifetime(&self) -> u32 {
        let now = Instant::now().into_std();
        self.keys.current(now).lifetime(now)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let now = current_moment();
        self.keys.current(now.instant).seal(self.group, now, plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let now = current_moment();
        let opened = self.keys.current(now.instant).open(self.group, now, cipher);
        if opened.is_none() {
            self.keys.rejected.fetch_add(1, Ordering::Relaxed);
        }
        opened
    }
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticketer").field("group", &self.group).finish_non_exhaustive()
    }
}

fn current_moment() -> Moment {
    Moment { instant: Instant::now().into_std(), wall: UnixTime::now().as_secs() }
}
