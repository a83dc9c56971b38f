//! Settings of the data plane as a whole, all of which change live unless they say otherwise.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::introduction::Introduction;
use crate::log_format::LogFormat;
use crate::tickets::SessionTickets;
use crate::tls::{KeyExchange, TlsVersions};
use crate::tracing::{Collector, Tracing};
use crate::value_test::{BlockedClients, ValueTest};

/// Settings that belong to no rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The clients' side.
    pub downstream: DownstreamSettings,
    /// The pods' side.
    pub upstream: UpstreamSettings,
    /// Connections that are forwarded as they come.
    #[serde(default, skip_serializing_if = "is_default")]
    pub streams: StreamSettings,
    /// Whose forwarding headers are believed.
    pub forwarded: ForwardedTrust,
    /// How connections to the listeners of Ingresses begin; `None` leaves it to the flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub introduction: Option<Introduction>,
    /// Clients that are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Arc<BlockedClients>>,
    /// Whether requests are logged; `None` leaves it to the flag.
    pub access_log: Option<AccessLog>,
    /// The format of its lines; `None` leaves it to the flag.
    #[serde(default)]
    pub log_format: Option<Arc<LogFormat>>,
    /// How TLS clients resume sessions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tickets: SessionTickets,
    /// Requests that are not logged, by their targets as they were sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unlogged_targets: Arc<[ValueTest]>,
    /// How requests are traced; `None` leaves it to the flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Arc<Tracing>>,
    /// Where spans are sent; `None` leaves it to the flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collector: Option<Arc<Collector>>,
    /// The number of workers; `None` leaves it to the flag. Applied at restart only.
    pub workers: Option<u32>,
}

/// The clients' side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownstreamSettings {
    /// How long an idle keep-alive connection stays open.
    pub idle_timeout: Duration,
    /// Requests per connection, after which it is closed politely.
    pub requests_per_connection: u64,
    /// Connections per worker; `None` derives it from the file limit.
    pub connections_per_worker: Option<u32>,
    /// How long a whole request head may take.
    pub head_timeout: Duration,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long the client may take no byte of an answer.
    pub write_timeout: Duration,
    /// HTTP/2.
    #[serde(default)]
    pub http2: Http2Settings,
    /// HTTP/3.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http3: Http3Settings,
    /// The versions of TLS that are spoken.
    #[serde(default)]
    pub tls_versions: TlsVersions,
    /// The groups in which keys may be exchanged, of which the client prefers one; all where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_exchange: Vec<KeyExchange>,
    /// Whether certificates are served with responses of their OCSP responders.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ocsp_stapling: bool,
    /// Which names the headers of a request may have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub header_names: HeaderNames,
    /// Whether TLS clients are refused that ask for no name, or for one that no host has; else they get a certificate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reject_unknown_names: bool,
}

/// Which names the headers of a request may have; headers with other names are removed. In CGI, PHP and many frameworks `A-B`,
/// `A_B` and `A.B` are one name, so only [`HeaderNames::Plain`] names are never taken for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeaderNames {
    /// Letters, digits and `-`.
    #[default]
    Plain,
    /// `_` as well (nginx `underscores_in_headers on`).
    Underscores,
    /// Whatever HTTP allows (nginx `ignore_invalid_headers off`).
    Any,
}

/// HTTP/2 of the clients' side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http2Settings {
    /// Whether it is spoken: offered over TLS, and recognised in the clear.
    pub offered: bool,
    /// Streams that a connection may have open at a time; no more than the data plane has room for.
    pub streams: u32,
}

/// HTTP/3 of the clients' side (RFC 9114), over QUIC at the UDP port of the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http3Settings {
    /// Whether HTTPS listeners speak it that say nothing about it ([`crate::ClientTraffic::http3`]).
    pub offered: bool,
    /// Whether listeners take requests in early data (0-RTT) that say nothing about it ([`crate::ClientTraffic::early_data`]).
    #[serde(default, skip_serializing_if = "is_default")]
    pub early_data: bool,
    /// Whether the flags expect the PROXY protocol at TLS listeners that say nothing about it. QUIC cannot carry its header, so
    /// these have no HTTP/3.
    #[serde(default, skip_serializing_if = "is_default")]
    pub behind_proxy_protocol: bool,
}

/// The pods' side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamSettings {
    /// Idle connections kept per worker and endpoint; where nobody has set a number, what the endpoint needed lately.
    #[serde(default)]
    pub idle_connections: Option<u32>,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Requests per connection.
    pub requests_per_connection: u64,
}

/// Connections that are forwarded as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSettings {
    /// How long one stays open on which nothing moves.
    pub idle_timeout: Duration,
    /// Datagrams that are forwarded.
    #[serde(default)]
    pub datagrams: DatagramSettings,
}

/// Datagrams that are forwarded as they come. A session is one client address and port, and the endpoint that it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramSettings {
    /// How long a session stays in which nothing moves.
    pub idle_timeout: Duration,
    /// Sessions that a listener may have, of all workers together; datagrams for one more are dropped.
    pub sessions: u32,
    /// Sessions that a client address, and in IPv6 its network of 64 bits, may have at a listener.
    pub sessions_per_client: u32,
}

/// Whose `X-Forwarded-*` headers are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedTrust {
    /// Peers in these ranges may say who the client is.
    pub ranges: Vec<IpNet>,
    /// The header with the client's address, in lower case; `x-forwarded-for` where there is none. From other peers it is
    /// removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Arc<str>>,
    /// Whether these peers are believed about the client's address and nothing else (nginx `real_ip_header`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub address_only: bool,
    /// Whether the client's own chain is extended (`a, b`) instead of replaced (ingress-nginx
    /// `compute-full-forwarded-for`).
    pub append: bool,
}

/// Whether requests are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessLog {
    /// In the format the flag chose.
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
