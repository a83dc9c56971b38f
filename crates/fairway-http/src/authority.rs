//! Parses and checks `host [":" port]` (RFC 3986 §3.2) before anything routes by it.

use std::net::Ipv6Addr;
use std::str;

use memchr::memchr;

use crate::bytes::{escaped, is_reg_name};
use crate::malformed::Malformed;

/// A DNS name has at most 253 bytes; this leaves room for a port.
const MAX_AUTHORITY_BYTES: usize = 255;

/// A parsed authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority<'a> {
    /// The host as written: in any case, an IPv6 address with its brackets.
    pub host: &'a str,
    /// The port, if present.
    pub port: Option<u16>,
}

/// Parses an authority without user information: a registered name, an IPv4 address, or an IPv6 address in brackets,
/// and an optional port, which may be empty ("port = *DIGIT").
pub fn parse_authority(raw: &[u8]) -> Result<Authority<'_>, Malformed> {
    if raw.is_empty() || raw.len() > MAX_AUTHORITY_BYTES {
        return Err(Malformed::AuthorityInvalid);
    }
    let end = match raw[0] {
        b'[' => bracketed(raw)?,
        _ => named(raw)?,
    };
    let (host, rest) = raw.split_at(end);
    let port = match rest {
        [] | [b':'] => None,
        [b':', digits @ ..] => Some(port(digits)?),
        _ => return Err(Malformed::AuthorityInvalid),
    };
    let host = str::from_utf8(host).map_err(|_| Malformed::AuthorityInvalid)?;
    Ok(Authority { host, port })
}

/// The end of `"[" IPv6address "]"`. Zone ids (RFC 6874) are local to a machine, and no future forms exist.
fn bracketed(raw: &[u8]) -> Result<usize, Malformed> {
    let end = memchr(b']', raw).ok_or(Malformed::AuthorityInvalid)?;
    let address = str::from_utf8(&raw[1..end]).ok().and_then(|text| text.parse::<Ipv6Addr>().ok());
    address.map(|_| end + 1).ok_or(Malformed::AuthorityInvalid)
}

/// The end of `1*( unreserved / pct-encoded / sub-delims )`. An http URI must not have an empty host (RFC 9110 §4.2.1).
#[inline]
fn named(raw: &[u8]) -> Result<usize, Malformed> {
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        at += match byte {
            byte if is_reg_name(byte) => 1,
            b':' => break,
            b'%' if escaped(raw.get(at + 1), raw.get(at + 2)).is_some_and(|byte| byte > b' ') => 3,
            _ => return Err(Malformed::AuthorityInvalid),
        };
    }
    if at == 0 { Err(Malformed::AuthorityInvalid) } else { Ok(at) }
}

fn port(digits: &[u8]) -> Result<u16, Malformed> {
    let mut port = 0u16;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return Err(Malformed::AuthorityInvalid);
        }
        port = port
            .checked_mul(10)
            .and_then(|port| port.checked_add(u16::from(digit - b'0')))
            .ok_or(Malformed::AuthorityInvalid)?;
    }
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(raw: &str) -> Option<(&str, Option<u16>)> {
        parse_authority(raw.as_bytes()).ok().map(|authority| (authority.host, authority.port))
    }

    #[test]
    fn names_and_addresses_with_and_without_ports() {
        assert_eq!(parsed("Example.COM"), Some(("Example.COM", None)));
        assert_eq!(parsed("example.com:8443"), Some(("example.com", Some(8443))));
        assert_eq!(parsed("10.0.0.1:80"), Some(("10.0.0.1", Some(80))));
        assert_eq!(parsed("[::1]"), Some(("[::1]", None)));
        assert_eq!(parsed("[fe80::1]:443"), Some(("[fe80::1]", Some(443))));
        assert_eq!(parsed("a_b.example."), Some(("a_b.example.", None)));
        assert_eq!(parsed("a%41.example"), Some(("a%41.example", None)));
    }

    #[test]
    fn an_empty_port_is_no_port() {
        assert_eq!(parsed("example.com:"), Some(("example.com", None)));
        assert_eq!(parsed("[::1]:"), Some(("[::1]", None)));
    }

    #[test]
    fn everything_else_is_refused() {
        for raw in [
            "",
            ":80",
            "a b",
            "a/b",
            "a?b",
            "a#b",
            "a@b",
            "user:pw@a",
            "a:b",
            "a:-1",
            "a:+1",
            "a:65536",
            "a:80:80",
            "[::1",
            "::1",
            "[::1]x",
            "[1.2.3.4]",
            "[v1.a]",
            "[fe80::1%25eth0]",
            "a\u{e9}",
            "a\0",
            "a\t",
            "a%",
            "a%2",
            "a%zz",
            "a%00",
            "a%0d",
            "a%20b",
            "a\"",
            "a<",
            "a\\b",
            "[]",
            "a[b]",
        ] {
            assert_eq!(parsed(raw), None, "{raw:?}");
        }
        assert_eq!(parsed(&"a".repeat(256)), None);
        assert!(parsed(&"a".repeat(255)).is_some());
    }
}
