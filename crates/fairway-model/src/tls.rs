//! Which versions and cipher suites of TLS are spoken.

use serde::{Deserialize, Serialize};

/// Versions of TLS.
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

/// A group in which keys are exchanged (RFC 8446 §4.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyExchange {
    /// X25519 together with ML-KEM-768 (draft-ietf-tls-ecdhe-mlkem): whoever records it now cannot read it with a quantum computer later.
    X25519MlKem768,
    /// X25519.
    X25519,
    /// P-256.
    Secp256r1,
    /// P-384.
    Secp384r1,
}

impl KeyExchange {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::X25519MlKem768, Self::X25519, Self::Secp256r1, Self::Secp384r1];
}

/// A cipher suite of TLS 1.2. Those of TLS 1.3 are not chosen one by one, as in OpenSSL's lists.
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

/// Which suites of TLS 1.2 a host offers its clients, and whose order counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSuites {
    /// The most wanted first; all where there are none.
    pub offered: Vec<CipherSuite>,
    /// Who chooses among those that both speak.
    pub chosen_by: ChosenBy,
}

/// Who chooses a cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChosenBy {
    /// The first of ours that the client offers.
    Server,
    /// The first of the client's that is offered here.
    Client,
}
