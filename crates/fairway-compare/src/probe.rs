//! A probe: one request without a body, or one TLS handshake.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// The header of every probe, so that logs and applications can distinguish probes from clients.
pub const PROBE_HEADER: (&str, &str) = ("fairway-compare", "1");

/// The scheme of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTPS.
    Https,
}

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ProbeKind {
    /// A TLS handshake for a name, and nothing else.
    Handshake,
    /// `GET`.
    Get,
    /// `HEAD`.
    Head,
    /// `OPTIONS`.
    Options,
}

/// The purpose of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// The certificate of the host.
    Certificate,
    /// The path of a rule.
    Path,
    /// The boundary of the path type: with a trailing slash, below the path, next to it.
    PathType,
    /// The query in a redirect or rewrite.
    Query,
    /// A CORS preflight, or a request with an origin.
    Cors,
    /// A method that a rule mentions.
    Method,
    /// A header that a rule mentions.
    Header,
    /// A cookie that a rule mentions.
    Cookie,
    /// A path of a host that no rule mentions, or a host that no object mentions.
    NoRule,
    /// A line of an access log.
    AccessLog,
}

/// A probe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Probe {
    /// The scheme.
    pub scheme: Scheme,
    /// The `Host` header, and the server name of the handshake.
    pub host: Arc<str>,
    /// The kind.
    #[serde(rename = "ask")]
    pub kind: ProbeKind,
    /// Path and query; empty for a handshake.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// Headers in addition to `Host`, [`PROBE_HEADER`] and those of every client; names in lower case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(String, String)>,
    /// The purpose.
    pub purpose: Purpose,
}

impl Probe {
    /// A request without additional headers.
    #[must_use]
    pub fn request(scheme: Scheme, host: &Arc<str>, kind: ProbeKind, target: &str, purpose: Purpose) -> Self {
        Self { scheme, host: Arc::clone(host), kind, target: target.to_owned(), fields: Vec::new(), purpose }
    }

    /// A handshake.
    #[must_use]
    pub fn handshake(host: &Arc<str>) -> Self {
        Self::request(Scheme::Https, host, ProbeKind::Handshake, "", Purpose::Certificate)
    }

    /// Adds these headers.
    #[must_use]
    pub fn with_headers(mut self, fields: impl IntoIterator<Item = (String, String)>) -> Self {
        self.fields.extend(fields);
        self
    }

    /// The key for duplicates: everything except the purpose.
    pub(crate) fn dedup_key(&self) -> (Scheme, ProbeKind, &str, &str, &[(String, String)]) {
        (self.scheme, self.kind, &self.host, &self.target, &self.fields)
    }
}

impl Scheme {
    /// `http` or `https`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

impl ProbeKind {
    /// The method; `None` for a handshake.
    #[must_use]
    pub fn method(self) -> Option<&'static str> {
        match self {
            Self::Handshake => None,
            Self::Get => Some("GET"),
            Self::Head => Some("HEAD"),
            Self::Options => Some("OPTIONS"),
        }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, kind, target, fields, .. } = self;
        let Some(method) = kind.method() else { return write!(f, "TLS handshake for {host}") };
        write!(f, "{method} {}://{host}{target}", scheme.as_str())?;
        for (number, (name, value)) in fields.iter().enumerate() {
            write!(f, "{}{name}: {value}", if number == 0 { " (" } else { ", " })?;
        }
        if fields.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}
