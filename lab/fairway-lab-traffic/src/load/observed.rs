//! What the handshakes of one thread showed that a connection of rustls does not remember: the scheme of the server's
//! signature, and how many session tickets came. Keeps no session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
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

/// Verifies certificates where there are roots, and signatures in any case; remembers their scheme.
#[derive(Debug)]
pub(super) struct Witness {
    /// Any certificate will do without it.
    pub(super) roots: Option<Arc<WebPkiServerVerifier>>,
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) observed: Arc<Observed>,
}

impl Witness {
    fn note(&self, signed: &DigitallySignedStruct) -> &WebPkiSupportedAlgorithms {
        self.observed.signature.store(signed.scheme.into(), Ordering::Relaxed);
        &self.provider.signature_verification_algorithms
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
        match &self.roots {
            Some(roots) => roots.verify_server_cert(leaf, intermediates, name, ocsp, now),
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, self.note(signed))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, self.note(signed))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
