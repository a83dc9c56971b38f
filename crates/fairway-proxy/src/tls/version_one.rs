//! X.509 version 1 certificates, which have no extensions (RFC 5280 §4.1.2.1). `openssl x509 -req` makes them
//! by default, and so does the documented way of making client certificates for ingress-nginx. webpki rejects
//! them. Here one is accepted if a CA issued it directly; it cannot issue others, and because it cannot name a
//! revocation list, it is rejected if there are any lists.

use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, RawPublicKeyEntity};
use x509_parser::certificate::Validity;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};
use x509_parser::time::ASN1Time;

use crate::tls::der::{content, sequence, value};
use crate::tls::signatures;

/// A version 1 certificate.
pub(crate) struct V1Certificate<'c>(X509Certificate<'c>, &'c [u8]);

impl<'c> V1Certificate<'c> {
    /// Parses a peer's certificate; `None` if webpki can read it or it is malformed.
    pub(crate) fn read(certificate: &'c CertificateDer<'_>) -> Option<Self> {
        match EndEntityCert::try_from(certificate) {
            Err(webpki::Error::UnsupportedCertVersion) => {}
            _ => return None,
        }
        let (rest, parsed) = X509Certificate::from_der(certificate).ok()?;
        (rest.is_empty() && parsed.version() == X509Version::V1).then_some(Self(parsed, certificate.as_ref()))
    }

    /// Whether one of `anchors` issued it and it is valid at `now`. Its only name is the common name, to which
    /// name constraints do not apply, so CAs with constraints do not count.
    pub(crate) fn verify(&self, anchors: &[TrustAnchor<'_>], now: UnixTime) -> Result<(), webpki::Error> {
        check_validity(self.0.validity(), now)?;
        // The signed part repeats the algorithm (RFC 5280 §4.1.1.2).
        if self.algorithms().is_none_or(|(outside, inside)| outside != inside) {
            return Err(webpki::Error::SignatureAlgorithmMismatch);
        }
        if self.0.signature_value.unused_bits != 0 {
            return Err(webpki::Error::BadDer);
        }
        let issued = |anchor: &TrustAnchor<'_>| {
            anchor.name_constraints.is_none()
                && sequence(&anchor.subject) == self.0.issuer().as_raw()
                && self.is_signed_by(anchor)
        };
        if anchors.iter().any(issued) { Ok(()) } else { Err(webpki::Error::UnknownIssuer) }
    }

    /// The algorithm outside the signed part, and the one inside it behind the serial number.
    fn algorithms(&self) -> Option<(&[u8], &[u8])> {
        let (signed, _) = value(content(self.1)?)?;
        let (outside, _) = value(content(self.1)?.get(signed.len()..)?)?;
        let (serial, _) = value(content(signed)?)?;
        let (inside, _) = value(content(signed)?.get(serial.len()..)?)?;
        Some((outside, inside))
    }

    fn is_signed_by(&self, anchor: &TrustAnchor<'_>) -> bool {
        let key = SubjectPublicKeyInfoDer::from(sequence(&anchor.subject_public_key_info));
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
        let Some(named) = self.algorithms().and_then(|(outside, _)| content(outside)) else { return false };
        let (signed, signature) = (self.0.tbs_certificate.as_ref(), &self.0.signature_value.data);
        let all = signatures::algorithms().all.iter();
        all.filter(|algorithm| algorithm.signature_alg_id().as_ref() == named)
            .any(|it| key.verify_signature(*it, signed, signature).is_ok())
    }
}

/// Whether a certificate is valid at `now` (RFC 5280 §4.1.2.5).
pub(crate) fn check_validity(validity: &Validity, now: UnixTime) -> Result<(), webpki::Error> {
    let time = |time: ASN1Time| {
        let seconds = u64::try_from(time.timestamp()).map_err(|_| webpki::Error::BadDerTime)?;
        Ok(UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds)))
    };
    let (not_before, not_after) = (time(validity.not_before)?, time(validity.not_after)?);
    if not_before > not_after {
        return Err(webpki::Error::InvalidCertValidity);
    }
    if now < not_before {
        return Err(webpki::Error::CertNotValidYet { time: now, not_before });
    }
    if now > not_after {
        return Err(webpki::Error::CertExpired { time: now, not_after });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fairway_model::TlsVersions;
    use rcgen::KeyPair;
    use rustls::SupportedProtocolVersion;

    use super::*;
    use crate::tls::clients::ClientTrust;
    use crate::tls::suites::ClientAuth;
    use crate::tls::testing::{
        ALWAYS_VALID, Authority, authority, certified, client, complete_handshake, issued, key, server,
        unverified, verdict,
    };
    use crate::tls::tickets::SessionTickets;

    fn trust(authority: &Authority) -> ClientTrust {
        crate::tls::testing::trust(&authority.pem, "")
    }

    #[test]
    fn a_certificate_issued_by_the_ca_is_trusted() {
        let authority = authority();
        let shown =
            trust(&authority).evaluate(&[issued(&authority, &key(), ALWAYS_VALID)], UnixTime::now()).unwrap();
        assert_eq!((shown.verdict, &*shown.serial), (Ok(()), "2A"));
        assert!(shown.subject.contains("CN=clients"), "{}", shown.subject);
    }

    #[test]
    fn a_certificate_of_another_ca_of_the_same_name_is_not_trusted() {
        let (authority, same_name) = (authority(), authority());
        assert_eq!(authority.name, same_name.name);
        let verdict = verdict(&trust(&authority), issued(&same_name, &key(), ALWAYS_VALID));
        assert_eq!(verdict, Err("unable to verify the first certificate"));
    }

    #[test]
    fn it_is_trusted_only_while_valid() {
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
    fn any_changed_byte_invalidates_it() {
        let authority = authority();
        let (trust, good) = (trust(&authority), issued(&authority, &key(), ALWAYS_VALID));
        for at in 0..good.len() {
            let mut changed = good.to_vec();
            changed[at] ^= 1;
            let changed = CertificateDer::from(changed);
            assert!(verdict(&trust, changed).is_err(), "byte {at}");
        }
    }

    /// Whether a client with `certificate` that signs with `key` completes the handshake.
    fn is_let_in(
        trust: &ClientTrust,
        certificate: CertificateDer<'static>,
        key: &KeyPair,
        version: &'static SupportedProtocolVersion,
    ) -> bool {
        let own_authority = authority();
        let server = server(certified(own_authority.der.clone(), &own_authority.key), version);
        let tickets = SessionTickets::default();
        let client_auth = ClientAuth::Unverified(trust);
        let server =
            crate::tls::config_for_host(&server, TlsVersions::Both, None, client_auth, &tickets).unwrap();
        let mut client = client(&unverified(version));
        client.client_auth_cert_resolver = certified(certificate, key);
        complete_handshake(client, server).is_ok_and(|server| server.peer_certificates().is_some())
    }

    #[test]
    fn the_client_must_have_its_key() {
        let authority = authority();
        let trust = trust(&authority);
        for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
            let own_key = key();
            assert!(
                is_let_in(&trust, issued(&authority, &own_key, ALWAYS_VALID), &own_key, version),
                "{version:?}"
            );
            let stolen = issued(&authority, &key(), ALWAYS_VALID);
            assert!(!is_let_in(&trust, stolen, &own_key, version), "{version:?}");
        }
    }
}
