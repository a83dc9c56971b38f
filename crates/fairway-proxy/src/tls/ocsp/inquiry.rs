//! What is asked about a certificate, and whom: its own words about its OCSP responder (RFC 5280 §4.2.2.1), and the request
//! (RFC 6960 §4.1.1).

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use hyper::Uri;
use rustls_pki_types::CertificateDer;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::tls::der::{Value, Values, sequence, tagged};

/// `id-ad-ocsp`.
const OCSP: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1];
/// `id-pe-tlsfeature` (RFC 7633), of which `status_request` is the only one that there is.
const TLS_FEATURE: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 0x18];
/// SHA-1, with its tag and length. It names the issuer and protects nothing, and every responder knows it (RFC 6960 §4.3).
const SHA1: &[u8] = &[0x06, 5, 0x2b, 0x0e, 3, 2, 0x1a];
/// The most bytes of an URL.
const MAX_URL_BYTES: usize = 1_024;

/// What is asked about a certificate.
#[derive(Clone, Debug)]
pub(super) struct Inquiry {
    /// Who is asked.
    pub(super) responder: Uri,
    pub(super) id: CertificateId,
    pub(super) issuer: CertificateDer<'static>,
    /// Whether clients refuse it without a response (RFC 7633).
    pub(super) must_staple: bool,
}

/// Names a certificate by its issuer and number (RFC 6960 §4.1.1).
#[derive(Clone, Debug)]
pub(super) struct CertificateId {
    issuer_name: [u8; 20],
    issuer_key: [u8; 20],
    /// The content of an INTEGER.
    serial: Vec<u8>,
}

/// Why nothing can be asked about a certificate that names a responder. Each is a sentence without its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Obstacle {
    #[error("names no OCSP responder whose URL begins with http:// and can be read")]
    Url,
    #[error("names an OCSP responder, but the certificate of its issuer is not in its Secret")]
    Issuer,
}

impl Inquiry {
    /// What is asked about the first certificate of `chain`; `None` if it names no responder, or is for no server.
    pub(super) fn about(chain: &[CertificateDer<'static>]) -> Option<Result<Self, Obstacle>> {
        let (own, others) = chain.split_first()?;
        let (_, own) = X509Certificate::from_der(own).ok()?;
        let is_for_servers =
            own.extended_key_usage().ok()?.is_none_or(|usage| usage.value.server_auth || usage.value.any);
        let urls = responders(&own);
        if urls.is_empty() || !is_for_servers {
            return None;
        }
        let Some(responder) = urls.into_iter().find_map(plain_url) else { return Some(Err(Obstacle::Url)) };
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
                must_staple: own.extensions().iter().any(|it| it.oid.as_bytes() == TLS_FEATURE),
            })
        });
        Some(inquiry.ok_or(Obstacle::Issuer))
    }

    /// The request, in DER. It has no nonce: a response is for all clients, and may come from a cache (RFC 5019 §4).
    pub(super) fn request(&self) -> Vec<u8> {
        let id = self.id.encode();
        // OCSPRequest, TBSRequest, requestList and Request.
        (0..4).fold(id, |within, _| sequence(&within))
    }
}

impl CertificateId {
    /// Whether a response names this certificate.
    pub(super) fn is(&self, mut named: Values<'_>) -> bool {
        let algorithm = named.enter(0x30).and_then(|mut it| it.expect(0x06));
        let [name, key] = [0, 1].map(|_| named.expect(0x04));
        let serial = named.expect(0x02);
        let is = |value: Option<Value<'_>>, expected: &[u8]| value.is_some_and(|it| it.content == expected);
        algorithm.is_some_and(|it| it.whole == SHA1)
            && is(name, &self.issuer_name)
            && is(key, &self.issuer_key)
            && is(serial, &self.serial)
    }

    fn encode(&self) -> Vec<u8> {
        let algorithm = sequence(&[SHA1, &[0x05, 0]].concat());
        let (name, key) = (tagged(0x04, &self.issuer_name), tagged(0x04, &self.issuer_key));
        sequence(&[algorithm, name, key, tagged(0x02, &self.serial)].concat())
    }
}

/// The URLs of the responders of a certificate.
fn responders<'c>(certificate: &'c X509Certificate<'_>) -> Vec<&'c str> {
    let access = certificate.extensions().iter().filter_map(|it| match it.parsed_extension() {
        ParsedExtension::AuthorityInfoAccess(access) => Some(access),
        _ => None,
    });
    let descriptions = access.flat_map(|access| &access.accessdescs);
    let responders = descriptions.filter(|it| it.access_method.as_bytes() == OCSP);
    responders
        .filter_map(|it| match &it.access_location {
            GeneralName::URI(url) => Some(*url),
            _ => None,
        })
        .collect()
}

/// A URL that is asked without TLS: a response proves itself by its signature, and asking for it by TLS could need another
/// response first (RFC 6960 §A.1).
fn plain_url(url: &str) -> Option<Uri> {
    let uri: Uri = Some(url).filter(|url| url.len() <= MAX_URL_BYTES)?.parse().ok()?;
    let authority = uri.authority()?;
    let is_plain = uri.scheme_str() == Some("http") && !authority.host().is_empty();
    (is_plain && !authority.as_str().contains('@')).then_some(uri)
}

/// By which a responder may name itself (RFC 6960 §4.2.1), and names of certificates have their issuer.
pub(super) fn key_hash(certificate: &X509Certificate<'_>) -> [u8; 20] {
    sha1(&certificate.public_key().subject_public_key.data)
}

fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut hash = [0; 20];
    hash.copy_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref());
    hash
}
