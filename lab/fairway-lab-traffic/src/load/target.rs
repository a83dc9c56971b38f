//! Targets that may be loaded without --yes: loopback, and the testbed's addresses from inside its network namespace. Opens
//! no connections.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::bail;

/// Networks of the testbed: node, pods, Services, load balancers.
const TESTBED: [(Ipv4Addr, u32); 4] = [
    (Ipv4Addr::new(10, 10, 0, 1), 32),
    (Ipv4Addr::new(10, 244, 0, 0), 20),
    (Ipv4Addr::new(10, 96, 0, 0), 16),
    (Ipv4Addr::new(10, 11, 0, 0), 24),
];

/// Rejects targets that are neither loopback, nor in the testbed, nor confirmed.
///
/// # Errors
/// The target needs confirmation.
pub fn allow(addresses: &[SocketAddr], is_confirmed: bool) -> anyhow::Result<()> {
    allow_from(addresses, is_confirmed, is_in_own_namespace())
}

fn allow_from(addresses: &[SocketAddr], is_confirmed: bool, is_in_own_namespace: bool) -> anyhow::Result<()> {
    if is_confirmed {
        return Ok(());
    }
    for address in addresses {
        let ip = address.ip().to_canonical();
        if ip.is_loopback() || (is_in_own_namespace && is_testbed(ip)) {
            continue;
        }
        let why = if is_testbed(ip) {
            "is an address like the testbed's, but this process is in the machine's own network namespace"
        } else {
            "is neither loopback nor in the laboratory's own network"
        };
        bail!("no load was sent: {ip} {why}. If you may load it, say so with --yes");
    }
    Ok(())
}

fn is_testbed(ip: IpAddr) -> bool {
    let IpAddr::V4(ip) = ip else { return false };
    TESTBED.iter().any(|(network, length)| {
        let mask = u32::MAX << (32 - length);
        u32::from(ip) & mask == u32::from(*network) & mask
    })
}

/// Whether this process is in a network namespace other than that of the machine's first process. If that cannot be read,
/// it counts as the same, and only loopback is allowed.
fn is_in_own_namespace() -> bool {
    match (fs::read_link("/proc/self/ns/net"), fs::read_link("/proc/1/ns/net")) {
        (Ok(own), Ok(first)) => own != first,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(address: &str, is_confirmed: bool, is_inside: bool) -> bool {
        allow_from(&[address.parse().unwrap()], is_confirmed, is_inside).is_ok()
    }

    #[test]
    fn loopback_is_allowed_and_other_addresses_only_when_confirmed() {
        assert!(is_allowed("127.3.2.1:80", false, false));
        assert!(is_allowed("[::1]:80", false, false));
        assert!(is_allowed("[::ffff:127.0.0.1]:80", false, false));
        assert!(!is_allowed("192.0.2.1:80", false, true));
        assert!(!is_allowed("[2001:db8::1]:80", false, true));
        assert!(is_allowed("192.0.2.1:80", true, false));
    }

    #[test]
    fn the_testbed_is_allowed_from_its_own_namespace_only() {
        for address in ["10.10.0.1:443", "10.244.15.254:80", "10.96.1.1:443", "10.11.0.9:80"] {
            assert!(is_allowed(address, false, true), "{address}");
            assert!(!is_allowed(address, false, false), "{address}");
        }
        for address in ["10.10.0.2:443", "10.244.16.1:80", "10.97.0.1:80", "10.11.1.1:80"] {
            assert!(!is_allowed(address, false, true), "{address}");
        }
    }

    #[test]
    fn a_single_forbidden_address_suffices() {
        let addresses = ["127.0.0.1:80".parse().unwrap(), "192.0.2.1:80".parse().unwrap()];
        assert!(allow_from(&addresses, false, false).unwrap_err().to_string().contains("192.0.2.1"));
    }
}
