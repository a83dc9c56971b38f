//! Who the client is: what a peer says of others counts only where the peer is in a trusted range.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use fairway_message::{Head, Known};
use fairway_model::{ForwardedTrust, RealIp};

use crate::peer::{Peer, Scheme};

/// Who the client is, after trust is settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) address: IpAddr,
    /// Who sent the bytes: the same, or a trusted peer that speaks for it.
    pub(crate) peer: IpAddr,
    pub(crate) scheme: Scheme,
    pub(crate) port: u16,
    pub(crate) trust: Trust,
    /// Whether the chain of a trusted peer is extended instead of replaced.
    pub(crate) appends: bool,
}

/// Whether the peer may speak for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    Stranger,
    Trusted,
}

impl Client {
    /// Settles who the client of this request is.
    pub(crate) fn of(peer: &Peer, public_port: u16, trust: &ForwardedTrust, request: &Head) -> Self {
        let address = peer.client;
        let scheme = peer.scheme;
        let appends = trust.append;
        let stranger =
            Self { address, peer: address, scheme, port: public_port, trust: Trust::Stranger, appends };
        if trust.ranges.is_empty() || !is_in(trust, address) {
            return stranger;
        }
        let port = text(request, Known::XForwardedPort).and_then(|port| port.parse().ok());
        let scheme = match text(request, Known::XForwardedProto) {
            Some(proto) if proto.eq_ignore_ascii_case("https") => Scheme::Https,
            Some(proto) if proto.eq_ignore_ascii_case("http") => Scheme::Http,
            _ => scheme,
        };
        let peer = address;
        let told = request.all(Known::XForwardedFor);
        let address = rightmost_stranger(told, |address| is_in(trust, address)).unwrap_or(peer);
        let port = port.unwrap_or(public_port);
        Self { address, peer, scheme, port, trust: Trust::Trusted, appends }
    }

    /// The client of a rule that believes what some peers say of it. What others say goes no further; `X-Forwarded-For` has its
    /// own rules.
    #[cold]
    pub(crate) fn behind(self, real_ip: &RealIp, request: &mut Head) -> Self {
        let is_trusted = |address| real_ip.trusted.iter().any(|range| range.contains(&address));
        if !is_trusted(self.address) {
            if Known::of(real_ip.header.as_bytes()) != Known::XForwardedFor {
                request.remove(real_ip.header.as_bytes());
            }
            return self;
        }
        let told = request.all_named(real_ip.header.as_bytes());
        let address = rightmost_stranger(told, is_trusted).unwrap_or(self.address);
        Self { address, peer: self.address, ..self }
    }
}

/// The last address of a list that no trusted peer vouches for: whoever the first trusted peer saw. Several lines are one
/// list (RFC 9110 §5.3): a trusted peer may have added its line behind the one that its client sent.
fn rightmost_stranger<'r>(
    lines: impl Iterator<Item = &'r [u8]>,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let parts = lines.flat_map(|line| line.split(|byte| *byte == b','));
    parts.fold(None, |found, part| match address(part) {
        // What stands before it nobody can have vouched for.
        None => None,
        Some(trusted) if is_trusted(trusted) => found.or(Some(trusted)),
        stranger => stranger,
    })
}

/// An address, whatever port stands behind it: some load balancers write the port of the client, and nginx reads that as well.
fn address(part: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(part).ok()?.trim();
    let before_port = || text.parse::<SocketAddr>().ok().map(|both| both.ip());
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    text.parse::<IpAddr>().ok().or_else(before_port).or_else(in_brackets)
}

fn is_in(trust: &ForwardedTrust, address: IpAddr) -> bool {
    trust.ranges.iter().any(|range| range.contains(&address))
}

fn text(request: &Head, known: Known) -> Option<&str> {
    std::str::from_utf8(request.first(known)?).ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_port_and_what_is_no_address_ends_the_list() {
        let is_balancer = |address: IpAddr| address == IpAddr::from([10, 0, 0, 1]);
        for (told, client) in [
            ("203.0.113.9", Some("203.0.113.9")),
            ("203.0.113.9:51234", Some("203.0.113.9")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:443", Some("2001:db8::1")),
            ("198.51.100.7, 203.0.113.9:51234, 10.0.0.1:80", Some("203.0.113.9")),
            ("198.51.100.7:1,10.0.0.1", Some("198.51.100.7")),
            ("10.0.0.1:80", Some("10.0.0.1")),
            ("198.51.100.7, 203.0.113.9:port", None),
            ("198.51.100.7, 203.0.113.9:", None),
            ("198.51.100.7, 203.0.113.9:65536", None),
            ("198.51.100.7, [203.0.113.9]", None),
            ("198.51.100.7, [2001:db8::1", None),
            ("198.51.100.7, _hidden:80, 10.0.0.1", Some("10.0.0.1")),
            ("", None),
        ] {
            let found = rightmost_stranger([told.as_bytes()].into_iter(), is_balancer);
            assert_eq!(found, client.map(|client| client.parse::<IpAddr>().unwrap()), "{told}");
        }
    }
}
