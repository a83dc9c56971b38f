//! Whether a peer's certificate, of a client or an endpoint, is trusted: through its chain to a CA, or because
//! it is itself trusted. Names are checked in `subject`.

use std::sync::Arc;

use rustls::{CertificateError, OtherError};
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{
    CertRevocationList, EndEntityCert, Error, ExpirationPolicy, KeyUsage, RevocationCheckDepth,
    RevocationOptions, RevocationOptionsBuilder, UnknownStatusPolicy, VerifiedPath,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::tls::roots::Roots;
use crate::tls::signatures;
use crate::tls::version_one::{V1Certificate, check_validity};

/// The required key usage (RFC 5280 §4.2.1.12).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Client authentication.
    Client,
    /// Server authentication.
    Server,
}

/// Rules for verifying chains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainRules<'r> {
    pub(crate) roots: &'r Roots,
    pub(crate) purpose: Purpose,
    /// Revocation lists; if there is one, every certificate of the chain must be covered by one.
    pub(crate) revoked: &'r [CertRevocationList<'static>],
    /// Maximum intermediate certificates.
    pub(crate) depth: usize,
}

/// A trusted certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrustedCertificate {
    /// Whether a CA of its chain has name constraints. webpki applies them to subject alternative names, but
    /// not to the common name.
    pub(crate) names_are_constrained: bool,
}

impl ChainRules<'_> {
    /// Verifies `own` at `now`, with the intermediates `others` sent by the peer.
    pub(crate) fn verify(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<TrustedCertificate, Error> {
        let unconstrained = TrustedCertificate { names_are_constrained: false };
        // A directly trusted certificate has no chain that a revocation list could cover.
        if self.revoked.is_empty() && self.roots.contain(own) {
            return check_directly_trusted(own, self.purpose, now).map(|()| unconstrained);
        }
        if let Some(certificate) = V1Certificate::read(own) {
            return match self.revoked.is_empty() {
                true => certificate.verify(self.roots.anchors(), now).map(|()| unconstrained),
                false => Err(Error::UnknownRevocationStatus),
            };
        }
        let lists: Vec<&CertRevocationList<'_>> = self.revoked.iter().collect();
        let is_short = |path: &VerifiedPath<'_>| match path.intermediate_certificates().count() <= self.depth
        {
            true => Ok(()),
            false => Err(Error::MaximumPathDepthExceeded),
        };
        let end_entity = EndEntityCert::try_from(own)?;
        let path = end_entity.verify_for_usage(
            signatures::algorithms().all,
            self.roots.anchors(),
            others,
            now,
            self.purpose.usage(),
            revocation(&lists),
            Some(&is_short),
        )?;
        Ok(TrustedCertificate { names_are_constrained: has_name_constraints(&path) })
    }
}

impl Purpose {
    fn usage(self) -> KeyUsage {
        match self {
            Self::Client => KeyUsage::client_auth(),
            Self::Server => KeyUsage::server_auth(),
        }
    }
}

/// `None` without lists: revocation is not checked then.
fn revocation<'l>(lists: &'l [&'l CertRevocationList<'l>]) -> Option<RevocationOptions<'l>> {
    RevocationOptionsBuilder::new(lists).ok().map(|builder| {
        builder
            .with_depth(RevocationCheckDepth::Chain)
            .with_status_policy(UnknownStatusPolicy::Deny)
            .with_expiration_policy(ExpirationPolicy::Enforce)
            .build()
    })
}

/// Remaining checks of a directly trusted certificate: validity and key usage (as OpenSSL's
/// `check_purpose_ssl_server` and `check_purpose_ssl_client`).
fn check_directly_trusted(
    certificate: &CertificateDer<'_>,
    purpose: Purpose,
    now: UnixTime,
) -> Result<(), Error> {
    let (_, own) = X509Certificate::from_der(certificate).map_err(|_| Error::BadDer)?;
    check_validity(own.validity(), now)?;
    let is_for = match own.extended_key_usage().map_err(|_| Error::BadDer)? {
        None => true,
        Some(usage) => match purpose {
            Purpose::Client => usage.value.client_auth,
            Purpose::Server => usage.value.server_auth,
        },
    };
    let may_sign = match own.key_usage().map_err(|_| Error::BadDer)? {
        None => true,
        // All supported handshakes are signed.
        Some(usage) => usage.value.digital_signature(),
    };
    match is_for && may_sign {
        true => Ok(()),
        false => Err(Error::RequiredEkuNotFoundContext(webpki::RequiredEkuNotFoundContext {
            required: purpose.usage(),
            present: Vec::new(),
        })),
    }
}

fn has_name_constraints(path: &VerifiedPath<'_>) -> bool {
    let has = |certificate: &CertificateDer<'_>| {
        // An unreadable extension might contain some.
        X509Certificate::from_der(certificate)
            .map_or(true, |(_, it)| !matches!(it.name_constraints(), Ok(None)))
    };
    path.anchor().name_constraints.is_some()
        || path.intermediate_certificates().any(|certificate| has(&certificate.der()))
}

/// The alert for the peer (RFC 8446 §6.2).
pub(crate) fn alert(error: Error) -> CertificateError {
    use Error as E;
    match error {
        E::CertExpired { .. } => CertificateError::Expired,
        E::CertNotValidYet { .. } => CertificateError::NotValidYet,
        E::CertRevoked => CertificateError::Revoked,
        E::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus,
        E::UnknownIssuer => CertificateError::UnknownIssuer,
        E::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        E::BadDer | E::BadDerTime => CertificateError::BadEncoding,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    }
}
