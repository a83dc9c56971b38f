//! Checks the certificates of authorities and revocation lists in a text. Verifies no peer.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use webpki::{OwnedCertRevocationList, anchor_from_trusted_cert};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Whether it contains certificates, all of them usable, checked by the code that later verifies peers.
#[must_use]
pub fn are_certificates(pem: &str) -> bool {
    let mut all = CertificateDer::pem_slice_iter(pem.as_bytes()).peekable();
    all.peek().is_some() && all.all(|it| it.is_ok_and(|der| anchor_from_trusted_cert(&der).is_ok()))
}

/// The certificates whose key type is unsupported: neither certificates they issued nor their own handshakes can be verified.
#[must_use]
pub fn unsupported_keys(pem: &str) -> Vec<String> {
    let all = CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok);
    all.filter_map(|der| {
        let (_, certificate) = X509Certificate::from_der(&der).ok()?;
        let key = unsupported_kind(certificate.public_key())?;
        Some(format!("the certificate of \"{}\" has {key}", certificate.subject()))
    })
    .collect()
}

/// The same if all of them are unsupported, so that no peer could be verified.
#[must_use]
pub fn only_unsupported_keys(pem: &str) -> Option<String> {
    let problems = unsupported_keys(pem);
    let all = CertificateDer::pem_slice_iter(pem.as_bytes()).count();
    (!problems.is_empty() && problems.len() == all).then(|| problems.join("; "))
}

/// The kind of a key whose signatures cannot be verified; `None` if it is supported.
fn unsupported_kind(key: &SubjectPublicKeyInfo<'_>) -> Option<String> {
    let kind = key.algorithm.algorithm.to_id_string();
    match kind.as_str() {
        RSA_OID | RSA_PSS_OID => match key.parsed() {
            Ok(PublicKey::RSA(rsa)) if !(2048..=8192).contains(&rsa.key_size()) => {
                Some(format!("an RSA key of {} bits; 2048 to 8192 are supported", rsa.key_size()))
            }
            _ => None,
        },
        EC_OID => {
            let curve = key.algorithm.parameters.as_ref().and_then(|any| any.as_oid().ok());
            let curve = curve.map_or_else(|| "of its own".to_owned(), |curve| curve.to_id_string());
            (!SUPPORTED_CURVES.contains(&curve.as_str()))
                .then(|| format!("an EC key on the curve {curve}; P-256, P-384 and P-521 are supported"))
        }
        _ if OTHER_SUPPORTED_KEYS.contains(&kind.as_str()) => None,
        _ => Some(format!("a key of the unsupported kind {kind}")),
    }
}

const RSA_OID: &str = "1.2.840.113549.1.1.1";
const RSA_PSS_OID: &str = "1.2.840.113549.1.1.10";
const EC_OID: &str = "1.2.840.10045.2.1";
/// P-256, P-384, P-521.
const SUPPORTED_CURVES: [&str; 3] = ["1.2.840.10045.3.1.7", "1.3.132.0.34", "1.3.132.0.35"];
/// Ed25519 and ML-DSA.
const OTHER_SUPPORTED_KEYS: [&str; 4] =
    ["1.3.101.112", "2.16.840.1.101.3.4.3.17", "2.16.840.1.101.3.4.3.18", "2.16.840.1.101.3.4.3.19"];

/// Whether all revocation lists are usable. None at all is valid, too.
#[must_use]
pub fn are_revocation_lists(pem: &str) -> bool {
    let mut all = CertificateRevocationListDer::pem_slice_iter(pem.as_bytes()).peekable();
    pem.trim().is_empty()
        || (all.peek().is_some()
            && all.all(|it| it.is_ok_and(|der| OwnedCertRevocationList::from_der(der.as_ref()).is_ok())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `openssl req -x509 -newkey rsa:1024 -nodes -subj /CN=short -days 36500`
    const SHORT: &str = include_str!("../tests/fixtures/rsa-1024.crt");
    /// `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:secp256k1 -nodes -subj /CN=koblitz -days 36500`
    const KOBLITZ: &str = include_str!("../tests/fixtures/secp256k1.crt");
    /// `openssl req -x509 -newkey ed448 -nodes -subj /CN=448 -days 36500`
    const ED448: &str = include_str!("../tests/fixtures/ed448.crt");
    /// `openssl req -x509 -newkey rsa-pss -pkeyopt rsa_keygen_bits:2048 -nodes -subj /CN=pss -days 36500`
    const PSS: &str = include_str!("../tests/fixtures/rsa-pss.crt");

    #[test]
    fn unsupported_keys_are_named() {
        for (pem, found) in [
            (
                SHORT,
                "the certificate of \"CN=short\" has an RSA key of 1024 bits; 2048 to 8192 are supported",
            ),
            (
                KOBLITZ,
                "the certificate of \"CN=koblitz\" has an EC key on the curve 1.3.132.0.10; P-256, P-384 and P-521 are supported",
            ),
            (ED448, "the certificate of \"CN=448\" has a key of the unsupported kind 1.3.101.113"),
        ] {
            assert!(are_certificates(pem), "{found}");
            let mixed = [PSS, pem].concat();
            assert_eq!(
                (unsupported_keys(&mixed), only_unsupported_keys(&mixed)),
                (vec![found.to_owned()], None)
            );
            assert_eq!(only_unsupported_keys(pem).as_deref(), Some(found));
        }
    }

    #[test]
    fn supported_keys_are_accepted() {
        use rcgen::{
            CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
            PKCS_ECDSA_P521_SHA512, PKCS_ED25519, PKCS_RSA_SHA256,
        };
        for kind in [
            &PKCS_ECDSA_P256_SHA256,
            &PKCS_ECDSA_P384_SHA384,
            &PKCS_ECDSA_P521_SHA512,
            &PKCS_ED25519,
            &PKCS_RSA_SHA256,
        ] {
            let key = KeyPair::generate_for(kind).unwrap();
            let pem = CertificateParams::new(["a.test".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
            assert_eq!(unsupported_keys(&pem), [""; 0]);
        }
        assert_eq!(unsupported_keys(PSS), [""; 0]);
    }
}
