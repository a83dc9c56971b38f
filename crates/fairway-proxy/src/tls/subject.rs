//! Names in an endpoint's certificate: subject alternative names (RFC 5280 §4.2.1.6), and on request the common
//! name.

use std::sync::Arc;

use fairway_model::SubjectName;
use rustls::Error;
use rustls_pki_types::{CertificateDer, ServerName};
use webpki::EndEntityCert;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// A name of which a certificate must have one.
#[derive(Debug)]
pub(crate) enum ExpectedName {
    /// Exactly this name; the certificate may have a wildcard (RFC 6125 §6.4.3).
    Dns(ServerName<'static>),
    /// A wildcard including its `*`, or any name it covers.
    Wildcard(Arc<str>),
    /// This URI, byte for byte.
    Uri(Arc<str>),
}

impl ExpectedName {
    /// Parses the name.
    ///
    /// # Errors
    /// It is not a DNS name.
    pub(crate) fn new(name: &SubjectName) -> Result<Self, Error> {
        Ok(match name {
            SubjectName::Dns(name) if name.starts_with("*.") => Self::Wildcard(Arc::clone(name)),
            SubjectName::Dns(name) => {
                let name = ServerName::try_from(name.to_string());
                Self::Dns(name.map_err(|error| Error::General(error.to_string()))?)
            }
            SubjectName::Uri(uri) => Self::Uri(Arc::clone(uri)),
        })
    }

    /// Whether a certificate has the name.
    pub(crate) fn matches(&self, certificate: &CertificateDer<'_>) -> bool {
        match self {
            Self::Dns(name) => has_name(certificate, name),
            Self::Wildcard(pattern) => any_alternative_name(certificate, |name| match name {
                GeneralName::DNSName(name) => is_covered_by(pattern, name),
                _ => false,
            }),
            Self::Uri(uri) => any_alternative_name(certificate, |name| match name {
                GeneralName::URI(other) => **uri == **other,
                _ => false,
            }),
        }
    }
}

/// Whether `name` is a subject alternative name of the certificate.
pub(crate) fn has_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    EndEntityCert::try_from(certificate)
        .is_ok_and(|certificate| certificate.verify_is_valid_for_subject_name(name).is_ok())
}

/// Whether the common name is the DNS name `name`, or a wildcard for it. It only counts if the certificate has
/// no DNS alternative name (RFC 6125 §6.4.4, OpenSSL's `X509_check_host`).
pub(crate) fn matches_common_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    let ServerName::DnsName(name) = name else { return false };
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    let Ok(alternatives) = certificate.subject_alternative_name() else { return false };
    let mut alternatives = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    if alternatives.any(|name| matches!(name, GeneralName::DNSName(_) | GeneralName::Invalid(..))) {
        return false;
    }
    let covers = |common: &str| match common.strip_prefix("*.") {
        // As in OpenSSL, no wildcard for a top-level domain.
        Some(suffix) => suffix.contains('.') && is_covered_by(common, name.as_ref()),
        None => common.eq_ignore_ascii_case(name.as_ref()),
    };
    certificate.subject().iter_common_name().any(|common| common.as_str().is_ok_and(covers))
}

/// Whether any subject alternative name satisfies `is_it`.
fn any_alternative_name(certificate: &CertificateDer<'_>, is_it: impl Fn(&GeneralName<'_>) -> bool) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
    names.value.general_names.iter().any(is_it)
}

/// Whether `name` is the wildcard `pattern` itself, or has one label in place of its star.
fn is_covered_by(pattern: &str, name: &str) -> bool {
    let Some((label, rest)) = name.split_once('.') else { return false };
    let suffix = pattern.trim_start_matches("*.");
    !label.is_empty() && rest.eq_ignore_ascii_case(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_covers_one_label() {
        for (name, is_it) in [
            ("a.example.com", true),
            ("A.Example.Com", true),
            ("*.example.com", true),
            ("example.com", false),
            ("a.b.example.com", false),
            (".example.com", false),
            ("aexample.com", false),
            ("com", false),
        ] {
            assert_eq!(is_covered_by("*.example.com", name), is_it, "{name}");
        }
    }
}
