//! The addresses of this process: those it binds independently of objects, and which addresses conflict. Binds nothing.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use fairway_model::PortProtocol;

/// The addresses of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAddresses {
    /// The addresses that it binds independently of objects.
    pub listeners: Vec<OwnListener>,
    /// The addresses of the machine or pod, which a listener on the unspecified address covers.
    pub addresses: Vec<IpAddr>,
    /// The ports that Gateways may use on all of these addresses. The ports in use change with the objects, so all of them count.
    pub gateways: Option<RangeInclusive<u16>>,
}

/// An address that this process binds because of a flag. All of them accept TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnListener {
    /// The address.
    pub address: SocketAddr,
    /// The flag.
    pub flag: &'static str,
}

impl OwnAddresses {
    /// The listener of this process that conflicts with one of these addresses.
    #[must_use]
    pub fn conflicting_listener(&self, protocol: PortProtocol, bind: &[SocketAddr]) -> Option<&OwnListener> {
        let conflicts = |own: &&OwnListener| bind.iter().any(|address| overlaps(&own.address, address));
        self.listeners.iter().filter(|_| protocol == PortProtocol::Tcp).find(conflicts)
    }
}

/// Whether two addresses cannot be bound together. Port 0 never conflicts.
#[must_use]
pub fn overlaps(a: &SocketAddr, b: &SocketAddr) -> bool {
    let (one, other) = (a.ip().to_canonical(), b.ip().to_canonical());
    let hosts = one == other || covers(one, other) || covers(other, one);
    hosts && a.port() == b.port() && a.port() != 0
}

/// Whether an unspecified address covers `ip`. Fairway binds `[::]` for IPv4 too.
fn covers(unspecified: IpAddr, ip: IpAddr) -> bool {
    unspecified.is_unspecified() && (unspecified.is_ipv6() || ip.is_ipv4())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unspecified_address_overlaps_with_all_that_it_accepts() {
        let overlap = |a: &str, b: &str| {
            let (a, b) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(overlaps(&a, &b), overlaps(&b, &a), "{a} {b}");
            overlaps(&a, &b)
        };
        for (a, b) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("0.0.0.0:80", "[::ffff:10.0.0.1]:80"),
            ("[::]:80", "10.0.0.1:80"),
            ("[::]:80", "0.0.0.0:80"),
            ("[::]:80", "[fd00::1]:80"),
        ] {
            assert!(overlap(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("127.0.0.1:80", "127.0.0.1:81"),
            ("127.0.0.1:80", "127.0.0.2:80"),
            ("0.0.0.0:80", "[fd00::1]:80"),
            ("0.0.0.0:0", "0.0.0.0:0"),
        ] {
            assert!(!overlap(a, b), "{a} {b}");
        }
    }
}
