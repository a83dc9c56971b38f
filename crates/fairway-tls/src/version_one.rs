//! Certificates of version 1, which have no extensions (RFC 5280 §4.1.2.1). `openssl x509 -req` makes such ones unless it is told
//! otherwise, and the documented way to make certificates of clients for ingress-nginx has them, so they are met in practice.
//! webpki refuses them. Here one is taken that an authority has issued itself; it cannot issue others, and as it cannot say where
//! it is listed as revoked, it is refused where there are lists.

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{
    CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime,
};
use webpki::{EndEntityCert, RawPublicKeyEntity};
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

/// A certificate of version 1.
pub(crate) struct VersionOne<'c>(X509Certificate<'c>, &'c [u8]);

impl<'c> VersionOne<'c> {
    /// Of what a client shows; `None` for all that webpki reads, or nobody.
    pub(crate) fn read(certificate: &'c CertificateDer<'_>) -> Option<Self> {
        match EndEntityCert::try_from(certificate) {
            Err(webpki::Error::UnsupportedCertVersion) => {}
            _ => return None,
        }
        let (rest, parsed) = X509Certificate::from_der(certificate).ok()?;
        (rest.is_empty() && parsed.version() == X509Version::V1).then_some(Self(parsed, certificate.as_ref()))
    }

    /// Whether one of `anchors` has issued it, and it is in use at `now`.
    pub(crate) fn verify(
        &self,
        anchors: &[TrustAnchor<'_>],
        algorithms: &[&dyn SignatureVerificationAlgorithm],
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let time = |time: x509_parser::time::ASN1Time| {
            let seconds = u64::try_from(time.timestamp()).map_err(|_| webpki::Error::BadDerTime)?;
            Ok(UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds)))
        };
        let (not_before, not_after) =
            (time(self.0.validity().not_before)?, time(self.0.validity().not_after)?);
        if not_before > not_after {
            return Err(webpki::Error::InvalidCertValidity);
        }
        if now < not_before {
            return Err(webpki::Error::CertNotValidYet { time: now, not_before });
        }
        if now > not_after {
            return Err(webpki::Error::CertExpired { time: now, not_after });
        }
        // The same algorithm is written into the part that is signed (RFC 5280 §4.1.1.2).
        if self.algorithms().is_none_or(|(outside, inside)| outside != inside) {
            return Err(webpki::Error::SignatureAlgorithmMismatch);
        }
        if self.0.signature_value.unused_bits != 0 {
            return Err(webpki::Error::BadDer);
        }
        let issued = |anchor: &TrustAnchor<'_>| {
            sequence(&anchor.subject) == self.0.issuer().as_raw() && self.is_signed_by(anchor, algorithms)
        };
        if anchors.iter().any(issued) { Ok(()) } else { Err(webpki::Error::UnknownIssuer) }
    }

    /// The algorithm that the certificate names behind the part that is signed, and the one in it, behind the serial number.
    fn algorithms(&self) -> Option<(&[u8], &[u8])> {
        let (signed, _) = value(content(self.1)?)?;
        let (outside, _) = value(content(self.1)?.get(signed.len()..)?)?;
        let (serial, _) = value(content(signed)?)?;
        let (inside, _) = value(content(signed)?.get(serial.len()..)?)?;
        Some((outside, inside))
    }

    fn is_signed_by(
        &self,
        anchor: &TrustAnchor<'_>,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> bool {
        let key = SubjectPublicKeyInfoDer::from(sequence(&anchor.subject_public_key_info));
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
        let id = self.0.signature_algorithm.oid().as_bytes();
        let named = |algorithm: &&&dyn SignatureVerificationAlgorithm| {
            matches!(algorithm.signature_alg_id().as_ref(), [0x06, length, rest @ ..]
                if usize::from(*length) == id.len() && rest.starts_with(id))
        };
        let (signed, signature) = (self.0.tbs_certificate.as_ref(), &self.0.signature_value.data);
        algorithms.iter().filter(named).any(|it| key.verify_signature(*it, signed, signature).is_ok())
    }

    /// Its key (RFC 5280 §4.1.2.7).
    pub(crate) fn key(&self) -> SubjectPublicKeyInfoDer<'c> {
        SubjectPublicKeyInfoDer::from(self.0.tbs_certificate.subject_pki.raw)
    }

    /// Whether `signature` shows in TLS 1.2 that the client has the key, by one of these algorithms.
    pub(crate) fn verify_handshake(
        &self,
        message: &[u8],
        signature: &DigitallySignedStruct,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Result<(), Error> {
        let key = self.key();
        let refused = |error: CertificateError| Error::InvalidCertificate(error);
        let key = RawPublicKeyEntity::try_from(&key).map_err(|_| refused(CertificateError::BadEncoding))?;
        let fits = |algorithm: &&dyn SignatureVerificationAlgorithm| {
            key.verify_signature(*algorithm, message, signature.signature()).is_ok()
        };
        if algorithms.iter().any(fits) { Ok(()) } else { Err(refused(CertificateError::BadSignature)) }
    }
}

/// The algorithms of a scheme.
pub(crate) fn of_scheme(
    supported: &WebPkiSupportedAlgorithms,
    scheme: SignatureScheme,
) -> &'static [&'static dyn SignatureVerificationAlgorithm] {
    supported.mapping.iter().find(|(known, _)| *known == scheme).map_or(&[], |(_, algorithms)| algorithms)
}

/// The first value of some, with its tag and length, and its content (X.690 §8.1).
fn value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, length) = match *bytes {
        [_, length @ 0..=0x7f, ..] => (2, usize::from(length)),
        [_, 0x81, length, ..] => (3, usize::from(length)),
        [_, 0x82, high, low, ..] => (4, usize::from(u16::from_be_bytes([high, low]))),
        _ => return None,
    };
    Some((bytes.get(..header + length)?, bytes.get(header..header + length)?))
}

/// That of the first value.
fn content(bytes: &[u8]) -> Option<&[u8]> {
    value(bytes).map(|(_, content)| content)
}

/// A SEQUENCE with this content (X.690 §8.9).
fn sequence(content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut whole = vec![0x30];
    match content.len() {
        0..=0x7f => whole.extend(significant.first().or(Some(&0))),
        _ => {
            // At most eight bytes.
            whole.push(0x80 | u8::try_from(significant.len()).unwrap_or(8));
            whole.extend(significant);
        }
    }
    whole.extend(content);
    whole
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairway_model::{ClientDemand, ClientVerification};
    use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SigningKey};
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

    use super::*;
    use crate::clients::ClientTrust;

    const SHA256_WITH_ECDSA: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

    struct Authority {
        key: KeyPair,
        pem: String,
        /// DER.
        name: Vec<u8>,
    }

    fn authority() -> Authority {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "clients");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let name = X509Certificate::from_der(certificate.der()).unwrap().1.subject().as_raw().to_vec();
        Authority { pem: certificate.pem(), name, key }
    }

    /// What `openssl x509 -req` makes of a request: no version and no extensions.
    fn issued(by: &Authority, key: &KeyPair, (from, until): (&str, &str)) -> CertificateDer<'static> {
        let time = |text: &str| [&[0x17, 13][..], text.as_bytes()].concat();
        let algorithm = sequence(SHA256_WITH_ECDSA);
        let key = key.subject_public_key_info();
        let validity = sequence(&[time(from), time(until)].concat());
        let parts = [&[2, 1, 42][..], &algorithm, &by.name, &validity, &by.name, &key].concat();
        let signed = sequence(&parts);
        let signature = by.key.sign(&signed).unwrap();
        let bits = [&[3, u8::try_from(signature.len() + 1).unwrap(), 0][..], &signature].concat();
        CertificateDer::from(sequence(&[signed, algorithm, bits].concat()))
    }

    const ALWAYS: (&str, &str) = ("200101000000Z", "491231235959Z");

    fn key() -> KeyPair {
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap()
    }

    fn trust(authority: &Authority) -> ClientTrust {
        let (roots, revoked) = (authority.pem.as_str().into(), "".into());
        ClientTrust::new(&ClientVerification {
            roots,
            revoked,
            depth: Some(1),
            demand: ClientDemand::Required,
        })
        .unwrap()
    }

    fn verdict(trust: &ClientTrust, shown: CertificateDer<'_>) -> Result<(), &'static str> {
        trust.judge(&[shown], UnixTime::now()).unwrap().verdict
    }

    #[test]
    fn one_that_an_authority_has_issued_is_trusted_and_says_whose_it_is() {
        let authority = authority();
        let shown = trust(&authority).judge(&[issued(&authority, &key(), ALWAYS)], UnixTime::now()).unwrap();
        assert_eq!((shown.verdict, &*shown.serial), (Ok(()), "2A"));
        assert!(shown.subject.contains("CN=clients"), "{}", shown.subject);
    }

    #[test]
    fn what_another_authority_of_the_same_name_has_issued_is_not() {
        let (authority, same_name) = (authority(), authority());
        assert_eq!(authority.name, same_name.name);
        let verdict = verdict(&trust(&authority), issued(&same_name, &key(), ALWAYS));
        assert_eq!(verdict, Err("unable to verify the first certificate"));
    }

    #[test]
    fn it_is_trusted_in_its_time_only() {
        let authority = authority();
        let trust = trust(&authority);
        let past = issued(&authority, &key(), ("200101000000Z", "210101000000Z"));
        assert_eq!(verdict(&trust, past), Err("certificate has expired"));
        let future = issued(&authority, &key(), ("480101000000Z", "490101000000Z"));
        assert_eq!(verdict(&trust, future), Err("certificate is not yet valid"));
        let never = issued(&authority, &key(), ("490101000000Z", "200101000000Z"));
        assert_eq!(verdict(&trust, never), Err("certificate verify failed"));
    }

    #[test]
    fn a_byte_that_is_changed_ends_the_trust() {
        let authority = authority();
        let (trust, good) = (trust(&authority), issued(&authority, &key(), ALWAYS));
        for at in 0..good.len() {
            let mut changed = good.to_vec();
            changed[at] ^= 1;
            let changed = CertificateDer::from(changed);
            assert!(verdict(&trust, changed).is_err(), "byte {at}");
        }
    }

    /// Whether a client that shows `certificate` and signs with `key` gets through the handshake.
    fn shakes_hands(
        trust: &ClientTrust,
        (certificate, key): (CertificateDer<'static>, &KeyPair),
        version: &'static rustls::SupportedProtocolVersion,
    ) -> bool {
        let server_key = self::key();
        let own = CertificateParams::new(["a.test".to_owned()]).unwrap().self_signed(&server_key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(own.der().clone()).unwrap();
        let provider = || Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let private = |key: &KeyPair| PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(trust.verifier())
            .with_single_cert(vec![own.der().clone()], private(&server_key))
            .unwrap();
        let client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        let signing = client.crypto_provider().key_provider.load_private_key(private(key)).unwrap();
        // Without a look at whether they fit.
        let shown = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], signing));
        let client = client.with_client_cert_resolver(Arc::new(shown));
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        let name = ServerName::try_from("a.test").unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        for _ in 0..10 {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).unwrap();
            }
            server.read_tls(&mut &bytes[..]).unwrap();
            if server.process_new_packets().is_err() {
                return false;
            }
            bytes.clear();
            while server.wants_write() {
                server.write_tls(&mut bytes).unwrap();
            }
            client.read_tls(&mut &bytes[..]).unwrap();
            client.process_new_packets().unwrap();
        }
        !server.is_handshaking() && server.peer_certificates().is_some()
    }

    #[test]
    fn who_shows_one_must_have_its_key() {
        let authority = authority();
        let trust = trust(&authority);
        for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
            let own = key();
            assert!(shakes_hands(&trust, (issued(&authority, &own, ALWAYS), &own), version), "{version:?}");
            let stolen = issued(&authority, &key(), ALWAYS);
            assert!(!shakes_hands(&trust, (stolen, &own), version), "{version:?}");
        }
    }

    #[test]
    fn lengths_are_written_as_der_has_them() {
        for (content, header) in
            [(0, &[0x30, 0][..]), (127, &[0x30, 127]), (128, &[0x30, 0x81, 128]), (256, &[0x30, 0x82, 1, 0])]
        {
            assert!(sequence(&vec![7; content]).starts_with(header), "{content}");
        }
    }
}
