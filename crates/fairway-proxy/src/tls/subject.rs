//! The names for which an endpoint's certificate may be: subject alternative names (RFC 5280 §4.2.1.6), and where a caller asks for
//! it the common name.

use std::sync::Arc;

use fairway_model::SubjectName;
use rustls::Error;
use rustls_pki_types::{CertificateDer, ServerName};
use webpki::EndEntityCert;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// A name that is enough.
#[derive(Debug)]
pub(crate) enum Subject {
    /// Exactly this; in the certificate it may be a wildcard (RFC 6125 §6.4.3).
    Dns(ServerName<'static>),
    /// A wildcard, or any name that it covers; with its `*`.
    Wildcard(Arc<str>),
    /// Byte for byte.
    Uri(Arc<str>),
}

impl Subject {
    /// Reads the name.
    ///
    /// # Errors
    /// When it is no DNS name.
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

    /// Whether a certificate is for it.
    pub(crate) fn is_of(&self, certificate: &CertificateDer<'_>) -> bool {
        match self {
            Self::Dns(name) => is_for(certificate, name),
            Self::Wildcard(pattern) => has(certificate, |name| match name {
                GeneralName::DNSName(name) => is_within(pattern, name),
                _ => false,
            }),
            Self::Uri(uri) => has(certificate, |name| match name {
                GeneralName::URI(other) => **uri == **other,
                _ => false,
            }),
        }
    }
}

/// Whether a subject alternative name of the certificate is `name`.
pub(crate) fn is_for(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    EndEntityCert::try_from(certificate)
        .is_ok_and(|certificate| certificate.verify_is_valid_for_subject_name(name).is_ok())
}

/// Whether the common name of the certificate is the DNS name `name`, or a wildcard for it. It counts only where the certificate has
/// no alternative name that is one of DNS (RFC 6125 §6.4.4, OpenSSL's `X509_check_host`).
pub(crate) fn is_for_by_common_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    let ServerName::DnsName(name) = name else { return false };
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    let Ok(alternatives) = certificate.subject_alternative_name() else { return false };
    let mut alternatives = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    if alternatives.any(|name| matches!(name, GeneralName::DNSName(_) | GeneralName::Invalid(..))) {
        return false;
    }
    let covers = |common: &str| match common.strip_prefix("*.") {
        // As OpenSSL, no wildcard for all names of a top-level domain.
        Some(suffix) => suffix.contains('.') && is_within(common, name.as_ref()),
        None => common.eq_ignore_ascii_case(name.as_ref()),
    };
    certificate.subject().iter_common_name().any(|common| common.as_str().is_ok_and(covers))
}

/// Whether one of the certificate's names is what is looked for.
fn has(certificate: &CertificateDer<'_>, is_it: impl Fn(&GeneralName<'_>) -> bool) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
    names.value.general_names.iter().any(is_it)
}

/// Whether `name` is the wildcard `pattern` itself, or has one label in the place of its star.
fn is_within(pattern: &str, name: &str) -> bool {
    let Some((label, rest)) = name.split_once('.') else { return false };
    let suffix = pattern.trim_start_matches("*.");
    !label.is_empty() && rest.eq_ignore_ascii_case(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_label() {
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
            assert_eq!(is_within("*.example.com", name), is_it, "{name}");
        }
    }
}
