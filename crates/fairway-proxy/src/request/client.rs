//! Who the client is: what a peer says of others counts only where the peer is in a trusted range.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use fairway_http::{FieldRef, Head, Known, parse_authority, write_ip};
use fairway_model::{ForwardedTrust, RealIp};

use crate::fault::Fault;
use crate::listening::ListenerFacts;
use crate::peer::{Peer, Scheme};

/// Who the client is, after trust is settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// None where a trusted peer speaks for it and nobody can read for whom: rules over addresses refuse such a request.
    pub(crate) address: Option<IpAddr>,
    /// Who sent the bytes: the same, or a trusted peer that speaks for it.
    pub(crate) peer: IpAddr,
    pub(crate) scheme: Scheme,
    /// Whether a redirect to https leads elsewhere than here again: it came in the clear for certain.
    pub(crate) in_the_clear: bool,
    /// The port that endpoints are told: the one of the listener, unless a trusted peer names another one.
    pub(crate) port: u16,
    /// The port for links with `scheme`.
    pub(crate) link_port: u16,
    pub(crate) trust: Trust,
    /// Whether the chain of a trusted peer is extended instead of replaced.
    pub(crate) appends: bool,
    /// Whether `X-Original-Forwarded-For` has what named the client already.
    pub(crate) keeps_original: bool,
}

/// Whether the peer may speak for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    Stranger,
    Trusted,
}

impl Client {
    /// Settles who the client of this request is.
    pub(crate) fn of(
        peer: &Peer,
        listener: Option<ListenerFacts>,
        trust: &ForwardedTrust,
        request: &mut Head,
    ) -> Self {
        let address = peer.address();
        let public_port = listener.map_or(0, |facts| facts.public_port);
        let stranger = Self {
            address,
            peer: peer.client,
            scheme: peer.scheme,
            in_the_clear: peer.scheme == Scheme::Http,
            port: public_port,
            link_port: public_port,
            trust: Trust::Stranger,
            appends: trust.append,
            keeps_original: false,
        };
        if trust.ranges.is_empty() {
            return stranger;
        }
        let is_trusted = |address| is_in(trust, address);
        let is_believed = address.is_some_and(is_trusted);
        let address = match &trust.header {
            _ if !is_believed => {
                remove_named(trust, request);
                return stranger;
            }
            None => listed_client(request.all(Known::XForwardedFor), peer.client, is_trusted),
            Some(header) => listed_client(request.all_named(header.as_bytes()), peer.client, is_trusted),
        };
        if trust.address_only {
            return Self { address, ..stranger };
        }
        let (scheme, in_the_clear) = forwarded_scheme(request, peer.scheme);
        let forwarded = forwarded_port(request);
        let port = forwarded.unwrap_or(public_port);
        let link_port = forwarded.unwrap_or_else(|| port_for_links(scheme, peer.scheme, listener));
        let keeps_original = keep_named(trust, request);
        let trust = Trust::Trusted;
        Self { address, scheme, in_the_clear, port, link_port, trust, keeps_original, ..stranger }
    }

    /// The client of a rule that believes what some peers say of it. What others say goes no further; `X-Forwarded-For` has its
    /// own rules.
    #[cold]
    pub(crate) fn behind(self, real_ip: &RealIp, request: &mut Head) -> Self {
        let is_trusted = |address| real_ip.trusted.iter().any(|range| range.contains(&address));
        let Some(peer) = self.address.filter(|address| is_trusted(*address)) else {
            if Known::of(real_ip.header.as_bytes()) != Known::XForwardedFor {
                request.remove(real_ip.header.as_bytes());
            }
            return self;
        };
        // Also where the client names the header in `Connection`: it must not choose its address.
        let named = |field: &FieldRef<'_>| field.name.eq_ignore_ascii_case(real_ip.header.as_bytes());
        let lines: Vec<_> = request.received().filter(named).map(|field| field.value).collect();
        let address = match real_ip.last_only {
            true => listed_client(lines.into_iter(), peer, |_| false),
            false => listed_client(lines.into_iter(), peer, is_trusted),
        };
        Self { address, peer, ..self }
    }

    /// Whom limits count and hashes choose by. Clients whose address is unknown share that of the peer that speaks for them.
    pub(crate) fn counted(&self) -> IpAddr {
        self.address.unwrap_or(self.peer)
    }

    /// Why a rule over addresses does not let it pass.
    pub(crate) fn address_refused(&self) -> Fault {
        if self.address.is_some() { Fault::AccessDenied } else { Fault::AddressUnknown }
    }

    /// Writes the address for endpoints and services: `unknown` where it is (RFC 7239 §6.2). The peer's address would pass for
    /// the client's there.
    pub(crate) fn write_address(&self, out: &mut Vec<u8>) {
        match self.address {
            Some(address) => write_ip(out, address),
            None => out.extend_from_slice(b"unknown"),
        }
    }
}

/// The client that a list of addresses names: the last one that no trusted peer vouches for, whom the first trusted peer saw; none
/// where that entry cannot be read. Without a list the peer speaks for itself. Several lines are one list (RFC 9110 §5.3): a
/// trusted peer may have added its line behind the one that its client sent. Empty elements do not count (RFC 9110 §5.6.1.2),
/// and a list of nothing else names nobody.
///
/// It is read from its end: nobody vouches for what stands before the client, which may be long.
fn listed_client<'r>(
    lines: impl DoubleEndedIterator<Item = &'r [u8]>,
    peer: IpAddr,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let mut lines = lines.rev().peekable();
    let mut found = if lines.peek().is_some() { None } else { Some(peer) };
    let entries = lines.flat_map(|line| line.rsplit(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    for entry in entries.filter(|entry| !entry.is_empty()) {
        match address(entry) {
            Some(trusted) if is_trusted(trusted) => found = Some(trusted),
            client => return client,
        }
    }
    found
}

/// An address, whatever port stands behind it: some load balancers write the port of the client, and nginx reads that as well.
/// An IPv4-mapped one is that of IPv4, as nginx compares it.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let before_port = || text.parse().ok().filter(|both: &SocketAddr| both.port() != 0).map(|both| both.ip());
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    let found = text.parse().ok().or_else(before_port).or_else(in_brackets);
    // The address of another link (RFC 4007 §11).
    found.filter(|_| !text.contains('%')).map(|found: IpAddr| found.to_canonical())
}

/// A stranger names the client in a header that only trusted peers may use.
fn remove_named(trust: &ForwardedTrust, request: &mut Head) {
    if let Some(header) = &trust.header {
        request.remove(header.as_bytes());
    }
}

/// Keeps what a trusted peer said of the client in a header of its own, as ingress-nginx does. Says whether there is such a header.
fn keep_named(trust: &ForwardedTrust, request: &mut Head) -> bool {
    let Some(header) = &trust.header else { return false };
    let said: Vec<_> = request.all_named(header.as_bytes()).filter(|value| !value.is_empty()).collect();
    let said = said.join(&b", "[..]);
    request.remove_known(Known::XOriginalForwardedFor);
    if !said.is_empty() {
        request.append_known(Known::XOriginalForwardedFor, |value| value.extend_from_slice(&said));
    }
    true
}

fn is_in(trust: &ForwardedTrust, address: IpAddr) -> bool {
    trust.ranges.iter().any(|range| range.contains(&address))
}

/// The scheme that the client used, the first one where each proxy of a chain has added its own, and whether a redirect to https
/// leads elsewhere. As in ingress-nginx, it does only where exactly `http` is said: proxies that say `https,http`, or `ws`, say so
/// again of the request that follows the redirect.
fn forwarded_scheme(request: &Head, connection: Scheme) -> (Scheme, bool) {
    let mut lines =
        request.all(Known::XForwardedProto).map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let Some(line) = lines.next() else { return (connection, connection == Scheme::Http) };
    let is_one_of =
        |names: [&[u8]; 2]| names.iter().any(|name| first_element(line).eq_ignore_ascii_case(name));
    let scheme = match () {
        () if is_one_of([b"https", b"wss"]) => Scheme::Https,
        () if is_one_of([b"http", b"ws"]) => Scheme::Http,
        () => connection,
    };
    (scheme, line.eq_ignore_ascii_case(b"http") && lines.next().is_none())
}

/// The port that the client asked, likewise. No client can ask port 0.
fn forwarded_port(request: &Head) -> Option<u16> {
    let port = std::str::from_utf8(first_element(request.first(Known::XForwardedPort)?)).ok()?.parse().ok();
    port.filter(|port| *port != 0)
}

/// The port where clients find `scheme` if nobody has named one. The public port of the listener is that of its own scheme: a
/// load balancer that terminates TLS in front of a plain listener would otherwise get links to `https://example.com:80/`.
fn port_for_links(scheme: Scheme, connection: Scheme, listener: Option<ListenerFacts>) -> u16 {
    match listener {
        Some(listener) if scheme == connection => listener.public_port,
        Some(listener) if scheme == Scheme::Https => listener.https_port,
        _ => scheme.default_port(),
    }
}

/// The host that the client asked, likewise, with its port if one is there; none if the first element is no host.
pub(crate) fn forwarded_host(request: &Head) -> Option<&[u8]> {
    let host = first_element(request.first(Known::XForwardedHost)?);
    parse_authority(host).is_ok().then_some(host)
}

fn first_element(list: &[u8]) -> &[u8] {
    list.split(|byte| *byte == b',').next().unwrap_or(list).trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of lists whose peer is 10.0.0.2; it and 10.0.0.1 are trusted.
    fn client(lines: &[&str]) -> Option<String> {
        let is_balancer = |address: IpAddr| address == IpAddr::from([10, 0, 0, 1]);
        let lines = lines.iter().map(|line| line.as_bytes());
        listed_client(lines, IpAddr::from([10, 0, 0, 2]), is_balancer).map(|client| client.to_string())
    }

    #[test]
    fn an_address_may_have_a_port() {
        for (list, expected) in [
            ("203.0.113.9", "203.0.113.9"),
            ("203.0.113.9:51234", "203.0.113.9"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("198.51.100.7, 203.0.113.9:51234, 10.0.0.1:80", "203.0.113.9"),
            ("198.51.100.7:1,10.0.0.1", "198.51.100.7"),
            ("203.0.113.9, ::ffff:10.0.0.1", "203.0.113.9"),
            ("10.0.0.1:80", "10.0.0.1"),
        ] {
            assert_eq!(client(&[list]).as_deref(), Some(expected), "{list}");
        }
    }

    #[test]
    fn an_entry_that_cannot_be_read_names_nobody_and_hides_what_stands_before_it() {
        for entry in [
            "203.0.113.9:port",
            "203.0.113.9:",
            "203.0.113.9:0",
            "203.0.113.9:65536",
            "203.0.113.09",
            "[203.0.113.9]",
            "[2001:db8::1",
            "fe80::1%eth0",
            "[fe80::1%2]:80",
            "_hidden:80",
            "unknown",
            "\"203.0.113.9\"",
        ] {
            assert_eq!(client(&[entry]), None, "{entry}");
            assert_eq!(client(&["198.51.100.7", entry, "10.0.0.1"]), None, "{entry}");
            assert_eq!(
                client(&[entry, "198.51.100.7, 10.0.0.1"]).as_deref(),
                Some("198.51.100.7"),
                "{entry}"
            );
        }
    }

    #[test]
    fn empty_elements_do_not_count_and_no_list_is_not_an_empty_one() {
        assert_eq!(client(&[" ,203.0.113.9, ,", ",,\t", "10.0.0.1,"]).as_deref(), Some("203.0.113.9"));
        assert_eq!(client(&[",10.0.0.1"]).as_deref(), Some("10.0.0.1"));
        for empty in ["", ",", " , ,"] {
            assert_eq!(client(&[empty]), None, "{empty:?}");
        }
        assert_eq!(client(&[]).as_deref(), Some("10.0.0.2"));
    }
}
