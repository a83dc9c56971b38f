//! OCSP stapling: certificates are served with a recent proof that they are not revoked (RFC 6066 §8, RFC 6960). An [`Inquiry`] says
//! what is asked about a certificate; a task of one thread [`fetch`]es responses, [`response`] verifies them, and a [`Staple`] serves
//! the last good one. A handshake waits for none of this: without a valid response it goes on without one.

mod counts;
mod fetch;
mod follow;
mod inquiry;
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
use follow::{Followed, Shared};
use inquiry::Inquiry;

pub(crate) use staple::Staple;

/// How many names are looked up at a time.
const MAX_LOOKUPS: usize = 8;

/// Asks the OCSP responders of certificates. A thread does it, which there is once a certificate has a responder.
#[derive(Clone)]
pub struct Stapling(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    known: Mutex<Known>,
}

/// The certificates whose responders are asked.
#[derive(Default)]
struct Known {
    /// By the digest of their chains: a certificate that several Secrets have is asked about once.
    by_chain: HashMap<[u8; 32], Weak<Staple>>,
    /// To the thread, which ends with it.
    followed: Option<mpsc::UnboundedSender<Followed>>,
}

/// What metrics say.
pub(crate) struct StaplingFigures {
    /// How often responders were asked, by what came of it.
    pub(crate) fetches: Vec<(&'static str, u64)>,
    /// Certificates with a valid response.
    pub(crate) stapled: u64,
}

impl Stapling {
    /// Asks responders at the addresses that `judge` has nothing against; its error says why one is not asked.
    pub fn new(judge: impl Fn(SocketAddr) -> Result<(), String> + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared::new(AddressRule(Arc::new(judge))));
        Self(Arc::new(Inner { shared, known: Mutex::default() }))
    }

    /// The certificate with its responses from now on; `None` if its responder cannot be asked or it has none.
    pub(crate) fn staple(&self, name: &CertificateKey, plain: &Arc<CertifiedKey>) -> Option<Arc<Staple>> {
        let inquiry = match Inquiry::about(&plain.cert)? {
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
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(staple) = known.by_chain.get(&chain).and_then(Weak::upgrade) {
            return Some(staple);
        }
        known.remove_unused();
        let (sender, in_use) = oneshot::channel();
        let staple = Arc::new(Staple::new(Arc::clone(plain), sender));
        let followed = Followed { name: name.clone(), inquiry, staple: Arc::downgrade(&staple), in_use };
        if let Err(error) = known.follow(followed, &self.0.shared) {
            tracing::warn!(certificate = %name, "no thread for OCSP responses: {error}; none is stapled");
            return None;
        }
        known.by_chain.insert(chain, Arc::downgrade(&staple));
        Some(staple)
    }

    /// What metrics say.
    pub(crate) fn figures(&self) -> StaplingFigures {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = UnixTime::now();
        let alive = known.by_chain.values().filter_map(Weak::upgrade);
        let stapled = alive.filter(|it| it.has_response(now)).count() as u64;
        StaplingFigures { fetches: self.0.shared.counts.all(), stapled }
    }
}

impl Default for Stapling {
    /// Asks nobody.
    fn default() -> Self {
        Self::new(|_| Err("nobody is asked".to_owned()))
    }
}

impl fmt::Debug for Stapling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stapling").finish_non_exhaustive()
    }
}

impl Known {
    /// Frees the names of certificates that are gone, whenever the map would grow.
    fn remove_unused(&mut self) {
        if self.by_chain.len() == self.by_chain.capacity() {
            self.by_chain.retain(|_, staple| staple.strong_count() > 0);
        }
    }

    fn follow(&mut self, followed: Followed, shared: &Arc<Shared>) -> io::Result<()> {
        let sender = match &self.followed {
            Some(sender) => sender,
            None => self.followed.insert(start(Arc::clone(shared))?),
        };
        sender.send(followed).map_err(|_| io::Error::other("it has ended"))
    }
}

/// Starts the thread, which ends when the sender is dropped.
fn start(shared: Arc<Shared>) -> io::Result<mpsc::UnboundedSender<Followed>> {
    let (sender, mut followed) = mpsc::unbounded_channel::<Followed>();
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
        // A name server may take its time.
        runtime.shutdown_background();
    };
    thread::Builder::new().name("ocsp".to_owned()).spawn(run)?;
    Ok(sender)
}
