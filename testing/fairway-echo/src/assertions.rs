//! A request as the backend received it, in the JSON format of the conformance suite. Everything is unchanged except the
//! case of names, which HTTP/2 does not keep.

use std::collections::BTreeMap;

use http::{HeaderMap, Version, header, request};
use rustls::{ProtocolVersion, ServerConnection};
use serde::Serialize;

use crate::options::Identity;

/// The JSON body.
#[derive(Serialize)]
struct Assertions<'r> {
    path: String,
    host: String,
    method: &'r str,
    proto: &'static str,
    headers: BTreeMap<String, Vec<String>>,
    #[serde(rename = "httpPort")]
    http_port: String,
    #[serde(flatten)]
    identity: &'r Identity,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<&'r TlsAssertions>,
}

/// The result of the TLS handshake.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TlsAssertions {
    version: &'static str,
    server_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    negotiated_protocol: String,
}

impl TlsAssertions {
    pub(crate) fn from_session(session: &ServerConnection) -> Self {
        Self {
            version: match session.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "",
            },
            server_name: session.server_name().unwrap_or_default().to_owned(),
            negotiated_protocol: text(session.alpn_protocol().unwrap_or_default()),
        }
    }
}

/// The JSON of a request received on `port`.
pub(crate) fn json(
    request: &request::Parts,
    port: u16,
    identity: &Identity,
    tls: Option<&TlsAssertions>,
) -> Vec<u8> {
    let assertions = Assertions {
        path: target(request),
        host: host(request),
        method: request.method.as_str(),
        proto: match request.version {
            Version::HTTP_2 => "HTTP/2.0",
            Version::HTTP_10 => "HTTP/1.0",
            _ => "HTTP/1.1",
        },
        headers: canonical(&request.headers),
        http_port: port.to_string(),
        identity,
        tls,
    };
    let mut json = Vec::with_capacity(1024);
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut json, formatter);
    assertions.serialize(&mut serializer).expect("text and lists of text can be serialised into memory");
    json
}

/// The request target: as sent in HTTP/1, `:path` in HTTP/2.
pub(crate) fn target(request: &request::Parts) -> String {
    match request.uri.path_and_query() {
        Some(path) if request.version == Version::HTTP_2 => path.to_string(),
        _ => request.uri.to_string(),
    }
}

/// The authority of the target, which wins (RFC 9112 §3.2.2), or the `Host` field.
fn host(request: &request::Parts) -> String {
    match request.uri.authority() {
        Some(authority) => authority.to_string(),
        None => request.headers.get(header::HOST).map(|host| text(host.as_bytes())).unwrap_or_default(),
    }
}

/// Headers under their canonical names. Like Go's server, this leaves out headers that are reported elsewhere (`Host`) or
/// describe framing (`Transfer-Encoding`, `Trailer`), and joins HTTP/2 cookies (RFC 9113 §8.2.3).
fn canonical(fields: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut shown: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let hidden = [header::HOST, header::TRANSFER_ENCODING, header::TRAILER];
    for (name, value) in fields.iter().filter(|(name, _)| !hidden.contains(name)) {
        shown.entry(canonical_name(name.as_str())).or_default().push(text(value.as_bytes()));
    }
    shown
}

/// `x-request-id` becomes `X-Request-Id`.
fn canonical_name(name: &str) -> String {
    let mut starts = true;
    let letters = name.chars().map(|letter| {
        let cased = if starts { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        starts = letter == '-';
        cased
    });
    letters.collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_shown_unchanged() {
        let parts = |uri: &str| {
            http::Request::builder().uri(uri).header("host", "h").body(()).unwrap().into_parts().0
        };
        assert_eq!(target(&parts("/a%2fb//c?d=%20")), "/a%2fb//c?d=%20");
        assert_eq!(host(&parts("/")), "h");
        assert_eq!(target(&parts("http://other:8080/x?y")), "http://other:8080/x?y");
        assert_eq!(host(&parts("http://other:8080/x")), "other:8080");
    }
}
