//! Who is at the other end of a client's connection.

use std::net::IpAddr;
use std::sync::Arc;

use fairway_model::ClientVerification;
use fairway_tls::Shown;

use crate::listener::ListenerId;

/// What is known of a connection before its first byte of HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) listener: ListenerId,
    pub(crate) scheme: Scheme,
    /// Who the client is, as far as the transport says: who sent the bytes, or whom the PROXY protocol named. An IPv4
    /// client on a dual-stack socket is an IPv4 client.
    pub(crate) client: IpAddr,
    /// What it showed, where the host that it asked for verifies its clients.
    pub(crate) proof: Option<Arc<Proof>>,
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

    pub(crate) const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}
