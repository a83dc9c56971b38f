//! A certificate as clients get it: with the last good OCSP response for as long as that is valid, and without one otherwise.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::UnixTime;
use tokio::sync::oneshot;

/// A certificate whose responder is asked for as long as this is there.
#[derive(Debug)]
pub(crate) struct Staple {
    plain: Arc<CertifiedKey>,
    /// Written once per refresh; handshakes only read.
    stapled: RwLock<Option<Stapled>>,
    /// Whoever asks stops when this is dropped.
    _in_use: oneshot::Sender<Infallible>,
}

#[derive(Debug)]
struct Stapled {
    certified: Arc<CertifiedKey>,
    /// In seconds since 1970.
    until: u64,
}

impl Staple {
    pub(super) fn new(plain: Arc<CertifiedKey>, in_use: oneshot::Sender<Infallible>) -> Self {
        Self { plain, stapled: RwLock::default(), _in_use: in_use }
    }

    /// Staples this response until its time has come.
    pub(super) fn put(&self, response: Vec<u8>, until: u64) {
        let certified = CertifiedKey { ocsp: Some(response), ..CertifiedKey::clone(&self.plain) };
        self.replace(Some(Stapled { certified: Arc::new(certified), until }));
    }

    /// Staples none from now on.
    pub(super) fn withdraw(&self) {
        self.replace(None);
    }

    pub(super) fn has_response(&self, now: UnixTime) -> bool {
        self.at(now).ocsp.is_some()
    }

    fn replace(&self, stapled: Option<Stapled>) {
        let before =
            std::mem::replace(&mut *self.stapled.write().unwrap_or_else(PoisonError::into_inner), stapled);
        // After the lock.
        drop(before);
    }

    /// As a client gets it at that time.
    fn at(&self, now: UnixTime) -> Arc<CertifiedKey> {
        let stapled = self.stapled.read().unwrap_or_else(PoisonError::into_inner);
        let valid = stapled.as_ref().filter(|it| now.as_secs() < it.until);
        Arc::clone(valid.map_or(&self.plain, |it| &it.certified))
    }
}

impl ResolvesServerCert for Staple {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.at(UnixTime::now()))
    }
}
