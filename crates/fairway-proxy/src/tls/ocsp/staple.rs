//! A certificate served with its last good OCSP response while that is valid, and without one otherwise.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::UnixTime;
use tokio::sync::oneshot;

/// A certificate whose response is kept fresh while this exists.
#[derive(Debug)]
pub(crate) struct Staple {
    plain: Arc<CertifiedKey>,
    /// Written once per refresh; handshakes only read.
    stapled: RwLock<Option<Stapled>>,
    /// Dropping this stops the fetch task.
    _in_use: oneshot::Sender<Infallible>,
}

#[derive(Debug)]
struct Stapled {
    certified: Arc<CertifiedKey>,
    /// In seconds since 1970.
    expires_at: u64,
}

impl Staple {
    pub(super) fn new(plain: Arc<CertifiedKey>, in_use: oneshot::Sender<Infallible>) -> Self {
        Self { plain, stapled: RwLock::default(), _in_use: in_use }
    }

    /// Staples this response until it expires.
    pub(super) fn set(&self, response: Vec<u8>, expires_at: u64) {
        let certified = CertifiedKey { ocsp: Some(response), ..CertifiedKey::clone(&self.plain) };
        self.replace(Some(Stapled { certified: Arc::new(certified), expires_at }));
    }

    /// Removes the response.
    pub(super) fn withdraw(&self) {
        self.replace(None);
    }

    pub(super) fn has_response(&self, now: UnixTime) -> bool {
        self.certified_key_at(now).ocsp.is_some()
    }

    fn replace(&self, stapled: Option<Stapled>) {
        let before =
            std::mem::replace(&mut *self.stapled.write().unwrap_or_else(PoisonError::into_inner), stapled);
        // Drop after releasing the lock.
        drop(before);
    }

    /// The certificate for a client at this time.
    fn certified_key_at(&self, now: UnixTime) -> Arc<CertifiedKey> {
        let stapled = self.stapled.read().unwrap_or_else(PoisonError::into_inner);
        let valid = stapled.as_ref().filter(|it| now.as_secs() < it.expires_at);
        Arc::clone(valid.map_or(&self.plain, |it| &it.certified))
    }
}

impl ResolvesServerCert for Staple {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified_key_at(UnixTime::now()))
    }
}
