//! Reads certificates from TLS Secrets: checks that key and certificate match, and which names they cover.

use std::sync::Arc;

use fairway_model::{Certificate, CertificateKey, HostPattern, PrivateKey, WildcardSpan};
use k8s_openapi::api::core::v1::Secret;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::certificate_issuer;
use crate::diagnostic::{Diagnostic, Severity};
use crate::object::{Kind, ObjectKey, Sourced};

/// A parsed certificate with its validity.
#[derive(Clone, Debug)]
pub struct ParsedCertificate {
    /// The certificate for hosts.
    pub certificate: Arc<Certificate>,
    /// Seconds since 1970.
    not_before: i64,
}

/// Reads a Secret; the error says why it has no certificate.
pub fn read(key: &ObjectKey, secret: &Sourced<Secret>) -> Result<ParsedCertificate, String> {
    let entry = |name: &str| secret_value(&secret.object, name).ok_or_else(|| format!("it has no {name}"));
    let (chain_pem, key_pem) = (entry("tls.crt")?, entry("tls.key")?);
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain_pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("tls.crt is no PEM: {error}"))?;
    let first = chain.first().ok_or("tls.crt has no certificate")?;
    let private_key = PrivateKeyDer::from_pem_slice(key_pem)
        .map_err(|error| format!("tls.key has no private key: {error}"))?;
    let (_, parsed) =
        X509Certificate::from_der(first).map_err(|error| format!("tls.crt is no X.509: {error}"))?;
    check_key_matches(&private_key, &parsed)?;
    let certificate = Certificate {
        key: CertificateKey(key.to_string().into()),
        origin: secret.origin(Kind::Secret, key, ""),
        names: certificate_names(&parsed),
        not_after: parsed.validity().not_after.timestamp(),
        issued: Arc::new(certificate_issuer::read_issued(&parsed)),
        private_key: PrivateKey::from_der(private_key.secret_der()),
        chain: chain.iter().map(|der| Arc::from(der.as_ref())).collect(),
    };
    Ok(ParsedCertificate {
        certificate: Arc::new(certificate),
        not_before: parsed.validity().not_before.timestamp(),
    })
}

/// Checks that the key belongs to the certificate. rustls compares them only if webpki can read the certificate, which rejects
/// version 1; presenting those is decided elsewhere.
fn check_key_matches(key: &PrivateKeyDer<'_>, certificate: &X509Certificate<'_>) -> Result<(), String> {
    let signing = rustls::crypto::aws_lc_rs::sign::any_supported_type(key)
        .map_err(|error| format!("tls.key cannot be used: {error}"))?;
    match signing.public_key() {
        Some(public) if public.as_ref() == certificate.public_key().raw => Ok(()),
        _ => Err("tls.key is not the key of the certificate".to_owned()),
    }
}

/// The subject alternative names; else the common name, as in ingress-nginx.
fn certificate_names(certificate: &X509Certificate<'_>) -> Vec<Arc<str>> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let mut names: Vec<Arc<str>> = Vec::new();
    for name in extension.iter().flat_map(|extension| &extension.value.general_names) {
        match name {
            GeneralName::DNSName(name) => names.push(name.to_ascii_lowercase().into()),
            GeneralName::IPAddress(bytes) => names.extend(ip(bytes)),
            _ => {}
        }
    }
    if extension.is_none() {
        let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        names.extend(common.map(|name| Arc::from(name.to_ascii_lowercase())));
    }
    names
}

fn ip(bytes: &[u8]) -> Option<Arc<str>> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|octets| std::net::IpAddr::from(octets).to_string());
    let any =
        v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|octets| std::net::IpAddr::from(octets).to_string()));
    any.ok().map(Arc::from)
}

/// Whether a certificate covers a host: equal names, or one label for the wildcard (RFC 6125 §6.4.3). A wildcard host needs the
/// same wildcard.
pub fn is_for(certificate: &Certificate, host: &HostPattern) -> bool {
    certificate.names.iter().any(|name| match (HostPattern::parse(name, WildcardSpan::OneLabel), host) {
        (Ok(pattern), HostPattern::Exact(exact)) => pattern.covers(exact.trim_end_matches('.')),
        (Ok(pattern), wildcard) => pattern == *wildcard,
        (Err(_), HostPattern::Exact(exact)) => name == exact,
        (Err(_), _) => false,
    })
}

/// The value of an entry; `stringData` takes precedence over `data` (Secret API).
pub fn secret_value<'a>(secret: &'a Secret, name: &str) -> Option<&'a [u8]> {
    let text = secret.string_data.as_ref().and_then(|entries| entries.get(name));
    let bytes = || secret.data.as_ref().and_then(|entries| entries.get(name)).map(|bytes| bytes.0.as_slice());
    text.map(|text| text.as_bytes()).or_else(bytes)
}

impl ParsedCertificate {
    /// When its validity starts and ends.
    pub fn validity_bounds(&self) -> [i64; 2] {
        [self.not_before, self.certificate.not_after.saturating_add(1)]
    }

    /// The problem with its validity at `now`, if any.
    pub fn validity_problem(&self, now: i64) -> Option<Diagnostic> {
        let origin = self.certificate.origin.at("data.tls.crt");
        let found = |code| Diagnostic::new(Severity::Warning, code, origin);
        let used = "it is used all the same, and clients will refuse it";
        if now > self.certificate.not_after {
            Some(found("certificate-expired").because("the certificate has expired", used))
        } else if now < self.not_before {
            Some(found("certificate-not-yet-valid").because("the certificate is not valid yet", used))
        } else {
            None
        }
    }
}
