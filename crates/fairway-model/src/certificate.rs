//! Certificates as values. Private keys never leave through `Debug` or serialisation.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::origin::Origin;

/// Names a certificate: `namespace/name` of its Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CertificateKey(pub Arc<str>);

/// A certificate chain with its key, checked to belong together by whoever makes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// Its name.
    pub key: CertificateKey,
    /// The object.
    pub origin: Origin,
    /// The chain in DER, the end-entity certificate first. Left out of what is shown.
    #[serde(skip)]
    pub chain: Vec<Arc<[u8]>>,
    /// The key of the first certificate. Left out of what is shown.
    #[serde(skip)]
    pub private_key: PrivateKey,
    /// The names it is for (subject alternative names), lower case.
    pub names: Vec<Arc<str>>,
    /// The end of its validity, in seconds since 1970.
    pub not_after: i64,
    /// Who issued it. Part of the chain, and left out of what is shown as that is.
    #[serde(skip)]
    pub issued: Arc<Issued>,
}

/// What a certificate says of its issue. What is empty, it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issued {
    /// The first common name of the issuer.
    pub issuer_common_name: String,
    /// The first organization of the issuer.
    pub issuer_organization: String,
    /// The number in the name of the issuer, which hardly any has.
    pub issuer_serial_number: String,
    /// The number of the certificate, in decimal digits.
    pub serial_number: String,
    /// `RSA`, `ECDSA` or `Ed25519`.
    pub public_key_algorithm: &'static str,
}

/// Which certificates clients must show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientVerification {
    /// The trusted roots as PEM.
    pub roots: Arc<str>,
    /// Lists of revoked certificates as PEM; empty where nobody is asked for them. Where there are some, every certificate of a
    /// chain needs one that is valid.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub revoked: Arc<str>,
    /// How many certificates may stand between a client's and a root; `None` is any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u8>,
    /// What is done without a certificate, and with one that is not trusted.
    pub demand: ClientDemand,
}

/// How much a client's certificate matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientDemand {
    /// Only clients with a trusted certificate are served.
    Required,
    /// Clients without a certificate are served too; those with one that is not trusted are not.
    Optional,
    /// All clients are served, and endpoints are told what was verified.
    Unverified,
}

/// A private key in DER (PKCS #8, PKCS #1 or SEC 1). Compares by content, prints as nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PrivateKey(Arc<[u8]>);

impl PrivateKey {
    /// Takes the key as DER.
    #[must_use]
    pub fn from_der(der: &[u8]) -> Self {
        Self(der.into())
    }

    /// The key as DER: for the TLS library only.
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
