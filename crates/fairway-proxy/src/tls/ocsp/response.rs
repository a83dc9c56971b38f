//! Parses an OCSP response (RFC 6960 §4.2.1) and verifies its signer, certificate and validity.

use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage, RawPublicKeyEntity, anchor_from_trusted_cert};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use super::request::{OcspRequest, key_hash};
use crate::tls::der::{Value, Values};
use crate::tls::signatures;

/// `id-pkix-ocsp-basic`.
const BASIC_RESPONSE_OID: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];
/// `id-kp-OCSPSigning`.
const OCSP_SIGNING_OID: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 9];
/// How far a responder's clock may be ahead, in seconds.
const MAX_CLOCK_SKEW_SECONDS: u64 = 300;
/// Certificates of a response to try. A delegated responder needs one.
const MAX_CERTIFICATES: usize = 4;

/// Status of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) status: Status,
    /// End of validity, in seconds since 1970.
    pub(super) next_update: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Good,
    Revoked,
    Unknown,
}

/// Why a response is unusable. Each message is a predicate for the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ResponseError {
    #[error("is not a valid OCSP response")]
    Malformed,
    #[error("is an error (OCSP response status {0})")]
    Unsuccessful(u8),
    #[error("is about another certificate")]
    OtherCertificate,
    #[error(
        "is signed neither by the issuer of the certificate nor by a responder that the issuer authorized"
    )]
    Signature,
    #[error("is not valid yet")]
    NotYetValid,
    #[error("has expired")]
    Expired,
    #[error("has no nextUpdate time")]
    NoNextUpdate,
}

/// Parsed BasicOCSPResponse.
struct BasicResponse<'r> {
    /// The signed data.
    data: &'r [u8],
    signer: SignerName<'r>,
    responses: Values<'r>,
    /// Content of the AlgorithmIdentifier.
    algorithm: &'r [u8],
    signature: &'r [u8],
    certificates: Values<'r>,
}

#[derive(Clone, Copy)]
enum SignerName<'r> {
    Subject(&'r [u8]),
    KeyHash(&'r [u8]),
}

/// Verifies a response at `now`.
pub(super) fn verify(
    response: &[u8],
    inquiry: &OcspRequest,
    now: UnixTime,
) -> Result<Verdict, ResponseError> {
    let basic = BasicResponse::read(basic_response(response)?).ok_or(ResponseError::Malformed)?;
    let verdict = basic.verdict(inquiry, now.as_secs())?;
    match basic.is_signed_for(&inquiry.issuer, now) {
        true => Ok(verdict),
        false => Err(ResponseError::Signature),
    }
}

/// The BasicOCSPResponse in an OCSPResponse.
fn basic_response(response: &[u8]) -> Result<&[u8], ResponseError> {
    let malformed = ResponseError::Malformed;
    let mut outer = Values::new(response);
    let mut parts = outer.enter(0x30).ok_or(malformed)?;
    let status = parts.expect(0x0a).ok_or(malformed)?;
    match status.content {
        [0] => {}
        [status] => return Err(ResponseError::Unsuccessful(*status)),
        _ => return Err(malformed),
    }
    let mut bytes = parts.enter(0xa0).and_then(|mut it| it.enter(0x30)).ok_or(malformed)?;
    match (bytes.expect(0x06), bytes.expect(0x04)) {
        (Some(kind), Some(basic)) if kind.content == BASIC_RESPONSE_OID && outer.is_empty() => {
            Ok(basic.content)
        }
        _ => Err(malformed),
    }
}

impl<'r> BasicResponse<'r> {
    fn read(bytes: &'r [u8]) -> Option<Self> {
        let mut parts = Values::new(bytes).enter(0x30)?;
        let data = parts.expect(0x30)?;
        let algorithm = parts.expect(0x30)?.content;
        // A BIT STRING of whole bytes.
        let [0, signature @ ..] = parts.expect(0x03)?.content else { return None };
        let certificates = parts.enter(0xa0).and_then(|mut it| it.enter(0x30));
        let mut of_data = Values::new(data.content);
        // The version, unless it is the first.
        _ = of_data.expect(0xa0);
        let signer = match of_data.next()? {
            Value { tag: 0xa1, content, .. } => SignerName::Subject(content),
            Value { tag: 0xa2, content, .. } => {
                SignerName::KeyHash(Values::new(content).expect(0x04)?.content)
            }
            _ => return None,
        };
        of_data.expect(0x18)?;
        let responses = of_data.enter(0x30)?;
        let certificates = certificates.unwrap_or(Values::new(&[]));
        Some(Self { data: data.encoded, signer, responses, algorithm, signature, certificates })
    }

    /// Status of this certificate, without checking the signature.
    fn verdict(&self, inquiry: &OcspRequest, now: u64) -> Result<Verdict, ResponseError> {
        for response in self.responses {
            let mut parts = Values::new(response.content);
            let named = parts.enter(0x30).ok_or(ResponseError::Malformed)?;
            if !inquiry.id.names_same(named) {
                continue;
            }
            let status = match parts.next().map(|it| it.tag) {
                Some(0x80) => Status::Good,
                Some(0xa1) => Status::Revoked,
                Some(0x82) => Status::Unknown,
                _ => return Err(ResponseError::Malformed),
            };
            let this_update = parts.next().and_then(time).ok_or(ResponseError::Malformed)?;
            let mut until = parts.enter(0xa0).ok_or(ResponseError::NoNextUpdate)?;
            let next_update = until.next().and_then(time).ok_or(ResponseError::Malformed)?;
            if this_update > now + MAX_CLOCK_SKEW_SECONDS {
                return Err(ResponseError::NotYetValid);
            }
            let is_valid = next_update > now;
            return if is_valid { Ok(Verdict { status, next_update }) } else { Err(ResponseError::Expired) };
        }
        Err(ResponseError::OtherCertificate)
    }

    /// Whether it is signed by the issuer, or by a responder the issuer has certified for that purpose (RFC
    /// 6960 §4.2.2.2).
    fn is_signed_for(&self, issuer: &CertificateDer<'_>, now: UnixTime) -> bool {
        let is_delegated = |certificate: Value<'_>| {
            let certificate = CertificateDer::from(certificate.encoded);
            self.is_signed_by(&certificate) && may_sign_for(issuer, &certificate, now)
        };
        self.is_signed_by(issuer) || self.certificates.take(MAX_CERTIFICATES).any(is_delegated)
    }

    fn is_signed_by(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return false };
        let is_named = match self.signer {
            SignerName::Subject(name) => parsed.subject().as_raw() == name,
            SignerName::KeyHash(hash) => key_hash(&parsed) == hash,
        };
        let key = SubjectPublicKeyInfoDer::from(parsed.tbs_certificate.subject_pki.raw);
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
        let algorithms = signatures::algorithms().all.iter();
        let mut known = algorithms.filter(|it| it.signature_alg_id().as_ref() == self.algorithm);
        is_named && known.any(|it| key.verify_signature(*it, self.data, self.signature).is_ok())
    }
}

/// Whether the issuer directly certified this responder for signing responses. Its revocation is not checked:
/// most such certificates exempt themselves (`id-pkix-ocsp-nocheck`), and clients decide for themselves.
fn may_sign_for(issuer: &CertificateDer<'_>, responder: &CertificateDer<'_>, now: UnixTime) -> bool {
    let (Ok(anchor), Ok(responder)) = (anchor_from_trusted_cert(issuer), EndEntityCert::try_from(responder))
    else {
        return false;
    };
    let (anchors, usage) = ([anchor], KeyUsage::required(OCSP_SIGNING_OID));
    let algorithms = signatures::algorithms().all;
    responder.verify_for_usage(algorithms, &anchors, &[], now, usage, None, None).is_ok()
}

/// A GeneralizedTime in seconds since 1970.
fn time(value: Value<'_>) -> Option<u64> {
    let (_, time) = ASN1Time::from_der(value.encoded).ok().filter(|_| value.tag == 0x18)?;
    time.timestamp().try_into().ok()
}
