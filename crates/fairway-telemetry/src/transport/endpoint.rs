//! The address of a collector.

use ::http::Uri;
use ::http::uri::{Authority, PathAndQuery, Scheme};
use fairway_model::OtlpProtocol;

use crate::signal::Signal;

/// Why a text is not the address of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is no URL.
    #[error("is not a URL such as http://collector:4317")]
    Url,
    /// It is neither `http` nor `https`.
    #[error("begins neither with http:// nor with https://")]
    Scheme,
    /// It has a user or a password.
    #[error("has a user or password, which would be in logs")]
    UserInfo,
    /// It has a query.
    #[error("has a query, which no collector reads")]
    Query,
    /// It has a path, and the protocol has its own.
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
    /// What stands before the path of a signal; empty in most cases.
    path: String,
}

/// Whether this is the address of a collector that speaks `protocol`.
///
/// # Errors
/// It is not.
pub fn check_endpoint(endpoint: &str, protocol: OtlpProtocol) -> Result<(), EndpointError> {
    Endpoint::read(endpoint, protocol).map(|_| ())
}

impl Endpoint {
    /// Reads `http://HOST:PORT/PATH`.
    ///
    /// # Errors
    /// It is no such address.
    pub(super) fn read(text: &str, protocol: OtlpProtocol) -> Result<Self, EndpointError> {
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

    /// Whether it is reached over TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// The URL of a path there.
    pub(super) fn at(&self, path: &str) -> Uri {
        let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        let uri = uri.path_and_query(format!("{}{path}", self.path)).build();
        uri.expect("the parts are those of a URL, and the paths of signals are paths")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_its_protocol_wants_it() {
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
            let read = Endpoint::read(text, protocol);
            let read = read.map(|it| it.at(Signal::Traces.path()).to_string());
            assert_eq!(read.as_deref(), expected.as_ref().copied(), "{text}");
        }
    }
}
