//! The webhook's certificate, read from PEM files and reloaded when they change. If the new files are invalid, the last valid
//! certificate stays.

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
    /// A file is invalid.
    #[error("{}: {problem}", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// The certificate files, all PEM.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate chain.
    pub chain: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Authorities that must have issued the client's certificate; `None` requests no client certificate.
    pub client_ca: Option<PathBuf>,
}

/// The files and the TLS configuration made from them.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: CertificateFiles,
    /// Contents of the files at the last check, valid or not.
    seen_contents: Contents,
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
    pub(crate) fn read(files: CertificateFiles) -> Result<Self, CertificateError> {
        let contents = Contents::read(&files)?;
        let config = Arc::new(server_config(&files, &contents)?);
        Ok(Self { files, seen_contents: contents, config })
    }

    /// The TLS configuration for new connections.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Reloads the files if they changed and are valid. Each state of the files is logged once.
    pub(crate) fn refresh(&mut self) {
        let now = match Contents::read(&self.files) {
            Ok(now) if now == self.seen_contents => return,
            Ok(now) => now,
            // The files are probably being replaced. If this lasts, an expired certificate will show it.
            Err(error) => return tracing::debug!(%error, "the webhook's certificate"),
        };
        match server_config(&self.files, &now) {
            Ok(config) => {
                tracing::info!(file = %self.files.chain.display(), "the webhook has a new certificate");
                self.config = Arc::new(config);
            }
            Err(error) => tracing::warn!(%error, "the webhook keeps its previous certificate"),
        }
        self.seen_contents = now;
    }
}

impl Contents {
    fn read(files: &CertificateFiles) -> Result<Self, CertificateError> {
        let client_ca = files.client_ca.as_deref().map(read_file).transpose()?;
        Ok(Self { chain: read_file(&files.chain)?, key: read_file(&files.key)?, client_ca })
    }
}

fn read_file(file: &Path) -> Result<Vec<u8>, CertificateError> {
    fs::read(file).map_err(|error| CertificateError::File { file: file.to_owned(), error })
}

fn content_error(file: &Path, problem: &impl ToString) -> CertificateError {
    CertificateError::Content { file: file.to_owned(), problem: problem.to_string() }
}

fn server_config(files: &CertificateFiles, contents: &Contents) -> Result<ServerConfig, CertificateError> {
    let CertificateFiles { chain, key, client_ca } = files;
    let certificates = CertificateDer::pem_slice_iter(&contents.chain).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| content_error(chain, &error))?;
    let private = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|error| content_error(key, &error))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| content_error(chain, &error))?;
    let builder = match client_ca.as_deref().zip(contents.client_ca.as_deref()) {
        Some((file, pem)) => builder.with_client_cert_verifier(client_verifier(file, pem, provider)?),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(certificates, private)
        .map_err(|error| content_error(chain, &format!("it does not go with {}: {error}", key.display())))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Requires a client certificate issued by one of these authorities.
fn client_verifier(
    file: &Path,
    pem: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| content_error(file, &error))?;
        roots.add(certificate).map_err(|error| content_error(file, &error))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|error| content_error(file, &error))
}
