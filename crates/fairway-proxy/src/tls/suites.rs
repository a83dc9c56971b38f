//! The versions and cipher suites of the configuration as rustls has them.

use std::sync::Arc;

use fairway_model::{ChosenBy, CipherSuite, ClientDemand, HostSuites, KeyExchange, TlsVersions};
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs, ring};
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use rustls::{Error, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use crate::tls::clients::ClientTrust;
use crate::tls::tickets::SessionTickets;

/// With these suites of TLS 1.2, the most wanted first; with all of them where there are none.
pub(crate) fn provider(suites: &[CipherSuite]) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    if !suites.is_empty() {
        provider.cipher_suites.retain(|suite| suite.tls13().is_some());
        provider.cipher_suites.extend(suites.iter().copied().map(suite));
    }
    if cfg!(feature = "fips") {
        provider.cipher_suites.retain(SupportedCipherSuite::fips);
    } else if is_ring_faster() {
        provider.cipher_suites.iter_mut().for_each(|suite| *suite = of_ring(*suite));
    }
    provider
}

/// In which keys may be exchanged with clients. Of those that both have rustls takes the one that the client prefers.
pub(crate) fn groups(allowed: &[KeyExchange]) -> Vec<&'static dyn SupportedKxGroup> {
    let allowed = if allowed.is_empty() { &KeyExchange::ALL } else { allowed };
    let group = |allowed: &KeyExchange| match allowed {
        KeyExchange::X25519MlKem768 => kx_group::X25519MLKEM768,
        KeyExchange::X25519 => kx_group::X25519,
        KeyExchange::Secp256r1 => kx_group::SECP256R1,
        KeyExchange::Secp384r1 => kx_group::SECP384R1,
    };
    let groups: Vec<_> = allowed.iter().map(group).collect();
    match cfg!(feature = "fips") {
        true => approved(&groups),
        false => groups,
    }
}

/// Those that the FIPS module has approved; all of these where none is left, since without groups there is no handshake.
fn approved(groups: &[&'static dyn SupportedKxGroup]) -> Vec<&'static dyn SupportedKxGroup> {
    let mut approved: Vec<_> = groups.iter().copied().filter(|group| group.fips()).collect();
    if approved.is_empty() {
        approved = aws_lc_rs::default_provider().kx_groups;
    }
    approved
}

/// On CPUs with VAES for AVX2 but not for AVX-512, as AMD's Zen 3, AES-GCM of AWS-LC uses neither, and that of ring takes half of the
/// time (docs/design/0065-aes-without-avx-512.md).
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

/// The same suite with the AES-GCM of ring; others stay as they are.
fn of_ring(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let name = suite.suite();
    let is_aes = name.as_str().is_some_and(|name| name.contains("_AES_"));
    let same = ring::ALL_CIPHER_SUITES.iter().find(|of_ring| is_aes && of_ring.suite() == name);
    same.copied().unwrap_or(suite)
}

/// What is asked of clients in the handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clients<'a> {
    /// Nothing.
    Unasked,
    /// Their certificates, and any is taken: what it is worth is judged later.
    Asked(&'a ClientTrust),
    /// Certificates that are trusted; without one only where they are optional. The handshake fails otherwise.
    Verified(&'a Arc<ClientTrust>, ClientDemand),
}

impl<'a> Clients<'a> {
    /// Those of a listener, whose clients are judged by nobody later.
    #[must_use]
    pub(crate) fn of_listener(trust: &'a Arc<ClientTrust>, demand: ClientDemand) -> Self {
        match demand {
            ClientDemand::Required | ClientDemand::Optional => Self::Verified(trust, demand),
            ClientDemand::Unverified => Self::Asked(trust),
        }
    }
}

/// The same settings with the suites of a host, and with what is asked of its clients. Next to a handshake, making them costs
/// nothing.
///
/// A handshake that verifies clients is never a resumed one: a resumed session would skip what the listener's rules demand. Where
/// clients are asked for certificates, only sessions that began under the same rules are resumed.
///
/// # Errors
/// Never with suites of this provider.
pub(crate) fn for_host(
    config: &ServerConfig,
    spoken: TlsVersions,
    suites: Option<&HostSuites>,
    clients: Clients<'_>,
    tickets: &SessionTickets,
) -> Result<ServerConfig, Error> {
    let provider = match suites {
        Some(suites) => {
            let kx_groups = config.crypto_provider().kx_groups.clone();
            Arc::new(CryptoProvider { kx_groups, ..provider(&suites.offered) })
        }
        None => Arc::clone(config.crypto_provider()),
    };
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions(spoken))?;
    let builder = match clients {
        Clients::Asked(trust) => builder.with_client_cert_verifier(trust.verifier()),
        Clients::Verified(trust, demand) => {
            builder.with_client_cert_verifier(ClientTrust::enforcing(trust, demand))
        }
        Clients::Unasked => builder.with_no_client_auth(),
    };
    let mut own = builder.with_cert_resolver(Arc::clone(&config.cert_resolver));
    own.alpn_protocols.clone_from(&config.alpn_protocols);
    if let Clients::Verified(..) = clients {
        // As made, it has no key for tickets.
        own.session_storage = Arc::new(NoServerSessionStorage {});
        own.send_tls13_tickets = 0;
    } else {
        own.ticketer = match clients {
            Clients::Asked(trust) => tickets.of_group(trust.group()),
            _ => Arc::clone(&config.ticketer),
        };
        own.session_storage = Arc::clone(&config.session_storage);
        own.send_tls13_tickets = config.send_tls13_tickets;
    }
    own.ignore_client_order = suites.is_some_and(|suites| suites.chosen_by == ChosenBy::Server);
    Ok(own)
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

#[cfg(all(test, feature = "fips"))]
mod tests {
    use super::*;

    #[test]
    fn what_the_fips_module_has_not_approved_is_never_offered() {
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
            let groups = groups(allowed);
            assert!(!groups.is_empty() && groups.iter().all(|group| group.fips()), "{groups:?}");
        }
        assert_eq!(groups(&[])[0].name(), kx_group::X25519MLKEM768.name());
    }
}
