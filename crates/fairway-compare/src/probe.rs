//! What is asked: one request without a body, or one TLS handshake. Owns what a probe is, never how it is sent.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// The field of every request, so that logs and applications can tell probes from clients.
pub const MARK: (&str, &str) = ("fairway-compare", "1");

/// Whether it is sent over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Ask {
    /// A TLS handshake for a name, and nothing else.
    Handshake,
    /// `GET`.
    Get,
    /// `HEAD`.
    Head,
    /// `OPTIONS`.
    Options,
}

/// Why it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Which certificate the name gets.
    Certificate,
    /// What the path of a rule answers.
    Path,
    /// Where the path type ends: with a slash, below, next to it.
    PathType,
    /// What becomes of a query where something is redirected or rewritten.
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

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Probe {
    /// Whether it is sent over TLS.
    pub scheme: Scheme,
    /// The `Host`, and the name of the handshake.
    pub host: Arc<str>,
    /// What is done.
    pub ask: Ask,
    /// Path and query; empty for a handshake.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// Fields besides `Host`, the mark and what every client sends; names in lower case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(String, String)>,
    /// Why it is asked.
    pub purpose: Purpose,
}

impl Probe {
    /// A request without further fields.
    #[must_use]
    pub fn request(scheme: Scheme, host: &Arc<str>, ask: Ask, target: &str, purpose: Purpose) -> Self {
        Self { scheme, host: Arc::clone(host), ask, target: target.to_owned(), fields: Vec::new(), purpose }
    }

    /// A handshake.
    #[must_use]
    pub fn handshake(host: &Arc<str>) -> Self {
        Self::request(Scheme::Https, host, Ask::Handshake, "", Purpose::Certificate)
    }

    /// With these fields, too.
    #[must_use]
    pub fn with(mut self, fields: impl IntoIterator<Item = (String, String)>) -> Self {
        self.fields.extend(fields);
        self
    }

    /// The same question, whatever it is asked for.
    pub(crate) fn question(&self) -> (Scheme, Ask, &str, &str, &[(String, String)]) {
        (self.scheme, self.ask, &self.host, &self.target, &self.fields)
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

impl Ask {
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
        let Self { scheme, host, ask, target, fields, .. } = self;
        let Some(method) = ask.method() else { return write!(f, "TLS handshake for {host}") };
        write!(f, "{method} {}://{host}{target}", scheme.as_str())?;
        for (number, (name, value)) in fields.iter().enumerate() {
            write!(f, "{}{name}: {value}", if number == 0 { " (" } else { ", " })?;
        }
        if fields.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}
