//! TLS of the generator: the plan's configuration, the sessions of a thread, and the facts of its handshakes. Never reads
//! or writes a socket.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use fairway_lab_measure::results::Tls;
use quinn_proto::crypto::Session;
use quinn_proto::crypto::rustls::HandshakeData;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls12Resumption,
    Tls13ClientSessionValue, WebPkiServerVerifier,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, NamedGroup, ProtocolVersion, RootCertStore,
    SignatureScheme, SupportedProtocolVersion,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::oid_registry::{OID_EC_P256, OID_NIST_EC_P384, OID_SIG_ED25519};
use x509_parser::public_key::PublicKey;

use super::plan::{Protocol, TlsPlan, TlsVersion, Verify};

/// Maximum number of TLS 1.3 tickets kept; the oldest are dropped first.
const TICKETS: usize = 16_384;
/// Maximum number of servers with TLS 1.2 sessions. A stream has one.
const SERVERS: usize = 16;

/// What the connections of one thread share: it verifies certificates where there are roots, and signatures in any case, and
/// has as many tickets as there may be clients. rustls' own store keeps eight for each server, so that most of many clients
/// could not resume a server that sends one ticket each.
///
/// It notes what a connection of rustls does not remember: the scheme of the server's signature, and how many tickets came,
/// also where none is kept. Atomic only because rustls asks for it.
#[derive(Debug)]
pub(super) struct Witness {
    /// Verifies certificates; without it any certificate is accepted.
    roots: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    /// If false, no sessions are stored: every handshake is full, and no key exchange group is remembered.
    resumption: bool,
    tickets: Mutex<VecDeque<Tls13ClientSessionValue>>,
    sessions: ClientSessionMemoryCache,
    /// Tickets received.
    tickets_received: AtomicU64,
    /// The IANA number of the signature scheme; 0 before the first signature.
    signature: AtomicU16,
}

/// The configuration of a thread. Threads share no session cache.
///
/// # Errors
/// A cipher suite is unknown or does not fit the versions, or the roots are not certificates.
pub(super) fn configuration(
    plan: &TlsPlan,
    protocol: Protocol,
) -> anyhow::Result<(Arc<ClientConfig>, Arc<Witness>)> {
    let provider = Arc::new(provider(plan)?);
    let is_quic = protocol == Protocol::Http3;
    let versions: Vec<&'static SupportedProtocolVersion> = plan
        .versions
        .iter()
        // RFC 9001 §4.2.
        .filter(|version| !is_quic || **version == TlsVersion::Tls13)
        .map(|version| match version {
            TlsVersion::Tls12 => &rustls::version::TLS12,
            TlsVersion::Tls13 => &rustls::version::TLS13,
        })
        .collect();
    anyhow::ensure!(!versions.is_empty(), "HTTP/3 has TLS 1.3 and no other");
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
    let witness = Arc::new(Witness {
        roots,
        provider,
        // quinn does not report whether a session was resumed, so QUIC never resumes.
        resumption: plan.resumption && !is_quic,
        tickets: Mutex::default(),
        sessions: ClientSessionMemoryCache::new(SERVERS),
        tickets_received: AtomicU64::new(0),
        signature: AtomicU16::new(0),
    });
    let mut config =
        builder.dangerous().with_custom_certificate_verifier(witness.clone()).with_no_client_auth();
    let offered: &[u8] = match protocol {
        Protocol::Http2 => b"h2",
        Protocol::Http3 => b"h3",
        Protocol::Http1 | Protocol::Datagrams => b"http/1.1",
    };
    config.alpn_protocols = vec![offered.to_vec()];
    config.resumption = Resumption::store(witness.clone());
    if !witness.resumption {
        config.resumption = config.resumption.tls12_resumption(Tls12Resumption::Disabled);
    }
    Ok((Arc::new(config), witness))
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
    let known = std::mem::take(&mut provider.cipher_suites);
    for name in &plan.ciphers {
        let suite = known.iter().find(|suite| is_called(&iana(suite.suite()), name)).with_context(|| {
            let all: Vec<_> = known.iter().map(|suite| iana(suite.suite())).collect();
            format!("the cipher suite {name:?} cannot be offered; known are {}", all.join(", "))
        })?;
        provider.cipher_suites.push(*suite);
    }
    Ok(provider)
}

/// Whether a name is the suite's IANA or OpenSSL name: `ECDHE-RSA-AES128-GCM-SHA256` is
/// `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`, and the final hash may be missing.
fn is_called(iana: &str, name: &str) -> bool {
    let plain = |name: &str| name.to_ascii_uppercase().replace(['-', '_'], "").replace("WITH", "");
    let (iana, name) = (plain(iana), plain(name));
    let rest = iana.trim_start_matches("TLS").strip_prefix(name.as_str());
    iana == name || rest.is_some_and(|rest| rest.is_empty() || rest == "SHA256")
}

fn roots(pem: &str) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.context("read the authorities (PEM)")?;
        // A system bundle may contain certificates that rustls rejects; the others still count.
        roots.add_parsable_certificates([certificate]);
    }
    anyhow::ensure!(!roots.is_empty(), "the authorities hold no certificate that can be used");
    Ok(roots)
}

/// The name for SNI.
///
/// # Errors
/// The text is neither a name nor an address.
pub(super) fn server_name(name: &str) -> anyhow::Result<ServerName<'static>> {
    ServerName::try_from(name.to_owned()).with_context(|| format!("{name:?} cannot be a name in TLS"))
}

/// The facts of a connection's handshake except the signature, which rustls does not keep.
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

/// As [`facts`], for QUIC, which keeps less: suite and group are known only if a single one was offered.
pub(super) fn quic_facts(offered: &ClientConfig, session: &dyn Session) -> Tls {
    let provider = offered.crypto_provider();
    let cipher =
        match provider.cipher_suites.iter().filter(|suite| suite.tls13().is_some()).collect::<Vec<_>>()[..] {
            [suite] => iana(suite.suite()),
            _ => String::new(),
        };
    let group = match provider.kx_groups[..] {
        [group] => group.name().as_str().map(str::to_owned),
        _ => None,
    };
    let chain =
        session.peer_identity().and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
    let key = chain.as_ref().and_then(|chain| chain.first()).and_then(key_of);
    let settled = session.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    let protocol = settled.and_then(|data| data.protocol);
    let protocol = protocol.map(|name| String::from_utf8_lossy(&name).into_owned()).unwrap_or_default();
    Tls { version: "TLSv1.3".to_owned(), cipher, key, protocol, group, signature: None }
}

/// rustls writes `TLS13_` where IANA writes `TLS_`.
fn iana(suite: rustls::CipherSuite) -> String {
    suite.as_str().unwrap_or("unknown").replace("TLS13_", "TLS_")
}

/// The key type of a certificate.
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

impl Witness {
    /// Tickets received since the last call.
    pub(super) fn take_tickets(&self) -> u64 {
        self.tickets_received.swap(0, Ordering::Relaxed)
    }

    /// The scheme of the latest signature, by rustls' name.
    pub(super) fn signature(&self) -> Option<String> {
        let scheme = SignatureScheme::from(self.signature.load(Ordering::Relaxed));
        scheme.as_str().map(str::to_owned)
    }

    fn note(&self, signed: &DigitallySignedStruct) -> &WebPkiSupportedAlgorithms {
        self.signature.store(signed.scheme.into(), Ordering::Relaxed);
        &self.provider.signature_verification_algorithms
    }

    fn tickets(&self) -> MutexGuard<'_, VecDeque<Tls13ClientSessionValue>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.roots {
            Some(roots) => roots.verify_server_cert(leaf, intermediates, name, ocsp, now),
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, self.note(signed))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, self.note(signed))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientSessionStore for Witness {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        if self.resumption {
            self.sessions.set_kx_hint(server, group);
        }
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        if self.resumption {
            self.sessions.set_tls12_session(server, value);
        }
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.sessions.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.sessions.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.tickets_received.fetch_add(1, Ordering::Relaxed);
        if self.resumption {
            let mut tickets = self.tickets();
            tickets.push_back(value);
            if tickets.len() > TICKETS {
                tickets.pop_front();
            }
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // The newest first, like other clients: a server with a small session cache has forgotten the oldest.
        self.tickets().pop_back()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};

    use super::*;

    #[test]
    fn a_cipher_suite_is_chosen_by_either_name_and_an_unknown_one_is_refused() {
        let choose = |name: &str| {
            let plan = TlsPlan { ciphers: vec![name.to_owned()], ..TlsPlan::default() };
            provider(&plan).map(|provider| iana(provider.cipher_suites[0].suite()))
        };
        for (name, expected) in [
            ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
            ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
            ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
            ("tls_aes_256_gcm_sha384", "TLS_AES_256_GCM_SHA384"),
        ] {
            assert_eq!(choose(name).unwrap(), expected);
        }
        let error = choose("RC4-MD5").unwrap_err().to_string();
        assert!(error.contains("RC4-MD5") && error.contains("TLS_AES_128_GCM_SHA256"), "{error}");
    }

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
