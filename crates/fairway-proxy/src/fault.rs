//! What can go wrong in an exchange: who failed, when, and what it means for the client. Small `Copy` values only.

use fairway_http::Malformed;

/// Why an exchange did not end with an answer of the endpoint.
///
/// Every variant maps to one status, one access-log flag and one metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request breaks a rule of HTTP/1.
    Malformed(Malformed),
    /// The client closed or reset its connection.
    ClientGone,
    /// The client did not finish its head or its body in time.
    ClientTimeout,
    /// The client takes no bytes of the answer.
    ClientStalled,
    /// The body is larger than the rule allows.
    BodyTooLarge,
    /// There is no room for a body that is to be held, or it cannot be read again.
    BufferFull,
    /// CONNECT, an upgrade that the rule does not allow, one that has a body, or OPTIONS for Fairway itself.
    Unsupported,
    /// TRACE: it would answer with what only the endpoint may see (RFC 9110 §9.3.8).
    MethodNotAllowed,
    /// No listener of the port serves the name that a TLS client asks for.
    NoListener,
    /// No virtual host or no rule.
    NoRoute,
    /// The rule names no backend, or all its weights are zero.
    NoBackend,
    /// The backend has no endpoint.
    NoEndpoint,
    /// Each endpoint of the backend has as many requests or connections under way as the backend allows.
    EndpointsFull,
    /// The rule's protection cannot be given: closed rather than open.
    ProtectionUnavailable,
    /// What the rule refers to does not exist.
    MissingReference,
    /// The client's address may not pass.
    AccessDenied,
    /// A rule asks for the client's address, and what a trusted peer says of it cannot be read.
    AddressUnknown,
    /// A certificate is asked for, and the client has shown none.
    CertificateMissing,
    /// The client's certificate is not trusted.
    CertificateRefused,
    /// Its connection was made for another host, whose clients are verified in another way.
    Misdirected,
    /// The client asks more often than the rule allows; with the status that it asks for.
    TooManyRequests(u16),
    /// The client has more under way than the rule allows; with the status that it asks for.
    TooMuchUnderWay(u16),
    /// The service that decides whether requests may pass said no; with its status.
    Denied(u16),
    /// It said neither yes nor no.
    Undecided,
    /// No connection to any endpoint that was tried.
    ConnectFailed,
    /// Connecting took too long.
    ConnectTimeout,
    /// TLS towards the endpoint failed.
    UpstreamTls,
    /// The endpoint closed or reset the connection before its answer's head.
    UpstreamClosed,
    /// What was written to the endpoint is not acknowledged: nobody is there any more.
    UpstreamUnreachable,
    /// The endpoint closed or reset the connection within its answer's body.
    UpstreamTruncated,
    /// The endpoint took too long.
    UpstreamTimeout,
    /// The time that a gRPC client gave its call is over, or less that its rule gives it.
    DeadlineExceeded,
    /// The time that the rule gives an exchange is over.
    RequestTimeout,
    /// The endpoint's answer breaks a rule of HTTP/1.
    UpstreamMalformed(Malformed),
    /// A WebSocket is wanted, and the endpoint neither gives nor refuses one in a way that the client would understand.
    UpstreamNoWebsocket,
    /// The listener has as many connections as it may.
    ListenerFull,
    /// Too many connections or too little memory.
    Overloaded,
    /// Fairway has no descriptor, port or buffer for a connection to an endpoint.
    LocalShortage,
}

impl Fault {
    /// The status of the answer that Fairway makes of it (RFC 9110 §15). 499 is never sent,
    /// nor is 421 to a client that has not shaken hands.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Malformed(rule) => rule.status(),
            Self::ClientGone | Self::ClientStalled => 499,
            Self::ClientTimeout => 408,
            Self::BodyTooLarge => 413,
            Self::Unsupported => 501,
            Self::MethodNotAllowed => 405,
            Self::NoListener | Self::Misdirected => 421,
            Self::CertificateMissing | Self::CertificateRefused => 400,
            Self::NoRoute => 404,
            Self::AccessDenied | Self::AddressUnknown => 403,
            Self::TooManyRequests(status) | Self::TooMuchUnderWay(status) | Self::Denied(status) => status,
            Self::NoBackend | Self::Undecided => 500,
            Self::ConnectFailed
            | Self::UpstreamTls
            | Self::UpstreamClosed
            | Self::UpstreamTruncated
            | Self::UpstreamMalformed(_)
            | Self::UpstreamNoWebsocket => 502,
            Self::ConnectTimeout
            | Self::UpstreamTimeout
            | Self::UpstreamUnreachable
            | Self::DeadlineExceeded
            | Self::RequestTimeout => 504,
            Self::NoEndpoint
            | Self::EndpointsFull
            | Self::ProtectionUnavailable
            | Self::MissingReference
            | Self::ListenerFull
            | Self::BufferFull
            | Self::Overloaded
            | Self::LocalShortage => 503,
        }
    }

    /// The reason as metrics and logs write it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Malformed(rule) => rule.label(),
            Self::ClientGone => "client_gone",
            Self::ClientTimeout => "client_timeout",
            Self::ClientStalled => "client_stalled",
            Self::BodyTooLarge => "body_too_large",
            Self::BufferFull => "buffer_full",
            Self::Unsupported => "unsupported",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::NoListener => "no_listener",
            Self::NoRoute => "no_route",
            Self::NoBackend => "no_backend",
            Self::NoEndpoint => "no_endpoint",
            Self::EndpointsFull => "endpoints_full",
            Self::ProtectionUnavailable => "protection_unavailable",
            Self::MissingReference => "missing_reference",
            Self::AccessDenied => "access_denied",
            Self::AddressUnknown => "address_unknown",
            Self::CertificateMissing => "certificate_missing",
            Self::CertificateRefused => "certificate_refused",
            Self::Misdirected => "misdirected",
            Self::TooManyRequests(_) => "too_many_requests",
            Self::TooMuchUnderWay(_) => "too_much_under_way",
            Self::Denied(_) => "denied",
            Self::Undecided => "undecided",
            Self::ConnectFailed => "connect_failed",
            Self::ConnectTimeout => "connect_timeout",
            Self::UpstreamTls => "upstream_tls",
            Self::UpstreamClosed => "upstream_closed",
            Self::UpstreamUnreachable => "upstream_unreachable",
            Self::UpstreamTruncated => "upstream_truncated",
            Self::UpstreamTimeout => "upstream_timeout",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::RequestTimeout => "request_timeout",
            Self::UpstreamMalformed(_) => "upstream_malformed",
            Self::UpstreamNoWebsocket => "upstream_no_websocket",
            Self::ListenerFull => "listener_full",
            Self::Overloaded => "overloaded",
            Self::LocalShortage => "local_shortage",
        }
    }

    /// Whether the same request may well succeed a moment later: the answer says when (RFC 9110 §10.2.3).
    #[must_use]
    pub(crate) fn is_passing(self) -> bool {
        matches!(
            self,
            Self::EndpointsFull
                | Self::ListenerFull
                | Self::BufferFull
                | Self::Overloaded
                | Self::LocalShortage
        )
    }

    /// Whether the failure says something about the endpoint's health before the answer's head (design: ejection).
    #[must_use]
    pub(crate) fn blames_endpoint(self) -> bool {
        matches!(
            self,
            Self::ConnectFailed
                | Self::ConnectTimeout
                | Self::UpstreamTls
                | Self::UpstreamClosed
                | Self::UpstreamUnreachable
                | Self::UpstreamTimeout
                | Self::UpstreamMalformed(_)
        )
    }
}
