//! Verification of client certificates. Hosts with client rules request one, and the handshake succeeds with
//! any: problems are reported in HTTP (400), as in nginx, and can have an error page. Listeners verify clients
//! in the handshake instead, which fails. The handshake signature is always verified, so a client that presents
//! a certificate has its key.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use fairway_model::{ClientCertificateMode, ClientVerification};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use webpki::{CertRevocationList, OwnedCertRevocationList};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use crate::tls::chain::{ChainRules, Purpose, alert};
use crate::tls::roots::Roots;
use crate::tls::signatures;
use crate::tls::tickets::TicketGroup;

/// CAs and revocation lists for clients of a host or listener.
#[derive(Debug)]
pub(crate) struct ClientTrust {
    roots: Roots,
    revoked: Vec<CertRevocationList<'static>>,
    depth: usize,
    verifier: Arc<AcceptAnyCertificate>,
    ticket_group: TicketGroup,
}

/// A client certificate and its verification result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// The certificate in DER.
    pub der: Box<[u8]>,
    /// Subject in RFC 2253 format.
    pub subject: Box<str>,
    /// Issuer in RFC 2253 format.
    pub issuer: Box<str>,
    /// Serial number in hexadecimal digits, as OpenSSL writes it.
    pub serial: Box<str>,
    /// SHA-1 fingerprint in hexadecimal digits: an identifier, not a proof.
    pub fingerprint: Box<str>,
    /// Whether it is trusted, or OpenSSL's message why not.
    pub verdict: Result<(), &'static str>,
}

impl ClientTrust {
    /// Parses the CAs and revocation lists of these rules.
    ///
    /// # Errors
    /// A CA certificate or revocation list is malformed, or there is no CA certificate.
    pub(crate) fn new(rules: &ClientVerification) -> Result<Self, Error> {
        let general = |error: &dyn std::fmt::Display| Error::General(error.to_string());
        let roots = Roots::from_pem(&rules.roots)?;
        let mut revoked = Vec::new();
        for list in CertificateRevocationListDer::pem_slice_iter(rules.revoked.as_bytes()) {
            let list = list.map_err(|error| general(&error))?;
            let list = OwnedCertRevocationList::from_der(list.as_ref()).map_err(|error| general(&error))?;
            revoked.push(CertRevocationList::from(list));
        }
        let subjects = roots.anchors().iter().map(|anchor| DistinguishedName::in_sequence(&anchor.subject));
        let verifier = Arc::new(AcceptAnyCertificate { hints: subjects.collect() });
        let depth = rules.depth.map_or(usize::MAX, usize::from);
        Ok(Self { roots, revoked, depth, verifier, ticket_group: TicketGroup::client_auth(rules) })
    }

    /// Ticket group of sessions under these rules.
    pub(crate) fn ticket_group(&self) -> TicketGroup {
        self.ticket_group
    }

    pub(crate) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        self.verifier.clone()
    }

    /// A verifier that fails the handshake if the certificate is not trusted, or missing where required.
    pub(crate) fn enforcing_verifier(
        trust: &Arc<Self>,
        demand: ClientCertificateMode,
    ) -> Arc<dyn ClientCertVerifier> {
        Arc::new(RequireTrusted { trust: Arc::clone(trust), demand })
    }

    /// Evaluates the chain a client presented, its own certificate first. `None` without one.
    #[must_use]
    pub(crate) fn evaluate(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Option<ClientCertificate> {
        let (own, others) = chain.split_first()?;
        let (subject, issuer, serial) = match X509Certificate::from_der(own) {
            Ok((_, parsed)) => {
                (rfc2253_name(parsed.subject()), rfc2253_name(parsed.issuer()), serial(parsed.raw_serial()))
            }
            Err(_) => Default::default(),
        };
        let fingerprint = digest(&SHA1_FOR_LEGACY_USE_ONLY, own);
        Some(ClientCertificate {
            der: own.as_ref().into(),
            subject: subject.into(),
            issuer: issuer.into(),
            serial: serial.into(),
            fingerprint: hexadecimal(fingerprint.as_ref(), b"0123456789abcdef").into(),
            verdict: self.verify(own, others, now).map_err(|error| reason(&error)),
        })
    }

    fn verify(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let (roots, revoked, depth) = (&self.roots, &*self.revoked, self.depth);
        let rules = ChainRules { roots, purpose: Purpose::Client, revoked, depth };
        rules.verify(own, others, now).map(|_| ())
    }
}

/// Requests a certificate and accepts any.
#[derive(Debug)]
struct AcceptAnyCertificate {
    hints: Vec<DistinguishedName>,
}

impl ClientCertVerifier for AcceptAnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signatures::verify_tls12(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signatures::verify_tls13(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        signatures::algorithms().supported_schemes()
    }
}

/// Requests a certificate and only accepts trusted ones.
#[derive(Debug)]
struct RequireTrusted {
    trust: Arc<ClientTrust>,
    demand: ClientCertificateMode,
}

impl ClientCertVerifier for RequireTrusted {
    fn client_auth_mandatory(&self) -> bool {
        self.demand == ClientCertificateMode::Required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.trust.verifier.hints
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.trust.verify(own, others, now);
        verified.map(|()| ClientCertVerified::assertion()).map_err(|error| alert(error).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trust.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trust.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trust.verifier.supported_verify_schemes()
    }
}

/// OpenSSL's message (`X509_verify_cert_error_string`), which backends may compare.
fn reason(error: &webpki::Error) -> &'static str {
    use webpki::Error as E;
    match error {
        E::CertExpired { .. } => "certificate has expired",
        E::CertNotValidYet { .. } => "certificate is not yet valid",
        E::CertRevoked => "certificate revoked",
        E::CrlExpired { .. } => "CRL has expired",
        E::UnknownRevocationStatus => "unable to get certificate CRL",
        E::UnknownIssuer => "unable to verify the first certificate",
        E::MaximumPathDepthExceeded => "certificate chain too long",
        E::RequiredEkuNotFoundContext(_) => "unsuitable certificate purpose",
        _ => "certificate verify failed",
    }
}

/// A serial number without the leading zero that marks it as positive.
fn serial(bytes: &[u8]) -> String {
    let digits = match bytes {
        [0, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    hexadecimal(digits, b"0123456789ABCDEF")
}

fn hexadecimal(bytes: &[u8], digits: &[u8; 16]) -> String {
    let pair = |byte: &u8| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]].map(char::from);
    bytes.iter().flat_map(pair).collect()
}

/// A name in RFC 2253 §2 format: most specific part first, like `$ssl_client_s_dn` of nginx.
fn rfc2253_name(name: &X509Name<'_>) -> String {
    let parts: Vec<String> = name.iter_rdn().map(rfc2253_part).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join(",")
}

fn rfc2253_part(part: &x509_parser::x509::RelativeDistinguishedName<'_>) -> String {
    let attributes = part.iter().map(|attribute| {
        let kind = attribute.attr_type().to_id_string();
        let kind = ATTRIBUTE_NAMES
            .iter()
            .find(|(id, _)| *id == kind)
            .map_or(kind.as_str(), |(_, short)| short)
            .to_owned();
        format!("{kind}={}", escape_rfc2253(attribute.as_str().unwrap_or_default()))
    });
    attributes.collect::<Vec<_>>().join("+")
}

const ATTRIBUTE_NAMES: [(&str, &str); 10] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

/// Escapes a value (RFC 2253 §2.4). Non-printable and non-ASCII bytes are escaped as in OpenSSL, so that no
/// name can inject a line into a header.
fn escape_rfc2253(value: &str) -> String {
    let mut escaped = String::new();
    for (at, byte) in value.bytes().enumerate() {
        let at_an_end = (at == 0 && matches!(byte, b' ' | b'#')) || (at + 1 == value.len() && byte == b' ');
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                escaped.push('\\');
                escaped.push(char::from(byte));
            }
            _ if at_an_end => {
                escaped.push('\\');
                escaped.push(char::from(byte));
            }
            0x20..=0x7e => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("\\{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_inject_a_line_or_another_attribute() {
        assert_eq!(escape_rfc2253("a,b=c"), "a\\,b=c");
        assert_eq!(escape_rfc2253("a\r\nX: b"), "a\\0D\\0AX: b");
        assert_eq!(escape_rfc2253(" #a "), "\\ #a\\ ");
        assert_eq!(escape_rfc2253("#é"), "\\#\\C3\\A9");
    }

    #[test]
    fn serial_numbers_are_written_as_openssl_does() {
        for (bytes, text) in [(&[0, 0xa1, 2][..], "A102"), (&[1], "01"), (&[0], "00"), (&[], "")] {
            assert_eq!(serial(bytes), text);
        }
    }

    #[test]
    fn invalid_roots_are_an_error() {
        let rules = |roots: &str, revoked: &str| ClientVerification {
            roots: roots.into(),
            revoked: revoked.into(),
            depth: None,
            demand: ClientCertificateMode::Required,
        };
        for (roots, revoked) in
            [("", ""), ("nothing", ""), ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "")]
        {
            assert!(ClientTrust::new(&rules(roots, revoked)).is_err(), "{roots}");
        }
    }
}
