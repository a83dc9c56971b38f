//! Determines the client: forwarding headers count only if the peer is in a trusted range.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use fairway_http::{FieldRef, Head, Known, parse_authority, write_ip};
use fairway_model::{ForwardedTrust, RealIp};

use crate::fault::Fault;
use crate::listening::ListenerFacts;
use crate::peer::{Peer, Scheme};

/// The client, after the forwarding headers of trusted peers were evaluated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// `None` if a trusted peer forwards for it and the address is unreadable: rules over addresses refuse such a request.
    pub(crate) address: Option<IpAddr>,
    /// The sender of the bytes: the client itself, or a trusted peer.
    pub(crate) peer: IpAddr,
    pub(crate) scheme: Scheme,
    /// Whether the request certainly came over plain HTTP, so that a redirect to https cannot loop.
    pub(crate) is_plain_http: bool,
    /// The port that endpoints get: the listener's, unless a trusted peer names another one.
    pub(crate) port: u16,
    /// The port for links with `scheme`.
    pub(crate) link_port: u16,
    pub(crate) trust: Trust,
    /// Whether the `X-Forwarded-For` of a trusted peer is extended instead of replaced.
    pub(crate) appends_chain: bool,
    /// Whether `X-Original-Forwarded-For` is already set to the header that named the client.
    pub(crate) keeps_original: bool,
}

/// Whether the peer may name another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    Untrusted,
    Trusted,
}

impl Client {
    /// Determines the client of a request.
    pub(crate) fn identify(
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
            is_plain_http: peer.scheme == Scheme::Http,
            port: public_port,
            link_port: public_port,
            trust: Trust::Untrusted,
            appends_chain: trust.append,
            keeps_original: false,
        };
        if trust.ranges.is_empty() {
            return stranger;
        }
        let is_trusted = |address| is_in_trusted_ranges(trust, address);
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
        let (scheme, is_plain_http) = forwarded_scheme(request, peer.scheme);
        let forwarded = forwarded_port(request);
        let port = forwarded.unwrap_or(public_port);
        let link_port = forwarded.unwrap_or_else(|| port_for_links(scheme, peer.scheme, listener));
        let keeps_original = keep_named(trust, request);
        let trust = Trust::Trusted;
        Self { address, scheme, is_plain_http, port, link_port, trust, keeps_original, ..stranger }
    }

    /// The client according to a rule with its own trusted ranges. The header is removed from requests of other peers, except
    /// `X-Forwarded-For`, which has its own rules.
    #[cold]
    pub(crate) fn with_real_ip(self, real_ip: &RealIp, request: &mut Head) -> Self {
        let is_trusted = |address| real_ip.trusted.iter().any(|range| range.contains(&address));
        let Some(peer) = self.address.filter(|address| is_trusted(*address)) else {
            if Known::from_name(real_ip.header.as_bytes()) != Known::XForwardedFor {
                request.remove(real_ip.header.as_bytes());
            }
            return self;
        };
        // Also if `Connection` lists the header: a client must not choose its address that way.
        let named = |field: &FieldRef<'_>| field.name.eq_ignore_ascii_case(real_ip.header.as_bytes());
        let lines: Vec<_> = request.received_fields().filter(named).map(|field| field.value).collect();
        let address = match real_ip.last_only {
            true => listed_client(lines.into_iter(), peer, |_| false),
            false => listed_client(lines.into_iter(), peer, is_trusted),
        };
        Self { address, peer, ..self }
    }

    /// The address for limits and hashes. Clients with an unknown address share their peer's.
    pub(crate) fn counted_address(&self) -> IpAddr {
        self.address.unwrap_or(self.peer)
    }

    /// The fault when a rule over addresses refuses the client.
    pub(crate) fn address_fault(&self) -> Fault {
        if self.address.is_some() { Fault::AccessDenied } else { Fault::AddressUnknown }
    }

    /// Writes the address for endpoints and services, or `unknown` (RFC 7239 §6.2). The peer's address would be mistaken for
    /// the client's.
    pub(crate) fn write_address(&self, out: &mut Vec<u8>) {
        match self.address {
            Some(address) => write_ip(out, address),
            None => out.extend_from_slice(b"unknown"),
        }
    }
}

/// The client that a list of addresses names: the last entry that is not a trusted peer, or the first entry if all are; `None`
/// if that entry is unreadable. Without a list the peer is the client. Several lines form one list (RFC 9110 §5.3): a trusted
/// peer may have added its line after its client's. Empty elements are skipped (RFC 9110 §5.6.1.2), and a list of only empty
/// elements names no client.
///
/// It is read from the end: entries before the client are unverified, and may be many.
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

/// Parses an address, with or without a port: some load balancers add the client's port, which nginx accepts too. An
/// IPv4-mapped address becomes IPv4, as nginx compares it.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let before_port = || text.parse().ok().filter(|both: &SocketAddr| both.port() != 0).map(|both| both.ip());
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    let found = text.parse().ok().or_else(before_port).or_else(in_brackets);
    // An address with a zone is only valid on one link (RFC 4007 §11).
    found.filter(|_| !text.contains('%')).map(|found: IpAddr| found.to_canonical())
}

/// Removes the header that only trusted peers may use to name the client.
fn remove_named(trust: &ForwardedTrust, request: &mut Head) {
    if let Some(header) = &trust.header {
        request.remove(header.as_bytes());
    }
}

/// Copies the header in which a trusted peer named the client to `X-Original-Forwarded-For`, as ingress-nginx does. Returns
/// whether such a header is configured.
fn keep_named(trust: &ForwardedTrust, request: &mut Head) -> bool {
    let Some(header) = &trust.header else { return false };
    let received: Vec<_> = request.all_named(header.as_bytes()).filter(|value| !value.is_empty()).collect();
    let received = received.join(&b", "[..]);
    request.remove_known(Known::XOriginalForwardedFor);
    if !received.is_empty() {
        request.append_known(Known::XOriginalForwardedFor, |value| value.extend_from_slice(&received));
    }
    true
}

fn is_in_trusted_ranges(trust: &ForwardedTrust, address: IpAddr) -> bool {
    trust.ranges.iter().any(|range| range.contains(&address))
}

/// The scheme that the client used (the first, if each proxy of a chain added its own), and whether the request certainly came
/// over plain HTTP. As in ingress-nginx, that holds only for exactly `http`: proxies that send `https,http` or `ws` would send
/// the same after a redirect.
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

/// The port that the client connected to, from the first element. Port 0 is invalid.
fn forwarded_port(request: &Head) -> Option<u16> {
    let port = std::str::from_utf8(first_element(request.first(Known::XForwardedPort)?)).ok()?.parse().ok();
    port.filter(|port| *port != 0)
}

/// The port for `scheme` if no header names one. The listener's public port belongs to the listener's own scheme: a load
/// balancer that terminates TLS in front of a plain listener would otherwise get links to `https://example.com:80/`.
fn port_for_links(scheme: Scheme, connection: Scheme, listener: Option<ListenerFacts>) -> u16 {
    match listener {
        Some(listener) if scheme == connection => listener.public_port,
        Some(listener) if scheme == Scheme::Https => listener.https_port,
        _ => scheme.default_port(),
    }
}

/// The host that the client asked for, from the first element, with its port if there is one; `None` if that is not a host.
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

    /// The client of these lists. The peer is 10.0.0.2; it and 10.0.0.1 are trusted.
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
    fn an_unreadable_entry_names_no_client_and_hides_earlier_entries() {
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
