//! Writes the client's address and scheme into headers for endpoints.

use std::io::Write;
use std::net::IpAddr;
use std::sync::LazyLock;

use crate::head::Known;
use crate::head::ready::ReadyFields;

/// The scheme headers for `http` requests.
pub static OF_HTTP: LazyLock<ReadyFields> = LazyLock::new(|| telling(b"http"));
/// The scheme headers for `https` requests.
pub static OF_HTTPS: LazyLock<ReadyFields> = LazyLock::new(|| telling(b"https"));

fn telling(scheme: &'static [u8]) -> ReadyFields {
    let names = [Known::XForwardedProto, Known::XForwardedScheme, Known::XScheme];
    ReadyFields::new(names.map(|known| (known.name().as_bytes(), scheme)))
}

/// Appends an address in the format of the standard library.
pub fn write_ip(into: &mut Vec<u8>, address: IpAddr) {
    let IpAddr::V4(v4) = address else {
        return write!(into, "{address}").expect("writing to a vector cannot fail");
    };
    let (mut text, mut length) = ([0; 16], 0);
    for octet in v4.octets() {
        if octet >= 100 {
            text[length] = b'0' + octet / 100;
            length += 1;
        }
        if octet >= 10 {
            text[length] = b'0' + octet / 10 % 10;
            length += 1;
        }
        text[length] = b'0' + octet % 10;
        text[length + 1] = b'.';
        length += 2;
    }
    into.extend_from_slice(&text[..length - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Head;

    #[test]
    fn addresses_are_written_as_the_library_writes_them() {
        let each = (0..=255).map(|octet| IpAddr::from([octet, 255 - octet, octet / 3, 10]));
        for address in each.chain(["::1".parse().unwrap(), "2001:db8::a:0:1".parse().unwrap()]) {
            let mut written = Vec::new();
            write_ip(&mut written, address);
            assert_eq!(String::from_utf8(written).unwrap(), address.to_string());
        }
    }

    #[test]
    fn three_fields_tell_the_scheme() {
        for (fields, scheme) in [(&OF_HTTP, &b"http"[..]), (&OF_HTTPS, b"https")] {
            let mut head = Head::new();
            head.append_ready(fields);
            for known in [Known::XForwardedProto, Known::XForwardedScheme, Known::XScheme] {
                assert_eq!(head.first(known), Some(scheme), "{known:?}");
            }
            assert_eq!(head.field_count(), 3);
        }
    }
}
