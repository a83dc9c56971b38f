//! The downstream peer of a connection.

use std::net::IpAddr;
use std::sync::Arc;

use fairway_http::{OF_HTTP, OF_HTTPS, ReadyFields};
use fairway_model::ClientVerification;
use fairway_net::permits::Permit;

use crate::listener::{ListenerId, PortId};
use crate::tls::{ClientCertificate, ClientTrust, NegotiatedTls};

/// A downstream connection before its first byte of HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) listener: ListenerId,
    pub(crate) scheme: Scheme,
    /// The client's address according to the transport: the sender of the bytes, or the address in the PROXY
    /// protocol header. IPv4 clients of a dual-stack socket have an IPv4 address.
    pub(crate) client: IpAddr,
    pub(crate) sender: Sender,
    /// Further details; `None` for most connections.
    pub(crate) details: Option<Arc<ConnectionDetails>>,
}

/// Who sent the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The client itself: there was no PROXY protocol header.
    Client,
    /// A load balancer that named the client.
    Balancer,
    /// A load balancer that did not name the client: its own address stands for the client's.
    BalancerForUnknown,
}

/// Details that few connections have, behind one pointer to keep idle connections small.
#[derive(Debug)]
pub(crate) struct ConnectionDetails {
    /// The client certificate, if the requested host asks for one.
    proof: Option<Box<Proof>>,
    /// Details for the access log, if its format used them when the connection was accepted.
    logged: Option<ConnectionLogDetails>,
    /// How the listener was selected, if the port has several or a rule reads the server name.
    selected_by: Option<SelectedBy>,
    /// CAs with which the listener verified the client when it connected, if it did.
    trust: Option<Arc<ClientTrust>>,
    /// Counts the connection against the listener's limit, if there is one.
    _slot: Option<Permit>,
}

/// How a listener was selected among those of its port.
#[derive(Debug)]
pub(crate) struct SelectedBy {
    pub(crate) port: PortId,
    /// The SNI in lower case; empty without one.
    pub(crate) name: Box<str>,
}

impl ConnectionDetails {
    /// `None` if no detail is set.
    pub(crate) fn from_parts(
        proof: Option<Box<Proof>>,
        logged: Option<ConnectionLogDetails>,
        selected_by: Option<SelectedBy>,
        slot: Option<Permit>,
        trust: Option<Arc<ClientTrust>>,
    ) -> Option<Arc<Self>> {
        let is_any =
            proof.is_some() || logged.is_some() || selected_by.is_some() || slot.is_some() || trust.is_some();
        is_any.then(|| Arc::new(Self { proof, logged, selected_by, trust, _slot: slot }))
    }
}

impl Peer {
    /// The client's address, unless a load balancer did not name the client.
    #[inline]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        (self.sender != Sender::BalancerForUnknown).then_some(self.client)
    }

    /// Whether the connection started with a PROXY protocol header.
    #[inline]
    pub(crate) fn is_introduced(&self) -> bool {
        self.sender != Sender::Client
    }

    /// The client certificate, if the requested host asks for one.
    #[inline]
    pub(crate) fn proof(&self) -> Option<&Proof> {
        self.details.as_ref()?.proof.as_deref()
    }

    /// Whether the client may have presented a certificate: its host or its listener asked for one.
    pub(crate) fn may_have_certificate(&self) -> bool {
        let has_listener_trust = || self.details.as_ref().is_some_and(|details| details.trust.is_some());
        self.proof().is_some_and(|proof| proof.certificate.is_some()) || has_listener_trust()
    }

    /// Whether the listener verified the client with exactly these CAs.
    pub(crate) fn is_verified_by(&self, trust: &Arc<ClientTrust>) -> bool {
        let own_trust = self.details.as_ref().and_then(|details| details.trust.as_ref());
        own_trust.is_some_and(|own| Arc::ptr_eq(own, trust))
    }

    /// How the listener was selected, if by another name than `host`.
    #[inline]
    pub(crate) fn selected_by_other_name_than(&self, host: &str) -> Option<&SelectedBy> {
        self.details.as_ref()?.selected_by.as_ref().filter(|by| *by.name != *host)
    }

    /// The SNI in lower case; empty if it is not known (see [`ConnectionDetails::selected_by`]).
    pub(crate) fn server_name(&self) -> &str {
        self.details.as_ref().and_then(|details| details.selected_by.as_ref()).map_or("", |by| &by.name)
    }

    /// Details for the access log, if they were collected.
    pub(crate) fn logged_connection(&self) -> Option<&ConnectionLogDetails> {
        self.details.as_ref()?.logged.as_ref()
    }
}

/// Details for the access log that are only known when the connection starts.
#[derive(Debug)]
pub(crate) struct ConnectionLogDetails {
    /// Number of the connection within the process.
    pub(crate) number: u64,
    /// The client's port according to the transport.
    pub(crate) port: u16,
    /// Negotiated TLS parameters.
    pub(crate) tls: Option<NegotiatedTls>,
}

/// The client certificate presented in a handshake.
#[derive(Debug)]
pub(crate) struct Proof {
    /// Rules of the host.
    pub(crate) rules: Arc<ClientVerification>,
    /// The requested host in lower case.
    pub(crate) host: Box<str>,
    /// The certificate, if one was presented.
    pub(crate) certificate: Option<ClientCertificate>,
}

/// `http` or `https`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// `X-Forwarded-*` headers of the scheme for endpoints.
    pub(crate) fn forwarded_headers(self) -> &'static ReadyFields {
        match self {
            Self::Http => &OF_HTTP,
            Self::Https => &OF_HTTPS,
        }
    }

    pub(crate) const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}
