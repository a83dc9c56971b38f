//! From the control side to the workers: the latest snapshot, never a queue.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fairway_model::CertificateKey;
use fairway_routing::Snapshot;
use tokio::sync::{Notify, watch};

use crate::listener::{BindError, ListenerError, TrustError};
use crate::listening::{Listening, Sockets};
use crate::options::Opening;
use crate::tls::{Identities, IdentityError, ServerTls};

/// A snapshot with its certificates ready for use.
pub(crate) struct Published {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) identities: Identities,
    pub(crate) listening: Arc<Listening>,
}

/// Hands snapshots to the workers, and knows which they have adopted.
#[derive(Clone)]
pub struct Publisher {
    shared: Arc<Shared>,
}

struct Shared {
    tls: ServerTls,
    /// Held while something is published: one at a time.
    sockets: Mutex<Sockets>,
    /// Whether workers accept connections.
    accepts: AtomicBool,
    latest: watch::Sender<Arc<Published>>,
    /// When the latest was published.
    published: Mutex<Instant>,
    adopted: Vec<AtomicU64>,
    adoption: Notify,
}

/// What of a snapshot could not be made ready. All else is served.
#[derive(Debug)]
pub enum PublishProblem {
    /// Hosts that name this certificate get the default one.
    Certificate(CertificateProblem),
    /// A new address of a listener: nobody listens there until [`Publisher::bind_again`] or a later snapshot succeeds.
    Listener(BindError),
    /// Its connections are closed.
    Trust(TrustError),
}

/// An address at which a listener of the latest snapshot is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbound {
    /// The name of the listener.
    pub listener: Arc<str>,
    /// Where nobody listens for it.
    pub address: SocketAddr,
    /// What the system says, or which limit is reached.
    pub reason: String,
}

/// A certificate that could not be made ready.
#[derive(Debug)]
pub struct CertificateProblem {
    /// Which.
    pub certificate: CertificateKey,
    /// Why.
    pub error: IdentityError,
}

impl Publisher {
    /// Starts with `first`, which none of the workers has adopted yet, and never binds more than `most` addresses.
    pub(crate) fn new(
        tls: ServerTls,
        first: Arc<Snapshot>,
        workers: usize,
        most: usize,
        opening: Opening,
    ) -> (Self, Vec<PublishProblem>) {
        let (identities, problems) = tls.identities(first.config(), None);
        let mut sockets = Sockets::new(workers, most);
        sockets.inherit(opening.inherited);
        let (listening, errors) = sockets.follow(&first);
        if !opening.waits {
            sockets.complete();
        }
        let (latest, _) = watch::channel(Arc::new(Published { snapshot: first, identities, listening }));
        let adopted = (0..workers).map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(Shared {
            tls,
            sockets: Mutex::new(sockets),
            accepts: AtomicBool::new(!opening.waits),
            latest,
            published: Mutex::new(Instant::now()),
            adopted,
            adoption: Notify::new(),
        });
        (Self { shared }, report(problems, errors))
    }

    /// Makes `snapshot` the one to serve by. Workers adopt it between two events; what they have not adopted by then
    /// is skipped. New addresses of listeners are bound first, and addresses that stay are not touched.
    pub fn publish(&self, snapshot: Arc<Snapshot>) -> Vec<PublishProblem> {
        let mut sockets = self.lock_sockets();
        let (listening, errors) = sockets.follow(&snapshot);
        let previous = Arc::clone(&self.shared.latest.borrow());
        let (identities, problems) =
            self.shared.tls.identities(snapshot.config(), Some(&previous.identities));
        *self.shared.published.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.shared.latest.send_replace(Arc::new(Published { snapshot, identities, listening }));
        report(problems, errors)
    }

    /// Lets the workers accept connections, where they waited for that.
    pub fn begin_accepting(&self) {
        let mut sockets = self.lock_sockets();
        if self.accepts() {
            return;
        }
        sockets.complete();
        self.shared.accepts.store(true, Ordering::Release);
        // Workers take their sockets when they look for a newer snapshot.
        self.shared.latest.send_modify(|_| {});
    }

    /// Whether workers accept connections.
    pub(crate) fn accepts(&self) -> bool {
        self.shared.accepts.load(Ordering::Acquire)
    }

    /// Whether every address of the latest snapshot is bound.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.lock_sockets().is_complete()
    }

    /// Where listeners of the latest snapshot are not served, and why.
    #[must_use]
    pub fn unbound(&self) -> Vec<Unbound> {
        let sockets = self.lock_sockets();
        let latest = Arc::clone(&self.shared.latest.borrow());
        let unbound = sockets.unbound(&latest.snapshot).into_iter();
        unbound.map(|(listener, address, reason)| Unbound { listener, address, reason }).collect()
    }

    /// Tries once more to bind what could not be bound: who held the address may be gone, be it another process or a
    /// worker that had not yet closed what an older snapshot had there. Gives what is new of the reasons.
    pub fn bind_again(&self) -> Vec<PublishProblem> {
        let mut sockets = self.lock_sockets();
        if sockets.is_complete() {
            return Vec::new();
        }
        let latest = Arc::clone(&self.shared.latest.borrow());
        let (listening, errors) = sockets.follow(&latest.snapshot);
        if listening.ports().len() > latest.listening.ports().len() {
            let (snapshot, identities) = (Arc::clone(&latest.snapshot), latest.identities.clone());
            self.shared.latest.send_replace(Arc::new(Published { snapshot, identities, listening }));
        }
        report(Vec::new(), errors)
    }

    /// Where a listener of the latest snapshot is bound, with the ports that port 0 became.
    #[must_use]
    pub fn addresses(&self, listener: &str) -> Vec<SocketAddr> {
        self.shared.latest.borrow().listening.addresses(listener)
    }

    /// The version of the oldest snapshot that a worker serves by; 0 before every worker has one.
    #[must_use]
    pub fn adopted_version(&self) -> u64 {
        self.shared.adopted.iter().map(|version| version.load(Ordering::Acquire)).min().unwrap_or(0)
    }

    /// Waits until every worker serves by `version` or a later one.
    pub async fn adopted(&self, version: u64) {
        loop {
            let adoption = self.shared.adoption.notified();
            if self.adopted_version() >= version {
                return;
            }
            adoption.await;
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Published>> {
        self.shared.latest.subscribe()
    }

    /// The time since the latest publication.
    pub(crate) fn age(&self) -> Duration {
        self.shared.published.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn lock_sockets(&self) -> MutexGuard<'_, Sockets> {
        self.shared.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_adoption(&self, worker: usize, version: u64) {
        self.shared.adopted[worker].store(version, Ordering::Release);
        self.shared.adoption.notify_waiters();
    }
}

fn report(
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
