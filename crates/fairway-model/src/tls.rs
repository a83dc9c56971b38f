//! TLS versions, cipher suites and key exchange.

use serde::{Deserialize, Serialize};

/// TLS versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TlsVersions {
    /// TLS 1.2 and 1.3.
    #[default]
    Both,
    /// TLS 1.2 alone.
    Only12,
    /// TLS 1.3 alone.
    Only13,
}

/// A key exchange group (RFC 8446 §4.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyExchange {
    /// X25519 combined with ML-KEM-768 (draft-ietf-tls-ecdhe-mlkem): traffic recorded today cannot be decrypted later
    /// with a quantum computer.
    X25519MlKem768,
    /// X25519.
    X25519,
    /// P-256.
    Secp256r1,
    /// P-384.
    Secp384r1,
}

impl KeyExchange {
    /// All groups.
    pub const ALL: [Self; 4] = [Self::X25519MlKem768, Self::X25519, Self::Secp256r1, Self::Secp384r1];
}

/// A TLS 1.2 cipher suite. TLS 1.3 suites cannot be selected, as in OpenSSL's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CipherSuite {
    /// `ECDHE-ECDSA-AES256-GCM-SHA384`
    EcdheEcdsaAes256,
    /// `ECDHE-RSA-AES256-GCM-SHA384`
    EcdheRsaAes256,
    /// `ECDHE-ECDSA-CHACHA20-POLY1305`
    EcdheEcdsaChaCha20,
    /// `ECDHE-RSA-CHACHA20-POLY1305`
    EcdheRsaChaCha20,
    /// `ECDHE-ECDSA-AES128-GCM-SHA256`
    EcdheEcdsaAes128,
    /// `ECDHE-RSA-AES128-GCM-SHA256`
    EcdheRsaAes128,
}

/// TLS 1.2 cipher suites of a host, and whose preference counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSuites {
    /// Most preferred first; empty offers all.
    pub offered: Vec<CipherSuite>,
    /// Who chooses among common suites.
    pub chosen_by: SuitePreference,
}

/// Who chooses a cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SuitePreference {
    /// The server's first suite that the client offers.
    Server,
    /// The client's first suite that the server offers.
    Client,
}
