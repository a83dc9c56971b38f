//! Verification of handshake signatures, which prove that a peer has the key of its certificate, and the
//! signature algorithms for certificates. A signature does not prove whom the certificate is for.
//!
//! rustls reads the key with webpki, which rejects version 1 certificates and those with unknown extensions.
//! The key is read anyway: whether the certificate is trusted is a separate question, and an unverified peer
//! may have any certificate.

use std::sync::LazyLock;

use aws_lc_rs::signature::{
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
    UnparsedPublicKey,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm,
    SubjectPublicKeyInfoDer, alg_id,
};
use webpki::{EndEntityCert, RawPublicKeyEntity};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Algorithms of rustls, plus keys restricted to RSA-PSS (RFC 4055 §1.2).
pub(crate) fn algorithms() -> &'static WebPkiSupportedAlgorithms {
    static ALGORITHMS: LazyLock<WebPkiSupportedAlgorithms> = LazyLock::new(|| {
        let known = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        let schemes: Vec<_> =
            PSS_SCHEMES.iter().zip(&PSS_ALGORITHMS).map(|(scheme, both)| (*scheme, &both[..])).collect();
        let all: Vec<_> = known.all.iter().copied().chain(PSS_ALGORITHMS.iter().flatten().copied()).collect();
        WebPkiSupportedAlgorithms {
            all: Vec::leak(all),
            mapping: Vec::leak([known.mapping, &schemes].concat()),
        }
    });
    &ALGORITHMS
}

/// `rsa_pss_pss_sha256`, `_sha384` and `_sha512` (RFC 8446 §4.2.3).
static PSS_SCHEMES: [SignatureScheme; 3] =
    [SignatureScheme::Unknown(0x0809), SignatureScheme::Unknown(0x080a), SignatureScheme::Unknown(0x080b)];

/// Verifies the signature of a TLS 1.2 handshake.
pub(crate) fn verify_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    if EndEntityCert::try_from(certificate).is_ok() {
        return verify_tls12_signature(message, certificate, signature, algorithms());
    }
    verify_with_any(algorithms_for(signature.scheme), &public_key(certificate)?, message, signature)
}

/// Verifies the signature of a TLS 1.3 handshake.
pub(crate) fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    if PSS_SCHEMES.contains(&signature.scheme) {
        // rustls would only try the first algorithm, which is for one of several identifiers of such keys.
        return verify_with_any(
            algorithms_for(signature.scheme),
            &public_key(certificate)?,
            message,
            signature,
        );
    }
    if EndEntityCert::try_from(certificate).is_ok() {
        return verify_tls13_signature(message, certificate, signature, algorithms());
    }
    verify_tls13_signature_with_raw_key(message, &public_key(certificate)?, signature, algorithms())
}

fn verify_with_any(
    algorithms: &[&dyn SignatureVerificationAlgorithm],
    key: &SubjectPublicKeyInfoDer<'_>,
    message: &[u8],
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let key = RawPublicKeyEntity::try_from(key).map_err(|_| CertificateError::BadEncoding)?;
    let fits = |algorithm: &&dyn SignatureVerificationAlgorithm| {
        key.verify_signature(*algorithm, message, signature.signature()).is_ok()
    };
    match algorithms.iter().any(fits) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

fn algorithms_for(scheme: SignatureScheme) -> &'static [&'static dyn SignatureVerificationAlgorithm] {
    let mapping = algorithms().mapping;
    mapping.iter().find(|(known, _)| *known == scheme).map_or(&[], |(_, algorithms)| algorithms)
}

/// The public key of any certificate (RFC 5280 §4.1.2.7).
fn public_key(
    certificate: &CertificateDer<'_>,
) -> Result<SubjectPublicKeyInfoDer<'static>, CertificateError> {
    if let Ok(parsed) = EndEntityCert::try_from(certificate) {
        return Ok(parsed.subject_public_key_info());
    }
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    Ok(SubjectPublicKeyInfoDer::from(parsed.tbs_certificate.subject_pki.raw.to_vec()))
}

/// RSA-PSS with a key restricted to it.
#[derive(Debug)]
struct PssKey {
    key: AlgorithmIdentifier,
    signature: AlgorithmIdentifier,
    parameters: &'static RsaParameters,
}

impl SignatureVerificationAlgorithm for PssKey {
    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let key = UnparsedPublicKey::new(self.parameters, key);
        key.verify(message, signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.key
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signature
    }
}

/// `id-RSASSA-PSS` without parameters: a key for all of them (RFC 4055 §3.1).
const ANY_PSS: AlgorithmIdentifier =
    AlgorithmIdentifier::from_slice(&[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10]);

/// By hash function, in the order of [`PSS_SCHEMES`]: a key for all parameters, and one for exactly these.
static PSS_ALGORITHMS: [[&dyn SignatureVerificationAlgorithm; 2]; 3] = [
    [
        &PssKey { key: ANY_PSS, signature: alg_id::RSA_PSS_SHA256, parameters: &RSA_PSS_2048_8192_SHA256 },
        &PssKey {
            key: alg_id::RSA_PSS_SHA256,
            signature: alg_id::RSA_PSS_SHA256,
            parameters: &RSA_PSS_2048_8192_SHA256,
        },
    ],
    [
        &PssKey { key: ANY_PSS, signature: alg_id::RSA_PSS_SHA384, parameters: &RSA_PSS_2048_8192_SHA384 },
        &PssKey {
            key: alg_id::RSA_PSS_SHA384,
            signature: alg_id::RSA_PSS_SHA384,
            parameters: &RSA_PSS_2048_8192_SHA384,
        },
    ],
    [
        &PssKey { key: ANY_PSS, signature: alg_id::RSA_PSS_SHA512, parameters: &RSA_PSS_2048_8192_SHA512 },
        &PssKey {
            key: alg_id::RSA_PSS_SHA512,
            signature: alg_id::RSA_PSS_SHA512,
            parameters: &RSA_PSS_2048_8192_SHA512,
        },
    ],
];
