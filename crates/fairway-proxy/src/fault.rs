//! The faults of an exchange: who failed, when, and what the client gets. Small `Copy` values only.

use fairway_connection::upstream::LimitReached;
use fairway_http::Malformed;
use fairway_token::Refusal;

/// Why an exchange did not end with the endpoint's response.
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
    /// The client stopped reading the response.
    ClientStalled,
    /// The body is larger than the rule allows.
    BodyTooLarge,
    /// There is no room for a buffered body, or it cannot be read again.
    BufferFull,
    /// CONNECT, an upgrade that the rule does not allow or that has a body, or OPTIONS for Fairway itself.
    Unsupported,
    /// TRACE: its response would reveal what only the endpoint may see (RFC 9110 §9.3.8).
    MethodNotAllowed,
    /// No listener of the port serves the name that a TLS client asks for.
    NoListener,
    /// No virtual host or rule matches.
    NoRoute,
    /// The rule names no backend, or all its weights are zero.
    NoBackend,
    /// The backend has no endpoint.
    NoEndpoint,
    /// Each endpoint of the backend has as many requests or connections as the backend allows.
    EndpointsFull,
    /// All workers together have as many requests or connections in progress with the backend as it allows.
    BackendFull(LimitReached),
    /// The rule asks for protection that is not available: it fails closed.
    ProtectionUnavailable,
    /// A service that must see the requests of the rule is not usable as configured: it fails closed.
    ExtensionUnavailable,
    /// An object that the rule refers to does not exist.
    MissingReference,
    /// The client's address is not allowed.
    AccessDenied,
    /// A rule needs the client's address, and the one that a trusted peer sent is unreadable.
    AddressUnknown,
    /// A client certificate is required, and the client presented none.
    CertificateMissing,
    /// The client's certificate is not trusted.
    CertificateRefused,
    /// The connection was made for another host, with other client verification.
    Misdirected,
    /// The client exceeds the rate limit of the rule; with the status to respond.
    TooManyRequests(u16),
    /// The client exceeds the concurrency limit of the rule; with the status to respond.
    TooMuchUnderWay(u16),
    /// The authentication service denied the request; with its status.
    Denied(u16),
    /// The authentication service gave no usable decision.
    Undecided,
    /// An extension service failed, or asked for a change that it may not make.
    ExtensionFailed,
    /// The request has no token or API key that lets it pass, or its client is not authorized for it.
    Credential(Denial),
    /// The keys of a token's issuer could not be fetched.
    KeysUnavailable,
    /// The OpenID provider does not respond, or its response is unusable.
    ProviderUnavailable,
    /// No endpoint that was tried accepted a connection.
    ConnectFailed,
    /// Connecting took too long.
    ConnectTimeout,
    /// TLS towards the endpoint failed.
    UpstreamTls,
    /// The endpoint closed or reset the connection before the response head.
    UpstreamClosed,
    /// The endpoint does not acknowledge what was sent: it is gone.
    UpstreamUnreachable,
    /// The endpoint closed or reset the connection within the response body.
    UpstreamTruncated,
    /// The endpoint took too long.
    UpstreamTimeout,
    /// The deadline of a gRPC call has passed: the client's, or a shorter one of the rule.
    DeadlineExceeded,
    /// The rule's timeout for the request has passed.
    RequestTimeout,
    /// The endpoint's response breaks a rule of HTTP/1.
    UpstreamMalformed(Malformed),
    /// The client asked for a WebSocket, and the endpoint's response neither accepts nor refuses it in a way that the client
    /// would understand.
    UpstreamNoWebsocket,
    /// The listener has reached its connection limit.
    ListenerFull,
    /// Too many connections or too little memory.
    Overloaded,
    /// Fairway has no descriptor, port or buffer for a connection to an endpoint.
    LocalShortage,
    /// The process is shutting down, and its drain timeout has passed.
    Drained,
}

impl Fault {
    /// The status of Fairway's response (RFC 9110 §15). 499 is never sent, nor is 421 to a client before its handshake, or the
    /// status of an exchange that a drain aborts.
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
            Self::Credential(denial) => denial.status(),
            Self::NoBackend | Self::ExtensionUnavailable | Self::Undecided | Self::ExtensionFailed => 500,
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
            | Self::BackendFull(_)
            | Self::ProtectionUnavailable
            | Self::KeysUnavailable
            | Self::ProviderUnavailable
            | Self::MissingReference
            | Self::ListenerFull
            | Self::BufferFull
            | Self::Overloaded
            | Self::LocalShortage
            | Self::Drained => 503,
        }
    }

    /// The reason in metrics and logs.
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
            Self::BackendFull(LimitReached::Requests) => "backend_requests_full",
            Self::BackendFull(LimitReached::Concurrency) => "backend_concurrency_full",
            Self::BackendFull(LimitReached::Connections) => "backend_connections_full",
            Self::BackendFull(LimitReached::Pending) => "backend_pending_full",
            Self::ProtectionUnavailable => "protection_unavailable",
            Self::ExtensionUnavailable => "extension_unavailable",
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
            Self::ExtensionFailed => "extension_failed",
            Self::Credential(denial) => denial.label(),
            Self::KeysUnavailable => "keys_unavailable",
            Self::ProviderUnavailable => "provider_unavailable",
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
            Self::Drained => "drained",
        }
    }

    /// Whether the same request is likely to succeed shortly: the response says when to retry (RFC 9110 §10.2.3).
    #[must_use]
    pub(crate) fn is_transient(self) -> bool {
        matches!(
            self,
            Self::EndpointsFull
                | Self::BackendFull(_)
                | Self::ListenerFull
                | Self::BufferFull
                | Self::Overloaded
                | Self::LocalShortage
        )
    }

    /// Whether the failure, before the response head, counts against the endpoint's health (design: ejection).
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

/// Why a credential does not let a request pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// There is no token.
    TokenMissing,
    /// There is more than one token.
    TokenAmbiguous,
    /// The token is invalid.
    Token(Refusal),
    /// The token is valid, but lacks a claim that the rule requires.
    TokenClaim,
    /// The token is valid, but lacks a scope that the rule requires.
    TokenScope,
    /// There is no API key.
    KeyMissing,
    /// There is more than one API key.
    KeyAmbiguous,
    /// The API key is unknown.
    KeyUnknown,
    /// The client is not authorized.
    NotAllowed,
    /// The user is not logged in, and the request cannot be redirected to a login.
    LoginMissing,
    /// Sessions need TLS.
    LoginInsecure,
    /// The return from a login is malformed.
    LoginMalformed,
    /// This browser did not start this login, or started it too long ago.
    LoginUnknown,
    /// Another provider than the one of the login redirected the browser back.
    LoginIssuer,
    /// The provider did not log the user in.
    LoginDenied,
    /// The provider returned no usable tokens.
    LoginFailed,
    /// The ID token is invalid.
    LoginToken(Refusal),
    /// The session does not fit into cookies.
    LoginTooLarge,
    /// Another site tried to log the user out.
    LogoutForeign,
    /// The request to the back-channel logout path is malformed.
    LogoutMalformed,
    /// The logout token is invalid.
    LogoutToken(Refusal),
}

impl Denial {
    /// All denials.
    pub fn all() -> impl Iterator<Item = Self> {
        let others = [
            Self::TokenMissing,
            Self::TokenAmbiguous,
            Self::TokenClaim,
            Self::TokenScope,
            Self::KeyMissing,
            Self::KeyAmbiguous,
            Self::KeyUnknown,
            Self::NotAllowed,
            Self::LoginMissing,
            Self::LoginInsecure,
            Self::LoginMalformed,
            Self::LoginUnknown,
            Self::LoginIssuer,
            Self::LoginDenied,
            Self::LoginFailed,
            Self::LoginTooLarge,
            Self::LogoutForeign,
            Self::LogoutMalformed,
        ];
        // Refused tokens of logins and logouts have the same labels.
        others.into_iter().chain(Refusal::ALL.map(Self::Token))
    }

    /// 401 if other credentials may help, else 403 (RFC 9110 §15.5.2, §15.5.4), with a few exceptions for logins.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::LoginMalformed
            | Self::LoginUnknown
            | Self::LoginIssuer
            | Self::LogoutMalformed
            | Self::LogoutToken(_) => 400,
            Self::TokenClaim
            | Self::TokenScope
            | Self::NotAllowed
            | Self::LoginInsecure
            | Self::LoginDenied
            | Self::LoginToken(_)
            | Self::LogoutForeign => 403,
            Self::LoginTooLarge => 500,
            Self::LoginFailed => 502,
            _ => 401,
        }
    }

    /// The reason in metrics and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::TokenMissing => "token_missing",
            Self::TokenAmbiguous => "token_ambiguous",
            Self::Token(refusal) => refusal.label(),
            Self::TokenClaim => "token_claim",
            Self::TokenScope => "token_scope",
            Self::KeyMissing => "api_key_missing",
            Self::KeyAmbiguous => "api_key_ambiguous",
            Self::KeyUnknown => "api_key_unknown",
            Self::NotAllowed => "not_allowed",
            Self::LoginMissing => "login_missing",
            Self::LoginInsecure => "login_insecure",
            Self::LoginMalformed => "login_malformed",
            Self::LoginUnknown => "login_unknown",
            Self::LoginIssuer => "login_issuer",
            Self::LoginDenied => "login_denied",
            Self::LoginFailed => "login_failed",
            Self::LoginToken(refusal) | Self::LogoutToken(refusal) => refusal.label(),
            Self::LoginTooLarge => "login_too_large",
            Self::LogoutForeign => "logout_foreign",
            Self::LogoutMalformed => "logout_malformed",
        }
    }

    /// The error and its description for the client (RFC 6750 §3.1); `None` if it sent no token.
    pub(crate) const fn bearer_error(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::TokenAmbiguous => Some(("invalid_request", "there is more than one token")),
            Self::Token(refusal) => Some(("invalid_token", refusal.description())),
            Self::TokenClaim => Some(("insufficient_scope", "the token lacks a claim that is needed here")),
            Self::TokenScope => Some(("insufficient_scope", "the token lacks a scope that is needed here")),
            _ => None,
        }
    }
}
