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
