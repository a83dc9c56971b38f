//! The webhook's certificate: read from PEM files, and again when they differ. Broken files leave the last good one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
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

/// The files, and what was made of them.
#[derive(Debug)]
pub(crate) struct Certificate {
    chain_file: PathBuf,
    key_file: PathBuf,
    /// What the files held when they were looked at last, good or not.
    seen: (Vec<u8>, Vec<u8>),
    config: Arc<ServerConfig>,
}

impl Certificate {
    /// Reads the files.
    pub(crate) fn read(chain_file: &Path, key_file: &Path) -> Result<Self, CertificateError> {
        let seen = (content(chain_file)?, content(key_file)?);
        let config = Arc::new(config((chain_file, &seen.0), (key_file, &seen.1))?);
        Ok(Self { chain_file: chain_file.to_owned(), key_file: key_file.to_owned(), seen, config })
    }

    /// For new connections.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Looks at the files, and takes what differs when it is good. Each state of the files is told once.
    pub(crate) fn refresh(&mut self) {
        let now = match content(&self.chain_file).and_then(|chain| Ok((chain, content(&self.key_file)?))) {
            Ok(now) if now == self.seen => return,
            Ok(now) => now,
            // They are being replaced; if that lasts, the first connections with an expired certificate will tell.
            Err(error) => return tracing::debug!(%error, "the webhook's certificate"),
        };
        match config((&self.chain_file, &now.0), (&self.key_file, &now.1)) {
            Ok(config) => {
                tracing::info!(file = %self.chain_file.display(), "the webhook has a new certificate");
                self.config = Arc::new(config);
            }
            Err(error) => tracing::warn!(%error, "the webhook keeps the certificate that it had"),
        }
        self.seen = now;
    }
}

fn content(file: &Path) -> Result<Vec<u8>, CertificateError> {
    fs::read(file).map_err(|error| CertificateError::File { file: file.to_owned(), error })
}

fn config(chain: (&Path, &[u8]), key: (&Path, &[u8])) -> Result<ServerConfig, CertificateError> {
    let wrong = |file: &Path, problem: String| CertificateError::Content { file: file.to_owned(), problem };
    let certificates = CertificateDer::pem_slice_iter(chain.1).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| wrong(chain.0, error.to_string()))?;
    let private = PrivateKeyDer::from_pem_slice(key.1).map_err(|error| wrong(key.0, error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(chain.0, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(|error| wrong(chain.0, format!("it does not go with {}: {error}", key.0.display())))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
