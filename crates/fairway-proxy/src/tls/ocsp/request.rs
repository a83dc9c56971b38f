//! The OCSP request for a certificate: its responder URL (RFC 5280 §4.2.2.1) and the encoded request (RFC 6960
//! §4.1.1).

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use hyper::Uri;
use rustls_pki_types::CertificateDer;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::tls::der::{Value, Values, sequence, tagged};

/// `id-ad-ocsp`.
const OCSP_OID: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1];
/// `id-pe-tlsfeature` (RFC 7633), whose only feature is `status_request`.
const TLS_FEATURE_OID: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 0x18];
/// OID of SHA-1 with tag and length. It identifies the issuer and protects nothing, and every responder
/// supports it (RFC 6960 §4.3).
const SHA1_OID: &[u8] = &[0x06, 5, 0x2b, 0x0e, 3, 2, 0x1a];
/// URL limit in bytes.
const MAX_URL_BYTES: usize = 1_024;

/// An OCSP request for one certificate.
#[derive(Clone, Debug)]
pub(super) struct OcspRequest {
    /// URL of the responder.
    pub(super) responder: Uri,
    pub(super) id: CertificateId,
    pub(super) issuer: CertificateDer<'static>,
    /// Whether clients refuse the certificate without a response (RFC 7633).
    pub(super) must_staple: bool,
}

/// Identifies a certificate by issuer and serial number (RFC 6960 §4.1.1).
#[derive(Clone, Debug)]
pub(super) struct CertificateId {
    issuer_name: [u8; 20],
    issuer_key: [u8; 20],
    /// Content of an INTEGER.
    serial: Vec<u8>,
}

/// Why no request can be built for a certificate that names a responder. Each message is a predicate for the
/// certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestError {
    #[error("names no OCSP responder with a valid http:// URL")]
    Url,
    #[error("names an OCSP responder, but its Secret lacks the certificate of the issuer")]
    Issuer,
}

impl OcspRequest {
    /// The request for the first certificate of `chain`; `None` if it names no responder or is not for servers.
    pub(super) fn for_chain(chain: &[CertificateDer<'static>]) -> Option<Result<Self, RequestError>> {
        let (own, others) = chain.split_first()?;
        let (_, own) = X509Certificate::from_der(own).ok()?;
        let is_for_servers =
            own.extended_key_usage().ok()?.is_none_or(|usage| usage.value.server_auth || usage.value.any);
        let urls = responders(&own);
        if urls.is_empty() || !is_for_servers {
            return None;
        }
        let Some(responder) = urls.into_iter().find_map(plain_url) else {
            return Some(Err(RequestError::Url));
        };
        let inquiry = others.iter().find_map(|issuer| {
            let (_, parsed) = X509Certificate::from_der(issuer).ok()?;
            (parsed.subject().as_raw() == own.issuer().as_raw()).then(|| Self {
                responder: responder.clone(),
                id: CertificateId {
                    issuer_name: sha1(own.issuer().as_raw()),
                    issuer_key: key_hash(&parsed),
                    serial: own.raw_serial().to_vec(),
                },
                issuer: issuer.clone(),
                must_staple: own.extensions().iter().any(|it| it.oid.as_bytes() == TLS_FEATURE_OID),
            })
        });
        Some(inquiry.ok_or(RequestError::Issuer))
    }

    /// The request in DER. It has no nonce: a response serves all clients and may come from a cache (RFC 5019
    /// §4).
    pub(super) fn encode(&self) -> Vec<u8> {
        let id = self.id.encode();
        // OCSPRequest, TBSRequest, requestList and Request.
        (0..4).fold(id, |within, _| sequence(&within))
    }
}

impl CertificateId {
    /// Whether a response is about this certificate.
    pub(super) fn names_same(&self, mut named: Values<'_>) -> bool {
        let algorithm = named.enter(0x30).and_then(|mut it| it.expect(0x06));
        let [name, key] = [0, 1].map(|_| named.expect(0x04));
        let serial = named.expect(0x02);
        let is = |value: Option<Value<'_>>, expected: &[u8]| value.is_some_and(|it| it.content == expected);
        algorithm.is_some_and(|it| it.encoded == SHA1_OID)
            && is(name, &self.issuer_name)
            && is(key, &self.issuer_key)
            && is(serial, &self.serial)
    }

    fn encode(&self) -> Vec<u8> {
        let algorithm = sequence(&[SHA1_OID, &[0x05, 0]].concat());
        let (name, key) = (tagged(0x04, &self.issuer_name), tagged(0x04, &self.issuer_key));
        sequence(&[algorithm, name, key, tagged(0x02, &self.serial)].concat())
    }
}

/// Responder URLs of a certificate.
fn responders<'c>(certificate: &'c X509Certificate<'_>) -> Vec<&'c str> {
    let access = certificate.extensions().iter().filter_map(|it| match it.parsed_extension() {
        ParsedExtension::AuthorityInfoAccess(access) => Some(access),
        _ => None,
    });
    let descriptions = access.flat_map(|access| &access.accessdescs);
    let responders = descriptions.filter(|it| it.access_method.as_bytes() == OCSP_OID);
    responders
        .filter_map(|it| match &it.access_location {
            GeneralName::URI(url) => Some(*url),
            _ => None,
        })
        .collect()
}

/// Accepts only plain HTTP URLs: a response is proven by its signature, and fetching it over TLS could require
/// another response first (RFC 6960 §A.1).
fn plain_url(url: &str) -> Option<Uri> {
    let uri: Uri = Some(url).filter(|url| url.len() <= MAX_URL_BYTES)?.parse().ok()?;
    let authority = uri.authority()?;
    let is_plain = uri.scheme_str() == Some("http") && !authority.host().is_empty();
    (is_plain && !authority.as_str().contains('@')).then_some(uri)
}

/// The key hash by which responders and certificate ids identify a key (RFC 6960 §4.2.1).
pub(super) fn key_hash(certificate: &X509Certificate<'_>) -> [u8; 20] {
    sha1(&certificate.public_key().subject_public_key.data)
}

fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut hash = [0; 20];
    hash.copy_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref());
    hash
}
