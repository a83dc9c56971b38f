//! Certificates that others are verified by: those of authorities, and self-signed ones that are trusted themselves.

use std::env;
use std::sync::{Arc, OnceLock};

use fairway_model::TrustedRoots;
use rustls::pki_types::pem::PemObject;
use rustls::{Error, RootCertStore};
use rustls_pki_types::{CertificateDer, TrustAnchor};
use webpki::{EndEntityCert, anchor_from_trusted_cert};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::tls::version_one::VersionOne;

/// Trusted certificates.
#[derive(Debug)]
pub(crate) struct Roots {
    anchors: Vec<TrustAnchor<'static>>,
    /// Those of a text that are their own issuers, whole.
    self_issued: Vec<CertificateDer<'static>>,
}

impl Roots {
    /// Those that a backend names.
    ///
    /// # Errors
    /// When they are no certificates, or there is none.
    pub(crate) fn new(roots: &TrustedRoots) -> Result<Arc<Self>, Error> {
        match roots {
            TrustedRoots::Pem(pem) => Self::from_pem(pem).map(Arc::new),
            TrustedRoots::System => {
                let system = system();
                match system.anchors.is_empty() {
                    true => {
                        Err(Error::General("the system has no certificates that could be trusted".to_owned()))
                    }
                    false => Ok(Arc::clone(system)),
                }
            }
        }
    }

    /// Every certificate of a text.
    ///
    /// # Errors
    /// When one is none, or there is none.
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
            true => Err(Error::General("there is no certificate that could be trusted".to_owned())),
            false => Ok(roots),
        }
    }

    /// The authorities.
    pub(crate) fn anchors(&self) -> &[TrustAnchor<'static>] {
        &self.anchors
    }

    /// Whether a peer's certificate is, byte for byte, a self-issued one of these. Only then OpenSSL ends a chain with the first
    /// certificate of it, whatever its basic constraints say.
    pub(crate) fn contain(&self, certificate: &CertificateDer<'_>) -> bool {
        self.self_issued.iter().any(|own| own.as_ref() == certificate.as_ref())
    }
}

/// Whether a certificate names itself as its issuer, and has nothing critical that is not known here.
fn is_self_issued(certificate: &CertificateDer<'_>) -> bool {
    let is_understood =
        EndEntityCert::try_from(certificate).is_ok() || VersionOne::read(certificate).is_some();
    let parsed = X509Certificate::from_der(certificate);
    is_understood && parsed.is_ok_and(|(_, own)| own.subject().as_raw() == own.issuer().as_raw())
}

/// Those of the system, read when they are first asked for and never again: a system that changes its own is started anew.
fn system() -> &'static Arc<Roots> {
    static SYSTEM: OnceLock<Arc<Roots>> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        let is_chosen = CHOICES.iter().any(|name| env::var_os(name).is_some());
        Arc::new(system_of(rustls_native_certs::load_native_certs().certs, is_chosen))
    })
}

/// Where these name a file or folders, nothing else is trusted, whatever is there.
const CHOICES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// What was found; where nobody has chosen and the system has none, as in an image with this program alone, those that
/// Mozilla trusted when Fairway was built.
fn system_of(found: Vec<CertificateDer<'static>>, is_chosen: bool) -> Roots {
    let mut store = RootCertStore::empty();
    // What cannot be read or is no certificate is not trusted; the others are.
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
    fn a_system_without_certificates_has_those_of_mozilla_unless_somebody_chose_others() {
        let built_in = system_of(Vec::new(), false).anchors.len();
        assert!(built_in > 50, "{built_in}");
        assert!(system_of(Vec::new(), true).anchors.is_empty(), "what was chosen cannot be read");
    }

    #[test]
    fn what_the_system_has_is_all_that_is_trusted() {
        let one = webpki_root_certs::TLS_SERVER_ROOT_CERTS[0].clone();
        assert_eq!(system_of(vec![one], false).anchors.len(), 1);
    }
}
