//! What a client and Fairway agreed on in a handshake, in the words of OpenSSL, which logs of nginx have.

use rustls::quic::ServerConnection as QuicConnection;
use rustls::{CipherSuite, CommonState, HandshakeKind, NamedGroup, ProtocolVersion, ServerConnection};

/// What was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// The version, such as `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite.
    pub suite: &'static str,
    /// The group in which keys were exchanged.
    pub group: Option<&'static str>,
    /// The host that the client asked for.
    pub name: Option<Box<str>>,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// The protocol above it.
    pub protocol: Option<&'static str>,
}

impl Agreed {
    /// With a client that has shaken hands.
    #[must_use]
    pub(crate) fn of(connection: &ServerConnection) -> Self {
        Self::with(connection, connection.server_name())
    }

    /// The same over QUIC.
    #[must_use]
    pub(crate) fn over_quic(connection: &QuicConnection) -> Self {
        Self::with(connection, connection.server_name())
    }

    fn with(connection: &CommonState, name: Option<&str>) -> Self {
        Self {
            version: match connection.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            suite: connection.negotiated_cipher_suite().map_or("", |suite| suite_name(suite.suite())),
            group: connection.negotiated_key_exchange_group().map(|group| group_name(group.name())),
            name: name.map(Into::into),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            protocol: connection.alpn_protocol().map(|it| match it {
                b"h2" => "h2",
                b"h3" => "h3",
                b"http/1.0" => "http/1.0",
                _ => "http/1.1",
            }),
        }
    }
}

fn suite_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        other => other.as_str().unwrap_or_default(),
    }
}

fn group_name(group: NamedGroup) -> &'static str {
    match group {
        NamedGroup::secp256r1 => "prime256v1",
        other => other.as_str().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_spoken_has_the_name_that_openssl_gives_it() {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        for suite in provider.cipher_suites {
            let name = suite_name(suite.suite());
            assert!(name.starts_with("ECDHE-") || suite.tls13().is_some(), "{name}");
            assert!(!name.contains("TLS13_") && !name.contains("_WITH_"), "{name}");
        }
        for group in provider.kx_groups {
            let name = group_name(group.name());
            assert!(!name.is_empty() && name != "secp256r1", "{name}");
        }
    }
}
