//! OCSP stapling: certificates are served with a recent proof that they are not revoked (RFC 6066 §8, RFC
//! 6960). An [`OcspRequest`] is built for a certificate; a task of the OCSP thread [`fetch`]es responses,
//! [`response`] verifies them, and a [`Staple`] serves the last good one. Handshakes never wait for any of
//! this: without a valid response they continue without one.

mod counts;
mod fetch;
mod refresh;
mod request;
mod response;
mod staple;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::{fmt, io, thread};

use aws_lc_rs::digest::{Context, SHA256};
use fairway_model::CertificateKey;
use rustls::sign::CertifiedKey;
use rustls_pki_types::UnixTime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use fetch::AddressRule;
use refresh::{StaplingShared, WatchedCertificate};
use request::OcspRequest;

pub(crate) use staple::Staple;

/// Concurrent name lookups.
const MAX_LOOKUPS: usize = 8;

/// Fetches OCSP responses for certificates, on a thread started with the first certificate that has a
/// responder.
#[derive(Clone)]
pub struct Stapling(Arc<StaplingState>);

struct StaplingState {
    shared: Arc<StaplingShared>,
    certificates: Mutex<StapledCertificates>,
}

/// Certificates with a responder.
#[derive(Default)]
struct StapledCertificates {
    /// By digest of the chain: a certificate in several Secrets is fetched once.
    by_chain: HashMap<[u8; 32], Weak<Staple>>,
    /// Sender to the thread, which ends when it is dropped.
    sender: Option<mpsc::UnboundedSender<WatchedCertificate>>,
}

/// Numbers for metrics.
pub(crate) struct StaplingFigures {
    /// Fetches by outcome.
    pub(crate) fetches: Vec<(&'static str, u64)>,
    /// Certificates with a valid response.
    pub(crate) stapled: u64,
}

impl Stapling {
    /// Fetches from responders whose addresses `judge` accepts; its error is the reason for refusing one.
    pub fn new(judge: impl Fn(SocketAddr) -> Result<(), String> + Send + Sync + 'static) -> Self {
        let shared = Arc::new(StaplingShared::new(AddressRule(Arc::new(judge))));
        Self(Arc::new(StaplingState { shared, certificates: Mutex::default() }))
    }

    /// Staples responses to a certificate; `None` if it has no responder or no request can be built.
    pub(crate) fn staple(&self, name: &CertificateKey, plain: &Arc<CertifiedKey>) -> Option<Arc<Staple>> {
        let inquiry = match OcspRequest::for_chain(&plain.cert)? {
            Ok(inquiry) => inquiry,
            Err(obstacle) => {
                tracing::warn!(certificate = %name, "the certificate {obstacle}; no OCSP response is stapled");
                return None;
            }
        };
        let mut digest = Context::new(&SHA256);
        plain.cert.iter().for_each(|certificate| digest.update(certificate));
        let mut chain = [0; 32];
        chain.copy_from_slice(digest.finish().as_ref());
        let mut known = self.0.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(staple) = known.by_chain.get(&chain).and_then(Weak::upgrade) {
            return Some(staple);
        }
        known.remove_unused();
        let (sender, in_use) = oneshot::channel();
        let staple = Arc::new(Staple::new(Arc::clone(plain), sender));
        let followed =
            WatchedCertificate { name: name.clone(), inquiry, staple: Arc::downgrade(&staple), in_use };
        if let Err(error) = known.watch(followed, &self.0.shared) {
            tracing::warn!(certificate = %name, "cannot start the OCSP thread: {error}; no OCSP response is stapled");
            return None;
        }
        known.by_chain.insert(chain, Arc::downgrade(&staple));
        Some(staple)
    }

    /// Numbers for metrics.
    pub(crate) fn figures(&self) -> StaplingFigures {
        let known = self.0.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        let now = UnixTime::now();
        let alive = known.by_chain.values().filter_map(Weak::upgrade);
        let stapled = alive.filter(|it| it.has_response(now)).count() as u64;
        StaplingFigures { fetches: self.0.shared.counts.by_label(), stapled }
    }
}

impl Default for Stapling {
    /// Fetches nothing.
    fn default() -> Self {
        Self::new(|_| Err("OCSP is disabled".to_owned()))
    }
}

impl fmt::Debug for Stapling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stapling").finish_non_exhaustive()
    }
}

impl StapledCertificates {
    /// Drops unused certificates whenever the map would grow.
    fn remove_unused(&mut self) {
        if self.by_chain.len() == self.by_chain.capacity() {
            self.by_chain.retain(|_, staple| staple.strong_count() > 0);
        }
    }

    fn watch(&mut self, followed: WatchedCertificate, shared: &Arc<StaplingShared>) -> io::Result<()> {
        let sender = match &self.sender {
            Some(sender) => sender,
            None => self.sender.insert(start(Arc::clone(shared))?),
        };
        sender.send(followed).map_err(|_| io::Error::other("it has ended"))
    }
}

/// Starts the thread, which ends when the sender is dropped.
fn start(shared: Arc<StaplingShared>) -> io::Result<mpsc::UnboundedSender<WatchedCertificate>> {
    let (sender, mut followed) = mpsc::unbounded_channel::<WatchedCertificate>();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(MAX_LOOKUPS).build()?;
    let run = move || {
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            while let Some(followed) = followed.recv().await {
                while tasks.try_join_next().is_some() {}
                let shared = Arc::clone(&shared);
                tasks.spawn(async move { followed.run(&shared).await });
            }
        });
        // A name lookup may still block.
        runtime.shutdown_background();
    };
    thread::Builder::new().name("ocsp".to_owned()).spawn(run)?;
    Ok(sender)
}
