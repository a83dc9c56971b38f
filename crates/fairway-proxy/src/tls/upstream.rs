//! TLS towards endpoints, verified as the backend configures it: not at all in ingress-nginx's default, whose
//! pods have self-made certificates.

use std::sync::Arc;

use fairway_model::{UpstreamTls, UpstreamVerification};
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::tls::chain::{ChainRules, Purpose, TrustedCertificate, alert};
use crate::tls::identities::Identities;
use crate::tls::key_exchange::SECP521R1;
use crate::tls::roots::Roots;
use crate::tls::subject::{self, ExpectedName};
use crate::tls::{signatures, suites};

/// TLS configuration for endpoints of a backend.
///
/// # Errors
/// The roots are malformed, or the client certificate is missing.
pub(crate) fn client_config(tls: &UpstreamTls, identities: &Identities) -> Result<ClientConfig, Error> {
    let mut provider = suites::provider(&tls.suites);
    provider.kx_groups.push(SECP521R1);
    let trust = UpstreamTrust::new(&tls.verification)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(suites::protocol_versions(tls.versions))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { trust }));
    let mut config = match &tls.client_certificate {
        Some(key) => {
            let certified = identities
                .certified(key)
                .ok_or_else(|| Error::General(format!("the client certificate {key} is missing")))?;
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

/// Verifies the certificate of an endpoint. The handshake signature proves possession of its key in any case.
#[derive(Debug)]
struct Verifier {
    trust: UpstreamTrust,
}

#[derive(Debug)]
enum UpstreamTrust {
    /// Any certificate is accepted.
    Any,
    /// The chain with at most `depth` intermediates, and a configured name instead of the one dialled.
    Chain { roots: Roots, name: ServerName<'static>, depth: usize },
    /// The chain, and one of these names.
    Subject { roots: Arc<Roots>, names: Box<[ExpectedName]> },
}

impl UpstreamTrust {
    fn new(verification: &UpstreamVerification) -> Result<Self, Error> {
        Ok(match verification {
            UpstreamVerification::Off => Self::Any,
            UpstreamVerification::Chain { roots, name, depth } => {
                let name = ServerName::try_from(name.to_string());
                let name = name.map_err(|error| Error::General(error.to_string()))?;
                let depth = depth.map_or(usize::MAX, |depth| depth as usize);
                Self::Chain { roots: Roots::from_pem(roots)?, name, depth }
            }
            UpstreamVerification::Subject { roots, names } => {
                let names = names.iter().map(ExpectedName::new).collect::<Result<_, _>>()?;
                Self::Subject { roots: Roots::new(roots)?, names }
            }
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verify = |roots: &Roots, depth: usize| -> Result<TrustedCertificate, Error> {
            let rules = ChainRules { roots, purpose: Purpose::Server, revoked: &[], depth };
            rules.verify(own, others, now).map_err(|error| alert(error).into())
        };
        let is_named = match &self.trust {
            UpstreamTrust::Any => true,
            UpstreamTrust::Chain { roots, name, depth } => {
                let trusted = verify(roots, *depth)?;
                let by_common_name =
                    || !trusted.names_are_constrained && subject::matches_common_name(own, name);
                subject::has_name(own, name) || by_common_name()
            }
            UpstreamTrust::Subject { roots, names } => {
                verify(roots, usize::MAX)?;
                names.iter().any(|name| name.matches(own))
            }
        };
        match is_named {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::NotValidForName.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signatures::verify_tls12(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signatures::verify_tls13(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        signatures::algorithms().supported_schemes()
    }
}
