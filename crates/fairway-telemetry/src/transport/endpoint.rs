//! The address of a collector.

use ::http::Uri;
use ::http::uri::{Authority, PathAndQuery, Scheme};
use fairway_model::OtlpProtocol;

use crate::signal::Signal;

/// Why a text is not the address of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is not a URL.
    #[error("is not a URL such as http://collector:4317")]
    Url,
    /// The scheme is neither `http` nor `https`.
    #[error("begins neither with http:// nor with https://")]
    Scheme,
    /// It contains a user or password.
    #[error("has a user or password, which would be in logs")]
    UserInfo,
    /// It contains a query.
    #[error("has a query, which collectors do not read")]
    Query,
    /// It contains a path, but the protocol defines the path.
    #[error("has a path, which gRPC does not use")]
    Path,
    /// It ends with the path of a signal.
    #[error("ends with the path of a signal, which is added for each signal")]
    SignalPath,
}

/// The address of a collector.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    scheme: Scheme,
    authority: Authority,
    /// The part of the path before the signal's, usually empty.
    path: String,
}

/// Checks that this is the address of a collector that speaks `protocol`.
///
/// # Errors
/// The reason why it is not.
pub fn check_endpoint(endpoint: &str, protocol: OtlpProtocol) -> Result<(), EndpointError> {
    Endpoint::parse(endpoint, protocol).map(|_| ())
}

impl Endpoint {
    /// Parses `http://HOST:PORT/PATH`.
    ///
    /// # Errors
    /// It is not such an address.
    pub(super) fn parse(text: &str, protocol: OtlpProtocol) -> Result<Self, EndpointError> {
        let uri: Uri = text.parse().map_err(|_| EndpointError::Url)?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.ok_or(EndpointError::Url)?;
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(EndpointError::Scheme);
        }
        let authority = parts.authority.ok_or(EndpointError::Url)?;
        if authority.as_str().contains('@') {
            return Err(EndpointError::UserInfo);
        }
        if authority.host().is_empty() {
            return Err(EndpointError::Url);
        }
        let target = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        if target.query().is_some() {
            return Err(EndpointError::Query);
        }
        let path = target.path().trim_end_matches('/').to_owned();
        if protocol == OtlpProtocol::Grpc && !path.is_empty() {
            return Err(EndpointError::Path);
        }
        if Signal::ALL.iter().any(|signal| path.ends_with(signal.path())) {
            return Err(EndpointError::SignalPath);
        }
        Ok(Self { scheme, authority, path })
    }

    /// Whether TLS is used.
    pub(super) fn is_secure(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// The URL of a path.
    pub(super) fn url(&self, path: &str) -> Uri {
        let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        let uri = uri.path_and_query(format!("{}{path}", self.path)).build();
        uri.expect("the parts are those of a URL, and the paths of signals are paths")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_parsed_for_its_protocol() {
        use OtlpProtocol::{Grpc, Http};
        for (text, protocol, expected) in [
            ("http://a:4317", Grpc, Ok("http://a:4317/v1/traces")),
            ("https://[::1]:4318/", Http, Ok("https://[::1]:4318/v1/traces")),
            ("https://a/otlp/", Http, Ok("https://a/otlp/v1/traces")),
            ("https://a/otlp", Grpc, Err(EndpointError::Path)),
            ("https://a/v1/traces", Http, Err(EndpointError::SignalPath)),
            ("https://a/v1/logs/", Http, Err(EndpointError::SignalPath)),
            ("a:4317", Grpc, Err(EndpointError::Url)),
            ("", Grpc, Err(EndpointError::Url)),
            ("/v1", Http, Err(EndpointError::Url)),
            ("http://", Http, Err(EndpointError::Url)),
            ("http://a b", Http, Err(EndpointError::Url)),
            ("ftp://a", Http, Err(EndpointError::Scheme)),
            ("grpc://a:4317", Grpc, Err(EndpointError::Scheme)),
            ("http://u:p@a", Http, Err(EndpointError::UserInfo)),
            ("http://a/?x=y", Http, Err(EndpointError::Query)),
        ] {
            let read = Endpoint::parse(text, protocol);
            let read = read.map(|it| it.url(Signal::Traces.path()).to_string());
            assert_eq!(read.as_deref(), expected.as_ref().copied(), "{text}");
        }
    }
}
