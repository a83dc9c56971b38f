//! Who is trusted to issue the certificates of endpoints.

use std::env;
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
        let is_chosen = CHOICES.iter().any(|name| env::var_os(name).is_some());
        Arc::new(system_of(rustls_native_certs::load_native_certs().certs, is_chosen))
    })
}

/// Where these name a file or folders, nothing else is trusted, whatever is there.
const CHOICES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// What was found; where nobody has chosen and the system has none, as in an image with this program alone, those that
/// Mozilla trusted when Fairway was built.
fn system_of(found: Vec<CertificateDer<'static>>, is_chosen: bool) -> RootCertStore {
    let mut store = RootCertStore::empty();
    // What cannot be read or is no certificate is not trusted; the others are.
    store.add_parsable_certificates(found);
    if store.is_empty() && !is_chosen {
        store.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    }
    store
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_certificates_has_those_of_mozilla_unless_somebody_chose_others() {
        let built_in = system_of(Vec::new(), false);
        assert!(built_in.len() > 50, "{}", built_in.len());
        assert!(system_of(Vec::new(), true).is_empty(), "what was chosen cannot be read");
    }

    #[test]
    fn what_the_system_has_is_all_that_is_trusted() {
        let one = webpki_root_certs::TLS_SERVER_ROOT_CERTS[0].clone();
        assert_eq!(system_of(vec![one], false).len(), 1);
    }
}
