//! Tells clients that came over TCP where the same listener serves HTTP/3: `Alt-Svc` (RFC 7838 §3, RFC 9114 §3.1.1).

use std::num::NonZeroU16;

use fairway_http::{Head, Version};

use super::environment::Environment;
use crate::network::Network;

/// Seconds that a client may remember it: a day, as everywhere (RFC 7838 §3.1 `ma`). Where HTTP/3 is switched off before, clients
/// come back over TCP by themselves (RFC 7838 §2.4).
const MAX_AGE: &[u8] = b"86400";

/// Adds the header to the response in the buffers, unless the endpoint or the rule has set one, or HTTP/3 is spoken already.
#[inline]
pub(super) fn advertise_http3<N: Network>(env: &Environment<'_, N>, answer: &mut Head) {
    if let Some(port) = env.http3_port {
        advertise(port, env.intake.version, answer);
    }
}

fn advertise(port: NonZeroU16, version: Version, answer: &mut Head) {
    if version == Version::Http3 || answer.named(b"Alt-Svc").is_some() {
        return;
    }
    answer.append_with(b"Alt-Svc", |value| {
        value.extend_from_slice(b"h3=\":");
        value.extend_from_slice(itoa::Buffer::new().format(port.get()).as_bytes());
        value.extend_from_slice(b"\"; ma=");
        value.extend_from_slice(MAX_AGE);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a response says that was received as `own` says it.
    fn advertised(version: Version, own: &[&str]) -> Vec<String> {
        let mut answer = Head::default();
        answer.start_response(200);
        own.iter().for_each(|value| answer.append(b"alt-svc", value.as_bytes()));
        advertise(NonZeroU16::new(8443).unwrap(), version, &mut answer);
        answer.all_named(b"Alt-Svc").map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }

    #[test]
    fn the_public_port_is_advertised_to_clients_without_http3() {
        for version in [Version::Http10, Version::Http11, Version::Http2] {
            assert_eq!(advertised(version, &[]), ["h3=\":8443\"; ma=86400"], "{version:?}");
        }
        assert_eq!(advertised(Version::Http3, &[]), Vec::<String>::new());
    }

    #[test]
    fn what_an_endpoint_or_an_edit_says_stays() {
        for own in ["clear", "h3=\":443\"; ma=60"] {
            assert_eq!(advertised(Version::Http2, &[own]), [own]);
        }
    }
}
