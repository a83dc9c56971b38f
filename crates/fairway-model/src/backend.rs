//! Backends: named sets of endpoints that share a protocol and settings.

use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::certificate::CertificateKey;
use crate::default::is_default;
use crate::origin::Origin;
use crate::tls::{CipherSuite, TlsVersions};
use crate::topology::EndpointTopology;
use crate::traffic::BackendTraffic;

/// Identifies a backend across configurations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BackendKey(pub Arc<str>);

/// A set of endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// Its name.
    pub key: BackendKey,
    /// The object it was made from.
    pub origin: Origin,
    /// Name in logs: the Service and its port as the rule wrote it.
    pub service: ServiceName,
    /// Endpoints in use, without duplicates, in a stable order.
    pub endpoints: Vec<Endpoint>,
    /// The protocol spoken to endpoints.
    pub protocol: BackendProtocol,
    /// TLS to endpoints, if any.
    pub tls: Option<Arc<UpstreamTls>>,
    /// How an endpoint is chosen.
    pub balancing: Balancing,
    /// Session affinity. `balancing` chooses for requests without a session, and when the endpoint of a session is
    /// gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionKey>,
    /// Settings that differ from the defaults ([`BackendTraffic::if_not_empty`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Arc<BackendTraffic>>,
}

impl Backend {
    /// The settings for its endpoints.
    #[inline]
    #[must_use]
    pub fn traffic(&self) -> &BackendTraffic {
        BackendTraffic::or_default(self.traffic.as_ref())
    }
}

/// A Service and one of its ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServiceName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The port as written: a number or a name.
    pub port: Arc<str>,
}

/// One endpoint address of a backend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// IPv4 or IPv6, with its port.
    pub address: SocketAddr,
    /// The pod, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Its zone and node, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Arc<EndpointTopology>>,
}

impl Endpoint {
    /// An endpoint of which only the address is known.
    #[must_use]
    pub const fn at(address: SocketAddr) -> Self {
        Self { address, name: None, place: None }
    }
}

/// The protocol spoken to endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BackendProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 over plain TCP with prior knowledge (RFC 9113 §3.3).
    H2c,
    /// HTTP/2 over TLS (RFC 9113 §3.2).
    Http2,
    /// Over TLS, HTTP/2 or HTTP/1.1 by ALPN (RFC 7301); over plain TCP, HTTP/1.1.
    Auto,
}

/// TLS to endpoints. Connections are reused only for equal settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UpstreamTls {
    /// Server name sent as SNI; `None` sends none.
    pub server_name: Option<Arc<str>>,
    /// How the endpoint's certificate is verified.
    pub verification: UpstreamVerification,
    /// The client certificate.
    pub client_certificate: Option<CertificateKey>,
    /// The versions offered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub versions: TlsVersions,
    /// TLS 1.2 cipher suites, most preferred first; empty offers all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<CipherSuite>,
}

/// How the certificate of an endpoint is verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UpstreamVerification {
    /// Not at all (the default of ingress-nginx).
    Off,
    /// The chain must lead to these roots, and the certificate must be for `name`.
    Chain {
        /// The trusted roots as PEM.
        roots: Arc<str>,
        /// The name that the certificate must have.
        name: Arc<str>,
        /// Maximum number of certificates between the endpoint's and a root; `None` is unlimited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        depth: Option<u32>,
    },
    /// The chain must lead to these roots, and one subject alternative name must be in `names` (Gateway API
    /// `BackendTLSPolicy`).
    Subject {
        /// The trusted roots.
        roots: TrustedRoots,
        /// One match suffices; an empty list matches nothing.
        names: Vec<SubjectName>,
    },
}

/// The certificate authorities that are trusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TrustedRoots {
    /// These certificates, as PEM.
    Pem(Arc<str>),
    /// Those of the system that the proxy runs on.
    System,
}

/// A subject alternative name (RFC 5280 §4.2.1.6).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SubjectName {
    /// A DNS name in lower case. A star stands for one label, as in certificates.
    Dns(Arc<str>),
    /// A URI, byte for byte.
    Uri(Arc<str>),
}

/// How an endpoint is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Balancing {
    /// Round robin (Ingress).
    RoundRobin,
    /// The better of two by peak EWMA of latency x requests in flight (Gateway API).
    PeakEwma,
    /// The fewest requests in flight.
    LeastRequests,
    /// Random.
    Random,
}

/// What ties a request to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionKey {
    /// A cookie that names the endpoint; the response sets it if the request has none.
    Cookie(Arc<SessionCookie>),
    /// A hash of parts of the request.
    Hash(SessionHash),
}

/// Requests that agree in all of these parts go to the same endpoint or the same set of endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionHash {
    /// The parts that are hashed.
    pub parts: Vec<SessionPart>,
    /// Number of endpoints the requests are spread over at random; `None` is one.
    pub spread: Option<NonZeroU16>,
}

/// A cookie that names an endpoint, or a session tied to one. It is `HttpOnly`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionCookie {
    /// Its name.
    pub name: Arc<str>,
    /// Tag in the cookie value, after the session, that names the backend. It is unique among the backends of the
    /// rule.
    pub backend: Arc<str>,
    /// Whether it names a session or an endpoint.
    pub stickiness: Stickiness,
    /// Its `Path`; `None` uses the path of the rule.
    pub path: Option<Arc<str>>,
    /// Its `Domain`.
    pub domain: Option<Arc<str>>,
    /// Seconds until it expires, sent as `Expires`; may be negative.
    pub expires: Option<i64>,
    /// Its `Max-Age` in seconds; may be negative.
    pub max_age: Option<i64>,
    /// When it is `Secure`.
    pub secure: SecureCookie,
    /// Its `SameSite`.
    pub same_site: SameSite,
    /// What happens to the session when its endpoint fails.
    pub on_failure: StickyFailure,
    /// Which rule starts sessions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub begins: SessionStart,
    /// Whether a cookie or a header carries it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub carrier: SessionCarrier,
    /// How long a session lasts, recorded in its token. Only for [`Stickiness::Persistent`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub lifetime: SessionLifetime,
}

/// What carries the token of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionCarrier {
    /// A cookie.
    #[default]
    Cookie,
    /// A header that responses set and clients send back.
    Header,
}

/// Session lifetime in seconds; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionLifetime {
    /// Since the first response.
    pub absolute: Option<NonZeroU32>,
    /// Since the last response.
    pub idle: Option<NonZeroU32>,
}

/// Keeps sessions on the backend where they started, even if the weights of the rule change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StickyBackends {
    /// How the session of a request is found.
    pub session: Arc<SessionCookie>,
    /// The tag of each backend of the rule ([`SessionCookie::backend`]), in the rule's order; empty for an invalid
    /// backend.
    pub tags: Vec<Arc<str>>,
}

/// Which rule starts sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionStart {
    /// This one: the response sets the cookie if the request has none.
    #[default]
    Here,
    /// Another one: a cookie of the request counts, but no response sets it.
    Elsewhere,
}

/// How sessions are assigned to endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stickiness {
    /// By a hash of the session: a new endpoint takes over its share of existing sessions.
    #[default]
    Balanced,
    /// To one endpoint for as long as it exists.
    Persistent,
}

/// When a cookie is `Secure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SecureCookie {
    /// If the request came over TLS.
    #[default]
    OverTls,
    /// Always.
    Always,
}

/// The `SameSite` of a cookie (RFC 6265bis §4.1.2.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SameSite {
    /// No attribute.
    #[default]
    Absent,
    /// `None`.
    None,
    /// `None`, except for browsers that treat it as `Strict`; these get no attribute.
    NoneIfKnown,
    /// `Lax`.
    Lax,
    /// `Strict`.
    Strict,
}

/// What happens to a session whose endpoint fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StickyFailure {
    /// Its next request goes to the same endpoint.
    #[default]
    Returns,
    /// It moves to the endpoint that responded.
    Moves,
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionPart {
    /// The client address, after trusted forwarding headers are applied.
    Address,
    /// The first value of this header (lower case).
    Header(Arc<str>),
    /// The value of this cookie.
    Cookie(Arc<str>),
    /// The first value of this query parameter.
    Query(Arc<str>),
    /// The host.
    Host,
    /// Path and query as the client sent them.
    Target,
    /// The normalised path.
    Path,
    /// Fixed text.
    Text(Arc<str>),
}

impl fmt::Display for BackendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for BackendKey {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_keys_and_protocols_round_trip() {
        let cookie = SessionCookie {
            name: "route".into(),
            backend: "b1".into(),
            stickiness: Stickiness::Persistent,
            path: Some("/shop".into()),
            domain: None,
            expires: Some(-1),
            max_age: Some(3600),
            secure: SecureCookie::Always,
            same_site: SameSite::Lax,
            on_failure: StickyFailure::Moves,
            begins: SessionStart::Elsewhere,
            carrier: SessionCarrier::Header,
            lifetime: SessionLifetime { absolute: NonZeroU32::new(3600), idle: NonZeroU32::new(60) },
        };
        let parts = vec![
            SessionPart::Address,
            SessionPart::Header("x-user".into()),
            SessionPart::Cookie("id".into()),
            SessionPart::Query("q".into()),
            SessionPart::Host,
            SessionPart::Target,
            SessionPart::Path,
            SessionPart::Text("-v2".into()),
        ];
        let hash = SessionKey::Hash(SessionHash { parts, spread: NonZeroU16::new(3) });
        for key in [SessionKey::Cookie(Arc::new(cookie)), hash] {
            let json = serde_json::to_string(&key).unwrap();
            assert_eq!(serde_json::from_str::<SessionKey>(&json).unwrap(), key);
        }
        let names = vec![SubjectName::Dns("a.test".into()), SubjectName::Uri("spiffe://a.test/x".into())];
        for roots in [TrustedRoots::System, TrustedRoots::Pem("PEM".into())] {
            let verification = UpstreamVerification::Subject { roots, names: names.clone() };
            let json = serde_json::to_string(&verification).unwrap();
            assert_eq!(serde_json::from_str::<UpstreamVerification>(&json).unwrap(), verification);
        }
        for protocol in
            [BackendProtocol::Http1, BackendProtocol::H2c, BackendProtocol::Http2, BackendProtocol::Auto]
        {
            let json = serde_json::to_string(&protocol).unwrap();
            assert_eq!(serde_json::from_str::<BackendProtocol>(&json).unwrap(), protocol);
        }
    }
}
