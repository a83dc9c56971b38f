//! Publication of snapshots from the control side to the workers: the latest one, never a queue.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fairway_model::CertificateKey;
use fairway_routing::Snapshot;
use tokio::sync::{Notify, watch};

use crate::listener::{BindError, ListenerError, TrustError};
use crate::listening::{Listening, Sockets};
use crate::options::StartupSockets;
use crate::tls::{Identities, IdentityError, ServerTls};

/// A snapshot with its certificates and sockets ready for use.
pub(crate) struct Published {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) identities: Identities,
    pub(crate) listening: Arc<Listening>,
}

/// Publishes snapshots to the workers and tracks which they have adopted.
#[derive(Clone)]
pub struct Publisher {
    shared: Arc<PublisherState>,
}

struct PublisherState {
    tls: ServerTls,
    /// Locked during a publication: one at a time.
    sockets: Mutex<Sockets>,
    /// Whether workers accept connections.
    is_accepting: AtomicBool,
    latest: watch::Sender<Arc<Published>>,
    /// Time of the latest publication.
    published_at: Mutex<Instant>,
    adopted_versions: Vec<AtomicU64>,
    adoption_notify: Notify,
}

/// A part of a snapshot that could not be prepared. Everything else is served.
#[derive(Debug)]
pub enum PublishProblem {
    /// Hosts with this certificate get the default one.
    Certificate(CertificateProblem),
    /// A new address could not be bound. It stays closed until [`Publisher::retry_binds`] or a later snapshot
    /// succeeds.
    Listener(BindError),
    /// Connections of the listener are closed.
    Trust(TrustError),
}

/// An unbound address of a listener of the latest snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbound {
    /// Name of the listener.
    pub listener: Arc<str>,
    /// The address.
    pub address: SocketAddr,
    /// Error of the system, or the limit that was reached.
    pub reason: String,
}

/// A certificate that cannot be used.
#[derive(Debug)]
pub struct CertificateProblem {
    /// The certificate.
    pub certificate: CertificateKey,
    /// Why it cannot be used.
    pub error: IdentityError,
}

impl Publisher {
    /// Starts with `first`, not yet adopted by any worker. Binds at most `max_addresses` addresses.
    pub(crate) fn new(
        tls: ServerTls,
        first: Arc<Snapshot>,
        workers: usize,
        max_addresses: usize,
        opening: StartupSockets,
    ) -> (Self, Vec<PublishProblem>) {
        let (identities, problems) = tls.identities(first.config(), None);
        let mut sockets = Sockets::new(workers, max_addresses);
        sockets.inherit(opening.inherited);
        let (listening, errors) = sockets.update(&first);
        if !opening.hold_connections {
            sockets.fill_inherited();
        }
        let (latest, _) = watch::channel(Arc::new(Published { snapshot: first, identities, listening }));
        let adopted_versions = (0..workers).map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(PublisherState {
            tls,
            sockets: Mutex::new(sockets),
            is_accepting: AtomicBool::new(!opening.hold_connections),
            latest,
            published_at: Mutex::new(Instant::now()),
            adopted_versions,
            adoption_notify: Notify::new(),
        });
        (Self { shared }, publish_problems(problems, errors))
    }

    /// Publishes `snapshot`. Workers adopt it between two events and skip snapshots replaced before that. New
    /// addresses are bound first; addresses that stay are not touched.
    pub fn publish(&self, snapshot: Arc<Snapshot>) -> Vec<PublishProblem> {
        let mut sockets = self.lock_sockets();
        let (listening, errors) = sockets.update(&snapshot);
        let previous = Arc::clone(&self.shared.latest.borrow());
        let (identities, problems) =
            self.shared.tls.identities(snapshot.config(), Some(&previous.identities));
        *self.shared.published_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.shared.latest.send_replace(Arc::new(Published { snapshot, identities, listening }));
        publish_problems(problems, errors)
    }

    /// Lets the workers accept connections, if they were held back.
    pub fn start_accepting(&self) {
        let mut sockets = self.lock_sockets();
        if self.is_accepting() {
            return;
        }
        sockets.fill_inherited();
        self.shared.is_accepting.store(true, Ordering::Release);
        // Workers take sockets when woken for a newer snapshot.
        self.shared.latest.send_modify(|_| {});
    }

    /// Whether workers accept connections.
    pub(crate) fn is_accepting(&self) -> bool {
        self.shared.is_accepting.load(Ordering::Acquire)
    }

    /// Whether every address of the latest snapshot is bound.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.lock_sockets().is_fully_bound()
    }

    /// Unbound addresses of the latest snapshot, with the reason.
    #[must_use]
    pub fn unbound(&self) -> Vec<Unbound> {
        let sockets = self.lock_sockets();
        let latest = Arc::clone(&self.shared.latest.borrow());
        let unbound = sockets.unbound(&latest.snapshot).into_iter();
        unbound.map(|(listener, address, reason)| Unbound { listener, address, reason }).collect()
    }

    /// Tries again to bind addresses: their holder may be gone, be it another process or a worker that had not
    /// yet closed a socket of an older snapshot. Returns errors not reported before.
    pub fn retry_binds(&self) -> Vec<PublishProblem> {
        let mut sockets = self.lock_sockets();
        if sockets.is_fully_bound() {
            return Vec::new();
        }
        let latest = Arc::clone(&self.shared.latest.borrow());
        let (listening, errors) = sockets.update(&latest.snapshot);
        if listening.ports().len() > latest.listening.ports().len() {
            let (snapshot, identities) = (Arc::clone(&latest.snapshot), latest.identities.clone());
            self.shared.latest.send_replace(Arc::new(Published { snapshot, identities, listening }));
        }
        publish_problems(Vec::new(), errors)
    }

    /// Bound addresses of a listener of the latest snapshot, with the ports assigned for port 0.
    #[must_use]
    pub fn addresses(&self, listener: &str) -> Vec<SocketAddr> {
        self.shared.latest.borrow().listening.addresses(listener)
    }

    /// Oldest version that a worker serves; 0 until every worker has one.
    #[must_use]
    pub fn adopted_version(&self) -> u64 {
        self.shared.adopted_versions.iter().map(|version| version.load(Ordering::Acquire)).min().unwrap_or(0)
    }

    /// Waits until every worker serves `version` or a later one.
    pub async fn wait_until_adopted(&self, version: u64) {
        loop {
            let adoption = self.shared.adoption_notify.notified();
            if self.adopted_version() >= version {
                return;
            }
            adoption.await;
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Published>> {
        self.shared.latest.subscribe()
    }

    /// Time since the latest publication.
    pub(crate) fn time_since_publication(&self) -> Duration {
        self.shared.published_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn lock_sockets(&self) -> MutexGuard<'_, Sockets> {
        self.shared.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record_adoption(&self, worker: usize, version: u64) {
        self.shared.adopted_versions[worker].store(version, Ordering::Release);
        self.shared.adoption_notify.notify_waiters();
    }
}

fn publish_problems(
    certificates: Vec<(CertificateKey, IdentityError)>,
    listeners: Vec<ListenerError>,
) -> Vec<PublishProblem> {
    let certificates = certificates
        .into_iter()
        .map(|(certificate, error)| PublishProblem::Certificate(CertificateProblem { certificate, error }));
    let listeners = listeners.into_iter().map(|error| match error {
        ListenerError::Bind(error) => PublishProblem::Listener(error),
        ListenerError::Trust(error) => PublishProblem::Trust(error),
    });
    certificates.chain(listeners).collect()
}
