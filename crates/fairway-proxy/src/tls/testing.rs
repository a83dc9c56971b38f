//! Fixtures of TLS tests: certificates that `rcgen` does not make, and handshakes in memory. Independent of the
//! date: valid certificates are valid until at least 2049.

use std::sync::Arc;

use fairway_model::{
    ClientCertificateMode, ClientVerification, Config, TlsVersions, UpstreamTls, UpstreamVerification,
};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData,
    SigningKey,
};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, SupportedProtocolVersion};
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::tls::clients::ClientTrust;
use crate::tls::der::sequence;
use crate::tls::identities::{SelfSigned, ServerTls};
use crate::tls::tickets::SessionTickets;
use crate::tls::upstream::client_config;

const SHA256_WITH_ECDSA: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

pub(crate) const ALWAYS_VALID: (&str, &str) = ("200101000000Z", "491231235959Z");

pub(crate) struct Authority {
    pub(crate) params: CertificateParams,
    pub(crate) key: KeyPair,
    pub(crate) der: CertificateDer<'static>,
    pub(crate) pem: String,
    /// DER.
    pub(crate) name: Vec<u8>,
}

pub(crate) fn key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap()
}

/// A CA with the common name `clients`.
pub(crate) fn authority() -> Authority {
    authority_with("clients", |_| {})
}

/// A self-signed certificate with `CA:TRUE` and this common name, as `openssl req -x509` makes it, changed by
/// `change`.
pub(crate) fn authority_with(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Authority {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    let key = key();
    let certificate = params.self_signed(&key).unwrap();
    let der = certificate.der().clone();
    let name = X509Certificate::from_der(&der).unwrap().1.subject().as_raw().to_vec();
    Authority { pem: certificate.pem(), der, name, key, params }
}

impl Authority {
    /// Issues a version 3 certificate.
    pub(crate) fn issue(
        &self,
        key: &KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) -> CertificateDer<'static> {
        let mut params = CertificateParams::new([]).unwrap();
        change(&mut params);
        let issuer = rcgen::Issuer::from_params(&self.params, &self.key);
        params.signed_by(key, &issuer).unwrap().der().clone()
    }
}

/// What `openssl x509 -req` makes of a request for the common name of `authority`: version 1, without extensions.
pub(crate) fn issued(
    authority: &Authority,
    key: &KeyPair,
    validity: (&str, &str),
) -> CertificateDer<'static> {
    issued_for(authority, &key.subject_public_key_info(), validity)
}

/// As [`issued`], for any key.
pub(crate) fn issued_for(
    authority: &Authority,
    key: &[u8],
    (from, until): (&str, &str),
) -> CertificateDer<'static> {
    let time = |text: &str| [&[0x17, 13][..], text.as_bytes()].concat();
    let algorithm = sequence(SHA256_WITH_ECDSA);
    let validity = sequence(&[time(from), time(until)].concat());
    let parts = [&[2, 1, 42][..], &algorithm, &authority.name, &validity, &authority.name, key].concat();
    let signed = sequence(&parts);
    let signature = authority.key.sign(&signed).unwrap();
    let bits = [&[3, u8::try_from(signature.len() + 1).unwrap(), 0][..], &signature].concat();
    CertificateDer::from(sequence(&[signed, algorithm, bits].concat()))
}

pub(crate) fn pem(der: &CertificateDer<'_>) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

/// A certificate with a key, without checking that they match.
pub(crate) fn certified(certificate: CertificateDer<'static>, key: &KeyPair) -> Arc<SingleCertAndKey> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let signing = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
    Arc::new(SingleCertAndKey::from(CertifiedKey::new(vec![certificate], signing)))
}

/// Trust of a host in client certificates, with revocation lists.
pub(crate) fn trust(roots: &str, revoked: &str) -> ClientTrust {
    let (roots, revoked) = (roots.into(), revoked.into());
    ClientTrust::new(&ClientVerification {
        roots,
        revoked,
        depth: Some(1),
        demand: ClientCertificateMode::Required,
    })
    .unwrap()
}

pub(crate) fn verdict(trust: &ClientTrust, shown: CertificateDer<'_>) -> Result<(), &'static str> {
    trust.evaluate(&[shown], UnixTime::now()).unwrap().verdict
}

/// TLS of this version to unverified endpoints.
pub(crate) fn unverified(version: &SupportedProtocolVersion) -> UpstreamTls {
    let versions = match version.version {
        rustls::ProtocolVersion::TLSv1_2 => TlsVersions::Only12,
        _ => TlsVersions::Only13,
    };
    UpstreamTls {
        server_name: None,
        verification: UpstreamVerification::Off,
        client_certificate: None,
        versions,
        suites: Vec::new(),
    }
}

/// TLS configuration of a backend.
pub(crate) fn client(tls: &UpstreamTls) -> ClientConfig {
    let own_authority = authority();
    let self_signed = SelfSigned {
        chain: vec![own_authority.der.to_vec()],
        private_key: own_authority.key.serialize_der(),
    };
    let server = ServerTls::new(&self_signed, SessionTickets::default()).unwrap();
    let (identities, _) = server.identities(&Config::default(), None);
    client_config(tls, &identities).unwrap()
}

/// A server that presents `certified` and requests no certificate.
pub(crate) fn server(
    certified: Arc<SingleCertAndKey>,
    version: &'static SupportedProtocolVersion,
) -> ServerConfig {
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(certified)
}

/// The server end of a handshake, or why it failed.
pub(crate) fn complete_handshake(
    client: ClientConfig,
    server: ServerConfig,
) -> Result<ServerConnection, rustls::Error> {
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    let name = ServerName::try_from("a.test").unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    for _ in 0..10 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        server.read_tls(&mut &bytes[..]).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        client.read_tls(&mut &bytes[..]).unwrap();
        client.process_new_packets()?;
    }
    assert!(!server.is_handshaking());
    Ok(server)
}
