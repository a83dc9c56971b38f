//! Who is at the other end of a client's connection.

use std::net::IpAddr;
use std::sync::Arc;

use fairway_http::{OF_HTTP, OF_HTTPS, ReadyFields};
use fairway_model::ClientVerification;
use fairway_net::places::Place;

use crate::listener::{ListenerId, PortId};
use crate::tls::{Agreed, ClientTrust, Shown};

/// What is known of a connection before its first byte of HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) listener: ListenerId,
    pub(crate) scheme: Scheme,
    /// Who the client is, as far as the transport says: who sent the bytes, or whom the PROXY protocol named. An IPv4
    /// client on a dual-stack socket is an IPv4 client.
    pub(crate) client: IpAddr,
    pub(crate) sender: Sender,
    /// What else there is to know; of most connections nothing.
    pub(crate) facts: Option<Arc<Facts>>,
}

/// Who sent the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The client itself: there was no header of the PROXY protocol.
    Client,
    /// A balancer that said for whom.
    Balancer,
    /// A balancer that cannot say for whom: its own address stands for the client's.
    BalancerForUnknown,
}

/// What is known of few connections, behind one pointer: each that is idle has room for it.
#[derive(Debug)]
pub(crate) struct Facts {
    /// What the client showed, where the host that it asked for verifies its clients.
    proof: Option<Box<Proof>>,
    /// What the access log shows, where its format asked for it when the connection began.
    noted: Option<Noted>,
    /// What the listener was chosen by, where there was a choice or a rule reads the name.
    chosen_by: Option<ChosenBy>,
    /// By which its listener verified clients when it began, where it did.
    trust: Option<Arc<ClientTrust>>,
    /// Its place among the connections of its listener, where these are counted.
    _place: Option<Place>,
}

/// What a listener was chosen by among those of its port.
#[derive(Debug)]
pub(crate) struct ChosenBy {
    pub(crate) port: PortId,
    /// The name that the client asked for in its handshake, lower case; empty where it said none.
    pub(crate) name: Box<str>,
}

impl Facts {
    /// What there is.
    pub(crate) fn of(
        proof: Option<Box<Proof>>,
        noted: Option<Noted>,
        chosen_by: Option<ChosenBy>,
        place: Option<Place>,
        trust: Option<Arc<ClientTrust>>,
    ) -> Option<Arc<Self>> {
        let is_any =
            proof.is_some() || noted.is_some() || chosen_by.is_some() || place.is_some() || trust.is_some();
        is_any.then(|| Arc::new(Self { proof, noted, chosen_by, trust, _place: place }))
    }
}

impl Peer {
    /// The client's address, unless the balancer that speaks for it cannot say.
    #[inline]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        (self.sender != Sender::BalancerForUnknown).then_some(self.client)
    }

    /// Whether its connection began with a header of the PROXY protocol.
    #[inline]
    pub(crate) fn is_introduced(&self) -> bool {
        self.sender != Sender::Client
    }

    /// What it showed, where the host that it asked for verifies its clients.
    #[inline]
    pub(crate) fn proof(&self) -> Option<&Proof> {
        self.facts.as_ref()?.proof.as_deref()
    }

    /// Whether it showed a certificate, as far as that is known: it was asked for one by its host, or by its listener.
    pub(crate) fn may_have_certificate(&self) -> bool {
        let has_listener_trust = || self.facts.as_ref().is_some_and(|facts| facts.trust.is_some());
        self.proof().is_some_and(|proof| proof.shown.is_some()) || has_listener_trust()
    }

    /// Whether its listener verified it in the handshake by these rules, and not by others or by none.
    pub(crate) fn is_verified_by(&self, trust: &Arc<ClientTrust>) -> bool {
        let own = self.facts.as_ref().and_then(|facts| facts.trust.as_ref());
        own.is_some_and(|own| Arc::ptr_eq(own, trust))
    }

    /// What its listener was chosen by, where that was another name than `host`.
    #[inline]
    pub(crate) fn chosen_by_other_than(&self, host: &str) -> Option<&ChosenBy> {
        self.facts.as_ref()?.chosen_by.as_ref().filter(|by| *by.name != *host)
    }

    /// The name that the client asked for in its handshake, lower case; empty where it is not known, see [`Facts::chosen_by`].
    pub(crate) fn server_name(&self) -> &str {
        self.facts.as_ref().and_then(|facts| facts.chosen_by.as_ref()).map_or("", |by| &by.name)
    }

    /// What the access log shows of the connection, as far as it was noted.
    pub(crate) fn noted(&self) -> Option<&Noted> {
        self.facts.as_ref()?.noted.as_ref()
    }
}

/// What nothing tells of a connection once it has begun.
#[derive(Debug)]
pub(crate) struct Noted {
    /// Of the process.
    pub(crate) number: u64,
    /// The client's port, as far as the transport says.
    pub(crate) port: u16,
    /// What was agreed on in its handshake.
    pub(crate) tls: Option<Agreed>,
}

/// What a client showed in its handshake.
#[derive(Debug)]
pub(crate) struct Proof {
    /// By which it was verified.
    pub(crate) rules: Arc<ClientVerification>,
    /// The host that it asked for, lower case.
    pub(crate) host: Box<str>,
    /// Its certificate.
    pub(crate) shown: Option<Shown>,
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

    /// The fields that tell endpoints of it.
    pub(crate) fn fields(self) -> &'static ReadyFields {
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
