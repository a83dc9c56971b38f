//! Builds the check request: a client's request in Envoy's attributes. Does not decide which parts are sent.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fairway_http::{Head, Known};

use crate::frame;
use crate::generated::address::Address as AnyAddress;
use crate::generated::attribute_context::{HttpRequest, Peer, Request, TlsSession};
use crate::generated::socket_address::{PortSpecifier, Protocol};
use crate::generated::{Address, AttributeContext, CheckRequest, SocketAddress, Timestamp};

/// Tells the service whether the body is truncated.
const PARTIAL_BODY_HEADER: &str = "x-envoy-auth-partial-body";

/// A request to check.
#[derive(Clone, Copy, Debug)]
pub struct CheckedRequest<'a> {
    /// Its headers.
    pub head: &'a Head,
    /// The headers to send, in lower case; empty means all.
    pub sent: &'a [Arc<str>],
    /// Its method.
    pub method: &'a [u8],
    /// Path and query, as the client sent them.
    pub path: &'a [u8],
    /// Host and port.
    pub host: &'a [u8],
    /// `http` or `https`.
    pub scheme: &'a str,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub protocol: &'a str,
    /// The body or its beginning; empty if the service does not get it.
    pub body: &'a [u8],
    /// Whether the body is truncated.
    pub is_body_partial: bool,
    /// The length of the whole body, if known.
    pub size: Option<u64>,
    /// When the request was received.
    pub time: SystemTime,
    /// The identifier of the request.
    pub id: &'a str,
    /// The address of the client.
    pub source: Option<SocketAddr>,
    /// The address the client connected to.
    pub destination: Option<SocketAddr>,
    /// The server name in the client's TLS handshake.
    pub server_name: Option<&'a str>,
    /// The certificate of the client, as URL-encoded PEM.
    pub certificate: Option<&'a str>,
    /// The subject of that certificate.
    pub principal: Option<&'a str>,
}

/// Encodes the framed check request. `context` becomes its `context_extensions`.
#[must_use]
pub fn check_request(request: &CheckedRequest<'_>, context: &[(Arc<str>, Arc<str>)]) -> Vec<u8> {
    let (body, raw_body) = match std::str::from_utf8(request.body) {
        Ok(text) => (text.to_owned(), Vec::new()),
        Err(_) => (String::new(), request.body.to_vec()),
    };
    let http = HttpRequest {
        id: request.id.to_owned(),
        method: lossy_text(request.method),
        headers: header_map(request),
        path: lossy_text(request.path),
        host: lossy_text(request.host),
        scheme: request.scheme.to_owned(),
        // "If unknown, it must be -1."
        size: request.size.and_then(|size| i64::try_from(size).ok()).unwrap_or(-1),
        protocol: request.protocol.to_owned(),
        body,
        raw_body,
    };
    let source = Peer {
        address: request.source.map(socket_address),
        principal: request.principal.unwrap_or_default().to_owned(),
        certificate: request.certificate.unwrap_or_default().to_owned(),
    };
    let destination =
        request.destination.map(|at| Peer { address: Some(socket_address(at)), ..Peer::default() });
    let attributes = AttributeContext {
        source: Some(source),
        destination,
        request: Some(Request { time: Some(timestamp(request.time)), http: Some(http) }),
        context_extensions: context.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        tls_session: request.server_name.map(|name| TlsSession { sni: name.to_owned() }),
    };
    frame::encode(&CheckRequest { attributes: Some(attributes) })
}

/// Header names in lower case; the values of repeated headers are merged, because a map holds one value per name.
fn header_map(request: &CheckedRequest<'_>) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    for (name, value) in [
        (":method", lossy_text(request.method)),
        (":path", lossy_text(request.path)),
        (":authority", lossy_text(request.host)),
        (":scheme", request.scheme.to_owned()),
    ] {
        headers.insert(name.to_owned(), value);
    }
    const SENT_ELSEWHERE: u64 = Known::HOP_BY_HOP | Known::Host.bit();
    for field in request.head.fields().filter(|field| field.known.bit() & SENT_ELSEWHERE == 0) {
        let name = lossy_text(field.name).to_ascii_lowercase();
        if !request.sent.is_empty() && !request.sent.iter().any(|sent| **sent == *name) {
            continue;
        }
        let value = lossy_text(field.value);
        // RFC 9113 §8.2.3: cookie headers are joined with a different separator than list values.
        let separator = if name == "cookie" { "; " } else { "," };
        headers
            .entry(name)
            .and_modify(|values| {
                values.push_str(separator);
                values.push_str(&value);
            })
            .or_insert(value);
    }
    // The client must not set it.
    headers.remove(PARTIAL_BODY_HEADER);
    if !request.body.is_empty() || request.is_body_partial {
        headers.insert(PARTIAL_BODY_HEADER.to_owned(), request.is_body_partial.to_string());
    }
    headers
}

/// "Non-UTF-8 characters will be replaced by '!'."
fn lossy_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '!'));
    }
    text
}

fn socket_address(at: SocketAddr) -> Address {
    let socket = SocketAddress {
        protocol: Protocol::Tcp.into(),
        address: at.ip().to_canonical().to_string(),
        port_specifier: Some(PortSpecifier::PortValue(at.port().into())),
    };
    Address { address: Some(AnyAddress::SocketAddress(socket)) }
}

fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: since.subsec_nanos().cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn head() -> Head {
        let mut head = Head::new();
        head.start_request(b"POST", b"/a?b=c");
        for (name, value) in [
            ("Host", "forged"),
            ("Accept", "a"),
            ("Cookie", "a=1"),
            ("accept", "b"),
            ("COOKIE", "b=2"),
            ("Connection", "close"),
            ("Te", "trailers"),
            ("X-Envoy-Auth-Partial-Body", "false"),
        ] {
            head.append(name.as_bytes(), value.as_bytes());
        }
        head.append(b"X-Latin", b"caf\xe9");
        head
    }

    fn request(head: &Head) -> CheckedRequest<'_> {
        CheckedRequest {
            sent: &[],
            head,
            method: b"POST",
            path: b"/a?b=c",
            host: b"a.example:8443",
            scheme: "https",
            protocol: "HTTP/2",
            body: b"",
            is_body_partial: false,
            size: None,
            time: UNIX_EPOCH + std::time::Duration::new(1_700_000_000, 5),
            id: "7",
            source: Some("[::ffff:192.0.2.1]:1234".parse().unwrap()),
            destination: None,
            server_name: Some("a.example"),
            certificate: Some("-----BEGIN%20"),
            principal: Some("spiffe://a/b"),
        }
    }

    fn sent_attributes(request: &CheckedRequest<'_>) -> AttributeContext {
        let context = [("team".into(), "blue".into())];
        let framed = check_request(request, &context);
        let question = CheckRequest::decode(&framed[frame::PREFIX_BYTES..]).unwrap();
        question.attributes.unwrap()
    }

    fn sent_http(request: &CheckedRequest<'_>) -> HttpRequest {
        sent_attributes(request).request.unwrap().http.unwrap()
    }

    #[test]
    fn headers_are_merged_in_lower_case_without_connection_headers() {
        let head = head();
        let http = sent_http(&request(&head));
        let headers: Vec<_> =
            http.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            (":authority", "a.example:8443"),
            (":method", "POST"),
            (":path", "/a?b=c"),
            (":scheme", "https"),
            ("accept", "a,b"),
            ("cookie", "a=1; b=2"),
            ("x-latin", "caf!"),
        ];
        assert_eq!(headers, expected);
        assert_eq!((http.size, http.path.as_str(), http.protocol.as_str()), (-1, "/a?b=c", "HTTP/2"));
    }

    #[test]
    fn the_client_is_described_by_address_certificate_and_server_name() {
        let head = head();
        let attributes = sent_attributes(&request(&head));
        let source = attributes.source.unwrap();
        assert_eq!(
            (source.principal.as_str(), source.certificate.as_str()),
            ("spiffe://a/b", "-----BEGIN%20")
        );
        let Some(AnyAddress::SocketAddress(socket)) = source.address.unwrap().address else {
            panic!("no address")
        };
        assert_eq!(
            (socket.address.as_str(), socket.port_specifier),
            ("192.0.2.1", Some(PortSpecifier::PortValue(1234)))
        );
        assert_eq!(attributes.tls_session.unwrap().sni, "a.example");
        assert_eq!(attributes.context_extensions["team"], "blue");
        assert_eq!(attributes.request.unwrap().time.unwrap(), Timestamp { seconds: 1_700_000_000, nanos: 5 });
    }

    #[test]
    fn a_body_is_text_or_bytes_and_marked_if_truncated() {
        let head = head();
        let complete = CheckedRequest { body: "é".as_bytes(), size: Some(2), ..request(&head) };
        let http = sent_http(&complete);
        assert_eq!((http.body.as_str(), http.raw_body.len(), http.size), ("é", 0, 2));
        assert_eq!(http.headers[PARTIAL_BODY_HEADER], "false");
        let cut = CheckedRequest { body: &"é".as_bytes()[..1], is_body_partial: true, ..request(&head) };
        let http = sent_http(&cut);
        assert_eq!((http.body.as_str(), http.raw_body.len()), ("", 1));
        assert_eq!(http.headers[PARTIAL_BODY_HEADER], "true");
    }
}
