//! Parses PROXY protocol headers.

use std::net::SocketAddr;

use ppp::{HeaderResult, PartialResult, v1, v2};

/// The start of a version 1 line.
const LINE: &[u8] = b"PROXY ";

/// A version 1 line without client information.
const UNKNOWN: &[u8] = b"PROXY UNKNOWN";

/// The start of a version 2 header.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Maximum bytes of a version 1 line, including CRLF.
const MOST_OF_LINE: usize = 107;

/// A parsed header.
pub struct ProxyHeader {
    /// The client, unless the balancer speaks for itself (`LOCAL`) or does not know the client (`UNKNOWN`).
    pub client: Option<SocketAddr>,
    /// Whether the balancer speaks for itself, for example in a health check: then it is the client.
    pub is_local: bool,
    /// The address that the client connected to, if there is a client.
    pub server: Option<SocketAddr>,
    /// Bytes after the header.
    pub remaining: Vec<u8>,
}

/// The peer closed, or sent something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidHeader;

/// Parses the header at the start of these bytes; `None` if more are needed.
///
/// # Errors
/// They are not a header.
pub fn parse(bytes: &[u8]) -> Result<Option<ProxyHeader>, InvalidHeader> {
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(byte, other)| byte == other);
    let is_line = begins(LINE);
    // The parser sometimes asks for more of an invalid input, such as "P\rP".
    if !is_line && !begins(SIGNATURE) {
        return Err(InvalidHeader);
    }
    let line_end = bytes.windows(2).position(|two| two == b"\r\n").filter(|_| is_line);
    match line_end.map(|end| &bytes[..end]) {
        // The parser rejects a line that is cut before its last number: it only gets complete lines.
        None if is_line => return if bytes.len() > MOST_OF_LINE { Err(InvalidHeader) } else { Ok(None) },
        // "the receiver must ignore anything presented before the CRLF is found", but the parser allows only a few
        // words.
        Some(line) if line.strip_prefix(UNKNOWN).is_some_and(|more| matches!(more, [] | [b' ', ..])) => {
            let length = line.len() + 2;
            let header = ProxyHeader {
                client: None,
                is_local: false,
                server: None,
                remaining: bytes[length..].to_vec(),
            };
            return if length > MOST_OF_LINE { Err(InvalidHeader) } else { Ok(Some(header)) };
        }
        // The parser accepts a port with a sign.
        Some(line) if line.contains(&b'+') => return Err(InvalidHeader),
        _ => {}
    }
    let header = HeaderResult::parse(bytes);
    if header.is_incomplete() && bytes.starts_with(LINE) {
        return Err(InvalidHeader);
    }
    if header.is_incomplete() {
        return Ok(None);
    }
    let (both, is_local, length) = match header {
        HeaderResult::V1(Ok(header)) => (v1_addresses(&header.addresses), false, header.header.len()),
        HeaderResult::V2(Ok(header)) => {
            (v2_addresses(&header), header.command == v2::Command::Local, header.length() + 16)
        }
        HeaderResult::V1(Err(_)) | HeaderResult::V2(Err(_)) => return Err(InvalidHeader),
    };
    let (client, server) = both.unzip();
    Ok(Some(ProxyHeader { client, is_local, server, remaining: bytes[length.min(bytes.len())..].to_vec() }))
}

/// The client, and what it connected to.
type AddressPair = (SocketAddr, SocketAddr);

fn v1_addresses(addresses: &v1::Addresses) -> Option<AddressPair> {
    match addresses {
        v1::Addresses::Tcp4(ip) => Some((
            (ip.source_address, ip.source_port).into(),
            (ip.destination_address, ip.destination_port).into(),
        )),
        v1::Addresses::Tcp6(ip) => Some((
            (ip.source_address, ip.source_port).into(),
            (ip.destination_address, ip.destination_port).into(),
        )),
        v1::Addresses::Unknown => None,
    }
}

fn v2_addresses(header: &v2::Header<'_>) -> Option<AddressPair> {
    if header.command == v2::Command::Local {
        return None;
    }
    match header.addresses {
        v2::Addresses::IPv4(ip) => Some((
            (ip.source_address, ip.source_port).into(),
            (ip.destination_address, ip.destination_port).into(),
        )),
        v2::Addresses::IPv6(ip) => Some((
            (ip.source_address, ip.source_port).into(),
            (ip.destination_address, ip.destination_port).into(),
        )),
        v2::Addresses::Unix(_) | v2::Addresses::Unspecified => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_1_line_names_the_client_and_leaves_the_rest() {
        let header = parse(b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 80\r\nGET /").unwrap().unwrap();
        assert_eq!(header.client, Some("192.0.2.7:5555".parse().unwrap()));
        assert_eq!(header.remaining, b"GET /");
    }

    #[test]
    fn a_version_2_header_names_the_client_and_leaves_the_rest() {
        let mut bytes =
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x01\x15\xb3\0\x50".to_vec();
        bytes.extend_from_slice(b"GET /");
        let header = parse(&bytes).unwrap().unwrap();
        assert_eq!(header.client, Some("192.0.2.7:5555".parse().unwrap()));
        assert_eq!(header.remaining, b"GET /");
    }

    #[test]
    fn every_prefix_of_a_header_is_incomplete() {
        let header = b"PROXY TCP6 2001:db8::7 2001:db8::1 5555 80\r\n";
        for cut in 1..header.len() {
            assert!(matches!(parse(&header[..cut]), Ok(None)), "{cut}");
        }
        assert!(parse(header).unwrap().is_some());
    }

    #[test]
    fn an_unknown_client_is_none_whatever_follows_in_the_line() {
        for more in ["", " ", " ffff::1 ffff::2 1 2", " a b c d e f g h i", " \r \u{e9}"] {
            let header = parse(format!("PROXY UNKNOWN{more}\r\nGET /").as_bytes()).unwrap().unwrap();
            assert_eq!((header.client, &header.remaining[..]), (None, &b"GET /"[..]), "{more:?}");
        }
        assert!(parse(b"PROXY UNKNOWNS\r\n").is_err());
        assert!(parse(&[b"PROXY UNKNOWN ", &b"1".repeat(92)[..], b"\r\n"].concat()).is_err());
    }

    #[test]
    fn other_bytes_are_refused() {
        assert!(parse(b"GET / HTTP/1.1\r\n\r\n").is_err());
        assert!(parse(b"PROXY TCP4 nonsense\r\n").is_err());
        assert!(parse(b"PROXY TCP4 192.0.2.7 192.0.2.1 +5555 80\r\n").is_err());
        assert!(parse(b"PROXY TCP6 2001:db8::7 2001:db8::1 5555 +80\r\n").is_err());
        assert!(parse(&[b"PROXY TCP4 ", &b"1".repeat(100)[..]].concat()).is_err());
    }
}
