//! OCSP responses (RFC 6960) as responders of an [`Authority`] make them, good and bad; nothing here reads one.

use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, KeyPair, SigningKey};

use crate::certificates::{Authority, KeyKind, Leaf, Validity};

/// 1.3.6.1.5.5.7.48.1: `id-ad-ocsp`.
const OCSP: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1];
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];

/// The status of a certificate in a response.
#[derive(Clone, Debug)]
pub struct OcspAnswer {
    /// A CertStatus in DER.
    pub status: Vec<u8>,
    /// In seconds from now, as the next.
    pub this_update: i64,
    /// `None` omits it.
    pub next_update: Option<i64>,
    /// Whether it is about a certificate with another number.
    pub other_serial: bool,
}

impl OcspAnswer {
    /// Good, since an hour ago and for another day.
    pub fn good() -> Self {
        let status = tagged(0x80, &[]);
        Self { status, this_update: -3_600, next_update: Some(86_400), other_serial: false }
    }

    /// Revoked an hour ago.
    pub fn revoked() -> Self {
        Self { status: tagged(0xa1, &time(-3_600)), ..Self::good() }
    }

    /// The responder does not know the certificate.
    pub fn unknown() -> Self {
        Self { status: tagged(0x82, &[]), ..Self::good() }
    }
}

/// A delegated OCSP signer of a CA, with a certificate for that purpose.
pub struct DelegatedResponder {
    key: KeyPair,
    name: String,
    certificate: Vec<u8>,
}

impl DelegatedResponder {
    /// A signer with a certificate issued by `authority`, with the OCSP signing usage if `authorized`.
    pub fn new(authority: &Authority, name: &str, authorized: bool) -> Self {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("aws-lc makes such keys");
        let mut params = CertificateParams::new(Vec::new()).expect("no names are valid names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        if authorized {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::OcspSigning);
        }
        let certificate = params.signed_by(&key, authority.issuer()).expect("an authority can sign");
        Self { key, name: name.to_owned(), certificate: certificate.der().to_vec() }
    }

    /// A response to a request.
    pub fn respond(&self, request: &[u8], response: &OcspAnswer) -> Vec<u8> {
        let name = [tagged(0x06, COMMON_NAME), tagged(0x0c, self.name.as_bytes())].concat();
        let name = tagged(0x30, &tagged(0x31, &tagged(0x30, &name)));
        respond(&self.key, &tagged(0xa1, &name), &[&self.certificate], request, response)
    }
}

impl Authority {
    /// A current ECDSA certificate for `names` whose OCSP responder has this URL.
    pub fn leaf_with_responder(&self, names: &[&str], url: &str) -> Leaf {
        self.issue_with(names, KeyKind::EcdsaP256, Validity::Current, |params| {
            let access =
                CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], authority_access(url));
            params.custom_extensions.push(access);
        })
    }

    /// A response of the authority itself to a request, by the hash that the request has for the issuer's key.
    pub fn ocsp_response(&self, request: &[u8], response: &OcspAnswer) -> Vec<u8> {
        respond_by_key(self.issuer().key(), request, response)
    }

    /// A backend handler that returns such responses.
    pub fn ocsp_signer(&self) -> impl Fn(&[u8], &OcspAnswer) -> Vec<u8> + Send + Sync + use<> {
        let key = KeyPair::try_from(self.issuer().key().serialize_der()).expect("it was a key before");
        move |request, answer| respond_by_key(&key, request, answer)
    }
}

/// A response without a verdict.
pub fn unsuccessful(status: u8) -> Vec<u8> {
    tagged(0x30, &tagged(0x0a, &[status]))
}

/// The content of an AuthorityInfoAccess with this responder.
fn authority_access(url: &str) -> Vec<u8> {
    let description = [tagged(0x06, OCSP), tagged(0x86, url.as_bytes())].concat();
    tagged(0x30, &tagged(0x30, &description))
}

fn respond_by_key(key: &KeyPair, request: &[u8], response: &OcspAnswer) -> Vec<u8> {
    let name = tagged(0xa2, &tagged(0x04, &issuer_key(&certificate_id(request))));
    respond(key, &name, &[], request, response)
}

fn respond(
    key: &KeyPair,
    responder: &[u8],
    certificates: &[&[u8]],
    request: &[u8],
    answer: &OcspAnswer,
) -> Vec<u8> {
    let mut id = certificate_id(request);
    if answer.other_serial
        && let Some(last) = id.last_mut()
    {
        *last ^= 1;
    }
    let next = answer.next_update.map(|at| tagged(0xa0, &time(at))).unwrap_or_default();
    let single = tagged(0x30, &[id, answer.status.clone(), time(answer.this_update), next].concat());
    let data = tagged(0x30, &[responder, &time(-60), &tagged(0x30, &single)].concat());
    let signature = key.sign(&data).expect("the key can sign");
    let algorithm = tagged(0x30, &tagged(0x06, ECDSA_WITH_SHA256));
    let signature = tagged(0x03, &[&[0], &signature[..]].concat());
    let certificates = match certificates {
        [] => Vec::new(),
        some => tagged(0xa0, &tagged(0x30, &some.concat())),
    };
    let basic = tagged(0x30, &[data, algorithm, signature, certificates].concat());
    let bytes = [tagged(0x06, &[OCSP, &[1]].concat()), tagged(0x04, &basic)].concat();
    tagged(0x30, &[tagged(0x0a, &[0]), tagged(0xa0, &tagged(0x30, &bytes))].concat())
}

/// The CertID of a request for one certificate, which is the only value at each level above it.
fn certificate_id(request: &[u8]) -> Vec<u8> {
    (0..4).fold(request, |whole, _| split(whole).0).to_vec()
}

/// The hash of the issuer's key in a CertID, behind the algorithm and the hash of the name.
fn issuer_key(id: &[u8]) -> Vec<u8> {
    let parts = split(id).0;
    let (_, parts) = split(parts);
    let (_, parts) = split(parts);
    split(parts).0.to_vec()
}

/// The content of the first value, and the rest.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (header, length) = match bytes {
        [_, 0x81, length, ..] => (3, usize::from(*length)),
        [_, 0x82, high, low, ..] => (4, usize::from(u16::from_be_bytes([*high, *low]))),
        [_, length, ..] => (2, usize::from(*length)),
        _ => panic!("no request for a response: {bytes:?}"),
    };
    (&bytes[header..header + length], &bytes[header + length..])
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let [.., high, low] = content.len().to_be_bytes();
    let length = match content.len() {
        0..=0x7f => vec![low],
        0x80..=0xff => vec![0x81, low],
        _ => vec![0x82, high, low],
    };
    [&[tag], &length[..], content].concat()
}

/// A GeneralizedTime this many seconds from now.
fn time(from_now: i64) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970").as_secs();
    let at = now.cast_signed() + from_now;
    let (days, of_day) = (at.div_euclid(86_400), at.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    tagged(0x18, format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z").as_bytes())
}

/// The date of a day since 1970, counted from one March to the next within eras of 400 years.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_calendar() {
        for (days, expected) in [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (20_787, (2026, 11, 30))] {
            assert_eq!(date(days), expected);
        }
    }
}
