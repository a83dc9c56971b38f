//! Where requests go: a backend is a named set of endpoints that are spoken to in one way.

use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::certificate::CertificateKey;
use crate::default::is_default;
use crate::origin::Origin;
use crate::place::Place;
use crate::tls::{CipherSuite, TlsVersions};
use crate::traffic::BackendTraffic;

/// Names a backend; equal keys are the same backend across configurations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BackendKey(pub Arc<str>);

/// A set of endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// Its name.
    pub key: BackendKey,
    /// The object behind it.
    pub origin: Origin,
    /// How logs name it: the Service and its port as the rule wrote it.
    pub service: ServiceName,
    /// The endpoints to use now, without duplicates, in a stable order.
    pub endpoints: Vec<Endpoint>,
    /// What is spoken to them.
    pub protocol: BackendProtocol,
    /// TLS towards them, if any.
    pub tls: Option<Arc<UpstreamTls>>,
    /// Who gets the next request.
    pub balancing: Balancing,
    /// What keeps requests with one endpoint for as long as it is there; `balancing` chooses for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionKey>,
    /// How its endpoints are used, where that is not as everywhere ([`BackendTraffic::kept`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Arc<BackendTraffic>>,
}

impl Backend {
    /// How its endpoints are used.
    #[inline]
    #[must_use]
    pub fn traffic(&self) -> &BackendTraffic {
        BackendTraffic::of(self.traffic.as_ref())
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

/// One address that answers for a backend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// IPv4 or IPv6, with its port.
    pub address: SocketAddr,
    /// The pod, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Where it runs, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Arc<Place>>,
}

impl Endpoint {
    /// One of which nothing else is known.
    #[must_use]
    pub const fn at(address: SocketAddr) -> Self {
        Self { address, name: None, place: None }
    }
}

/// What is spoken to the endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BackendProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 in the clear, known beforehand (RFC 9113 §3.3).
    H2c,
    /// HTTP/2 over TLS (RFC 9113 §3.2).
    Http2,
    /// Over TLS whichever of HTTP/2 and HTTP/1.1 the endpoint chooses (RFC 7301); HTTP/1.1 in the clear.
    Auto,
}

/// TLS towards an endpoint. All of it is part of what makes two connections alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UpstreamTls {
    /// The name sent as SNI; `None` sends none.
    pub server_name: Option<Arc<str>>,
    /// What is verified.
    pub verification: UpstreamVerification,
    /// The certificate shown to the backend.
    pub client_certificate: Option<CertificateKey>,
    /// The versions that are offered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub versions: TlsVersions,
    /// The suites of TLS 1.2 that are offered, the most wanted first; all where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<CipherSuite>,
}

/// What is verified of a backend's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UpstreamVerification {
    /// Nothing (the default of ingress-nginx): any certificate is taken.
    Off,
    /// Its chain to these PEM certificates, and that it is for `name`.
    Chain {
        /// The trusted roots as PEM.
        roots: Arc<str>,
        /// The name it must be for.
        name: Arc<str>,
        /// The most certificates between its own and a root; `None` is any number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        depth: Option<u32>,
    },
    /// Its chain to these roots, and that one of its subject alternative names is one of `names` (Gateway API
    /// `BackendTLSPolicy`).
    Subject {
        /// Who is trusted.
        roots: TrustedRoots,
        /// Any one is enough; none is never enough.
        names: Vec<SubjectName>,
    },
}

/// Who is trusted to issue certificates.
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
    /// A DNS name in lower case. In `*.example.com` the star stands for one label, as it does in certificates.
    Dns(Arc<str>),
    /// A URI, byte for byte.
    Uri(Arc<str>),
}

/// Who gets the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Balancing {
    /// In turn (Ingress).
    RoundRobin,
    /// The better of two by peak EWMA of latency x requests in flight (Gateway API).
    PeakEwma,
    /// The fewest requests in flight.
    LeastRequests,
    /// By chance.
    Random,
}

/// What of a request decides which endpoint it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionKey {
    /// A cookie that names the endpoint; answers set it where the request has none.
    Cookie(Arc<SessionCookie>),
    /// What requests have in common that belong together.
    Hash(SessionHash),
}

/// Requests of which all of these parts are equal belong to the same endpoint, or endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionHash {
    /// What is compared.
    pub parts: Vec<SessionPart>,
    /// How many endpoints the requests are spread over by chance; one where `None`.
    pub spread: Option<NonZeroU16>,
}

/// A cookie that names an endpoint, or a session that belongs to one. It is `HttpOnly`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionCookie {
    /// Its name.
    pub name: Arc<str>,
    /// What names the backend in its value, behind the session: no other backend of the rule has the same.
    pub backend: Arc<str>,
    /// What it says.
    pub stickiness: Stickiness,
    /// Its `Path`; `None` is that of the rule.
    pub path: Option<Arc<str>>,
    /// Its `Domain`.
    pub domain: Option<Arc<str>>,
    /// Seconds until it expires, as `Expires`; may be negative.
    pub expires: Option<i64>,
    /// Its `Max-Age` in seconds; may be negative.
    pub max_age: Option<i64>,
    /// Its `Secure`.
    pub secure: SecureCookie,
    /// Its `SameSite`.
    pub same_site: SameSite,
    /// What becomes of it when its endpoint fails.
    pub on_failure: StickyFailure,
    /// Where sessions begin.
    #[serde(default, skip_serializing_if = "is_default")]
    pub begins: SessionStart,
    /// What carries it, where that is no cookie.
    #[serde(default, skip_serializing_if = "is_default")]
    pub carrier: SessionCarrier,
    /// How long a session lasts, which its token says. For sessions that are [`Stickiness::Persistent`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub lifetime: SessionLifetime,
}

/// What carries the token of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionCarrier {
    /// A cookie.
    #[default]
    Cookie,
    /// A header of responses, which clients send back.
    Header,
}

/// How long a session lasts, in seconds; without limits where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionLifetime {
    /// From its first response.
    pub absolute: Option<NonZeroU32>,
    /// From its last response.
    pub idle: Option<NonZeroU32>,
}

/// Sessions that stay with the backend that they began at, whatever the weights of a rule's backends are by then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StickyShares {
    /// How the session of a request is found.
    pub session: Arc<SessionCookie>,
    /// What names each of the rule's backends in tokens ([`SessionCookie::backend`]), in their order; empty for one that is invalid.
    pub tags: Vec<Arc<str>>,
}

/// Where sessions begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionStart {
    /// Here: an answer sets the cookie where its request has none.
    #[default]
    Here,
    /// Elsewhere: the cookie of a request counts, and no answer sets it.
    Elsewhere,
}

/// How sessions and endpoints belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stickiness {
    /// By a hash of the session: when endpoints come, each takes its share of the sessions that there are.
    #[default]
    Balanced,
    /// For as long as the endpoint is there.
    Persistent,
}

/// When a cookie is `Secure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SecureCookie {
    /// Where the request came by TLS.
    #[default]
    OverTls,
    /// Always.
    Always,
}

/// The `SameSite` of a cookie (RFC 6265bis §4.1.2.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SameSite {
    /// The cookie has none.
    #[default]
    Absent,
    /// `None`.
    None,
    /// `None`, but for browsers that take it for `Strict`, which get none.
    NoneIfKnown,
    /// `Lax`.
    Lax,
    /// `Strict`.
    Strict,
}

/// What becomes of a session whose endpoint fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StickyFailure {
    /// It returns to the endpoint with its next request.
    #[default]
    Returns,
    /// It belongs to the endpoint that answered.
    Moves,
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionPart {
    /// The client's address, after trust is settled.
    Address,
    /// The first value of this header (lower case).
    Header(Arc<str>),
    /// The value of this cookie.
    Cookie(Arc<str>),
    /// The first value of this query parameter.
    Query(Arc<str>),
    /// The host.
    Host,
    /// The target as the client sent it: path and query.
    Target,
    /// The normalised path.
    Path,
    /// This text.
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
    fn session_keys_and_protocols_are_read_as_they_were_written() {
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
