//! What can go wrong in an exchange: who failed, when, and what it means for the client. Small `Copy` values only.

use fairway_connection::upstream::Full;
use fairway_http::Malformed;
use fairway_token::Refusal;

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
    /// All workers together have as much under way with the backend as it allows.
    BackendFull(Full),
    /// The rule's protection cannot be given: closed rather than open.
    ProtectionUnavailable,
    /// A service that must see the requests of the rule is not configured as it should be: closed rather than open.
    ExtensionUnavailable,
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
    /// A service that sees requests and responses failed, or wants what it may not.
    ExtensionFailed,
    /// The request has no token or API key that lets it pass, or what its client asks for is not allowed to it.
    Credential(Denial),
    /// The issuer of a token does not say with which keys it is verified.
    KeysUnavailable,
    /// The provider that users log in at does not answer, or not as it should.
    ProviderUnavailable,
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
    /// The process leaves, and the time that its drain gives exchanges is over.
    Drained,
}

impl Fault {
    /// The status of the answer that Fairway makes of it (RFC 9110 §15). 499 is never sent,
    /// nor is 421 to a client that has not shaken hands, or what a drain cuts.
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
            Self::BackendFull(Full::Requests) => "backend_requests_full",
            Self::BackendFull(Full::Concurrency) => "backend_concurrency_full",
            Self::BackendFull(Full::Connections) => "backend_connections_full",
            Self::BackendFull(Full::Pending) => "backend_pending_full",
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

    /// Whether the same request may well succeed a moment later: the answer says when (RFC 9110 §10.2.3).
    #[must_use]
    pub(crate) fn is_passing(self) -> bool {
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

/// Why a credential lets a request not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// There is no token.
    TokenMissing,
    /// There is more than one token.
    TokenAmbiguous,
    /// The token is refused.
    Token(Refusal),
    /// The token is good, and lacks a claim that the rule asks for.
    TokenClaim,
    /// The token is good, and lacks a scope that the rule asks for.
    TokenScope,
    /// There is no API key.
    KeyMissing,
    /// There is more than one API key.
    KeyAmbiguous,
    /// Nobody has this API key.
    KeyUnknown,
    /// Its client may not do this.
    NotAllowed,
    /// The user has not logged in, and this is no request that could be sent to log in.
    LoginMissing,
    /// Sessions need TLS.
    LoginInsecure,
    /// What comes back from a login is not what a provider sends.
    LoginMalformed,
    /// This browser has not begun the login that it comes back from, or too long ago.
    LoginUnknown,
    /// Another provider than the one that was asked sends the browser back.
    LoginIssuer,
    /// The provider did not log the user in.
    LoginDenied,
    /// The provider gives no tokens that could be used.
    LoginFailed,
    /// The provider's word about the user is refused.
    LoginToken(Refusal),
    /// The session does not fit into cookies.
    LoginTooLarge,
    /// Another site wants to log the user out.
    LogoutForeign,
    /// What comes to the path for logouts is not what a provider sends.
    LogoutMalformed,
    /// The provider's word that a user has logged out is refused.
    LogoutToken(Refusal),
}

impl Denial {
    /// All of them.
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
        // What is wrong with the token of a login or logout has the same name.
        others.into_iter().chain(Refusal::ALL.map(Self::Token))
    }

    /// 401 where other credentials may help, else 403 (RFC 9110 §15.5.2, §15.5.4).
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

    /// The reason as metrics and logs write it.
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

    /// The error and its description for the client (RFC 6750 §3.1): none where it has shown no token.
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
