//! The versions and cipher suites of the configuration as rustls has them.

use fairway_model::{CipherSuite, TlsVersions};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// With these suites of TLS 1.2, the most wanted first; with all of them where there are none.
pub(crate) fn provider(suites: &[CipherSuite]) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    if !suites.is_empty() {
        provider.cipher_suites.retain(|suite| suite.tls13().is_some());
        provider.cipher_suites.extend(suites.iter().copied().map(suite));
    }
    provider
}

/// The versions.
pub(crate) fn versions(versions: TlsVersions) -> &'static [&'static SupportedProtocolVersion] {
    match versions {
        TlsVersions::Both => BOTH,
        TlsVersions::Only12 => ONLY_12,
        TlsVersions::Only13 => ONLY_13,
    }
}

static BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
static ONLY_12: &[&SupportedProtocolVersion] = &[&TLS12];
static ONLY_13: &[&SupportedProtocolVersion] = &[&TLS13];

fn suite(suite: CipherSuite) -> SupportedCipherSuite {
    use aws_lc_rs::cipher_suite as known;
    match suite {
        CipherSuite::EcdheEcdsaAes256 => known::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheRsaAes256 => known::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheEcdsaChaCha20 => known::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        CipherSuite::EcdheRsaChaCha20 => known::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        CipherSuite::EcdheEcdsaAes128 => known::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheRsaAes128 => known::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    }
}
