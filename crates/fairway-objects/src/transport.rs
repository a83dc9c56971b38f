//! How the endpoints of a backend are contacted: the protocol, and for TLS the names and certificates.

use std::sync::Arc;

use fairway_model::{
    BackendProtocol, CertificateKey, CipherSuite, TlsVersions, UpstreamTls, UpstreamVerification,
};

use crate::object::ObjectKey;

/// Re-exported for crates that do not depend on the model.
pub use fairway_model::PortProtocol;

/// How the endpoints of a backend are contacted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Transport {
    /// HTTP without TLS.
    #[default]
    Plain,
    /// HTTP over TLS.
    Tls(Arc<TlsOrigination>),
    /// Like the client: HTTP over TLS for requests that arrived over TLS, without TLS for others. No backend uses this; rules
    /// choose between two backends.
    AsClient(Arc<TlsOrigination>),
    /// HTTP/2 without TLS, as for gRPC.
    H2c,
    /// HTTP/2 over TLS.
    H2(Arc<TlsOrigination>),
    /// HTTP over TLS as configured by a BackendTLSPolicy.
    Policy(Arc<PolicyTls>),
    /// Forwarded TCP connections.
    Tcp,
    /// Forwarded UDP datagrams.
    Udp,
}

/// TLS with verified endpoints, as configured by a BackendTLSPolicy (Gateway API `BackendTLSPolicyValidation`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PolicyTls {
    /// The policy, or a name for the trusted roots without one; part of the backend's key.
    pub policy: ObjectKey,
    /// The server name sent to the endpoint.
    pub server_name: Arc<str>,
    /// What is verified.
    pub verification: UpstreamVerification,
    /// The Secret with the client certificate for the endpoint; part of the backend's key.
    pub client_certificate: Option<ObjectKey>,
    /// The protocol.
    pub protocol: BackendProtocol,
}

/// TLS settings for endpoints; absent names are derived from the Service's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct TlsOrigination {
    /// The name in the backend's certificate and in SNI.
    pub name: Option<Arc<str>>,
    /// Whether the name is sent to the endpoint.
    pub sni: bool,
    /// The Secret; part of the backend's key.
    pub secret: Option<ObjectKey>,
    /// The trusted roots as PEM; `None` disables verification.
    pub roots: Option<Arc<str>>,
    /// Whether the Secret has a client certificate, which is sent to the endpoint.
    pub sends_certificate: bool,
    /// The offered versions.
    pub versions: TlsVersions,
    /// The cipher suites of TLS 1.2; empty means all.
    pub suites: Vec<CipherSuite>,
    /// The maximum number of certificates between the backend's and a root.
    pub depth: Option<u32>,
}

impl Transport {
    /// The part of the key that tells backends of the same Service and port apart; empty for plain HTTP.
    pub fn suffix(&self) -> String {
        let (mut suffix, tls) = match self {
            Self::Plain | Self::AsClient(_) => return String::new(),
            Self::H2c => return ";h2c".to_owned(),
            Self::Tcp => return ";tcp".to_owned(),
            Self::Udp => return ";udp".to_owned(),
            Self::Tls(tls) => (";https".to_owned(), tls),
            Self::H2(tls) => (";h2".to_owned(), tls),
            Self::Policy(tls) => return tls.suffix(),
        };
        let mut add = |name: &str, value: &str| suffix.extend([";", name, "=", value]);
        if let Some(secret) = &tls.secret {
            add("secret", &secret.to_string());
        }
        if let Some(name) = &tls.name {
            add("name", name);
        }
        if tls.sni {
            add("sni", "on");
        }
        if tls.roots.is_some() {
            add("verify", "on");
        }
        if let Some(depth) = tls.depth {
            add("depth", &depth.to_string());
        }
        match tls.versions {
            TlsVersions::Both => {}
            TlsVersions::Only12 => add("versions", "1.2"),
            TlsVersions::Only13 => add("versions", "1.3"),
        }
        if !tls.suites.is_empty() {
            add("suites", &tls.suites.iter().map(|suite| format!("{suite:?}")).collect::<Vec<_>>().join("+"));
        }
        suffix
    }

    /// How requests without TLS are forwarded, and how those over TLS are, if that differs.
    pub fn by_client(&self) -> (Self, Option<Self>) {
        match self {
            Self::AsClient(tls) => (Self::Plain, Some(Self::Tls(Arc::clone(tls)))),
            other => (other.clone(), None),
        }
    }

    /// Whether the endpoints speak gRPC, and therefore not gRPC-Web.
    pub fn is_grpc(&self) -> bool {
        match self {
            Self::H2c | Self::H2(_) => true,
            Self::Policy(tls) => tls.protocol == BackendProtocol::Http2,
            Self::Plain | Self::Tls(_) | Self::AsClient(_) | Self::Tcp | Self::Udp => false,
        }
    }

    /// The port protocol that it needs.
    pub fn port_protocol(&self) -> PortProtocol {
        match self {
            Self::Udp => PortProtocol::Udp,
            _ => PortProtocol::Tcp,
        }
    }

    /// The consequence while there is no endpoint.
    pub fn without_endpoint(&self) -> &'static str {
        match self {
            Self::Tcp => "its connections are closed",
            Self::Udp => "its datagrams are dropped",
            _ => "its paths answer 503",
        }
    }

    /// The `appProtocol` of a port if it is ignored, and what is used instead. ingress-nginx ignores `appProtocol`, so only that
    /// of HTTP/2 without TLS has an effect; an annotation that requires more than HTTP takes precedence over the port.
    pub fn ignored_app_protocol(&self, app_protocol: &str) -> Option<(String, &'static str)> {
        let is = |name: &str| app_protocol.eq_ignore_ascii_case(name);
        if *self != Self::Plain
            || ["", "http", "kubernetes.io/h2c", "kubernetes.io/ws"].iter().any(|name| is(name))
        {
            return None;
        }
        let says = format!("appProtocol \"{app_protocol}\"");
        Some(match () {
            () if is("https") || is("kubernetes.io/wss") => (
                format!("{says} does not choose TLS; backend-protocol: HTTPS does"),
                "HTTP/1.1 in the clear is spoken",
            ),
            () if is("grpc") || is("h2c") || is("http2") => (
                format!("{says} does not choose HTTP/2; kubernetes.io/h2c and backend-protocol: GRPC do"),
                "HTTP/1.1 is spoken",
            ),
            () => (format!("{says} is not known"), "HTTP/1.1 is spoken"),
        })
    }

    /// The HTTP version. A port whose `appProtocol` is HTTP/2 without TLS (KEP-3726) uses that, unless the rule requires
    /// something else.
    pub fn protocol(&self, app_protocol: Option<&str>) -> BackendProtocol {
        match (self, app_protocol) {
            (Self::H2c, _) | (Self::Plain, Some("kubernetes.io/h2c")) => BackendProtocol::H2c,
            (Self::H2(_), _) => BackendProtocol::Http2,
            (Self::Policy(tls), _) => tls.protocol,
            // Forwarded connections carry no requests of Fairway's own.
            (Self::Plain | Self::Tls(_) | Self::AsClient(_) | Self::Tcp | Self::Udp, _) => {
                BackendProtocol::Http1
            }
        }
    }

    /// The TLS settings for the endpoints of `service`.
    pub fn tls(&self, service: &ObjectKey) -> Option<UpstreamTls> {
        if let Self::Policy(tls) = self {
            return Some(tls.upstream_tls());
        }
        let (Self::Tls(tls) | Self::H2(tls)) = self else { return None };
        let default_name = || format!("{}.{}.svc", service.name, service.namespace).into();
        let name: Arc<str> = tls.name.clone().unwrap_or_else(default_name);
        Some(UpstreamTls {
            server_name: tls.sni.then(|| name.clone()),
            verification: match &tls.roots {
                Some(roots) => UpstreamVerification::Chain { roots: roots.clone(), name, depth: tls.depth },
                None => UpstreamVerification::Off,
            },
            client_certificate: self.client_certificate().map(|key| CertificateKey(key.to_string().into())),
            versions: tls.versions,
            suites: tls.suites.clone(),
        })
    }

    /// The Secret with the client certificate for endpoints.
    pub fn client_certificate(&self) -> Option<&ObjectKey> {
        match self {
            Self::Tls(tls) | Self::H2(tls) | Self::AsClient(tls) if tls.sends_certificate => {
                tls.secret.as_ref()
            }
            Self::Policy(tls) => tls.client_certificate.as_ref(),
            _ => None,
        }
    }
}

impl PolicyTls {
    fn suffix(&self) -> String {
        let protocol = match self.protocol {
            BackendProtocol::Http2 => ";h2",
            BackendProtocol::Http1 | BackendProtocol::H2c | BackendProtocol::Auto => ";https",
        };
        let certificate = self.client_certificate.as_ref().map(|secret| format!(";secret={secret}"));
        format!("{protocol};policy={}{}", self.policy, certificate.unwrap_or_default())
    }

    fn upstream_tls(&self) -> UpstreamTls {
        let certificate = |key: &ObjectKey| CertificateKey(key.to_string().into());
        UpstreamTls {
            server_name: Some(self.server_name.clone()),
            verification: self.verification.clone(),
            client_certificate: self.client_certificate.as_ref().map(certificate),
            versions: TlsVersions::default(),
            suites: Vec::new(),
        }
    }
}

/// Whether a Kubernetes port with this `protocol` matches `transport`; the default is TCP.
#[must_use]
pub fn is_port_of(transport: PortProtocol, protocol: Option<&str>) -> bool {
    protocol.unwrap_or("TCP") == transport.name()
}
