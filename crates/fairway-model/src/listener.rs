//! Listeners: addresses, protocols, TLS and route tables.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::certificate::{CertificateKey, ClientVerification};
use crate::default::is_default;
use crate::host::HostPattern;
use crate::origin::Origin;
use crate::traffic::ClientTraffic;

/// One protocol on some addresses.
///
/// Listeners that terminate or forward TLS may share an address: the client's SNI selects the one whose
/// [`Self::host`] equals the name, else the longest wildcard, else [`HostPattern::Any`]. All others need addresses of
/// their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Unique; `http` and `https` for Ingress.
    pub name: Arc<str>,
    /// The flag or object that requested it.
    #[serde(default)]
    pub origin: Origin,
    /// Addresses to bind. Port 0 picks a free port for this listener.
    #[serde(default)]
    pub bind: Vec<SocketAddr>,
    /// The protocol spoken on it.
    pub protocol: ListenerProtocol,
    /// The port that clients see; used in redirects, `X-Forwarded-Port` and logs regardless of the bound port.
    pub public_port: u16,
    /// SNI names that select it among listeners on the same address; ignored for protocols without TLS. Its table
    /// decides which request hosts it serves.
    #[serde(default = "every_name", skip_serializing_if = "is_every_name")]
    pub host: HostPattern,
    /// The table that serves it: the `table` of [`crate::HostKey`] for HTTP, and of [`crate::StreamKey`] otherwise.
    /// Several listeners may share one.
    pub table: Arc<str>,
    /// A second table of virtual hosts: routes of Gateways that share the address of Ingresses, whose table is
    /// [`Self::table`]. Each table selects a rule as if it were alone, and the more specific rule serves the request;
    /// a tie goes to this table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<Arc<str>>,
    /// The listener whose addresses this one shares. A free port is chosen by that listener.
    #[serde(rename = "beside", default, skip_serializing_if = "Option::is_none")]
    pub address_owner: Option<Arc<str>>,
    /// TLS termination; ignored for protocols that do not terminate TLS.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: ListenerTls,
    /// Client settings that override those of all listeners.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clients: ClientTraffic,
}

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListenerProtocol {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS that terminates here, unless the same table has a [`crate::StreamRoute`] for the virtual host's
    /// pattern: then its TLS is forwarded unchanged.
    Https,
    /// Any protocol over TLS that terminates here; the decrypted data is forwarded unchanged.
    Tls,
    /// TLS that an endpoint terminates; forwarded unchanged.
    TlsPassthrough,
    /// TCP connections, forwarded unchanged.
    Tcp,
    /// UDP datagrams, forwarded unchanged.
    Udp,
}

/// The transport protocol of a port; the same number may be used for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PortProtocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// TLS termination of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerTls {
    /// Certificates for names whose virtual host has none: the first exact match, else the first wildcard match, else
    /// the first certificate, else [`crate::Config::default_certificate`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateKey>,
    /// Client certificate verification, for names whose virtual host does not define it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientVerification>,
}

impl Listener {
    /// A listener for every name, with no addresses yet and the default TLS settings.
    #[must_use]
    pub fn new(name: &str, protocol: ListenerProtocol, public_port: u16, table: &str) -> Self {
        Self {
            name: name.into(),
            origin: Origin::object("Listener", "", name),
            bind: Vec::new(),
            protocol,
            public_port,
            host: HostPattern::Any,
            table: table.into(),
            routes: None,
            address_owner: None,
            tls: ListenerTls::default(),
            clients: ClientTraffic::default(),
        }
    }

    /// Its route tables.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        [&self.table].into_iter().chain(&self.routes).map(|table| &**table)
    }
}

fn every_name() -> HostPattern {
    HostPattern::Any
}

fn is_every_name(host: &HostPattern) -> bool {
    *host == HostPattern::Any
}

impl ListenerProtocol {
    /// Whether its connections begin with TLS, so that SNI selects among listeners of one address.
    #[must_use]
    pub fn begins_with_tls(self) -> bool {
        matches!(self, Self::Https | Self::Tls | Self::TlsPassthrough)
    }

    /// The transport protocol of its ports.
    #[must_use]
    pub fn port_protocol(self) -> PortProtocol {
        if self == Self::Udp { PortProtocol::Udp } else { PortProtocol::Tcp }
    }

    /// Whether its table contains virtual hosts; otherwise it contains [`crate::StreamRoute`]s.
    #[must_use]
    pub fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

impl PortProtocol {
    /// `TCP` or `UDP`, as in configurations and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::ClientCertificateMode;

    #[test]
    fn a_listener_round_trips() {
        let listener = Listener {
            name: "db".into(),
            origin: Origin::object("Gateway", "shop", "inner").at("spec.listeners[1]"),
            bind: vec!["0.0.0.0:9443".parse().unwrap(), "[::]:9443".parse().unwrap()],
            protocol: ListenerProtocol::Tls,
            public_port: 5432,
            host: HostPattern::Exact("db.example.com".into()),
            table: "inner/db".into(),
            routes: Some("routes".into()),
            address_owner: Some("https".into()),
            tls: ListenerTls {
                certificates: vec!["shop/db".into()],
                clients: Some(ClientVerification {
                    roots: "PEM".into(),
                    revoked: "".into(),
                    depth: None,
                    demand: ClientCertificateMode::Required,
                }),
            },
            clients: ClientTraffic { requests_per_connection: Some(9), ..ClientTraffic::default() },
        };
        let json = serde_json::to_string(&listener).unwrap();
        assert_eq!(serde_json::from_str::<Listener>(&json).unwrap(), listener);
    }

    #[test]
    fn a_listener_of_an_older_version_is_read_without_addresses() {
        let json = r#"{"name":"https","protocol":"Https","public_port":443,"table":"ingress"}"#;
        let listener: Listener = serde_json::from_str(json).unwrap();
        assert_eq!((listener.host, listener.tls), (HostPattern::Any, ListenerTls::default()));
        assert!(listener.bind.is_empty());
    }
}
