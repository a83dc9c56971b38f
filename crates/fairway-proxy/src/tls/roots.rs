//! Trusted root certificates: CAs, and self-issued certificates that are trusted directly.

use std::env;
use std::sync::{Arc, OnceLock};

use fairway_model::TrustedRoots;
use rustls::pki_types::pem::PemObject;
use rustls::{Error, RootCertStore};
use rustls_pki_types::{CertificateDer, TrustAnchor};
use webpki::{EndEntityCert, anchor_from_trusted_cert};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::tls::version_one::V1Certificate;

/// Trusted certificates.
#[derive(Debug)]
pub(crate) struct Roots {
    anchors: Vec<TrustAnchor<'static>>,
    /// Self-issued certificates from PEM, in DER.
    self_issued: Vec<CertificateDer<'static>>,
}

impl Roots {
    /// The roots of a backend.
    ///
    /// # Errors
    /// A certificate is malformed, or there is none.
    pub(crate) fn new(roots: &TrustedRoots) -> Result<Arc<Self>, Error> {
        match roots {
            TrustedRoots::Pem(pem) => Self::from_pem(pem).map(Arc::new),
            TrustedRoots::System => {
                let system = system_roots();
                match system.anchors.is_empty() {
                    true => Err(Error::General("the system has no trusted certificates".to_owned())),
                    false => Ok(Arc::clone(system)),
                }
            }
        }
    }

    /// Parses all certificates of a PEM text.
    ///
    /// # Errors
    /// A certificate is malformed, or there is none.
    pub(crate) fn from_pem(pem: &str) -> Result<Self, Error> {
        let mut roots = Self { anchors: Vec::new(), self_issued: Vec::new() };
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| Error::General(error.to_string()))?;
            let anchor = anchor_from_trusted_cert(&certificate);
            roots.anchors.push(anchor.map_err(|error| Error::General(error.to_string()))?.to_owned());
            if is_self_issued(&certificate) {
                roots.self_issued.push(certificate);
            }
        }
        match roots.anchors.is_empty() {
            true => Err(Error::General("there is no trusted certificate".to_owned())),
            false => Ok(roots),
        }
    }

    /// Trust anchors.
    pub(crate) fn anchors(&self) -> &[TrustAnchor<'static>] {
        &self.anchors
    }

    /// Whether a peer's certificate is, byte for byte, one of these self-issued certificates. Only then does
    /// OpenSSL end a chain at its first certificate regardless of basic constraints.
    pub(crate) fn contain(&self, certificate: &CertificateDer<'_>) -> bool {
        self.self_issued.iter().any(|own| own.as_ref() == certificate.as_ref())
    }
}

/// Whether a certificate is its own issuer and has no unknown critical extensions.
fn is_self_issued(certificate: &CertificateDer<'_>) -> bool {
    let is_understood =
        EndEntityCert::try_from(certificate).is_ok() || V1Certificate::read(certificate).is_some();
    let parsed = X509Certificate::from_der(certificate);
    is_understood && parsed.is_ok_and(|(_, own)| own.subject().as_raw() == own.issuer().as_raw())
}

/// System roots, read on first use and never again: a changed system store requires a restart.
fn system_roots() -> &'static Arc<Roots> {
    static SYSTEM: OnceLock<Arc<Roots>> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        let is_overridden = ROOT_OVERRIDE_VARIABLES.iter().any(|name| env::var_os(name).is_some());
        Arc::new(system_roots_from(rustls_native_certs::load_native_certs().certs, is_overridden))
    })
}

/// If one of these is set, only its certificates are trusted.
const ROOT_OVERRIDE_VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// The certificates found; if the system has none and no variable is set, as in an image with only this
/// program, Mozilla's roots at build time.
fn system_roots_from(found: Vec<CertificateDer<'static>>, is_chosen: bool) -> Roots {
    let mut store = RootCertStore::empty();
    // Malformed certificates are skipped.
    store.add_parsable_certificates(found);
    if store.is_empty() && !is_chosen {
        store.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    }
    Roots { anchors: store.roots, self_issued: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mozilla_roots_are_used_without_system_roots_unless_overridden() {
        let built_in = system_roots_from(Vec::new(), false).anchors.len();
        assert!(built_in > 50, "{built_in}");
        assert!(system_roots_from(Vec::new(), true).anchors.is_empty(), "what was chosen cannot be read");
    }

    #[test]
    fn only_system_roots_are_trusted_if_there_are_any() {
        let root = webpki_root_certs::TLS_SERVER_ROOT_CERTS[0].clone();
        assert_eq!(system_roots_from(vec![root], false).anchors.len(), 1);
    }
}
