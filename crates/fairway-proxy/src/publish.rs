//! From the control side to the workers: the latest snapshot, never a queue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fairway_model::CertificateKey;
use fairway_routing::Snapshot;
use tokio::sync::{Notify, watch};

use crate::tls::identities::{Identities, IdentityError, ServerTls};

/// A snapshot with its certificates ready for use.
pub(crate) struct Published {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) identities: Identities,
}

/// Hands snapshots to the workers, and knows which they have adopted.
#[derive(Clone)]
pub struct Publisher {
    shared: Arc<Shared>,
}

struct Shared {
    tls: ServerTls,
    latest: watch::Sender<Arc<Published>>,
    /// When the latest was published.
    published: Mutex<Instant>,
    adopted: Vec<AtomicU64>,
    adoption: Notify,
}

/// A certificate that could not be made ready; hosts that name it get the default one.
#[derive(Debug)]
pub struct CertificateProblem {
    /// Which.
    pub certificate: CertificateKey,
    /// Why.
    pub error: IdentityError,
}

impl Publisher {
    /// Starts with `first`, which no worker has adopted yet.
    pub(crate) fn new(
        tls: ServerTls,
        first: Arc<Snapshot>,
        workers: usize,
    ) -> (Self, Vec<CertificateProblem>) {
        let (identities, problems) = tls.identities(first.config(), None);
        let (latest, _) = watch::channel(Arc::new(Published { snapshot: first, identities }));
        let adopted = (0..workers).map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(Shared {
            tls,
            latest,
            published: Mutex::new(Instant::now()),
            adopted,
            adoption: Notify::new(),
        });
        (Self { shared }, report(problems))
    }

    /// Makes `snapshot` the one to serve by. Workers adopt it between two events; what they have not adopted by then
    /// is skipped.
    pub fn publish(&self, snapshot: Arc<Snapshot>) -> Vec<CertificateProblem> {
        let previous = Arc::clone(&self.shared.latest.borrow());
        let (identities, problems) =
            self.shared.tls.identities(snapshot.config(), Some(&previous.identities));
        *self.shared.published.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.shared.latest.send_replace(Arc::new(Published { snapshot, identities }));
        report(problems)
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

    pub(crate) fn note_adoption(&self, worker: usize, version: u64) {
        self.shared.adopted[worker].store(version, Ordering::Release);
        self.shared.adoption.notify_waiters();
    }
}

fn report(problems: Vec<(CertificateKey, IdentityError)>) -> Vec<CertificateProblem> {
    problems.into_iter().map(|(certificate, error)| CertificateProblem { certificate, error }).collect()
}
