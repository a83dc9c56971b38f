//! What the handshakes of one thread showed that a connection of rustls does not remember: the scheme of the server's
//! signature, and how many session tickets came. Never decides whom to trust and keeps no session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// The observations of one thread. Atomic only because rustls asks for it.
#[derive(Debug, Default)]
pub(super) struct Observed {
    tickets: AtomicU64,
    /// By IANA's number; 0 before the first signature.
    signature: AtomicU16,
}

impl Observed {
    /// A ticket of TLS 1.3 came.
    pub(super) fn ticket(&self) {
        self.tickets.fetch_add(1, Ordering::Relaxed);
    }

    /// The tickets since this was asked last.
    pub(super) fn take_tickets(&self) -> u64 {
        self.tickets.swap(0, Ordering::Relaxed)
    }

    /// The scheme of the latest signature, by rustls' name.
    pub(super) fn signature(&self) -> Option<String> {
        let scheme = SignatureScheme::from(self.signature.load(Ordering::Relaxed));
        scheme.as_str().map(str::to_owned)
    }
}

/// Passes certificates and signatures on to `inner` and remembers the scheme.
#[derive(Debug)]
pub(super) struct Witness {
    pub(super) inner: Arc<dyn ServerCertVerifier>,
    pub(super) observed: Arc<Observed>,
}

impl Witness {
    fn note(&self, signed: &DigitallySignedStruct) {
        self.observed.signature.store(signed.scheme.into(), Ordering::Relaxed);
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.inner.verify_server_cert(leaf, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.note(signed);
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.note(signed);
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
