//! Texts that contain parts of the request, as nginx variables name them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::geo::GeoField;

/// A text that contains parts of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Template(pub Vec<TemplatePart>);

/// A part of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TemplatePart {
    /// Literal text.
    Text(Arc<str>),
    /// `http` or `https`, after trusted forwarding headers are applied.
    Scheme,
    /// The routing host: lower case, without port.
    Host,
    /// `Host` as the client sent it.
    HttpHost,
    /// Path and query as received.
    RequestUri,
    /// The same, with everything but letters, digits and `-._~` percent-encoded.
    EscapedRequestUri,
    /// The method.
    Method,
    /// The client address, after trusted forwarding headers are applied.
    Address,
    /// The user named by `Authorization: Basic`, unverified.
    BasicUser,
    /// The values of a header, comma-separated. The name is spelled as in nginx variables: lower case, `_` for `-`.
    #[serde(rename = "Field")]
    Header(Arc<str>),
    /// The value of a cookie.
    Cookie(Arc<str>),
    /// The path, normalised and decoded.
    Path,
    /// The text after the question mark.
    Query,
    /// `?` if there is a query.
    QueryMark,
    /// The value of a query parameter, as received.
    Argument(Arc<str>),
    /// The client's HTTP version.
    Protocol,
    /// The port that the client used, after trusted forwarding headers are applied.
    Port,
    /// The name (SNI) that the client requested in the TLS handshake; empty without TLS or without a name.
    ServerName,
    /// `X-Request-ID`, from the client or generated.
    RequestId,
    /// Seconds since 1970, with milliseconds.
    Now,
    /// GeoIP data about the client address.
    Geo(GeoField),
    /// A value that is constant for the rule.
    Label(RuleLabel),
}

/// One of the labels of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RuleLabel {
    /// The namespace of its object.
    Namespace,
    /// The name of its object.
    Ingress,
    /// Its Service.
    Service,
    /// The port of its Service.
    ServicePort,
}

impl Template {
    /// A text without request parts.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self(vec![TemplatePart::Text(text.into())])
    }

    /// Whether it contains [`TemplatePart::ServerName`].
    #[must_use]
    pub fn reads_server_name(&self) -> bool {
        self.0.contains(&TemplatePart::ServerName)
    }

    /// GeoIP fields that it contains.
    pub fn geo_fields(&self) -> impl Iterator<Item = GeoField> {
        self.0.iter().filter_map(|part| match part {
            TemplatePart::Geo(field) => Some(*field),
            _ => None,
        })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            TemplatePart::Text(text) => f.write_str(text),
            TemplatePart::Scheme => f.write_str("$scheme"),
            TemplatePart::Host => f.write_str("$host"),
            TemplatePart::HttpHost => f.write_str("$http_host"),
            TemplatePart::RequestUri => f.write_str("$request_uri"),
            TemplatePart::EscapedRequestUri => f.write_str("$escaped_request_uri"),
            TemplatePart::Method => f.write_str("$request_method"),
            TemplatePart::Address => f.write_str("$remote_addr"),
            TemplatePart::BasicUser => f.write_str("$remote_user"),
            TemplatePart::Header(name) => write!(f, "$http_{name}"),
            TemplatePart::Cookie(name) => write!(f, "$cookie_{name}"),
            TemplatePart::Path => f.write_str("$uri"),
            TemplatePart::Query => f.write_str("$args"),
            TemplatePart::QueryMark => f.write_str("$is_args"),
            TemplatePart::Argument(name) => write!(f, "$arg_{name}"),
            TemplatePart::Protocol => f.write_str("$server_protocol"),
            TemplatePart::Port => f.write_str("$server_port"),
            TemplatePart::ServerName => f.write_str("$ssl_server_name"),
            TemplatePart::RequestId => f.write_str("$req_id"),
            TemplatePart::Now => f.write_str("$msec"),
            TemplatePart::Geo(field) => write!(f, "${}", field.name()),
            TemplatePart::Label(RuleLabel::Namespace) => f.write_str("$namespace"),
            TemplatePart::Label(RuleLabel::Ingress) => f.write_str("$ingress_name"),
            TemplatePart::Label(RuleLabel::Service) => f.write_str("$service_name"),
            TemplatePart::Label(RuleLabel::ServicePort) => f.write_str("$service_port"),
        })
    }
}
