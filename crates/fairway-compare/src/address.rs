//! Parses the address of a controller from the command line. Does not resolve names.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::probe::Scheme;

/// Usual ports of TLS listeners. As the only port of an address, they are probably not meant for plain requests.
const TLS_PORTS: [u16; 2] = [443, 8443];

/// A host and the ports for plain requests and for TLS: `HOST`, `HOST:HTTP` or `HOST:HTTP:HTTPS`; IPv6 addresses in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or an IP address, without brackets.
    pub host: String,
    /// The port for plain requests.
    pub http: u16,
    /// The port for TLS.
    pub https: u16,
}

/// The ports to probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schemes {
    /// Both.
    #[default]
    Both,
    /// Plain requests only.
    Http,
    /// TLS only.
    Https,
}

impl Address {
    /// The port of a scheme.
    #[must_use]
    pub fn port(&self, scheme: Scheme) -> u16 {
        match scheme {
            Scheme::Http => self.http,
            Scheme::Https => self.https,
        }
    }
}

impl Schemes {
    /// Whether this scheme is probed.
    #[must_use]
    pub fn has(self, scheme: Scheme) -> bool {
        match self {
            Self::Both => true,
            Self::Http => scheme == Scheme::Http,
            Self::Https => scheme == Scheme::Https,
        }
    }

    /// `scheme` if it is probed, otherwise the other one.
    #[must_use]
    pub(crate) fn preferred(self, scheme: Scheme) -> Scheme {
        match self {
            Self::Both => scheme,
            Self::Http => Scheme::Http,
            Self::Https => Scheme::Https,
        }
    }

    /// The schemes that are probed.
    pub(crate) fn all(self) -> impl Iterator<Item = Scheme> {
        [Scheme::Http, Scheme::Https].into_iter().filter(move |scheme| self.has(*scheme))
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains("://") || text.contains('/') {
            return Err(
                "is a URL: write HOST, HOST:HTTP or HOST:HTTP:HTTPS, as in 10.0.0.7:80:443".to_owned()
            );
        }
        if text.parse::<Ipv6Addr>().is_ok() {
            return Err("is an IPv6 address without brackets: write it as in [fd00::1]:80:443".to_owned());
        }
        let (host, ports) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or("has no closing bracket")?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '@') {
            return Err("has no host".to_owned());
        }
        let ports = match ports.strip_prefix(':') {
            Some(ports) => ports.split(':').map(port).collect::<Result<Vec<_>, _>>()?,
            None if ports.is_empty() => Vec::new(),
            None => return Err("has something between its bracket and its port".to_owned()),
        };
        match *ports {
            [] => Ok(Self { host: host.to_owned(), http: 80, https: 443 }),
            [https] if TLS_PORTS.contains(&https) => {
                let http = if https == 443 { 80 } else { 8080 };
                Err(format!(
                    "has {https} as its only port, which would be used for plain requests: write HOST:{http}:{https}"
                ))
            }
            [http] => Ok(Self { host: host.to_owned(), http, https: 443 }),
            [http, https] => Ok(Self { host: host.to_owned(), http, https }),
            _ => Err("has more than two ports; IPv6 addresses need brackets".to_owned()),
        }
    }
}

fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port != 0 => Ok(port),
        _ => Err(format!("has the port {text:?}, which is invalid")),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, http, https } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        match (http, https) {
            (80, 443) => f.write_str(&host),
            (http, 443) if !TLS_PORTS.contains(http) => write!(f, "{host}:{http}"),
            (http, https) => write!(f, "{host}:{http}:{https}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_up_to_two_ports() {
        for (text, host, http, https) in [
            ("10.0.0.7", "10.0.0.7", 80, 443),
            ("ingress.local:8080", "ingress.local", 8080, 443),
            ("127.0.0.1:8080:8443", "127.0.0.1", 8080, 8443),
            ("[fd00::1]", "fd00::1", 80, 443),
            ("[fd00::1]:81:444", "fd00::1", 81, 444),
            ("ingress.local:8443:443", "ingress.local", 8443, 443),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address, Address { host: host.to_owned(), http, https }, "{text}");
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn invalid_addresses_are_refused_with_the_reason() {
        for (text, part) in [
            ("http://a", "is a URL"),
            ("a/b", "is a URL"),
            ("", "has no host"),
            (":80", "has no host"),
            ("a:x", "which is invalid"),
            ("a:0", "which is invalid"),
            ("a:443", "write HOST:80:443"),
            ("a:8443", "write HOST:8080:8443"),
            ("a:1:2:3", "more than two ports"),
            ("fd00::1", "without brackets"),
            ("fd00::1:80:443", "without brackets"),
            ("[fd00::1", "closing bracket"),
            ("[fd00::1]80", "between its bracket"),
            ("a b", "has no host"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
