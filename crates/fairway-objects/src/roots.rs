//! Certificates that others are verified by, and lists of those that are revoked: whether a text has them. Verifies nothing.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use webpki::{OwnedCertRevocationList, anchor_from_trusted_cert};

/// Whether there is one and all can be used, judged by what verifies peers later.
#[must_use]
pub fn are_certificates(pem: &str) -> bool {
    let mut all = CertificateDer::pem_slice_iter(pem.as_bytes()).peekable();
    all.peek().is_some() && all.all(|it| it.is_ok_and(|der| anchor_from_trusted_cert(&der).is_ok()))
}

/// Whether all can be used. Nothing is no list, and fine.
#[must_use]
pub fn are_revocation_lists(pem: &str) -> bool {
    let mut all = CertificateRevocationListDer::pem_slice_iter(pem.as_bytes()).peekable();
    pem.trim().is_empty()
        || (all.peek().is_some()
            && all.all(|it| it.is_ok_and(|der| OwnedCertRevocationList::from_der(der.as_ref()).is_ok())))
}
