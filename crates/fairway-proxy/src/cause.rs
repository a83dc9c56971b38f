//! The causes and descriptions of faults.

use fairway_connection::upstream::LimitReached;

use crate::fault::Fault;

/// Who caused a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The client: it left, was too slow, sent an invalid request, or asked for something forbidden or missing.
    Client,
    /// An object: it refers to something that does not exist, or asks for something that Fairway cannot do.
    Configuration,
    /// An endpoint, or the lack of one.
    Endpoint,
    /// A service that Fairway asks before it forwards a request.
    Service,
    /// Fairway: it has too little memory, room or connections, or is shutting down.
    Fairway,
}

impl Cause {
    /// The name in metrics and pages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Configuration => "configuration",
            Self::Endpoint => "endpoint",
            Self::Service => "service",
            Self::Fairway => "fairway",
        }
    }
}

impl Fault {
    /// What happened, as a sentence without a full stop.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Malformed(_) => "the request breaks a rule of HTTP",
            Self::ClientGone => {
                "the client closed or reset its connection or stream before the response ended"
            }
            Self::ClientTimeout => "the client did not finish its request in time",
            Self::ClientStalled => "the client stopped reading the response",
            Self::BodyTooLarge => "the request body is larger than the rule allows",
            Self::BufferFull => "there was no room for a body that the rule buffers",
            Self::Unsupported => "CONNECT, or an upgrade that the rule does not allow",
            Self::MethodNotAllowed => "TRACE is never forwarded",
            Self::NoListener => "no listener of the port serves the requested name",
            Self::NoRoute => "no host or no rule matches the request",
            Self::NoBackend => "the rule names no backend, or all weights are zero",
            Self::NoEndpoint => "the backend has no ready endpoint",
            Self::EndpointsFull => "each endpoint has as many requests or connections as the backend allows",
            Self::BackendFull(LimitReached::Requests) => "the backend has as many requests as it allows",
            Self::BackendFull(LimitReached::Concurrency) => {
                "as many requests await a response as the backend can process without delay"
            }
            Self::BackendFull(LimitReached::Connections) => {
                "the backend has as many connections as it allows"
            }
            Self::BackendFull(LimitReached::Pending) => "as many requests wait for the backend as it allows",
            Self::ProtectionUnavailable => "the object asks for protection that Fairway cannot give",
            Self::ExtensionUnavailable => "a service that must see the requests of the rule cannot be asked",
            Self::MissingReference => "the rule refers to an object that does not exist",
            Self::AccessDenied => "the client's address is not allowed",
            Self::AddressUnknown => {
                "the rule needs the client's address, which a trusted proxy did not send in a readable form"
            }
            Self::CertificateMissing => "the rule needs a client certificate, and the client showed none",
            Self::CertificateRefused => "the client certificate is not trusted",
            Self::Misdirected => "the connection was made for another host",
            Self::TooManyRequests(_) => "the client sends more requests than the rule allows",
            Self::TooMuchUnderWay(_) => {
                "the client has more requests or connections open than the rule allows"
            }
            Self::Denied(_) => "the authentication service denied the request",
            Self::Undecided => "the authentication service gave no usable response",
            Self::ExtensionFailed => {
                "an extension service failed, or asked for a change that it may not make"
            }
            Self::Credential(_) => "the request has no credential that lets it pass",
            Self::KeysUnavailable => "the keys of the token's issuer could not be fetched",
            Self::ProviderUnavailable => "the OpenID provider gave no usable response",
            Self::ConnectFailed => "no endpoint accepted a connection",
            Self::ConnectTimeout => "connecting to the endpoints took too long",
            Self::UpstreamTls => "TLS to the endpoint failed",
            Self::UpstreamClosed => "the endpoint closed the connection before its response",
            Self::UpstreamUnreachable => "the endpoint did not acknowledge what was sent",
            Self::UpstreamTruncated => "the endpoint closed the connection within its response",
            Self::UpstreamTimeout => "the endpoint took longer than the timeout between two reads or writes",
            Self::DeadlineExceeded => {
                "the deadline that the gRPC client or the rule set for the call has passed"
            }
            Self::RequestTimeout => "the request timeout of the rule has passed",
            Self::UpstreamMalformed(_) => "the endpoint's response breaks a rule of HTTP",
            Self::UpstreamNoWebsocket => "the endpoint neither accepted nor refused the WebSocket",
            Self::ListenerFull => "the listener has as many connections as it may have",
            Self::Overloaded => "Fairway has too many connections or too little memory",
            Self::LocalShortage => {
                "Fairway has no descriptor, port or buffer for a connection to an endpoint"
            }
            Self::Drained => "Fairway was shutting down, and its drain timeout had passed",
        }
    }

    /// Who caused it.
    #[must_use]
    pub fn cause(self) -> Cause {
        match self {
            Self::NoBackend
            | Self::ProtectionUnavailable
            | Self::ExtensionUnavailable
            | Self::MissingReference => Cause::Configuration,
            Self::NoEndpoint
            | Self::EndpointsFull
            | Self::BackendFull(_)
            | Self::ConnectFailed
            | Self::ConnectTimeout
            | Self::UpstreamTls
            | Self::UpstreamClosed
            | Self::UpstreamUnreachable
            | Self::UpstreamTruncated
            | Self::UpstreamTimeout
            | Self::RequestTimeout
            | Self::UpstreamMalformed(_)
            | Self::UpstreamNoWebsocket => Cause::Endpoint,
            Self::Undecided | Self::ExtensionFailed | Self::KeysUnavailable | Self::ProviderUnavailable => {
                Cause::Service
            }
            Self::BufferFull
            | Self::ListenerFull
            | Self::Overloaded
            | Self::LocalShortage
            | Self::Drained => Cause::Fairway,
            Self::Malformed(_)
            | Self::ClientGone
            | Self::ClientTimeout
            | Self::ClientStalled
            | Self::BodyTooLarge
            | Self::Unsupported
            | Self::MethodNotAllowed
            | Self::NoListener
            | Self::NoRoute
            | Self::AccessDenied
            | Self::AddressUnknown
            | Self::CertificateMissing
            | Self::CertificateRefused
            | Self::Misdirected
            | Self::TooManyRequests(_)
            | Self::TooMuchUnderWay(_)
            | Self::Denied(_)
            | Self::Credential(_)
            | Self::DeadlineExceeded => Cause::Client,
        }
    }
}
