//! The options of an echo backend: values, and how the environment and files become values.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::Serialize;

/// All options of an echo backend.
#[derive(Clone, Debug, Default)]
pub struct EchoOptions {
    /// Cleartext addresses, for HTTP/1.1 and HTTP/2.
    pub listen: Vec<SocketAddr>,
    /// TLS addresses and settings.
    pub tls: Option<EchoTls>,
    /// The reported identity.
    pub identity: Identity,
    /// The behaviour on SIGTERM.
    pub on_sigterm: OnSigterm,
    /// A file to which every numbered request is appended as `METHOD NUMBER`, at once, so that it outlives a kill; many
    /// backends may share it.
    pub number_file: Option<PathBuf>,
}

/// TLS settings.
#[derive(Clone, Debug)]
pub struct EchoTls {
    /// Where.
    pub listen: Vec<SocketAddr>,
    /// The chain, a PEM file.
    pub certificate: PathBuf,
    /// The key, a PEM file.
    pub key: PathBuf,
    /// Authorities (a PEM file) that a client certificate, when there is one, must come from.
    pub client_authorities: Option<PathBuf>,
}

/// The reported identity: namespace, Service and pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the Service.
    pub service: String,
    /// The name of the pod.
    pub pod: String,
}

impl Identity {
    /// Reads `NAMESPACE`, `SERVICE_NAME` and `POD_NAME`; `name` replaces a missing pod or Service.
    #[must_use]
    pub fn from_environment(name: Option<&str>) -> Self {
        let variable = |key: &str| std::env::var(key).ok();
        let named = |key: &str| variable(key).or_else(|| name.map(str::to_owned)).unwrap_or_default();
        Self {
            namespace: variable("NAMESPACE").unwrap_or_default(),
            service: named("SERVICE_NAME"),
            pod: named("POD_NAME"),
        }
    }
}

/// The behaviour on SIGTERM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnSigterm {
    /// Exits at once, like a process without a signal handler.
    #[default]
    Immediately,
    /// Stops accepting, completes requests in flight, and exits when all are complete or this time has passed.
    Drain(Duration),
}

impl EchoTls {
    /// Reads the files.
    pub(crate) fn server_config(&self) -> io::Result<ServerConfig> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unusable(&self.key, error))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(file) => builder.with_client_cert_verifier(client_verifier(file)?),
        };
        let mut config =
            builder.with_single_cert(chain, key).map_err(|error| unusable(&self.certificate, error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn client_verifier(file: &Path) -> io::Result<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| unusable(file, error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
        .allow_unauthenticated()
        .build()
        .map_err(|error| unusable(file, error))
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    match chain {
        Ok(chain) if chain.is_empty() => Err(unusable(file, "no certificate in it")),
        chain => chain.map_err(|error| unusable(file, error)),
    }
}

fn unusable(file: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_file_is_named() {
        let file = PathBuf::from("/nowhere/tls.crt");
        let tls =
            EchoTls { listen: Vec::new(), certificate: file.clone(), key: file, client_authorities: None };
        let error = tls.server_config().unwrap_err();
        assert!(error.to_string().contains("/nowhere/tls.crt"), "{error}");
    }
}
