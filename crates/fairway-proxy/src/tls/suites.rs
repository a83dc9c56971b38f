//! TLS versions, cipher suites and groups of the configuration for rustls.

use std::sync::Arc;

use fairway_model::{
    CipherSuite, ClientCertificateMode, HostSuites, KeyExchange, SuitePreference, TlsVersions,
};
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs, ring};
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use rustls::{Error, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use crate::tls::clients::ClientTrust;
use crate::tls::tickets::SessionTickets;

/// A provider with these TLS 1.2 suites, most preferred first; with all of them if empty.
pub(crate) fn provider(suites: &[CipherSuite]) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    if !suites.is_empty() {
        provider.cipher_suites.retain(|suite| suite.tls13().is_some());
        provider.cipher_suites.extend(suites.iter().copied().map(rustls_suite));
    }
    if cfg!(feature = "fips") {
        provider.cipher_suites.retain(SupportedCipherSuite::fips);
    } else if is_ring_faster() {
        provider.cipher_suites.iter_mut().for_each(|suite| *suite = with_ring_aes(*suite));
    }
    provider
}

/// Key exchange groups for clients. Of the common groups rustls takes the client's preference.
pub(crate) fn key_exchange_groups(allowed: &[KeyExchange]) -> Vec<&'static dyn SupportedKxGroup> {
    let allowed = if allowed.is_empty() { &KeyExchange::ALL } else { allowed };
    let group = |allowed: &KeyExchange| match allowed {
        KeyExchange::X25519MlKem768 => kx_group::X25519MLKEM768,
        KeyExchange::X25519 => kx_group::X25519,
        KeyExchange::Secp256r1 => kx_group::SECP256R1,
        KeyExchange::Secp384r1 => kx_group::SECP384R1,
    };
    let groups: Vec<_> = allowed.iter().map(group).collect();
    match cfg!(feature = "fips") {
        true => fips_approved(&groups),
        false => groups,
    }
}

/// Groups approved by the FIPS module; all approved ones if none is left, since there is no handshake without
/// groups.
fn fips_approved(groups: &[&'static dyn SupportedKxGroup]) -> Vec<&'static dyn SupportedKxGroup> {
    let mut approved: Vec<_> = groups.iter().copied().filter(|group| group.fips()).collect();
    if approved.is_empty() {
        approved = aws_lc_rs::default_provider().kx_groups;
    }
    approved
}

/// On CPUs with VAES for AVX2 but not AVX-512, such as AMD's Zen 3, AES-GCM of AWS-LC uses neither, and that of
/// ring takes half the time (docs/design/0065-aes-without-avx-512.md).
#[cfg(target_arch = "x86_64")]
fn is_ring_faster() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("vaes")
        && has!("vpclmulqdq")
        && has!("avx2")
        && !(has!("avx512f") && has!("avx512bw") && has!("avx512vl"))
}

#[cfg(not(target_arch = "x86_64"))]
fn is_ring_faster() -> bool {
    false
}

/// The suite with AES-GCM of ring; other suites are unchanged.
fn with_ring_aes(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let name = suite.suite();
    let is_aes = name.as_str().is_some_and(|name| name.contains("_AES_"));
    let same = ring::ALL_CIPHER_SUITES.iter().find(|of_ring| is_aes && of_ring.suite() == name);
    same.copied().unwrap_or(suite)
}

/// Client authentication in the handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClientAuth<'a> {
    /// No certificate is requested.
    None,
    /// A certificate is requested and any is accepted; it is evaluated later.
    Unverified(&'a ClientTrust),
    /// A trusted certificate is required, unless optional. Otherwise the handshake fails.
    Verified(&'a Arc<ClientTrust>, ClientCertificateMode),
}

impl<'a> ClientAuth<'a> {
    /// For a listener, whose clients are not evaluated later.
    #[must_use]
    pub(crate) fn for_listener(trust: &'a Arc<ClientTrust>, demand: ClientCertificateMode) -> Self {
        match demand {
            ClientCertificateMode::Required | ClientCertificateMode::Optional => {
                Self::Verified(trust, demand)
            }
            ClientCertificateMode::Unverified => Self::Unverified(trust),
        }
    }
}

/// The configuration with the suites of a host and with client authentication. Cheap compared with a handshake.
///
/// A handshake that verifies clients is never resumed: that would skip the listener's rules. Where certificates
/// are only requested, sessions resume only under the same rules.
///
/// # Errors
/// Never with suites of this provider.
pub(crate) fn config_for_host(
    config: &ServerConfig,
    tls_versions: TlsVersions,
    suites: Option<&HostSuites>,
    clients: ClientAuth<'_>,
    tickets: &SessionTickets,
) -> Result<ServerConfig, Error> {
    let provider = match suites {
        Some(suites) => {
            let kx_groups = config.crypto_provider().kx_groups.clone();
            Arc::new(CryptoProvider { kx_groups, ..provider(&suites.offered) })
        }
        None => Arc::clone(config.crypto_provider()),
    };
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(protocol_versions(tls_versions))?;
    let builder = match clients {
        ClientAuth::Unverified(trust) => builder.with_client_cert_verifier(trust.verifier()),
        ClientAuth::Verified(trust, demand) => {
            builder.with_client_cert_verifier(ClientTrust::enforcing_verifier(trust, demand))
        }
        ClientAuth::None => builder.with_no_client_auth(),
    };
    let mut copy = builder.with_cert_resolver(Arc::clone(&config.cert_resolver));
    copy.alpn_protocols.clone_from(&config.alpn_protocols);
    if let ClientAuth::Verified(..) = clients {
        // Built without a ticketer.
        copy.session_storage = Arc::new(NoServerSessionStorage {});
        copy.send_tls13_tickets = 0;
    } else {
        copy.ticketer = match clients {
            ClientAuth::Unverified(trust) => tickets.ticketer(trust.ticket_group()),
            _ => Arc::clone(&config.ticketer),
        };
        copy.session_storage = Arc::clone(&config.session_storage);
        copy.send_tls13_tickets = config.send_tls13_tickets;
    }
    copy.ignore_client_order = suites.is_some_and(|suites| suites.chosen_by == SuitePreference::Server);
    Ok(copy)
}

/// The versions for rustls.
pub(crate) fn protocol_versions(versions: TlsVersions) -> &'static [&'static SupportedProtocolVersion] {
    match versions {
        TlsVersions::Both => TLS_12_AND_13,
        TlsVersions::Only12 => TLS_12_ONLY,
        TlsVersions::Only13 => TLS_13_ONLY,
    }
}

static TLS_12_AND_13: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
static TLS_12_ONLY: &[&SupportedProtocolVersion] = &[&TLS12];
static TLS_13_ONLY: &[&SupportedProtocolVersion] = &[&TLS13];

fn rustls_suite(suite: CipherSuite) -> SupportedCipherSuite {
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

#[cfg(all(test, feature = "fips"))]
mod tests {
    use super::*;

    #[test]
    fn only_fips_approved_algorithms_are_offered() {
        let all = [
            CipherSuite::EcdheEcdsaAes256,
            CipherSuite::EcdheRsaAes256,
            CipherSuite::EcdheEcdsaChaCha20,
            CipherSuite::EcdheRsaChaCha20,
            CipherSuite::EcdheEcdsaAes128,
            CipherSuite::EcdheRsaAes128,
        ];
        for suites in [&[][..], &all, &all[2..4]] {
            assert!(provider(suites).fips(), "{suites:?}");
        }
        for allowed in [&[][..], &KeyExchange::ALL, &[KeyExchange::X25519]] {
            let groups = key_exchange_groups(allowed);
            assert!(!groups.is_empty() && groups.iter().all(|group| group.fips()), "{groups:?}");
        }
        assert_eq!(key_exchange_groups(&[])[0].name(), kx_group::X25519MLKEM768.name());
    }
}
