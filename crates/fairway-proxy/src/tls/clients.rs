//! Certificates of clients. Every client of a host with such rules is asked for one, and the handshake succeeds whatever it shows:
//! what is wrong with it is said in HTTP (400), as nginx does, and can be shown as a page. A listener verifies its clients in
//! the handshake instead, which fails. The signature of the handshake is verified in any case, so whoever shows a certificate
//! has its key.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use fairway_model::{ClientDemand, ClientVerification};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use webpki::{CertRevocationList, OwnedCertRevocationList};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use crate::tls::chain::{Purpose, Rules, alert};
use crate::tls::roots::Roots;
use crate::tls::signatures;
use crate::tls::tickets::Group;

/// Who may issue the certificates of a host's clients.
#[derive(Debug)]
pub(crate) struct ClientTrust {
    roots: Roots,
    revoked: Vec<CertRevocationList<'static>>,
    depth: usize,
    verifier: Arc<Asking>,
    group: Group,
}

/// What a client's certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The certificate in DER.
    pub der: Box<[u8]>,
    /// Whom it is for, as RFC 2253 writes names.
    pub subject: Box<str>,
    /// Who issued it.
    pub issuer: Box<str>,
    /// Its serial number in hexadecimal digits, as OpenSSL writes it.
    pub serial: Box<str>,
    /// Its SHA-1 fingerprint in hexadecimal digits: a name, which proves nothing.
    pub fingerprint: Box<str>,
    /// Whether it is trusted, or why it is not, in the words of OpenSSL.
    pub verdict: Result<(), &'static str>,
}

impl ClientTrust {
    /// Who is trusted by these rules.
    ///
    /// # Errors
    /// The roots are no certificates, there is none, or a list of revoked ones is none.
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
        let verifier = Arc::new(Asking { hints: subjects.collect() });
        let depth = rules.depth.map_or(usize::MAX, usize::from);
        Ok(Self { roots, revoked, depth, verifier, group: Group::asked(rules) })
    }

    /// Which sessions of clients may be resumed.
    pub(crate) fn group(&self) -> Group {
        self.group
    }

    pub(crate) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        self.verifier.clone()
    }

    /// Fails the handshake of clients whose certificate is not trusted, or who show none where one is required.
    pub(crate) fn enforcing(trust: &Arc<Self>, demand: ClientDemand) -> Arc<dyn ClientCertVerifier> {
        Arc::new(Enforcing { trust: Arc::clone(trust), demand })
    }

    /// What a client has shown: its own certificate first. `None` where it showed none.
    #[must_use]
    pub(crate) fn judge(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Option<Shown> {
        let (own, others) = chain.split_first()?;
        let (subject, issuer, serial) = match X509Certificate::from_der(own) {
            Ok((_, parsed)) => (name(parsed.subject()), name(parsed.issuer()), serial(parsed.raw_serial())),
            Err(_) => Default::default(),
        };
        let fingerprint = digest(&SHA1_FOR_LEGACY_USE_ONLY, own);
        Some(Shown {
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
        let rules = Rules { roots, purpose: Purpose::Client, revoked, depth };
        rules.verify(own, others, now).map(|_| ())
    }
}

/// Asks for a certificate and takes any.
#[derive(Debug)]
struct Asking {
    hints: Vec<DistinguishedName>,
}

impl ClientCertVerifier for Asking {
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

/// Asks for a certificate and takes only one that is trusted.
#[derive(Debug)]
struct Enforcing {
    trust: Arc<ClientTrust>,
    demand: ClientDemand,
}

impl ClientCertVerifier for Enforcing {
    fn client_auth_mandatory(&self) -> bool {
        self.demand == ClientDemand::Required
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

/// The words of OpenSSL (`X509_verify_cert_error_string`), which backends may compare.
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

/// A number, without the zero that only says that it is not negative.
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

/// A name as RFC 2253 §2 writes it: the last part first, as `$ssl_client_s_dn` of nginx has it.
fn name(name: &X509Name<'_>) -> String {
    let parts: Vec<String> = name.iter_rdn().map(part).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join(",")
}

fn part(part: &x509_parser::x509::RelativeDistinguishedName<'_>) -> String {
    let attributes = part.iter().map(|attribute| {
        let kind = attribute.attr_type().to_id_string();
        let kind =
            KINDS.iter().find(|(id, _)| *id == kind).map_or(kind.as_str(), |(_, short)| short).to_owned();
        format!("{kind}={}", escaped(attribute.as_str().unwrap_or_default()))
    });
    attributes.collect::<Vec<_>>().join("+")
}

const KINDS: [(&str, &str); 10] = [
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

/// RFC 2253 §2.4. Bytes that are none of ASCII's printable ones are escaped as OpenSSL does, so that no name can bring a line of
/// its own into a header.
fn escaped(value: &str) -> String {
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
    fn names_cannot_bring_a_line_or_another_attribute() {
        assert_eq!(escaped("a,b=c"), "a\\,b=c");
        assert_eq!(escaped("a\r\nX: b"), "a\\0D\\0AX: b");
        assert_eq!(escaped(" #a "), "\\ #a\\ ");
        assert_eq!(escaped("#é"), "\\#\\C3\\A9");
    }

    #[test]
    fn serial_numbers_are_written_as_openssl_does() {
        for (bytes, text) in [(&[0, 0xa1, 2][..], "A102"), (&[1], "01"), (&[0], "00"), (&[], "")] {
            assert_eq!(serial(bytes), text);
        }
    }

    #[test]
    fn roots_that_are_none_are_an_error() {
        let rules = |roots: &str, revoked: &str| ClientVerification {
            roots: roots.into(),
            revoked: revoked.into(),
            depth: None,
            demand: ClientDemand::Required,
        };
        for (roots, revoked) in
            [("", ""), ("nothing", ""), ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "")]
        {
            assert!(ClientTrust::new(&rules(roots, revoked)).is_err(), "{roots}");
        }
    }
}
