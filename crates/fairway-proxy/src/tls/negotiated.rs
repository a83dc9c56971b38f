//! Negotiated TLS parameters under the names OpenSSL gives them, which nginx logs use.

use rustls::quic::ServerConnection as QuicConnection;
use rustls::{CipherSuite, CommonState, HandshakeKind, NamedGroup, ProtocolVersion, ServerConnection};

/// Negotiated parameters of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NegotiatedTls {
    /// Version, such as `TLSv1.3`.
    pub version: &'static str,
    /// Cipher suite.
    pub suite: &'static str,
    /// Key exchange group.
    pub group: Option<&'static str>,
    /// SNI of the client.
    pub name: Option<Box<str>>,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// ALPN protocol.
    pub protocol: Option<&'static str>,
}

impl NegotiatedTls {
    /// Of a TLS connection over TCP.
    #[must_use]
    pub(crate) fn over_tcp(connection: &ServerConnection) -> Self {
        Self::from_common(connection, connection.server_name())
    }

    /// Of a QUIC connection.
    #[must_use]
    pub(crate) fn over_quic(connection: &QuicConnection) -> Self {
        Self::from_common(connection, connection.server_name())
    }

    fn from_common(connection: &CommonState, name: Option<&str>) -> Self {
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
    fn every_supported_suite_and_group_has_its_openssl_name() {
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
