//! Which addresses a Service of type ExternalName may lead to. Its author chooses the name and often its addresses, so each
//! address is checked whenever the name is resolved, and so are literal addresses: special addresses of the machine or its
//! network, and Fairway's own, are refused. Addresses in EndpointSlices are checked against the same ranges
//! ([`special_range`]), and those of OCSP responders like names ([`refusal`]). Private ranges are allowed: pods and Services
//! are in them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, LazyLock};

use fairway_model::{Endpoint, Origin};
use ipnet::IpNet;

use crate::diagnostic::{Diagnostic, Severity};
use crate::inputs::Inputs;
use crate::object::ObjectKey;
use crate::options::ExternalNameOptions;
use crate::own_addresses::OwnAddresses;

/// The code of diagnostics about refused addresses.
pub(crate) const REFUSED_ADDRESS_CODE: &str = "external-name-address";

/// Special ranges, and what they are.
const SPECIAL_RANGES: [(&str, &str); 19] = [
    ("0.0.0.0/8", "unspecified addresses"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local, with the metadata services of clouds"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("100.100.100.200/32", "a cloud's metadata service"),
    ("168.63.129.16/32", "a cloud's metadata service"),
    ("192.0.0.192/32", "a cloud's metadata service"),
    ("::/128", "the unspecified address"),
    ("::1/128", "loopback"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
    ("fd00:ec2::/32", "a cloud's metadata service"),
    ("fd20:ce::254/128", "a cloud's metadata service"),
    ("fd00:c1::a9fe:a9fe/128", "a cloud's metadata service"),
    ("fd00:42::42/128", "a cloud's metadata service"),
    // RFC 8215: the network chooses where the IPv4 address is embedded.
    ("64:ff9b:1::/48", "IPv4 addresses behind a translator"),
    ("100::/64", "discarded packets"),
    ("5f00::/16", "segment routing"),
];

static PARSED_RANGES: LazyLock<Vec<(IpNet, &str)>> = LazyLock::new(|| {
    SPECIAL_RANGES.iter().map(|(range, what)| (range.parse().expect("it is a range"), *what)).collect()
});

/// A name outside the cluster, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalName {
    /// In lower case, without a trailing dot.
    pub name: Arc<str>,
    /// The port to connect to.
    pub port: u16,
}

impl ExternalName {
    /// The name to resolve; `None` if it is an address.
    pub fn name_to_resolve(&self) -> Option<&Arc<str>> {
        self.name.parse::<IpAddr>().is_err().then_some(&self.name)
    }
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressRefusal {
    /// It, or an IPv4 address embedded in it, is in this range.
    Special(IpNet, &'static str),
    /// Fairway listens there.
    Own,
}

/// The endpoints of a name that is written at `origin`, with diagnostics about refused addresses; `without` is the consequence if
/// no address remains.
pub(crate) fn endpoints(
    at: &ExternalName,
    inputs: Inputs<'_>,
    origin: &Origin,
    without: &str,
) -> (Vec<Endpoint>, Option<Diagnostic>) {
    let (name, port, external) = (&*at.name, at.port, &inputs.options.trust.external);
    let resolved =
        inputs.resources.resolved.get(&ObjectKey::new("", name)).map(|addresses| addresses.to_vec());
    let literal = name.parse::<IpAddr>().ok().map(|address| vec![address]);
    let mut addresses = literal.or(resolved).unwrap_or_default();
    addresses.iter_mut().for_each(|address| *address = address.to_canonical());
    addresses.sort_unstable();
    addresses.dedup();
    let mut refused = Vec::new();
    addresses.retain(|address| match address_refusal(SocketAddr::new(*address, port), external) {
        None => true,
        Some(why) => {
            refused.push((SocketAddr::new(*address, port), why));
            false
        }
    });
    let found = describe_refusals(name, without, &refused, addresses.len());
    let found = found.map(|(severity, problem, consequence)| {
        Diagnostic::new(severity, REFUSED_ADDRESS_CODE, origin.clone()).because(problem, consequence)
    });
    let endpoint = |ip| Endpoint::at(SocketAddr::new(ip, port));
    (addresses.into_iter().map(endpoint).collect(), found)
}

/// Names only the first address: a name server can return any number, and different ones each time.
fn describe_refusals(
    name: &str,
    without: &str,
    refused: &[(SocketAddr, AddressRefusal)],
    left: usize,
) -> Option<(Severity, String, String)> {
    let (address, why) = refused.first()?;
    let ip = address.ip();
    let (what, remedy) = match why {
        AddressRefusal::Special(range, what) => {
            let exception = format!("; --external-name-allow {} opens it", IpNet::from(ip));
            (format!("{ip}, which is in {range} ({what})"), exception)
        }
        AddressRefusal::Own => (format!("{address}, where Fairway itself listens"), String::new()),
    };
    let count = match refused.len() - 1 {
        0 => String::new(),
        more => format!(" and to {more} more refused addresses"),
    };
    let problem = format!("\"{name}\" leads to {what}{count}");
    Some(match left {
        0 => (Severity::Error, problem, format!("{without}{remedy}")),
        _ => (Severity::Warning, problem, format!("the other addresses are used{remedy}")),
    })
}

/// Why no request is sent to `address`, which a user with few permissions has chosen; `None` if it is allowed.
#[must_use]
pub fn refusal(address: SocketAddr, external: &ExternalNameOptions) -> Option<String> {
    address_refusal(address, external).map(|why| match why {
        AddressRefusal::Special(range, what) => format!("{} is in {range} ({what})", address.ip()),
        AddressRefusal::Own => format!("Fairway itself listens at {address}"),
    })
}

fn address_refusal(address: SocketAddr, external: &ExternalNameOptions) -> Option<AddressRefusal> {
    let ip = address.ip();
    let meant: Vec<IpAddr> = [Some(ip), embedded_ipv4(ip).map(IpAddr::V4)].into_iter().flatten().collect();
    if meant.iter().any(|ip| external.own_addresses.reaches(SocketAddr::new(*ip, address.port()))) {
        return Some(AddressRefusal::Own);
    }
    special_range(ip, &external.allowed).map(|(range, what)| AddressRefusal::Special(range, what))
}

/// The special range that contains the address or its embedded IPv4 address, unless an exception allows it, and what that range
/// is.
pub(crate) fn special_range(ip: IpAddr, allowed: &[IpNet]) -> Option<(IpNet, &'static str)> {
    if allowed.iter().any(|range| range.contains(&ip)) {
        return None;
    }
    let range_of = |ip: IpAddr| PARSED_RANGES.iter().find(|(range, _)| range.contains(&ip)).copied();
    range_of(ip).or_else(|| embedded_ipv4(ip).map(IpAddr::V4).and_then(range_of))
}

/// The IPv4 address embedded in an IPv6 address, if a translator or tunnel would forward to it.
fn embedded_ipv4(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = ip else { return None };
    let segments = v6.segments();
    let at = |index: usize| {
        let [a, b] = segments[index].to_be_bytes();
        let [c, d] = segments[index + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // IPv4-compatible (RFC 4291 §2.5.5.1), except the unspecified and the loopback address.
        [0, 0, 0, 0, 0, 0, ..] if v6 != Ipv6Addr::UNSPECIFIED && v6 != Ipv6Addr::LOCALHOST => Some(at(6)),
        // IPv4-mapped, and IPv4-translated (RFC 2765 §2.1).
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => Some(at(6)),
        // NAT64 (RFC 6052 §2.1).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(at(6)),
        // 6to4 (RFC 3056 §2).
        [0x2002, ..] => Some(at(1)),
        // Teredo: the client's address, inverted (RFC 4380 §4).
        [0x2001, 0, ..] => Some(Ipv4Addr::from_bits(!at(6).to_bits())),
        // ISATAP (RFC 5214 §6.1).
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => Some(at(6)),
        _ => None,
    }
}

impl OwnAddresses {
    /// Whether a connection to `address` would reach this process.
    fn reaches(&self, address: SocketAddr) -> bool {
        let ip = address.ip();
        let is_here = || ip.is_loopback() || ip.is_unspecified() || self.addresses.contains(&ip);
        if self.gateways.as_ref().is_some_and(|ports| ports.contains(&address.port())) && is_here() {
            return true;
        }
        self.listeners.iter().any(|listener| {
            let at = listener.address;
            at.port() == address.port()
                && (at.ip().to_canonical() == ip || (at.ip().is_unspecified() && is_here()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_addresses::OwnListener;

    fn judged(ip: &str, external: &ExternalNameOptions) -> Option<AddressRefusal> {
        address_refusal(SocketAddr::new(ip.parse::<IpAddr>().unwrap().to_canonical(), 80), external)
    }

    #[test]
    fn special_addresses_are_refused_in_every_form() {
        for bad in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "169.254.169.254",
            "169.254.170.2",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "239.255.255.255",
            "255.255.255.255",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b:1::a00:1",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::",
            "2001:0:1:2:3:4:80ff:fffe",
            "2001:db8::5efe:127.0.0.1",
        ] {
            assert!(judged(bad, &ExternalNameOptions::default()).is_some(), "{bad}");
        }
    }

    #[test]
    fn pods_services_and_the_internet_are_reachable() {
        for good in [
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "198.51.100.7",
            "240.0.0.1",
            "8.8.8.8",
            "fd00::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert_eq!(judged(good, &ExternalNameOptions::default()), None, "{good}");
        }
    }

    #[test]
    fn an_exception_opens_only_its_range() {
        let allowed = vec!["127.0.0.0/8".parse().unwrap(), "fd00:ec2::254/128".parse().unwrap()];
        let external = ExternalNameOptions { allowed, ..ExternalNameOptions::default() };
        for open in ["127.0.0.1", "::ffff:127.0.0.1", "fd00:ec2::254"] {
            assert_eq!(judged(open, &external), None, "{open}");
        }
        for closed in ["::1", "64:ff9b::127.0.0.1", "169.254.169.254", "fd00:ec2::253"] {
            assert!(judged(closed, &external).is_some(), "{closed}");
        }
    }

    #[test]
    fn listeners_of_fairway_are_refused_despite_exceptions() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let listener = |text| OwnListener { address: address(text), flag: "--own" };
        let own_addresses = OwnAddresses {
            listeners: ["[::]:8080", "127.0.0.1:10254", "10.1.2.3:9443"].map(listener).into(),
            addresses: vec!["10.1.2.3".parse().unwrap(), "fd00::3".parse().unwrap()],
            gateways: Some(20_000..=29_999),
        };
        let allowed = vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
        let external = ExternalNameOptions { own_addresses, allowed, ..ExternalNameOptions::default() };
        let refused = |text: &str| address_refusal(address(text), &external) == Some(AddressRefusal::Own);
        for own in [
            "10.1.2.3:8080",
            "[fd00::3]:8080",
            "127.0.0.9:8080",
            "127.0.0.1:10254",
            "10.1.2.3:9443",
            "[64:ff9b::10.1.2.3]:8080",
            "10.1.2.3:20000",
            "[fd00::3]:29999",
            "127.0.0.1:25000",
            "[::ffff:10.1.2.3]:20001",
        ] {
            assert!(refused(own), "{own}");
        }
        let ports_of_gateways_elsewhere = ["10.1.2.4:20000", "10.1.2.3:19999", "10.1.2.3:30000"];
        let others = ["10.1.2.3:3000", "10.1.2.4:8080", "10.1.2.3:10254", "127.0.0.1:9443"];
        for other in others.into_iter().chain(ports_of_gateways_elsewhere) {
            assert!(!refused(other), "{other}");
        }
    }
}
