//! Writes PROXY protocol headers for endpoints: version 1 lines and binary version 2 headers.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The start of a version 2 header up to its command: version 2, PROXY.
const BEGINNING: &[u8; 13] = b"\r\n\r\n\0\r\nQUIT\n\x21";

/// The longest version 2 header that is written: two IPv6 addresses.
pub const MOST_OF_V2: usize = 16 + 36;

/// The addresses of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The client.
    pub source: SocketAddr,
    /// The address it connected to.
    pub destination: SocketAddr,
}

/// What follows a version 2 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A stream.
    Stream,
    /// Datagrams.
    Datagrams,
}

impl Addresses {
    /// Both addresses in one family: if they differ, an IPv4 address becomes an IPv4-mapped IPv6 address.
    fn in_one_family(self) -> (IpAddr, IpAddr) {
        let canonical = |address: SocketAddr| address.ip().to_canonical();
        match (canonical(self.source), canonical(self.destination)) {
            (source @ IpAddr::V4(_), destination @ IpAddr::V4(_)) => (source, destination),
            (source, destination) => (as_v6(source).into(), as_v6(destination).into()),
        }
    }
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// The version 1 line.
#[must_use]
pub fn write_v1(addresses: Addresses) -> Vec<u8> {
    let (source, destination) = addresses.in_one_family();
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (from, to) = (addresses.source.port(), addresses.destination.port());
    format!("PROXY {family} {source} {destination} {from} {to}\r\n").into_bytes()
}

/// Writes the version 2 header into `room` and returns it.
pub fn write_v2(addresses: Addresses, carries: Payload, room: &mut [u8; MOST_OF_V2]) -> &[u8] {
    let mut rest = &mut room[..];
    let mut add = |bytes: &[u8]| rest.write_all(bytes).expect("the longest header fits");
    let (source, destination) = addresses.in_one_family();
    let transport = match carries {
        Payload::Stream => 1,
        Payload::Datagrams => 2,
    };
    add(BEGINNING);
    let length = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            add(&[0x10 | transport, 0, 12]);
            add(&source.octets());
            add(&destination.octets());
            16 + 12
        }
        (source, destination) => {
            add(&[0x20 | transport, 0, 36]);
            add(&as_v6(source).octets());
            add(&as_v6(destination).octets());
            16 + 36
        }
    };
    add(&addresses.source.port().to_be_bytes());
    add(&addresses.destination.port().to_be_bytes());
    &room[..length]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy_header::parse;

    fn addresses(source: &str, destination: &str) -> Addresses {
        Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    #[test]
    fn a_written_header_is_read_back() {
        for (source, destination) in [
            ("192.0.2.7:5555", "192.0.2.1:80"),
            ("[2001:db8::7]:65535", "[2001:db8::1]:1"),
            (
                "[2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff]:65535",
                "[2001:db8:aaaa:bbbb:cccc:dddd:eeee:fffe]:65535",
            ),
        ] {
            let both = addresses(source, destination);
            for carries in [Payload::Stream, Payload::Datagrams] {
                let mut room = [0; MOST_OF_V2];
                let header = parse(write_v2(both, carries, &mut room)).unwrap().unwrap();
                assert_eq!((header.client, header.server), (Some(both.source), Some(both.destination)));
                assert!(header.remaining.is_empty());
            }
            let header = parse(&write_v1(both)).unwrap().unwrap();
            assert_eq!((header.client, header.server), (Some(both.source), Some(both.destination)));
        }
    }

    #[test]
    fn the_bytes_match_the_specification() {
        let both = addresses("192.0.2.7:5555", "192.0.2.1:80");
        assert_eq!(write_v1(both), b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 80\r\n");
        let mut room = [0; MOST_OF_V2];
        let stream = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x01\x15\xb3\0\x50";
        assert_eq!(write_v2(both, Payload::Stream, &mut room), stream);
        let datagrams = write_v2(both, Payload::Datagrams, &mut room);
        assert_eq!((&datagrams[..13], datagrams[13], &datagrams[14..]), (&stream[..13], 0x12, &stream[14..]));
    }

    #[test]
    fn an_address_of_the_other_family_is_mapped() {
        let both = addresses("192.0.2.7:5555", "[2001:db8::1]:80");
        assert_eq!(write_v1(both), b"PROXY TCP6 ::ffff:192.0.2.7 2001:db8::1 5555 80\r\n");
        let mapped = addresses("[::ffff:192.0.2.7]:5555", "192.0.2.1:80");
        assert_eq!(write_v1(mapped), b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 80\r\n");
    }
}
