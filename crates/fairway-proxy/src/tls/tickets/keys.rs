//! The keys of the process as TLS and the rest of the process see them: shared by all workers, changed while they serve.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use fairway_model::SharedTicketSecret;
use rustls::server::ProducesTickets;
use rustls_pki_types::UnixTime;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::tls::tickets::group::Group;
use crate::tls::tickets::ring::{KeyFigures, Moment, Ring};

/// The ticket keys of a process. A clone has the same ones.
///
/// A handshake takes a lock to read, as the tickets of rustls do; it is taken to write when keys change.
#[derive(Clone, Default)]
pub struct SessionTickets(Arc<Shared>);

#[derive(Default)]
struct Shared {
    ring: RwLock<Ring>,
    off: AtomicBool,
    unopened: AtomicU64,
}

/// What metrics say about tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TicketFigures {
    /// About the keys, where there are some.
    pub(crate) keys: Option<KeyFigures>,
    /// Tickets that no key opened.
    pub(crate) unopened: u64,
}

impl SessionTickets {
    /// Keys that change each `rotation`.
    #[must_use]
    pub fn rotating(rotation: Duration) -> Self {
        let tickets = Self::default();
        tickets.0.write().rotate_every(rotation);
        tickets
    }

    /// Takes the secrets that all replicas have in place of those before, the newest first. Without any, this process has keys of its
    /// own; tickets that only keys of before would open are worth nothing any more.
    pub fn adopt(&self, secrets: &[SharedTicketSecret]) {
        self.0.write().adopt(secrets, Instant::now().into_std());
    }

    /// Does what the configuration says.
    pub(crate) fn configure(&self, tickets: &fairway_model::SessionTickets) {
        let (off, secret) = match tickets {
            fairway_model::SessionTickets::Rotating => (false, None),
            fairway_model::SessionTickets::Fixed { secret } => {
                (false, Some(secret).filter(|secret| !secret.is_empty()))
            }
            fairway_model::SessionTickets::Off => (true, None),
        };
        self.0.off.store(off, Ordering::Relaxed);
        self.0.write().fix(secret);
    }

    /// What makes and opens the tickets of a group.
    pub(crate) fn of_group(&self, group: Group) -> Arc<dyn ProducesTickets> {
        Arc::new(Ticketer { keys: Arc::clone(&self.0), group })
    }

    /// Encrypts what a browser keeps of a login.
    pub(crate) fn seal_login(&self, group: Group, value: &[u8]) -> Option<Vec<u8>> {
        let now = now();
        self.0.current(now.instant).seal_login(group, now, value)
    }

    /// Opens what [`seal_login`](Self::seal_login) made for the group, on whatever replica, and says whether it should be made anew.
    pub(crate) fn open_login(&self, group: Group, sealed: &[u8]) -> Option<(Vec<u8>, bool)> {
        let now = now();
        self.0.current(now.instant).open_login(group, now, sealed)
    }

    /// How long what is encrypted for a login now opens at most.
    pub(crate) fn longest_login(&self) -> Duration {
        self.0.read().longest()
    }

    /// Encrypts for one other replica what this one says at `wall`, in seconds since 1970; `None` where they share no key.
    pub(crate) fn seal_shared(&self, group: Group, wall: u64, message: &[u8]) -> Option<Vec<u8>> {
        let now = Moment { wall, ..now() };
        self.0.current(now.instant).seal_shared(group, now, message)
    }

    /// Opens what [`seal_shared`](Self::seal_shared) made for the group, and says when that was by the other clock.
    pub(crate) fn open_shared(&self, group: Group, sealed: &[u8]) -> Option<(u64, Vec<u8>)> {
        let now = Instant::now().into_std();
        self.0.current(now).open_shared(group, now, sealed)
    }

    /// The name of the secret that replicas share now, one byte; `None` where they share none.
    pub(crate) fn shared_name(&self) -> Option<u8> {
        let now = Instant::now().into_std();
        self.0.current(now).shared_name(now)
    }

    /// A key that all replicas derive for `purpose` from the secret of this name; `None` where they share none, or no more.
    pub(crate) fn derive_shared(&self, name: u8, purpose: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
        let now = Instant::now().into_std();
        self.0.current(now).derive_shared(now, name, purpose)
    }

    pub(crate) fn figures(&self) -> TicketFigures {
        let keys = if self.0.off.load(Ordering::Relaxed) {
            None
        } else {
            let now = Instant::now().into_std();
            self.0.current(now).figures(now)
        };
        TicketFigures { keys, unopened: self.0.unopened.load(Ordering::Relaxed) }
    }
}

impl fmt::Debug for SessionTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionTickets(..)")
    }
}

impl Shared {
    /// The keys as they are now, those that are over forgotten.
    fn current(&self, now: std::time::Instant) -> RwLockReadGuard<'_, Ring> {
        let ring = self.read();
        if !ring.is_due(now) {
            return ring;
        }
        drop(ring);
        self.write().tidy(now);
        self.read()
    }

    // Keys are put in and taken out whole, whoever panics.
    fn read(&self) -> RwLockReadGuard<'_, Ring> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Ring> {
        self.ring.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tickets of a group.
struct Ticketer {
    keys: Arc<Shared>,
    group: Group,
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        !self.keys.off.load(Ordering::Relaxed)
    }

    fn lifetime(&self) -> u32 {
        let now = Instant::now().into_std();
        self.keys.current(now).lifetime(now)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let now = now();
        self.keys.current(now.instant).seal(self.group, now, plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let now = now();
        let opened = self.keys.current(now.instant).open(self.group, now, cipher);
        if opened.is_none() {
            self.keys.unopened.fetch_add(1, Ordering::Relaxed);
        }
        opened
    }
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticketer").field("group", &self.group).finish_non_exhaustive()
    }
}

fn now() -> Moment {
    Moment { instant: Instant::now().into_std(), wall: UnixTime::now().as_secs() }
}
