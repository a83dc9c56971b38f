//! Where connections arrive, how they are spoken to, and which table serves them.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::certificate::{CertificateKey, ClientVerification};
use crate::default::is_default;
use crate::host::HostPattern;
use crate::origin::Origin;
use crate::traffic::ClientTraffic;

/// One kind of traffic on some addresses.
///
/// Listeners that end or forward TLS may share an address: the name that a client asks for (SNI) chooses the one whose
/// [`Self::host`] is exactly this name, else the longest wildcard, else [`HostPattern::Any`]. All others have their
/// addresses to themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Unique; `http` and `https` for Ingress.
    pub name: Arc<str>,
    /// What asks for it: a flag or an object.
    #[serde(default)]
    pub origin: Origin,
    /// The addresses to bind. Port 0 is a free port of this listener's own.
    #[serde(default)]
    pub bind: Vec<SocketAddr>,
    /// What is spoken on it.
    pub protocol: ListenerProtocol,
    /// The port that clients see: redirects, `X-Forwarded-Port` and logs use it, whatever port is bound.
    pub public_port: u16,
    /// The names (SNI) for which it is chosen among listeners that share an address; without meaning for protocols that
    /// do not begin with TLS. Which hosts of requests it serves, its table says.
    #[serde(default = "every_name", skip_serializing_if = "is_every_name")]
    pub host: HostPattern,
    /// The table that serves it: the `table` part of [`crate::HostKey`] for HTTP, of [`crate::StreamKey`] for all
    /// others. Several listeners may share one.
    pub table: Arc<str>,
    /// A second table of virtual hosts, that of the routes of Gateways at the address of Ingresses, whose table is
    /// [`Self::table`]. Each finds a rule for a request as if it were alone, and of the two the more specific one serves; where
    /// both are as specific, that of this table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<Arc<str>>,
    /// The listener whose addresses these are too. A free port is that listener's, and not one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Arc<str>>,
    /// How TLS ends here; without meaning for protocols that do not end TLS.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: ListenerTls,
    /// What holds for its clients instead of what holds for those of all listeners.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clients: ClientTraffic,
}

/// What a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListenerProtocol {
    /// HTTP in the clear.
    Http,
    /// HTTP over TLS that ends here, unless the virtual host of the name has a [`crate::StreamRoute`] of the same table and
    /// pattern: its TLS is forwarded as it comes.
    Https,
    /// Anything over TLS that ends here; what is inside is forwarded as it comes.
    Tls,
    /// TLS that an endpoint ends; forwarded as it comes.
    TlsPassthrough,
    /// Connections that are forwarded as they come.
    Tcp,
    /// Datagrams that are forwarded as they come.
    Udp,
}

/// What a port takes: the same number may be a port of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PortProtocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// How TLS ends at a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerTls {
    /// For names without a virtual host that has one: the first of these that is for exactly the name, else the first
    /// with a wildcard for it, else the first of all, else [`crate::Config::default_certificate`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateKey>,
    /// Which certificates clients must show, for names without a virtual host that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientVerification>,
}

impl Listener {
    /// For every name, on no address yet, with the TLS of the configuration.
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
            beside: None,
            tls: ListenerTls::default(),
            clients: ClientTraffic::default(),
        }
    }

    /// Its tables.
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
    /// Whether its connections begin with TLS, so that the name that a client asks for chooses among several listeners
    /// of one address.
    #[must_use]
    pub fn begins_with_tls(self) -> bool {
        matches!(self, Self::Https | Self::Tls | Self::TlsPassthrough)
    }

    /// Which of the two kinds of ports its listeners have.
    #[must_use]
    pub fn port_protocol(self) -> PortProtocol {
        if self == Self::Udp { PortProtocol::Udp } else { PortProtocol::Tcp }
    }

    /// Whether its table is one of virtual hosts; else it is one of [`crate::StreamRoute`]s.
    #[must_use]
    pub fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

impl PortProtocol {
    /// `TCP` or `UDP`, as configurations and messages spell it.
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
    use crate::certificate::ClientDemand;

    #[test]
    fn a_listener_is_read_as_it_was_written() {
        let listener = Listener {
            name: "db".into(),
            origin: Origin::object("Gateway", "shop", "inner").at("spec.listeners[1]"),
            bind: vec!["0.0.0.0:9443".parse().unwrap(), "[::]:9443".parse().unwrap()],
            protocol: ListenerProtocol::Tls,
            public_port: 5432,
            host: HostPattern::Exact("db.example.com".into()),
            table: "inner/db".into(),
            routes: Some("routes".into()),
            beside: Some("https".into()),
            tls: ListenerTls {
                certificates: vec!["shop/db".into()],
                clients: Some(ClientVerification {
                    roots: "PEM".into(),
                    revoked: "".into(),
                    depth: None,
                    demand: ClientDemand::Required,
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
