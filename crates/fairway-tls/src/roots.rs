//! Who is trusted to issue the certificates of endpoints.

use std::sync::{Arc, OnceLock};

use fairway_model::TrustedRoots;
use rustls::pki_types::pem::PemObject;
use rustls::{Error, RootCertStore};
use rustls_pki_types::CertificateDer;

/// Those that a backend names.
///
/// # Errors
/// When they are no certificates, or the system has none.
pub(crate) fn of(roots: &TrustedRoots) -> Result<Arc<RootCertStore>, Error> {
    match roots {
        TrustedRoots::Pem(pem) => of_pem(pem).map(Arc::new),
        TrustedRoots::System => {
            let system = system();
            match system.is_empty() {
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
/// When one is none.
pub(crate) fn of_pem(pem: &str) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        store.add(certificate.map_err(|error| Error::General(error.to_string()))?)?;
    }
    Ok(store)
}

/// Those of the system, read when they are first asked for and never again: a system that changes its own is started anew.
fn system() -> &'static Arc<RootCertStore> {
    static SYSTEM: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        let mut store = RootCertStore::empty();
        // What cannot be read or is no certificate is not trusted; the others are.
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(store)
    })
}
