//! The addresses of this machine or pod, read from `/proc` (proc_net(5)).

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of all interfaces, as far as `/proc` can be read.
pub(crate) fn all() -> Vec<IpAddr> {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let mut addresses: Vec<_> =
        v4(&read("/proc/self/net/fib_trie")).chain(v6(&read("/proc/self/net/if_inet6"))).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// A local address is a leaf of the routing table that is followed by `/32 host LOCAL`.
fn v4(trie: &str) -> impl Iterator<Item = IpAddr> {
    let mut leaf = None;
    trie.lines().filter_map(move |line| {
        if let Some(address) = line.trim_start().strip_prefix("|-- ") {
            leaf = address.trim().parse::<Ipv4Addr>().ok();
        }
        let is_local = line.trim_start() == "/32 host LOCAL";
        leaf.filter(|_| is_local).map(IpAddr::V4)
    })
}

/// Each line starts with an address as 32 hexadecimal digits.
fn v6(list: &str) -> impl Iterator<Item = IpAddr> {
    list.lines().filter_map(|line| {
        let bits = u128::from_str_radix(line.split_whitespace().next()?, 16).ok()?;
        Some(IpAddr::V6(Ipv6Addr::from_bits(bits)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_read_from_the_routing_table_and_the_interface_list() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.1.2.0\n        \
                    /24 link UNICAST\n     |-- 10.1.2.3\n        /32 host LOCAL\n     |-- 10.1.2.255\n        /32 link BROADCAST\n\
                    Local:\n     |-- 127.0.0.1\n        /32 host LOCAL\n";
        let expected: Vec<IpAddr> = ["10.1.2.3", "127.0.0.1"].map(|it| it.parse().unwrap()).into();
        assert_eq!(v4(trie).collect::<Vec<_>>(), expected);
        let list = "00000000000000000000000000000001 01 80 10 80       lo\n\
                    fd000000000000000000000000000003 02 40 00 00     eth0\n";
        let expected: Vec<IpAddr> = ["::1", "fd00::3"].map(|it| it.parse().unwrap()).into();
        assert_eq!(v6(list).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn this_machine_has_an_address() {
        assert!(all().iter().any(IpAddr::is_loopback), "{:?}", all());
    }
}
