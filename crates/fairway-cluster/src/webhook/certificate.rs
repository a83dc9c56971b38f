//! The webhook's certificate: read from PEM files, and again when they differ. Broken files leave the last good one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{}: {error}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {problem}", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// The files, all PEM.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate chain.
    pub chain: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Authorities that a client's certificate must come from; `None` asks for no certificate.
    pub client_ca: Option<PathBuf>,
}

/// The files, and what was made of them.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: Files,
    /// What the files held when they were looked at last, good or not.
    seen: Contents,
    config: Arc<ServerConfig>,
}

#[derive(Debug, PartialEq, Eq)]
struct Contents {
    chain: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Certificate {
    /// Reads the files.
    pub(crate) fn read(files: Files) -> Result<Self, CertificateError> {
        let seen = Contents::read(&files)?;
        let config = Arc::new(config(&files, &seen)?);
        Ok(Self { files, seen, config })
    }

    /// For new connections.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Looks at the files, and takes what differs when it is good. Each state of the files is logged once.
    pub(crate) fn refresh(&mut self) {
        let now = match Contents::read(&self.files) {
            Ok(now) if now == self.seen => return,
            Ok(now) => now,
            // They are being replaced; if that lasts, the first connections with an expired certificate will tell.
            Err(error) => return tracing::debug!(%error, "the webhook's certificate"),
        };
        match config(&self.files, &now) {
            Ok(config) => {
                tracing::info!(file = %self.files.chain.display(), "the webhook has a new certificate");
                self.config = Arc::new(config);
            }
            Err(error) => tracing::warn!(%error, "the webhook keeps the certificate that it had"),
        }
        self.seen = now;
    }
}

impl Contents {
    fn read(files: &Files) -> Result<Self, CertificateError> {
        let client_ca = files.client_ca.as_deref().map(content).transpose()?;
        Ok(Self { chain: content(&files.chain)?, key: content(&files.key)?, client_ca })
    }
}

fn content(file: &Path) -> Result<Vec<u8>, CertificateError> {
    fs::read(file).map_err(|error| CertificateError::File { file: file.to_owned(), error })
}

fn wrong(file: &Path, problem: &impl ToString) -> CertificateError {
    CertificateError::Content { file: file.to_owned(), problem: problem.to_string() }
}

fn config(files: &Files, contents: &Contents) -> Result<ServerConfig, CertificateError> {
    let Files { chain, key, client_ca } = files;
    let certificates = CertificateDer::pem_slice_iter(&contents.chain).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| wrong(chain, &error))?;
    let private = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|error| wrong(key, &error))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(chain, &error))?;
    let builder = match client_ca.as_deref().zip(contents.client_ca.as_deref()) {
        Some((file, pem)) => builder.with_client_cert_verifier(verifier(file, pem, provider)?),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(certificates, private)
        .map_err(|error| wrong(chain, &format!("it does not go with {}: {error}", key.display())))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Lets nobody in without a certificate of these authorities.
fn verifier(
    file: &Path,
    pem: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| wrong(file, &error))?;
        roots.add(certificate).map_err(|error| wrong(file, &error))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|error| wrong(file, &error))
}
