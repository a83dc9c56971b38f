//! Tells clients on TCP that the same listener serves HTTP/3: `Alt-Svc` (RFC 7838 §3, RFC 9114 §3.1.1).

use std::num::NonZeroU16;

use fairway_http::{Head, Version};

use super::environment::Environment;
use crate::network::Network;

/// How long a client may remember it, in seconds: a day, the usual value (RFC 7838 §3.1 `ma`). If HTTP/3 is switched off
/// earlier, clients fall back to TCP (RFC 7838 §2.4).
const MAX_AGE_SECONDS: &[u8] = b"86400";

/// Adds the header to the response, unless the endpoint or the rule has set one, or the client already uses HTTP/3.
#[inline]
pub(super) fn advertise_http3<N: Network>(env: &Environment<'_, N>, response: &mut Head) {
    if let Some(port) = env.http3_port {
        advertise(port, env.intake.version, response);
    }
}

fn advertise(port: NonZeroU16, version: Version, response: &mut Head) {
    if version == Version::Http3 || response.named(b"Alt-Svc").is_some() {
        return;
    }
    response.append_with(b"Alt-Svc", |value| {
        value.extend_from_slice(b"h3=\":");
        value.extend_from_slice(itoa::Buffer::new().format(port.get()).as_bytes());
        value.extend_from_slice(b"\"; ma=");
        value.extend_from_slice(MAX_AGE_SECONDS);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The `Alt-Svc` headers of a response that had these before.
    fn advertised(version: Version, alpn: &[&str]) -> Vec<String> {
        let mut response = Head::default();
        response.start_response(200);
        alpn.iter().for_each(|value| response.append(b"alt-svc", value.as_bytes()));
        advertise(NonZeroU16::new(8443).unwrap(), version, &mut response);
        response.all_named(b"Alt-Svc").map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }

    #[test]
    fn the_public_port_is_advertised_to_clients_without_http3() {
        for version in [Version::Http10, Version::Http11, Version::Http2] {
            assert_eq!(advertised(version, &[]), ["h3=\":8443\"; ma=86400"], "{version:?}");
        }
        assert_eq!(advertised(Version::Http3, &[]), Vec::<String>::new());
    }

    #[test]
    fn alt_svc_of_endpoints_and_edits_is_kept() {
        for own in ["clear", "h3=\":443\"; ma=60"] {
            assert_eq!(advertised(Version::Http2, &[own]), [own]);
        }
    }
}
