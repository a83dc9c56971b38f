//! A certificate factory: authorities, valid and expired end-entity certificates, and rustls configurations that use
//! them. For tests only.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair, RevokedCertParams, RsaKeySize, SanType, SerialNumber, date_time_ymd,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use serde_json::json;

use crate::manifests::yaml;

/// The key type of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on the curve P-256, which is fast to generate.
    EcdsaP256,
    /// RSA with 2048 bits, still the most common kind.
    Rsa2048,
}

/// Whether a certificate is currently valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Valid from 2020 to 2099.
    Current,
    /// Valid from 2020 to 2021.
    Expired,
}

/// An authority that signs end-entity certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
    pem: String,
    /// The intermediate certificates between this authority and the root.
    intermediates: Vec<CertificateDer<'static>>,
}

impl Authority {
    /// Creates an authority with the common name `name`.
    pub fn new(name: &str) -> Self {
        Self::create(name, None)
    }

    /// Creates an intermediate CA; its chains are one certificate longer.
    pub fn intermediate(&self, name: &str) -> Self {
        Self::create(name, Some(self))
    }

    fn create(name: &str, parent: Option<&Self>) -> Self {
        let key = key_pair(KeyKind::EcdsaP256);
        let mut params = CertificateParams::new(Vec::new()).expect("no names are valid names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = match parent {
            None => params.self_signed(&key),
            Some(parent) => params.signed_by(&key, &parent.issuer),
        };
        let certificate = certificate.expect("an authority can sign");
        let (der, pem) = (certificate.der().clone(), certificate.pem());
        let intermediates = parent
            .map(|parent| [std::slice::from_ref(&der), &parent.intermediates].concat())
            .unwrap_or_default();
        Self { issuer: Issuer::new(params, key), der, pem, intermediates }
    }

    /// Issues a certificate for `names` (DNS names, wildcards or IP addresses), the first one also as common name.
    pub fn issue(&self, names: &[&str], kind: KeyKind, validity: Validity) -> Leaf {
        self.issue_with(names, kind, validity, |_| {})
    }

    pub(crate) fn issue_with(
        &self,
        names: &[&str],
        kind: KeyKind,
        validity: Validity,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Leaf {
        let key = key_pair(kind);
        let (uris, names): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.contains("://"));
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let mut params = CertificateParams::new(names.clone()).expect("the names of a test are valid");
        let uris = uris.into_iter().map(|uri| uri.try_into().expect("the URIs of a test are ASCII"));
        params.subject_alt_names.extend(uris.map(SanType::URI));
        if let Some(first) = names.first() {
            params.distinguished_name.push(DnType::CommonName, first.as_str());
        }
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = match validity {
            Validity::Current => date_time_ymd(2099, 1, 1),
            Validity::Expired => date_time_ymd(2021, 1, 1),
        };
        let mut serial = [0; 8];
        provider().secure_random.fill(&mut serial).expect("the machine has random bytes");
        let serial = u64::from_be_bytes(serial);
        params.serial_number = Some(SerialNumber::from(serial));
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("an authority can sign");
        Leaf {
            serial,
            chain_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            chain_der: [std::slice::from_ref(certificate.der()), &self.intermediates].concat(),
            key_der: PrivatePkcs8KeyDer::from(key.serialize_der()),
        }
    }

    /// A valid ECDSA certificate for `names`.
    pub fn leaf(&self, names: &[&str]) -> Leaf {
        self.issue(names, KeyKind::EcdsaP256, Validity::Current)
    }

    /// A revocation list with these certificates, as PEM.
    pub fn revocation_list(&self, leaves: &[&Leaf]) -> String {
        let revoked = |leaf: &&Leaf| RevokedCertParams {
            serial_number: SerialNumber::from(leaf.serial),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(2099, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: leaves.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("an authority can sign");
        list.pem().expect("a list can be written as PEM")
    }

    /// The signing key.
    pub(crate) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    /// The authority's own certificate as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A client configuration that trusts this authority alone.
    pub fn client_config(&self) -> ClientConfig {
        self.client_config_with_versions(rustls::ALL_VERSIONS)
    }

    /// As [`Authority::client_config`], for some versions of TLS only.
    pub fn client_config_with_versions(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).expect("an authority made here is a valid trust anchor");
        client_builder(versions).with_root_certificates(roots).with_no_client_auth()
    }
}

/// An end-entity certificate with its key.
#[derive(Debug)]
pub struct Leaf {
    serial: u64,
    /// The chain as PEM.
    pub chain_pem: String,
    /// The key as PEM (PKCS #8).
    pub key_pem: String,
    /// The chain as DER, the end-entity certificate first.
    pub chain_der: Vec<CertificateDer<'static>>,
    /// The key as DER (PKCS #8).
    pub key_der: PrivatePkcs8KeyDer<'static>,
}

impl Leaf {
    /// A server configuration with this certificate that offers `alpn`.
    pub fn server_config(&self, alpn: &[&str]) -> ServerConfig {
        let key = PrivateKeyDer::Pkcs8(self.key_der.clone_key());
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the provider speaks TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_single_cert(self.chain_der.clone(), key)
            .expect("a certificate made here fits its key");
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }

    /// `config` for a client that presents this certificate when asked.
    pub fn add_client_certificate(&self, mut config: ClientConfig) -> ClientConfig {
        let key = PrivateKeyDer::Pkcs8(self.key_der.clone_key());
        let certified = CertifiedKey::from_der(self.chain_der.clone(), key, &provider());
        let certified = Arc::new(certified.expect("a certificate made here fits its key"));
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        config
    }

    /// The `kubernetes.io/tls` Secret `namespace/name` with this certificate, as YAML.
    pub fn secret_yaml(&self, namespace: &str, name: &str) -> String {
        tls_secret_yaml(namespace, name, &self.chain_pem, &self.key_pem)
    }

    /// Writes `tls.crt` and `tls.key` into `directory`; returns their paths in that order.
    pub fn write_to(&self, directory: &Path) -> std::io::Result<(PathBuf, PathBuf)> {
        let (certificate, key) = (directory.join("tls.crt"), directory.join("tls.key"));
        std::fs::write(&certificate, &self.chain_pem)?;
        std::fs::write(&key, &self.key_pem)?;
        Ok((certificate, key))
    }
}

/// A `kubernetes.io/tls` Secret as YAML with any text as certificate and key, valid or not.
pub fn tls_secret_yaml(namespace: &str, name: &str, certificate: &str, key: &str) -> String {
    yaml(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": namespace },
        "type": "kubernetes.io/tls",
        "data": { "tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key) },
    }))
}

/// A client configuration that accepts every certificate, for tests that inspect the certificate themselves.
pub fn unverified_client_config() -> ClientConfig {
    unverified_client_config_with_provider(provider())
}

/// As [`unverified_client_config`], with another cryptography provider.
pub fn unverified_client_config_with_provider(provider: Arc<CryptoProvider>) -> ClientConfig {
    build_unverified_client_config(provider, rustls::ALL_VERSIONS, Arc::default())
}

/// As [`unverified_client_config`], for some TLS versions only, and where it stores the OCSP response of the last full
/// handshake; empty if the server sent none.
pub fn client_config_recording_ocsp(
    versions: &[&'static SupportedProtocolVersion],
) -> (ClientConfig, Arc<Mutex<Vec<u8>>>) {
    let stapled = Arc::default();
    (build_unverified_client_config(provider(), versions, Arc::clone(&stapled)), stapled)
}

fn build_unverified_client_config(
    provider: Arc<CryptoProvider>,
    versions: &[&'static SupportedProtocolVersion],
    stapled: Arc<Mutex<Vec<u8>>>,
) -> ClientConfig {
    let verifier = Arc::new(TrustAnything { provider: Arc::clone(&provider), stapled });
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("the provider speaks TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth()
}

/// The cryptography provider of every configuration made here.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn client_builder(
    versions: &[&'static SupportedProtocolVersion],
) -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .expect("the provider speaks TLS 1.2 and 1.3")
}

fn key_pair(kind: KeyKind) -> KeyPair {
    match kind {
        KeyKind::EcdsaP256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
        KeyKind::Rsa2048 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
    }
    .expect("aws-lc makes both kinds of key")
}

/// Accepts every certificate, but still checks that the server has its key.
#[derive(Debug)]
struct TrustAnything {
    provider: Arc<CryptoProvider>,
    /// The last OCSP response.
    stapled: Arc<Mutex<Vec<u8>>>,
}

impl ServerCertVerifier for TrustAnything {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.stapled.lock().expect("nobody panics with it") = ocsp_response.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
