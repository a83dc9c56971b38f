//! How the certificate of a collector is verified: by given authorities, else by those of the system.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;

/// Why a text contains no usable authorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificatesError {
    /// It has no certificate.
    #[error("has no certificate (PEM)")]
    None,
    /// One of them is not usable.
    #[error("has a certificate that cannot be used as an authority")]
    Unusable,
}

/// Reads the certificates in a PEM text.
///
/// # Errors
/// There is none, or one is not usable as an authority.
pub fn read_certificates(pem: &[u8]) -> Result<Arc<[CertificateDer<'static>]>, CertificatesError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|_| CertificatesError::Unusable)?;
    if read.is_empty() {
        return Err(CertificatesError::None);
    }
    let mut store = RootCertStore::empty();
    for certificate in &read {
        store.add(certificate.clone()).map_err(|_| CertificatesError::Unusable)?;
    }
    Ok(read.into())
}

/// A TLS client configuration with `authorities`, else those of the system, else those of Mozilla.
///
/// # Errors
/// The reason.
pub(super) fn client_config(authorities: Option<&[CertificateDer<'static>]>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(given) => _ = roots.add_parsable_certificates(given.iter().cloned()),
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
