//! Whether the certificate of a peer, of a client or of an endpoint, is trusted: by its chain to an authority, or because it is
//! one of the trusted certificates itself. Whom it is for is `subject`'s.

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
use crate::tls::version_one::{VersionOne, check_validity};

/// What a certificate must be good for (RFC 5280 §4.2.1.12).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// A client's.
    Client,
    /// An endpoint's.
    Server,
}

/// How chains are verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'r> {
    pub(crate) roots: &'r Roots,
    pub(crate) purpose: Purpose,
    /// Lists of revoked certificates; where there is one, every certificate of the chain must be covered by one.
    pub(crate) revoked: &'r [CertRevocationList<'static>],
    /// The most certificates between the peer's own and an authority.
    pub(crate) depth: usize,
}

/// A certificate that is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trusted {
    /// Whether an authority of its chain may issue for some names only. webpki holds subject alternative names to that; the common
    /// name is held to nothing.
    pub(crate) names_are_constrained: bool,
}

impl Rules<'_> {
    /// Whether `own` is trusted at `now`, by the `others` that the peer has sent with it.
    pub(crate) fn verify(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<Trusted, Error> {
        let unconstrained = Trusted { names_are_constrained: false };
        // No list says anything about what is on no chain.
        if self.revoked.is_empty() && self.roots.contain(own) {
            return check_trusted_itself(own, self.purpose, now).map(|()| unconstrained);
        }
        if let Some(certificate) = VersionOne::read(own) {
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
        let own = EndEntityCert::try_from(own)?;
        let path = own.verify_for_usage(
            signatures::algorithms().all,
            self.roots.anchors(),
            others,
            now,
            self.purpose.usage(),
            revocation(&lists),
            Some(&is_short),
        )?;
        Ok(Trusted { names_are_constrained: has_name_constraints(&path) })
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

/// `None` without lists: then nobody is asked.
fn revocation<'l>(lists: &'l [&'l CertRevocationList<'l>]) -> Option<RevocationOptions<'l>> {
    RevocationOptionsBuilder::new(lists).ok().map(|builder| {
        builder
            .with_depth(RevocationCheckDepth::Chain)
            .with_status_policy(UnknownStatusPolicy::Deny)
            .with_expiration_policy(ExpirationPolicy::Enforce)
            .build()
    })
}

/// What is left to verify of a certificate that is trusted itself: its time, and what its key may be used for (as OpenSSL's
/// `check_purpose_ssl_server` and `check_purpose_ssl_client`).
fn check_trusted_itself(own: &CertificateDer<'_>, purpose: Purpose, now: UnixTime) -> Result<(), Error> {
    let (_, own) = X509Certificate::from_der(own).map_err(|_| Error::BadDer)?;
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
        // Every handshake here is signed.
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
        // What cannot be read might have some.
        X509Certificate::from_der(certificate)
            .map_or(true, |(_, it)| !matches!(it.name_constraints(), Ok(None)))
    };
    path.anchor().name_constraints.is_some()
        || path.intermediate_certificates().any(|certificate| has(&certificate.der()))
}

/// What the peer is told in an alert (RFC 8446 §6.2).
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
