//! The interface of fleet limits for workers, other replicas and metrics.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use fairway_net::clock::Instant;
use fairway_net::counts::{ClientCounts, ClientKey, RequestRate};
use fairway_routing::PolicyId;
use rustls_pki_types::UnixTime;
use tokio::sync::mpsc;

use super::borrow_queue::{NotNoted, WantedClients, WantedShare};
use super::figures::{LeaseCounters, LeaseFigures, RefusedMessage};
use super::lender::Lender;
use super::message::{ClientName, ClientOfLimit, LendRequest, Reply};
use super::size::FleetSize;
use super::terms::is_leased;
use crate::tls::{SessionTickets, TicketGroup};

/// The maximum size of a message: 32 clients with long names.
pub(super) const MAX_REQUEST_BYTES: usize = 8 << 10;

/// The limits that a process shares with the other replicas of its fleet, and the counters of all policies. Clones share them.
#[derive(Clone)]
pub struct FleetLimits(pub(super) Arc<FleetState>);

pub(super) struct FleetState {
    pub(super) size: FleetSize,
    pub(super) counts: Arc<ClientCounts>,
    /// The keys with which replicas authenticate each other.
    pub(super) keys: SessionTickets,
    members: RwLock<Arc<Members>>,
    /// Whether there are replicas to borrow from.
    has_others: AtomicBool,
    pub(super) wanted_clients: WantedClients,
    /// Set until the borrower takes it.
    receiver: Mutex<Option<mpsc::Receiver<WantedShare>>>,
    pub(super) lender: Lender,
    pub(super) figures: LeaseCounters,
}

/// The ready replicas of the fleet.
#[derive(Default)]
pub(super) struct Members {
    own_name: Arc<str>,
    pub(super) others: Vec<(Arc<str>, SocketAddr)>,
}

impl Default for FleetLimits {
    fn default() -> Self {
        Self::new(SessionTickets::default())
    }
}

impl FleetLimits {
    /// The limits of replicas that share secrets in `keys`; without a shared secret nothing is lent.
    #[must_use]
    pub fn new(keys: SessionTickets) -> Self {
        let (wanted, receiver) = WantedClients::new();
        Self(Arc::new(FleetState {
            size: FleetSize::default(),
            counts: ClientCounts::new(),
            keys,
            members: RwLock::default(),
            has_others: AtomicBool::new(false),
            wanted_clients: wanted,
            receiver: Mutex::new(Some(receiver)),
            lender: Lender::default(),
            figures: LeaseCounters::default(),
        }))
    }

    /// The number of replicas by which limits are divided.
    #[must_use]
    pub fn size(&self) -> &FleetSize {
        &self.0.size
    }

    /// Sets the name of this replica, and the names and probe addresses of the other ready ones.
    pub fn set_members(&self, own_name: Arc<str>, others: Vec<(Arc<str>, SocketAddr)>) {
        self.0.has_others.store(!others.is_empty(), Ordering::Relaxed);
        *self.0.members.write().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(Members { own_name, others });
    }

    /// The receiver of clients whose requests are refused, for the borrower; `None` after the first call.
    pub(super) fn take_wanted_shares(&self) -> Option<mpsc::Receiver<WantedShare>> {
        self.0.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The response to another replica that asks for shares; `None` for any other sender.
    #[must_use]
    pub fn respond(&self, request: &[u8]) -> Option<Vec<u8>> {
        self.respond_at(request, Instant::now(), UnixTime::now().as_secs())
    }

    pub(super) fn respond_at(&self, request: &[u8], now: Instant, wall: u64) -> Option<Vec<u8>> {
        let answered = self.lend(request, now, wall);
        answered.map_err(|reason| self.0.figures.count_refused(reason)).ok()
    }

    fn lend(&self, request: &[u8], now: Instant, wall: u64) -> Result<Vec<u8>, RefusedMessage> {
        let FleetState { size, counts, keys, lender, figures, .. } = &*self.0;
        if request.len() > MAX_REQUEST_BYTES {
            return Err(RefusedMessage::Oversized);
        }
        let own_name = Arc::clone(&self.members().own_name);
        let (made, request) = keys
            .open_shared(TicketGroup::lease("ask", &own_name), request)
            .ok_or(RefusedMessage::Unsigned)?;
        let request = LendRequest::decode(&request).ok_or(RefusedMessage::Malformed)?;
        let outcomes = lender.decide(&request, made, size.replicas(), counts, now, wall)?;
        outcomes.iter().for_each(|outcome| figures.count_reply(*outcome));
        let reply = Reply { borrower: request.borrower, number: request.number, outcomes };
        keys.seal_shared(TicketGroup::lease("answer", &own_name), wall, &reply.encode())
            .ok_or(RefusedMessage::Unsigned)
    }

    /// Counts a request against a limit that is `whole` for all replicas together, and returns whether this replica admits it.
    /// Without an identity the client is identified by its address.
    pub(crate) fn admits(
        &self,
        policy: PolicyId,
        identity: Option<&[Cow<'_, str>; 2]>,
        address: IpAddr,
        whole: RequestRate,
        now: Instant,
    ) -> bool {
        let (counts, replicas) = (&self.0.counts, self.0.size.replicas());
        let share = whole.shared_by(replicas);
        let limited_client = match identity {
            // The client is identified without its address.
            Some(identity) => {
                let address = Ipv4Addr::UNSPECIFIED.into();
                counts.admit_shared((policy, identity), address, share, replicas, now)
            }
            None => counts.admit_shared(policy, address, share, replicas, now),
        };
        let Err(key) = limited_client else { return true };
        if self.0.has_others.load(Ordering::Relaxed) && is_leased(share) {
            self.queue_client(key, || {
                Some(ClientOfLimit { policy, client: ClientName::new(address, identity)?, fleet_rate: whole })
            });
        }
        false
    }

    #[cold]
    fn queue_client(&self, key: ClientKey, client: impl FnOnce() -> Option<ClientOfLimit>) {
        if self.0.wanted_clients.request_share(key, client) == Err(NotNoted::Full) {
            self.0.figures.count_dropped();
        }
    }

    /// The counters of all policies.
    pub(crate) fn counts(&self) -> &Arc<ClientCounts> {
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
