//! What is done to a request or its answer on the way, or instead of forwarding it.

use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::answer::{AnswerRate, CookieRewrite, LocationRewrite};
use crate::authentication::{AnyGuard, BasicAuth, ExternalAuth, Template};
use crate::backend::BackendKey;
use crate::certificate::ClientVerification;
use crate::guard::{AccessList, ConcurrencyLimit, ErrorPages, Fallback, Mirror, RateLimit};
use crate::hop::EndpointHop;
use crate::matches::{Match, PathMatch};

/// One step between the match and the action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Filter {
    /// Answers plain requests with a redirect to https.
    HttpsRedirect(HttpsRedirect),
    /// Answers every request with a redirect.
    Redirect(Redirect),
    /// Lets some client addresses through.
    Access(AccessList),
    /// Refuses clients by their certificates, and tells the endpoint of them.
    ClientCertificate(ClientCertificate),
    /// Refuses requests that come in the clear.
    OverTls,
    /// Refuses some requests.
    Deny(Deny),
    /// Answers 503 while the rule's backends and fallbacks have no endpoint, before the filters that follow.
    NeedsEndpoint,
    /// Says who the client is. Before all others, wherever it stands.
    RealIp(RealIp),
    /// Cross-origin resource sharing.
    Cors(Cors),
    /// Changes the request's headers before it is forwarded.
    RequestHeaders(HeaderEdit),
    /// Changes the headers of every answer of the rule.
    ResponseHeaders(HeaderEdit),
    /// Sets fields of the request behind all that the proxy itself writes for its endpoint.
    EndpointFields(Arc<[FieldTemplate]>),
    /// Sets fields of every answer of the rule.
    AnswerFields(Arc<[FieldTemplate]>),
    /// Removes these fields from the answers of endpoints; names in lower case.
    HiddenFields(Arc<[Arc<str>]>),
    /// Says how endpoints of HTTP/1 are spoken to.
    EndpointHop(EndpointHop),
    /// Gives requests of connections with TLS to this backend instead.
    SecuredBackend(BackendKey),
    /// Lets the head of an endpoint's answer have so many bytes, if that is more than the process allows.
    AnswerHead(u32),
    /// Bounds how fast answers go to clients.
    AnswerRate(AnswerRate),
    /// Changes attributes of the cookies that endpoints set.
    AnswerCookies(CookieRewrite),
    /// Changes where endpoints send clients.
    AnswerLocation(LocationRewrite),
    /// `Strict-Transport-Security` on every answer over TLS; the header's value (RFC 6797 §6.1).
    StrictTransportSecurity(Arc<str>),
    /// Changes the path that is forwarded; the query stays unless the new path brings one.
    RewritePath(PathRewrite),
    /// Sets the `X-Forwarded-Prefix` that is forwarded to what this makes of the path; a path in which its pattern is not found
    /// leaves the field as it is (ingress-nginx `x-forwarded-prefix` with captures).
    ForwardedPrefix(PathRewrite),
    /// Sets the `Host` that is forwarded.
    RewriteHost(Arc<str>),
    /// Asks another service whether the request may pass.
    ExternalAuth(Box<ExternalAuth>),
    /// Lets those through who know a password.
    BasicAuth(BasicAuth),
    /// Lets through whom one of several guards lets through.
    AnyGuard(AnyGuard),
    /// Bounds how often each client may ask.
    RateLimit(RateLimit),
    /// Bounds how many requests of each client are under way.
    ConcurrencyLimit(ConcurrencyLimit),
    /// Sends a copy of the request elsewhere.
    Mirror(Mirror),
    /// Lets another backend make the answers of these statuses.
    ErrorPages(ErrorPages),
    /// Lets another backend serve while the rule's own has no endpoints.
    Fallback(Fallback),
    /// Tries another endpoint after an answer with one of these statuses, as far as the request may be repeated.
    RetryStatuses(Vec<u16>),
    /// Makes gRPC of gRPC-Web, for endpoints that speak gRPC alone. Requests that are neither pass as they are.
    GrpcWeb,
    /// Keeps the exchange out of the access log; metrics count it.
    Unlogged,
}

impl Filter {
    /// What it knows of passwords.
    #[must_use]
    pub fn basic_auth(&self) -> Option<&BasicAuth> {
        match self {
            Self::BasicAuth(basic) => Some(basic),
            Self::AnyGuard(any) => any.basic.as_ref(),
            _ => None,
        }
    }

    /// Whether it may belong to one backend of a rule instead of to the rule. Such filters act on requests that were
    /// let through already, so none of them protects.
    #[must_use]
    pub fn is_for_a_share(&self) -> bool {
        matches!(
            self,
            Self::RequestHeaders(_)
                | Self::ResponseHeaders(_)
                | Self::Mirror(_)
                | Self::Redirect(_)
                | Self::RewritePath(_)
                | Self::RewriteHost(_)
                | Self::Cors(_)
        )
    }

    /// The same, to be changed.
    pub fn basic_auth_mut(&mut self) -> Option<&mut BasicAuth> {
        match self {
            Self::BasicAuth(basic) => Some(basic),
            Self::AnyGuard(any) => any.basic.as_mut(),
            _ => None,
        }
    }
}

/// To https, on the listener's public https port, the target unchanged but for one trailing slash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpsRedirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// Whether one trailing slash of the path is kept (ingress-nginx drops it by default).
    pub keep_trailing_slash: bool,
    /// Whether the port is written where it is 443, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub explicit_port: bool,
}

/// A redirect of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// 300..=308.
    pub status: u16,
    /// Where to.
    pub target: RedirectTarget,
}

/// Where a redirect leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RedirectTarget {
    /// This `Location`, as it is.
    Url(Arc<str>),
    /// This path with the request's query, and neither scheme nor host: the client knows both.
    Path(Arc<str>),
    /// The request's own URL on this host, with its port in any case and without one trailing slash, as ingress-nginx
    /// sends clients between a name and its `www.`.
    Host(Arc<str>),
    /// The request's own URL with parts replaced; an absent part stays (Gateway API `HTTPRequestRedirectFilter`; ports
    /// that are the scheme's own are left out). The query stays where `keep_query` says so.
    Parts {
        /// `http` or `https`.
        scheme: Option<Arc<str>>,
        /// Without port.
        host: Option<Arc<str>>,
        /// The public port; where none is given, the well-known one of `scheme`, and without that the client's.
        port: Option<u16>,
        /// The new path.
        path: Option<PathRewrite>,
        /// Whether the request's query follows the path.
        keep_query: bool,
    },
}

/// Whose certificates are good enough, and what becomes of the others. Requests in the clear have none and pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientCertificate {
    /// By which the certificate was verified, when its connection began.
    pub rules: Arc<ClientVerification>,
    /// A regular expression that is found in the subject (RFC 2253), where there is one; others are answered 403.
    pub subject: Option<Arc<str>>,
    /// Where clients without a good certificate are sent, with 302, instead of being answered 400.
    pub error_page: Option<Arc<str>>,
    /// Whether the endpoint gets the certificate itself.
    pub forwarded: bool,
}

/// Which requests are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deny {
    /// What they are answered: 400..=599.
    pub status: u16,
    /// Any one is enough. Every value of a header, parameter or cookie is compared, also all of a header as one, and what is too
    /// long to be compared counts as a match.
    pub when: Vec<Match>,
}

impl Deny {
    /// Refuses paths with a line break: `.` does not match one, so such a path gets past a pattern that guards others.
    #[must_use]
    pub fn line_breaks() -> Self {
        let path = PathMatch::Regex { pattern: r"(?s:.*)[\n\r]".into(), ignore_case: false };
        Self { status: 400, when: vec![Match { path, ..Match::default() }] }
    }
}

/// Who the client is, where others speak for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealIp {
    /// The header with its address, in lower case. Of the list in `x-forwarded-for` the last address counts that is not in
    /// `trusted`.
    pub header: Arc<str>,
    /// Who is believed.
    pub trusted: Vec<IpNet>,
}

/// Cross-origin resource sharing (Fetch Standard §3.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cors {
    /// Which origins are allowed.
    pub origins: Vec<CorsOrigin>,
    /// The value of `Access-Control-Allow-Methods`; empty sends none.
    pub methods: Arc<str>,
    /// The value of `Access-Control-Allow-Headers`; empty sends none.
    pub headers: Arc<str>,
    /// The value of `Access-Control-Expose-Headers`; empty sends none.
    pub expose: Arc<str>,
    /// Whether `Access-Control-Allow-Credentials: true` is sent.
    pub credentials: bool,
    /// Seconds for `Access-Control-Max-Age`.
    pub max_age: u32,
    /// Which requests are answered, and what the fields are in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub manner: CorsManner,
}

/// Which requests are answered, and what the fields are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CorsManner {
    /// As ingress-nginx does it: every `OPTIONS` of an allowed origin is answered, and all other requests are forwarded.
    /// All fields are in every answer to an allowed origin.
    #[default]
    IngressNginx,
    /// As Gateway API does it (`HTTPCORSFilter`): every preflight is answered, with the fields where its origin is
    /// allowed; `OPTIONS` without `Access-Control-Request-Method` is none. Other answers to an allowed origin have those
    /// fields that are not for preflights. With `credentials` no field says `*`: in its place is what the request has.
    GatewayApi,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An allowed origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CorsOrigin {
    /// `*`: every origin; the answer says `*`.
    Any,
    /// This `scheme://host[:port]` or `null`; reflected.
    Exact(Arc<str>),
    /// `scheme://*.suffix[:port]`: exactly one label for the star; reflected.
    OneLabel {
        /// `https://` in `https://*.example.com:8443`; empty where the pattern had no scheme.
        before: Arc<str>,
        /// `.example.com:8443` in it.
        after: Arc<str>,
    },
    /// `scheme://*.suffix[:port]` or `scheme://*[:port]`: one or more labels for the star (Gateway API `allowOrigins`);
    /// reflected.
    Wildcard {
        /// `https://` in `https://*.example.com:8443`.
        before: Arc<str>,
        /// `.example.com:8443` in it; the port, or nothing, where the star is the whole host.
        after: Arc<str>,
    },
}

/// Changes to a list of headers: first removed, then set (replacing all of the name), then added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderEdit {
    /// Names in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<Arc<str>>,
    /// Replace all of the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<HeaderField>,
    /// Come beside what is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<HeaderField>,
}

/// A header as it will be sent; validated (RFC 9110 §5.1, §5.5) by whoever makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderField {
    /// As written; compared without case.
    pub name: Arc<str>,
    /// No CR, LF or NUL.
    pub value: Arc<str>,
}

/// A header with parts of the request in its value. One whose value comes out empty is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldTemplate {
    /// As written; compared without case.
    pub name: Arc<str>,
    /// Replaces all of the name.
    pub value: Template,
}

/// A new path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathRewrite {
    /// The whole path becomes this.
    Full(Arc<str>),
    /// The part that the rule's prefix matched becomes this (Gateway API `ReplacePrefixMatch`).
    Prefix(Arc<str>),
    /// ingress-nginx `rewrite`: where `pattern` is found in the decoded path (at its start, or anywhere when it has several
    /// alternatives outside of groups), the *whole* path
    /// becomes `replacement` with `$1`..`$9` from the captures; else the path stays. A `?` in the replacement starts the
    /// new query, to which the request's own is appended.
    Regex {
        /// In the syntax that `fairway-pattern` has of PCRE.
        pattern: Arc<str>,
        /// With `$1`..`$9`.
        replacement: Arc<str>,
        /// Whether upper and lower case are the same.
        ignore_case: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::MirrorTarget;

    #[test]
    fn every_rule_of_an_ingress_pays_for_the_largest_filter() {
        assert!(size_of::<Filter>() <= 96, "{}", size_of::<Filter>());
    }

    #[test]
    fn a_mirror_is_read_as_it_was_written() {
        let mirror = Mirror {
            backend: "shop/next:80".into(),
            numerator: 1,
            denominator: 10,
            most_body: 1024,
            target: MirrorTarget::Received("/copy".into()),
            host: Some("next.test".into()),
        };
        let filter = Filter::Mirror(mirror);
        let json = serde_json::to_string(&filter).unwrap();
        assert_eq!(serde_json::from_str::<Filter>(&json).unwrap(), filter);
    }
}
