//! Certificates of clients: whether the one that was shown is good enough, and what the endpoint is told of it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fairway_http::Head;
use fairway_model::ClientDemand;
use fairway_routing::CompiledCertificate;

use super::answer::own_answer;
use super::verdict::{FilterContext, Made, Verdict};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::peer::Scheme;
use crate::tls::Shown;

/// Fields that say something of it. Nobody else's reach the endpoint.
const FIELDS: [&str; 4] =
    ["ssl-client-cert", "ssl-client-verify", "ssl-client-subject-dn", "ssl-client-issuer-dn"];

/// Judges what was shown, and tells the endpoint. Whoever does not pass is answered for the whole host.
pub(super) fn verified<'r>(
    step: &CompiledCertificate,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    match judged(step, context, buffers) {
        Verdict::Refused(fault) => Verdict::RefusedByHost(fault),
        verdict => verdict,
    }
}

fn judged<'r>(step: &CompiledCertificate, context: &FilterContext<'_>, buffers: &mut Buffers) -> Verdict<'r> {
    FIELDS.iter().for_each(|name| buffers.request.remove(name.as_bytes()));
    let of = &step.of;
    let shown = match (context.scheme, context.proof) {
        (Scheme::Http, _) => None,
        // It was verified by other rules, or not at all (RFC 9110 §15.5.20).
        (Scheme::Https, None) => return Verdict::Refused(Fault::Misdirected),
        (Scheme::Https, Some(proof)) if *proof.host != *buffers.host || proof.rules != of.rules => {
            return Verdict::Refused(Fault::Misdirected);
        }
        (Scheme::Https, Some(proof)) => {
            let fault = match (of.rules.demand, proof.shown.as_ref().map(|shown| shown.verdict)) {
                (ClientDemand::Required, None) => Some(Fault::CertificateMissing),
                (ClientDemand::Required | ClientDemand::Optional, Some(Err(_))) => {
                    Some(Fault::CertificateRefused)
                }
                _ => None,
            };
            match (fault, &of.error_page) {
                (None, _) => {}
                (Some(fault), None) => return Verdict::Refused(fault),
                // On the host itself clients would be sent there again and again.
                (Some(fault), Some(page)) if page.starts_with('/') => return Verdict::Refused(fault),
                (Some(_), Some(page)) => {
                    own_answer(buffers, 302, None);
                    buffers.answer.append(b"Location", page.as_bytes());
                    return Verdict::Answered(Made::ByHost);
                }
            }
            tell(&mut buffers.request, proof.shown.as_ref(), of.forwarded);
            proof.shown.as_ref()
        }
    };
    match step.takes(shown.map_or("", |shown| &shown.subject)) {
        true => Verdict::Pass,
        false => Verdict::Refused(Fault::AccessDenied),
    }
}

/// As `$ssl_client_verify`, `$ssl_client_s_dn`, `$ssl_client_i_dn` and `$ssl_client_escaped_cert` of nginx.
fn tell(request: &mut Head, shown: Option<&Shown>, forwarded: bool) {
    let Some(shown) = shown else {
        request.append(b"ssl-client-verify", b"NONE");
        return;
    };
    match shown.verdict {
        Ok(()) => request.append(b"ssl-client-verify", b"SUCCESS"),
        Err(why) => request.append(b"ssl-client-verify", ["FAILED:", why].concat().as_bytes()),
    }
    request.append(b"ssl-client-subject-dn", shown.subject.as_bytes());
    request.append(b"ssl-client-issuer-dn", shown.issuer.as_bytes());
    if forwarded {
        request.append(b"ssl-client-cert", escaped_pem(&shown.der).as_bytes());
    }
}

/// The certificate as PEM (RFC 7468 §2), escaped as a part of a URL.
pub(crate) fn escaped_pem(der: &[u8]) -> String {
    let mut escaped = "-----BEGIN%20CERTIFICATE-----%0A".to_owned();
    for line in STANDARD.encode(der).as_bytes().chunks(64) {
        for byte in line {
            match byte {
                b'+' => escaped.push_str("%2B"),
                b'/' => escaped.push_str("%2F"),
                b'=' => escaped.push_str("%3D"),
                other => escaped.push(char::from(*other)),
            }
        }
        escaped.push_str("%0A");
    }
    escaped.push_str("-----END%20CERTIFICATE-----%0A");
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_escaped_line_by_line() {
        let escaped = escaped_pem(&[0xfb; 49]);
        let lines: Vec<_> = escaped.split("%0A").collect();
        assert_eq!(lines.len(), 5);
        assert_eq!(
            (lines[0], lines[3], lines[4]),
            ("-----BEGIN%20CERTIFICATE-----", "-----END%20CERTIFICATE-----", "")
        );
        assert!(lines[2].ends_with("%3D%3D") && lines[1].contains("%2B"));
    }
}
