//! TLS towards endpoints: what is verified is what the backend says, and nothing where it says so (the default of
//! ingress-nginx, whose users' pods have certificates of their own making).

use std::sync::Arc;

use fairway_model::{UpstreamTls, UpstreamVerification};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::identities::Identities;
use crate::subject::Subject;
use crate::{roots, suites};

/// The settings for one kind of backend.
///
/// # Errors
/// When the roots are no certificates, or the client certificate is not there.
pub fn client_config(tls: &UpstreamTls, identities: &Identities) -> Result<ClientConfig, Error> {
    let provider = Arc::new(suites::provider(&tls.suites));
    let verifier = verifier(&tls.verification, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(suites::versions(tls.versions))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match &tls.client_certificate {
        Some(key) => {
            let certified = identities
                .certified(key)
                .ok_or_else(|| Error::General(format!("the client certificate {key} is not there")))?;
            builder.with_client_cert_resolver(resolver(certified))
        }
        None => builder.with_no_client_auth(),
    };
    config.enable_sni = tls.server_name.is_some();
    Ok(config)
}

fn resolver(certified: &Arc<CertifiedKey>) -> Arc<dyn ResolvesClientCert> {
    Arc::new(SingleCertAndKey::from(Arc::clone(certified)))
}

fn verifier(
    verification: &UpstreamVerification,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<Verifier>, Error> {
    let trust = match verification {
        UpstreamVerification::Off => Trust::Anyone,
        UpstreamVerification::Chain { roots, name, depth } => {
            let store = roots::of_pem(roots)?;
            let name =
                ServerName::try_from(name.to_string()).map_err(|error| Error::General(error.to_string()))?;
            let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider))
                .build()
                .map_err(|error| Error::General(error.to_string()))?;
            let depth = depth.map_or(usize::MAX, |depth| depth as usize);
            Trust::Chain { chain, name, depth }
        }
        UpstreamVerification::Subject { roots, names } => {
            let names = names.iter().map(Subject::new).collect::<Result<_, _>>()?;
            Trust::Subject { roots: roots::of(roots)?, names }
        }
    };
    Ok(Arc::new(Verifier { trust, provider: Arc::clone(provider) }))
}

/// Who is believed to be the endpoint. Whoever it is signs the handshake with the certificate's key.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
enum Trust {
    /// Any certificate is taken.
    Anyone,
    /// The chain, and a name of its own instead of the one that was dialled. Of the certificates that the endpoint sends
    /// besides its own, in the order of the chain (RFC 8446 §4.4.2), the first `depth` count.
    Chain { chain: Arc<WebPkiServerVerifier>, name: ServerName<'static>, depth: usize },
    /// The chain, and one of these names.
    Subject { roots: Arc<RootCertStore>, names: Box<[Subject]> },
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.trust {
            Trust::Anyone => Ok(ServerCertVerified::assertion()),
            Trust::Chain { chain, name, depth } => {
                let intermediates = &intermediates[..intermediates.len().min(*depth)];
                chain.verify_server_cert(certificate, intermediates, name, ocsp, now)
            }
            Trust::Subject { roots, names } => {
                let parsed = ParsedCertificate::try_from(certificate)?;
                let algorithms = self.provider.signature_verification_algorithms.all;
                verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)?;
                match names.iter().any(|name| name.is_of(&parsed, certificate)) {
                    true => Ok(ServerCertVerified::assertion()),
                    false => Err(CertificateError::NotValidForName.into()),
                }
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
