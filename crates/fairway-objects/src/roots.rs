//! Certificates that others are verified by: whether a text has them. Verifies nothing.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use webpki::anchor_from_trusted_cert;

/// Whether there is one and all can be used, judged by what verifies peers later.
#[must_use]
pub fn are_certificates(pem: &str) -> bool {
    let mut all = CertificateDer::pem_slice_iter(pem.as_bytes()).peekable();
    all.peek().is_some() && all.all(|it| it.is_ok_and(|der| anchor_from_trusted_cert(&der).is_ok()))
}
