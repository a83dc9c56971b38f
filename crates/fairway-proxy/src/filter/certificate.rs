//! Client certificates: checks the one that was presented, and describes it to the endpoint.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fairway_http::Head;
use fairway_model::ClientCertificateMode;
use fairway_routing::CompiledCertificate;

use super::own_response::start_own_response;
use super::verdict::{FilterContext, ResponseScope, Verdict};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::peer::Scheme;
use crate::tls::ClientCertificate;

/// The headers that describe the certificate. Those of the client are removed.
const CERTIFICATE_HEADERS: [&str; 4] =
    ["ssl-client-cert", "ssl-client-verify", "ssl-client-subject-dn", "ssl-client-issuer-dn"];

/// Checks the certificate, and writes its headers. A refusal applies to the whole host.
pub(super) fn check_certificate<'r>(
    step: &CompiledCertificate,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    match certificate_verdict(step, context, buffers) {
        Verdict::Refused(fault) => Verdict::RefusedByHost(fault),
        verdict => verdict,
    }
}

fn certificate_verdict<'r>(
    step: &CompiledCertificate,
    context: &FilterContext<'_>,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    CERTIFICATE_HEADERS.iter().for_each(|name| buffers.request.remove(name.as_bytes()));
    let settings = &step.source;
    let shown = match (context.scheme, context.proof) {
        (Scheme::Http, _) => None,
        // The certificate was verified by other rules, or not at all (RFC 9110 §15.5.20).
        (Scheme::Https, None) => return Verdict::Refused(Fault::Misdirected),
        (Scheme::Https, Some(proof)) if *proof.host != *buffers.host || proof.rules != settings.rules => {
            return Verdict::Refused(Fault::Misdirected);
        }
        (Scheme::Https, Some(proof)) => {
            let fault = match (settings.rules.demand, proof.certificate.as_ref().map(|shown| shown.verdict)) {
                (ClientCertificateMode::Required, None) => Some(Fault::CertificateMissing),
                (ClientCertificateMode::Required | ClientCertificateMode::Optional, Some(Err(_))) => {
                    Some(Fault::CertificateRefused)
                }
                _ => None,
            };
            match (fault, &settings.error_page) {
                (None, _) => {}
                (Some(fault), None) => return Verdict::Refused(fault),
                // A path on the same host would redirect in a loop.
                (Some(fault), Some(page)) if page.starts_with('/') => return Verdict::Refused(fault),
                (Some(_), Some(page)) => {
                    start_own_response(buffers, 302, None);
                    buffers.response.append(b"Location", page.as_bytes());
                    return Verdict::Responded(ResponseScope::Host);
                }
            }
            write_headers(&mut buffers.request, proof.certificate.as_ref(), settings.forwarded);
            proof.certificate.as_ref()
        }
    };
    match step.accepts_subject(shown.map_or("", |shown| &shown.subject)) {
        true => Verdict::Pass,
        false => Verdict::Refused(Fault::AccessDenied),
    }
}

/// Writes `$ssl_client_verify`, `$ssl_client_s_dn`, `$ssl_client_i_dn` and `$ssl_client_escaped_cert` as nginx does.
fn write_headers(request: &mut Head, shown: Option<&ClientCertificate>, forwarded: bool) {
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

/// The certificate as URL-escaped PEM (RFC 7468 §2).
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
