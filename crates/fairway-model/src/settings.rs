//! Settings of the whole data plane. Changes apply live unless noted otherwise.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::introduction::ProxyProtocolMode;
use crate::log_format::LogFormat;
use crate::tickets::SessionTickets;
use crate::tls::{KeyExchange, TlsVersions};
use crate::tracing::{Collector, Tracing};
use crate::value_test::{BlockedClients, ValueTest};

/// Settings that do not belong to a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Client connections.
    pub downstream: DownstreamSettings,
    /// Connections to endpoints.
    pub upstream: UpstreamSettings,
    /// Forwarded TCP and UDP traffic.
    #[serde(default, skip_serializing_if = "is_default")]
    pub streams: StreamSettings,
    /// Which peers' forwarding headers are trusted.
    pub forwarded: ForwardedTrust,
    /// Whether connections to Ingress listeners begin with a PROXY protocol header; `None` uses the flags.
    #[serde(rename = "introduction", default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocolMode>,
    /// Clients that are blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Arc<BlockedClients>>,
    /// Whether requests are logged; `None` uses the flag.
    pub access_log: Option<AccessLog>,
    /// Format of log lines; `None` uses the flag.
    #[serde(default)]
    pub log_format: Option<Arc<LogFormat>>,
    /// TLS session resumption.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tickets: SessionTickets,
    /// Request targets that are not logged, compared as received.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unlogged_targets: Arc<[ValueTest]>,
    /// Tracing; `None` uses the flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Arc<Tracing>>,
    /// Where spans are sent; `None` uses the flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collector: Option<Arc<Collector>>,
    /// Number of workers; `None` uses the flag. Applied only at restart.
    pub workers: Option<u32>,
}

/// Client connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownstreamSettings {
    /// Idle timeout of keep-alive connections.
    pub idle_timeout: Duration,
    /// Requests per connection, after which it is closed gracefully.
    pub requests_per_connection: u64,
    /// Connections per worker; `None` derives it from the file limit.
    pub connections_per_worker: Option<u32>,
    /// Timeout for a complete request head.
    pub head_timeout: Duration,
    /// Timeout of a TLS handshake.
    pub handshake_timeout: Duration,
    /// How long a client may accept no response bytes.
    pub write_timeout: Duration,
    /// HTTP/2.
    #[serde(default)]
    pub http2: Http2Settings,
    /// HTTP/3.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http3: Http3Settings,
    /// TLS versions.
    #[serde(default)]
    pub tls_versions: TlsVersions,
    /// Key exchange groups offered to clients; empty offers all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_exchange: Vec<KeyExchange>,
    /// Whether OCSP responses are stapled.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ocsp_stapling: bool,
    /// Header names that requests may have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub header_names: HeaderNames,
    /// Whether TLS clients with a missing or unknown server name are refused; otherwise they get a certificate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reject_unknown_names: bool,
}

/// Header names that requests may have; other headers are removed. CGI, PHP and many frameworks treat `A-B`, `A_B`
/// and `A.B` as one name, so only [`HeaderNames::Plain`] names are unambiguous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeaderNames {
    /// Letters, digits and `-`.
    #[default]
    Plain,
    /// Also `_` (nginx `underscores_in_headers on`).
    Underscores,
    /// Every name that HTTP allows (nginx `ignore_invalid_headers off`).
    Any,
}

/// HTTP/2 for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http2Settings {
    /// Whether it is enabled: offered over TLS and recognised in plain text.
    pub offered: bool,
    /// Concurrent streams per connection, up to the capacity of the data plane.
    pub streams: u32,
}

/// HTTP/3 for clients (RFC 9114), over QUIC at the UDP port of the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http3Settings {
    /// Default for HTTPS listeners ([`crate::ClientTraffic::http3`]).
    pub offered: bool,
    /// Default for accepting requests in early data (0-RTT) ([`crate::ClientTraffic::early_data`]).
    #[serde(default, skip_serializing_if = "is_default")]
    pub early_data: bool,
    /// Whether the flags expect the PROXY protocol at TLS listeners that do not set it. QUIC cannot carry its header,
    /// so these listeners have no HTTP/3.
    #[serde(default, skip_serializing_if = "is_default")]
    pub behind_proxy_protocol: bool,
}

/// Connections to endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamSettings {
    /// Idle connections kept per worker and endpoint; `None` follows recent demand.
    #[serde(default)]
    pub idle_connections: Option<u32>,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Requests per connection.
    pub requests_per_connection: u64,
}

/// Forwarded connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSettings {
    /// Idle timeout of a connection.
    pub idle_timeout: Duration,
    /// Forwarded datagrams.
    #[serde(default)]
    pub datagrams: DatagramSettings,
}

/// Forwarded datagrams. A session is one client address and port with its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramSettings {
    /// Idle timeout of a session.
    pub idle_timeout: Duration,
    /// Sessions per listener, across all workers; datagrams that would start another one are dropped.
    pub sessions: u32,
    /// Sessions per listener of one client, an IPv4 address or an IPv6 /64.
    pub sessions_per_client: u32,
}

/// Which peers' `X-Forwarded-*` headers are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedTrust {
    /// Peers that may state the client address.
    pub ranges: Vec<IpNet>,
    /// Header with the client address, in lower case; `None` is `x-forwarded-for`. It is removed from requests of
    /// other peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Arc<str>>,
    /// Whether these peers are trusted only about the client address (nginx `real_ip_header`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub address_only: bool,
    /// Whether the client's own chain is extended (`a, b`) instead of replaced (ingress-nginx
    /// `compute-full-forwarded-for`).
    pub append: bool,
}

/// Whether requests are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessLog {
    /// In the format selected by the flag.
    On,
    /// Not at all.
    Off,
}

impl Default for DownstreamSettings {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_secs(75),
            requests_per_connection: 10_000,
            connections_per_worker: None,
            head_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            http2: Http2Settings::default(),
            http3: Http3Settings::default(),
            tls_versions: TlsVersions::default(),
            key_exchange: Vec::new(),
            ocsp_stapling: false,
            header_names: HeaderNames::default(),
            reject_unknown_names: false,
        }
    }
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self { idle_timeout: Duration::from_secs(3_600), datagrams: DatagramSettings::default() }
    }
}

impl Default for DatagramSettings {
    fn default() -> Self {
        Self { idle_timeout: Duration::from_secs(60), sessions: 16_384, sessions_per_client: 1_024 }
    }
}

impl Default for Http2Settings {
    fn default() -> Self {
        Self { offered: true, streams: 128 }
    }
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self {
            idle_connections: None,
            idle_timeout: Duration::from_secs(60),
            requests_per_connection: 10_000,
        }
    }
}
