//! Certificates. Private keys never appear in `Debug` output or serialised data.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::origin::Origin;

/// Identifies a certificate: `namespace/name` of its Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CertificateKey(pub Arc<str>);

/// A certificate chain with its key. Whoever creates it must check that they match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// Its name.
    pub key: CertificateKey,
    /// The object it was read from.
    pub origin: Origin,
    /// The chain in DER, end-entity certificate first. Not serialised.
    #[serde(skip)]
    pub chain: Vec<Arc<[u8]>>,
    /// The key of the end-entity certificate. Not serialised.
    #[serde(skip)]
    pub private_key: PrivateKey,
    /// Subject alternative names, in lower case.
    pub names: Vec<Arc<str>>,
    /// End of validity, in seconds since 1970.
    pub not_after: i64,
    /// What the certificate says about its issuer. Not serialised, like the chain it comes from.
    #[serde(skip)]
    pub issued: Arc<Issuance>,
}

/// What a certificate says about its issue. Absent values are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issuance {
    /// The first common name of the issuer.
    pub issuer_common_name: String,
    /// The first organization of the issuer.
    pub issuer_organization: String,
    /// The serial number in the issuer's name; rarely present.
    pub issuer_serial_number: String,
    /// The serial number of the certificate, in decimal digits.
    pub serial_number: String,
    /// `RSA`, `ECDSA` or `Ed25519`.
    pub public_key_algorithm: &'static str,
}

/// Verification of client certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientVerification {
    /// The trusted roots as PEM.
    pub roots: Arc<str>,
    /// Certificate revocation lists as PEM; empty disables revocation checks. Otherwise every certificate of a chain
    /// needs a valid list.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub revoked: Arc<str>,
    /// Maximum number of certificates between the client's and a root; `None` is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u8>,
    /// What happens without a certificate, and with an untrusted one.
    pub demand: ClientCertificateMode,
}

/// Whether clients need a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientCertificateMode {
    /// Only clients with a trusted certificate are served.
    Required,
    /// Clients without a certificate are served; clients with an untrusted one are not.
    Optional,
    /// All clients are served, and endpoints get the result of the verification.
    Unverified,
}

/// A private key in DER (PKCS #8, PKCS #1 or SEC 1). Compares by content; `Debug` omits the content.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PrivateKey(Arc<[u8]>);

impl PrivateKey {
    /// From DER.
    #[must_use]
    pub fn from_der(der: &[u8]) -> Self {
        Self(der.into())
    }

    /// The key as DER. Only for the TLS library.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

impl fmt::Display for CertificateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for CertificateKey {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_key_is_in_no_output() {
        let certificate = Certificate {
            key: "ns/name".into(),
            origin: Origin::object("Secret", "ns", "name"),
            chain: vec![Arc::from(&b"chain-bytes"[..])],
            private_key: PrivateKey::from_der(b"secret-bytes"),
            names: vec!["example.com".into()],
            not_after: 1,
            issued: Arc::default(),
        };
        let json = serde_json::to_string(&certificate).unwrap();
        assert!(!json.contains("115,101,99") && !json.contains("secret"), "{json}");
        assert!(!format!("{certificate:?}").contains("115, 101, 99"));
        let back: Certificate = serde_json::from_str(&json).unwrap();
        assert_eq!(back.private_key.der(), b"");
    }
}
