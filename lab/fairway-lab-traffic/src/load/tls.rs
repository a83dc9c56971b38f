//! TLS of the generator: the configuration that a plan asks for, and the facts that a handshake settled.
//! Never reads or writes a socket.

use std::sync::Arc;

use anyhow::Context;
use fairway_lab_measure::results::Tls;
use rustls::client::{Resumption, Tls12Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use x509_parser::oid_registry::{OID_EC_P256, OID_NIST_EC_P384, OID_SIG_ED25519};
use x509_parser::public_key::PublicKey;

use super::observed::{Observed, Witness};
use super::plan::{Protocol, TlsPlan, TlsVersion, Verify};
use super::sessions::Sessions;

/// OpenSSL's names of the suites of TLS 1.2 that rustls has; those of TLS 1.3 are IANA's.
const OPENSSL: [(&str, &str); 6] = [
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
];

/// The configuration of a thread; each has its own, so that no cache of sessions is shared. What handshakes show is noted in
/// `observed`.
///
/// # Errors
/// A cipher suite that is not known or does not fit the versions, or roots that are no certificates.
pub(super) fn configuration(
    plan: &TlsPlan,
    protocol: Protocol,
    observed: &Arc<Observed>,
) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(provider(plan)?);
    let versions: Vec<&'static SupportedProtocolVersion> = plan
        .versions
        .iter()
        .map(|version| match version {
            TlsVersion::Tls12 => &rustls::version::TLS12,
            TlsVersion::Tls13 => &rustls::version::TLS13,
        })
        .collect();
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)
        .context("the cipher suites do not fit the TLS versions")?;
    let roots = match &plan.verify {
        Verify::Off => None,
        Verify::Roots(pem) => {
            let roots = Arc::new(roots(pem)?);
            Some(WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build()?)
        }
    };
    let witness = Arc::new(Witness { roots, provider, observed: Arc::clone(observed) });
    let mut config = builder.dangerous().with_custom_certificate_verifier(witness).with_no_client_auth();
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    config.resumption = Resumption::store(Arc::new(Sessions::new(Arc::clone(observed), plan.resumption)));
    if !plan.resumption {
        config.resumption = config.resumption.tls12_resumption(Tls12Resumption::Disabled);
    }
    Ok(config)
}

fn provider(plan: &TlsPlan) -> anyhow::Result<CryptoProvider> {
    let mut provider = default_provider();
    if !plan.groups.is_empty() {
        let is_wanted = |name| plan.groups.iter().any(|group| Some(group.as_str()) == name);
        provider.kx_groups.retain(|group| is_wanted(group.name().as_str()));
        anyhow::ensure!(
            !provider.kx_groups.is_empty(),
            "none of the groups {:?} can be offered",
            plan.groups
        );
    }
    if plan.ciphers.is_empty() {
        return Ok(provider);
    }
    let known = provider.cipher_suites.clone();
    provider.cipher_suites.clear();
    for name in &plan.ciphers {
        let upper = name.to_ascii_uppercase();
        let wanted =
            OPENSSL.iter().find(|(openssl, _)| *openssl == upper).map_or(upper.as_str(), |found| found.1);
        let suite = known.iter().find(|suite| iana(suite.suite()) == wanted).with_context(|| {
            let all: Vec<_> = known.iter().map(|suite| iana(suite.suite())).collect();
            format!("the cipher suite {name:?} cannot be offered; known are {}", all.join(", "))
        })?;
        provider.cipher_suites.push(*suite);
    }
    Ok(provider)
}

fn roots(pem: &str) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.context("read the authorities (PEM)")?;
        // A system's bundle may hold what rustls does not take; the others still count.
        roots.add_parsable_certificates([certificate]);
    }
    anyhow::ensure!(!roots.is_empty(), "the authorities hold no certificate that can be used");
    Ok(roots)
}

/// The name for SNI.
///
/// # Errors
/// What is neither a name nor an address.
pub(super) fn server_name(name: &str) -> anyhow::Result<ServerName<'static>> {
    ServerName::try_from(name.to_owned()).with_context(|| format!("{name:?} cannot be a name in TLS"))
}

/// What the handshake of a connection settled, but for the signature, which the connection does not remember.
pub(super) fn facts(connection: &ClientConnection) -> Tls {
    let version = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2".to_owned(),
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3".to_owned(),
        other => format!("{other:?}"),
    };
    let cipher = connection.negotiated_cipher_suite().map(|suite| iana(suite.suite())).unwrap_or_default();
    let key = connection.peer_certificates().and_then(|chain| chain.first()).and_then(|leaf| key_of(leaf));
    let protocol = connection
        .alpn_protocol()
        .map_or_else(|| "http/1.1".to_owned(), |name| String::from_utf8_lossy(name).into_owned());
    let group =
        connection.negotiated_key_exchange_group().and_then(|group| group.name().as_str().map(str::to_owned));
    Tls { version, cipher, key, protocol, group, signature: None }
}

/// rustls writes `TLS13_` where IANA writes `TLS_`.
fn iana(suite: rustls::CipherSuite) -> String {
    suite.as_str().unwrap_or("unknown").replace("TLS13_", "TLS_")
}

/// The kind of key of a certificate.
fn key_of(leaf: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(leaf).ok()?;
    let algorithm = &certificate.public_key().algorithm;
    let kind = match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => return Some(format!("RSA-{}", key.key_size())),
        Ok(PublicKey::EC(_)) => algorithm.parameters.as_ref()?.as_oid().ok()?,
        _ => algorithm.algorithm.clone(),
    };
    let known = [(OID_EC_P256, "ECDSA-P256"), (OID_NIST_EC_P384, "ECDSA-P384"), (OID_SIG_ED25519, "Ed25519")];
    known.into_iter().find_map(|(oid, name)| (oid == kind).then(|| name.to_owned()))
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};

    use super::*;

    #[test]
    fn the_kind_of_key_of_a_certificate_is_named() {
        for (algorithm, expected) in [
            (&PKCS_RSA_SHA256, "RSA-2048"),
            (&PKCS_ECDSA_P256_SHA256, "ECDSA-P256"),
            (&PKCS_ECDSA_P384_SHA384, "ECDSA-P384"),
            (&PKCS_ED25519, "Ed25519"),
        ] {
            let key = KeyPair::generate_for(algorithm).expect("the algorithm is known");
            let names = vec!["localhost".to_owned()];
            let certificate = rcgen::CertificateParams::new(names)
                .and_then(|parameters| parameters.self_signed(&key))
                .expect("a certificate for a name");
            assert_eq!(key_of(certificate.der()).as_deref(), Some(expected));
        }
    }
}
