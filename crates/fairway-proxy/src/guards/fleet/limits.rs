//! The limits as workers, other replicas and metrics meet them.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use fairway_net::clock::Instant;
use fairway_net::counts::{ClientKey, Counts, Rate};
use fairway_routing::PolicyId;
use rustls_pki_types::UnixTime;
use tokio::sync::mpsc;

use super::figures::{Figures, LeaseFigures, RefusedMessage};
use super::lender::Lender;
use super::message::{Ask, ClientName, ClientOfLimit, Reply};
use super::size::FleetSize;
use super::terms::is_leased;
use super::wanted::{NotNoted, Wanted, WantedClients};
use crate::tls::{Group, SessionTickets};

/// The largest ask: 32 clients with long names.
pub(super) const MAX_ASK_BYTES: usize = 8 << 10;

/// The limits that a process shares with the other replicas of its fleet, and everything that policies count. A clone is the same.
#[derive(Clone)]
pub struct FleetLimits(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) size: FleetSize,
    pub(super) counts: Arc<Counts>,
    /// What replicas know each other by.
    pub(super) keys: SessionTickets,
    members: RwLock<Arc<Members>>,
    /// Whether there is somebody to borrow from.
    has_others: AtomicBool,
    pub(super) wanted: WantedClients,
    /// Until the borrower takes it.
    receiver: Mutex<Option<mpsc::Receiver<Wanted>>>,
    pub(super) lender: Lender,
    pub(super) figures: Figures,
}

/// Who is ready in the fleet.
#[derive(Default)]
pub(super) struct Members {
    own: Arc<str>,
    pub(super) others: Vec<(Arc<str>, SocketAddr)>,
}

impl Default for FleetLimits {
    fn default() -> Self {
        Self::new(SessionTickets::default())
    }
}

impl FleetLimits {
    /// Of replicas that share secrets of `keys`; without one, nothing is lent.
    #[must_use]
    pub fn new(keys: SessionTickets) -> Self {
        let (wanted, receiver) = WantedClients::new();
        Self(Arc::new(Shared {
            size: FleetSize::default(),
            counts: Counts::new(),
            keys,
            members: RwLock::default(),
            has_others: AtomicBool::new(false),
            wanted,
            receiver: Mutex::new(Some(receiver)),
            lender: Lender::default(),
            figures: Figures::default(),
        }))
    }

    /// How many replicas limits are divided by.
    #[must_use]
    pub fn size(&self) -> &FleetSize {
        &self.0.size
    }

    /// Takes the name of this replica, and those of the others that are ready, with where they answer probes.
    pub fn set_members(&self, own: Arc<str>, others: Vec<(Arc<str>, SocketAddr)>) {
        self.0.has_others.store(!others.is_empty(), Ordering::Relaxed);
        *self.0.members.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Members { own, others });
    }

    /// The clients whose requests are refused, for one who asks for them; `None` after the first call.
    pub(super) fn take_wanted(&self) -> Option<mpsc::Receiver<Wanted>> {
        self.0.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The answer to another replica that asks for shares; `None` for everybody else.
    #[must_use]
    pub fn answer(&self, ask: &[u8]) -> Option<Vec<u8>> {
        self.answer_at(ask, Instant::now(), UnixTime::now().as_secs())
    }

    pub(super) fn answer_at(&self, ask: &[u8], now: Instant, wall: u64) -> Option<Vec<u8>> {
        let answered = self.lend(ask, now, wall);
        answered.map_err(|reason| self.0.figures.refused(reason)).ok()
    }

    fn lend(&self, ask: &[u8], now: Instant, wall: u64) -> Result<Vec<u8>, RefusedMessage> {
        let Shared { size, counts, keys, lender, figures, .. } = &*self.0;
        if ask.len() > MAX_ASK_BYTES {
            return Err(RefusedMessage::Oversized);
        }
        let own = Arc::clone(&self.members().own);
        let (made, ask) = keys.open_shared(Group::lease("ask", &own), ask).ok_or(RefusedMessage::Unsigned)?;
        let ask = Ask::decode(&ask).ok_or(RefusedMessage::Malformed)?;
        let outcomes = lender.decide(&ask, made, size.replicas(), counts, now, wall)?;
        outcomes.iter().for_each(|outcome| figures.answered(*outcome));
        let reply = Reply { borrower: ask.borrower, number: ask.number, outcomes };
        keys.seal_shared(Group::lease("answer", &own), wall, &reply.encode()).ok_or(RefusedMessage::Unsigned)
    }

    /// Counts a request of a limit that is `whole` for all replicas together, if it does not come too early for this one. The client is
    /// that of the address, if it has no other identity.
    pub(crate) fn asks(
        &self,
        policy: PolicyId,
        identity: Option<&[Cow<'_, str>; 2]>,
        address: IpAddr,
        whole: Rate,
        now: Instant,
    ) -> bool {
        let (counts, replicas) = (&self.0.counts, self.0.size.replicas());
        let share = whole.shared_by(replicas);
        let asked = match identity {
            // The address says nothing about it.
            Some(identity) => {
                let address = Ipv4Addr::UNSPECIFIED.into();
                counts.asks_share((policy, identity), address, share, replicas, now)
            }
            None => counts.asks_share(policy, address, share, replicas, now),
        };
        let Err(key) = asked else { return true };
        if self.0.has_others.load(Ordering::Relaxed) && is_leased(share) {
            self.want(key, || {
                Some(ClientOfLimit { policy, client: ClientName::new(address, identity)?, whole })
            });
        }
        false
    }

    #[cold]
    fn want(&self, key: ClientKey, client: impl FnOnce() -> Option<ClientOfLimit>) {
        if self.0.wanted.note(key, client) == Err(NotNoted::Full) {
            self.0.figures.dropped();
        }
    }

    /// What policies count.
    pub(crate) fn counts(&self) -> &Arc<Counts> {
        &self.0.counts
    }

    pub(crate) fn figures(&self) -> LeaseFigures {
        self.0.figures.read()
    }

    pub(super) fn members(&self) -> Arc<Members> {
        Arc::clone(&self.0.members.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for FleetLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FleetLimits").field("size", &self.0.size).finish_non_exhaustive()
    }
}
