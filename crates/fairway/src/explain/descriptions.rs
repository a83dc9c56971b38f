//! Describes parts of a configuration in words, for `explain` and the dashboard.
//!
//! Each `describe_*` function returns a phrase that its caller puts into a row or joins with other phrases.

use std::time::Duration;

use fairway_model::{
    AccessList, ApiKeyAuth, Authorization, AuthorizationRule, BackendProtocol, Balancing, BasicAuth,
    BodyBuffer, BodyMode, Buffering, ClientCertificate, ClientCertificateMode, CodingRule, Compression,
    Condition, ConditionalHeaders, ConnectionHeader, CredentialLocation, Decision, Deny, Extension,
    ExternalAuth, FixedResponseReason, GrpcAuth, Guard, HeaderEdit, HeaderOperation, HeaderTemplate,
    Http1Options, Http1Version, Http2Settings, JwtAuth, JwtIssuer, JwtKeys, LimitScope, Match,
    NamedValueMatch, OidcAuth, PathMatch, PathRewrite, Policy, Propagation, RedirectTarget, RequestEdit,
    ResponseEdit, RuleStep, SampleRatio, SessionCarrier, SessionCookie, SessionHash, SessionKey,
    SessionStart, SubjectName, TextMatch, Tracing, UpstreamResponseEdit, UpstreamVerification,
};
use fairway_routing::MatchVerdict;
use fairway_routing::explain::Criterion;

pub(super) fn describe_match(route_match: &Match) -> String {
    let mut parts = vec![describe_path_match(&route_match.path)];
    parts.extend(route_match.method.iter().map(|method| format!("method {method}")));
    parts.extend(route_match.headers.iter().map(|value| format!("header {}", describe_value_match(value))));
    parts.extend(route_match.query.iter().map(|value| format!("query {}", describe_value_match(value))));
    parts.extend(route_match.cookies.iter().map(|value| format!("cookie {}", describe_value_match(value))));
    parts.join(", ")
}

fn describe_path_match(path_match: &PathMatch) -> String {
    match path_match {
        PathMatch::Exact(path) => format!("exact {path}"),
        PathMatch::Prefix(path) => format!("prefix {path}"),
        PathMatch::Regex { pattern, ignore_case: true } => format!("regex {pattern} (ignoring case)"),
        PathMatch::Regex { pattern, ignore_case: false } => format!("regex {pattern}"),
    }
}

fn describe_value_match(value_match: &NamedValueMatch) -> String {
    match &value_match.value {
        TextMatch::Exact(value) => format!("{} = {value}", value_match.name),
        TextMatch::Regex(pattern) => format!("{} ~ {pattern}", value_match.name),
    }
}

pub(super) fn describe_verdict(verdict: &MatchVerdict) -> String {
    match verdict {
        MatchVerdict::Wins => "wins".into(),
        MatchVerdict::Path => "the path does not match".into(),
        MatchVerdict::Method => "the method does not match".into(),
        MatchVerdict::Header(name) => format!("the header {name} is absent or does not match"),
        MatchVerdict::Query(name) => format!("the query parameter {name} is absent or does not match"),
        MatchVerdict::Cookie(name) => format!("the cookie {name} is absent or does not match"),
        MatchVerdict::Invalid(reason) => format!("never applies: {reason}"),
        MatchVerdict::Outranked(criterion) => {
            format!("also matches, but {}", describe_precedence(*criterion))
        }
    }
}

/// Why another match that also applies takes precedence: the first criterion in which the two differ.
pub(super) fn describe_precedence(criterion: Criterion) -> &'static str {
    match criterion {
        Criterion::Hostname => "the route with the more specific hostname takes precedence",
        Criterion::PathKind => "exact takes precedence over regex, and regex over prefix",
        Criterion::PathLength => "the longer path takes precedence",
        Criterion::Rank => "the rule with the higher rank takes precedence",
        Criterion::Method => "the rule with a method takes precedence",
        Criterion::Headers => "the rule with more header matches takes precedence",
        Criterion::Query => "the rule with more query parameter matches takes precedence",
        Criterion::Cookies => "the rule with more cookie matches takes precedence",
        Criterion::Age => "the older object takes precedence",
        Criterion::Name => "the first by namespace/name takes precedence",
        Criterion::Listed => "the rule that is listed first takes precedence",
        Criterion::Api => "a route takes precedence over an equally specific Ingress rule",
        Criterion::Unread => "the path is too long for a regex of the other API, which may protect it",
    }
}

/// A filter, guard or edit that a rule applies to its requests or responses.
pub(super) fn describe_step(step: RuleStep<'_>) -> String {
    match step {
        RuleStep::Client(source) => {
            let (header, ranges) = (&source.header, source.trusted.len());
            format!("the client address comes from {header}, trusted from {ranges} ranges")
        }
        RuleStep::Guard(guard) => describe_guard(guard),
        RuleStep::Request(RequestEdit::Headers(edit)) => {
            format!("request headers: {}", describe_header_edit(edit))
        }
        RuleStep::Request(RequestEdit::Host(host)) => format!("host becomes {host}"),
        RuleStep::Request(RequestEdit::ForwardedPrefix(rewrite)) => {
            format!("x-forwarded-prefix becomes {}", describe_path_rewrite(rewrite))
        }
        RuleStep::Path(rewrite) => format!("path becomes {}", describe_path_rewrite(rewrite)),
        RuleStep::TlsBackend(backend) => format!("requests over TLS go to {backend}"),
        RuleStep::Http1(options) => describe_http1_options(options),
        RuleStep::RequestHeaders(templates) => {
            format!("request headers for all Ingresses: {}", describe_header_templates(templates))
        }
        RuleStep::ConditionalHeaders(headers) => describe_conditional_headers("request", headers),
        RuleStep::GrpcWeb => "gRPC-Web becomes gRPC".to_owned(),
        RuleStep::RetryStatuses(statuses) => {
            format!("retried on another endpoint after {}", join_statuses(statuses))
        }
        RuleStep::Buffering(buffering) => describe_buffering(buffering),
        RuleStep::Sticky(sticky) => {
            format!(
                "requests of a session stay with its backend{}",
                describe_session_carrier(&sticky.session)
            )
        }
        RuleStep::Fallback(fallback) => {
            format!("{} serves requests while there are no endpoints", fallback.backend)
        }
        RuleStep::Mirror(mirror) => {
            format!(
                "{} of {} requests are copied to {}",
                mirror.numerator, mirror.denominator, mirror.backend
            )
        }
        RuleStep::UpstreamResponse(UpstreamResponseEdit::Hide(names)) => {
            format!("removed response headers: {}", names.join(", "))
        }
        RuleStep::UpstreamResponse(UpstreamResponseEdit::Cookies(cookies)) => {
            let domain =
                cookies.domain.iter().map(|edit| format!("domain {} becomes {}", edit.from, edit.to));
            let path = cookies.path.iter().map(|edit| format!("path {} becomes {}", edit.from, edit.to));
            format!("in response cookies, {}", domain.chain(path).collect::<Vec<_>>().join(", "))
        }
        RuleStep::UpstreamResponse(UpstreamResponseEdit::Location(location)) => {
            format!("in redirects of the backend, {} becomes {}", location.url.from, location.url.to)
        }
        RuleStep::ErrorPages(pages) => match &pages.backend {
            Some(backend) => {
                format!("{backend} serves the error pages for {}", join_statuses(&pages.statuses))
            }
            None => format!("responses with {} become 404", join_statuses(&pages.statuses)),
        },
        RuleStep::Response(ResponseEdit::Cors(cors)) => {
            format!("CORS response headers: methods {}", cors.methods)
        }
        RuleStep::Response(ResponseEdit::Headers(edit)) => {
            format!("response headers: {}", describe_header_edit(edit))
        }
        RuleStep::Response(ResponseEdit::Fields(templates)) => {
            format!("response headers for all Ingresses: {}", describe_header_templates(templates))
        }
        RuleStep::Response(ResponseEdit::Chosen(headers)) => {
            describe_conditional_headers("response", headers)
        }
        RuleStep::Response(ResponseEdit::StrictTransportSecurity(value)) => {
            format!("over TLS: strict-transport-security: {value}")
        }
        RuleStep::Extension(extension) => describe_extension(extension),
        RuleStep::Compression(compression) => describe_compression(compression),
        RuleStep::HeadLimit(bytes) => format!("response heads: at most {bytes} bytes"),
        RuleStep::ResponseRate(rate) => {
            format!("responses: {} bytes per second after the first {}", rate.bytes, rate.after)
        }
        RuleStep::Unlogged => "not in the access log".to_owned(),
        RuleStep::Tracing(tracing) => describe_tracing(tracing),
    }
}

pub(super) fn describe_tracing(tracing: &Tracing) -> String {
    if tracing.is_off() {
        return "not traced".to_owned();
    }
    let client_traces = match (tracing.trust_incoming, tracing.parent_based) {
        (false, _) => "the trace of a client is not continued",
        (true, true) => "the trace of a client is continued, and sampled where the client has sampled it",
        (true, false) => "the trace of a client is continued, and sampled at the same rate",
    };
    let b3_headers = match tracing.propagation {
        Propagation::W3c => "",
        Propagation::W3cAndB3 => "; with B3 headers",
    };
    let span_name = tracing.span_name.as_ref().map(|name| format!("; span name {name}")).unwrap_or_default();
    format!(
        "traced: {} of new traces are sampled; {client_traces}{b3_headers}{span_name}",
        format_percent(tracing.ratio)
    )
}

/// A ratio in percent, with at most four decimals and no trailing zeros.
fn format_percent(ratio: SampleRatio) -> String {
    let text = format!("{:.4}", ratio.ratio() * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

fn describe_buffering(buffering: Buffering) -> String {
    let describe_buffer = |buffered_bodies: &str, buffer: Option<BodyBuffer>| {
        let BodyBuffer { memory, disk } = buffer?;
        Some(format!("{buffered_bodies} in {memory} bytes of memory and {disk} on disk"))
    };
    let requests = describe_buffer("request bodies are buffered completely,", buffering.requests);
    let responses = describe_buffer("responses are buffered for slow clients,", buffering.responses);
    requests.into_iter().chain(responses).collect::<Vec<_>>().join("; ")
}

fn describe_compression(compression: &Compression) -> String {
    let describe_coding = |rule: &CodingRule| {
        let CodingRule { coding, level, min_length, types } = rule;
        format!("{} at level {level} from {min_length} bytes ({})", coding.name(), types.join(", "))
    };
    let codings: Vec<_> = compression.codings.iter().map(describe_coding).collect();
    format!("responses are compressed for clients that accept it: {}", codings.join("; "))
}

/// What a guard demands of a request, or the response that it returns itself.
fn describe_guard(guard: &Guard) -> String {
    match guard {
        Guard::HttpsRedirect(redirect) => {
            format!("redirects plain requests to https with {}", redirect.status)
        }
        Guard::Redirect(redirect) => {
            format!("redirects with {} to {}", redirect.status, describe_redirect_target(&redirect.target))
        }
        Guard::Access(access) => describe_access_list(access),
        Guard::ClientCertificate(certificate) => {
            format!("client certificates: {}", describe_client_certificate(certificate))
        }
        Guard::OverTls => "plain HTTP requests get 403".to_owned(),
        Guard::Deny(deny) if *deny == Deny::line_breaks() => {
            format!("returns {} for paths with a line break", deny.status)
        }
        Guard::Deny(deny) => {
            format!("returns {} if one of {} conditions holds", deny.status, deny.when.len())
        }
        Guard::Respond(response) => {
            format!(
                "returns {}{} ({})",
                response.status,
                describe_conditions(&response.when),
                response.origin
            )
        }
        Guard::NeedsEndpoint => "returns 503 while there are no endpoints".to_owned(),
        Guard::Preflight(cors) => format!("CORS preflights: methods {}", cors.methods),
        Guard::ExternalAuth(auth) => describe_external_auth(auth),
        Guard::GrpcAuth(auth) => describe_grpc_auth(auth),
        Guard::BasicAuth(auth) => describe_basic_auth(auth),
        Guard::Jwt(auth) => describe_jwt_auth(auth),
        Guard::Oidc(auth) => describe_oidc_auth(auth),
        Guard::ApiKey(auth) => describe_api_key_auth(auth),
        Guard::Authorize(authorization) => describe_authorization(authorization),
        Guard::Any(any_of) => {
            let guards = [
                any_of.access.as_ref().map(describe_access_list),
                any_of.jwt.as_deref().map(describe_jwt_auth),
                any_of.api_key.as_deref().map(describe_api_key_auth),
                any_of.basic.as_ref().map(describe_basic_auth),
                any_of.external.as_deref().map(describe_external_auth),
            ];
            format!(
                "any one of these is enough: {}",
                guards.into_iter().flatten().collect::<Vec<_>>().join("; ")
            )
        }
        Guard::RateLimit(limit) => format!(
            "at most {} requests per {} s and client, with a burst of {}{}; otherwise {}",
            limit.requests,
            limit.per.as_secs(),
            limit.burst,
            if limit.scope == LimitScope::Fleet { ", across all replicas" } else { "" },
            limit.status
        ),
        Guard::ConcurrencyLimit(limit) => {
            format!("at most {} concurrent requests per client; otherwise {}", limit.max, limit.status)
        }
    }
}

/// `message` is `request` or `response`.
fn describe_conditional_headers(message: &str, headers: &ConditionalHeaders) -> String {
    let added = if headers.operation == HeaderOperation::Add { " added" } else { "" };
    let fields: Vec<_> =
        headers.fields.iter().map(|field| format!("{}: {}", field.name, field.value)).collect();
    let conditions = describe_conditions(&headers.when);
    format!("{message} headers{added}: {}{conditions} ({})", fields.join(", "), headers.origin)
}

/// How many conditions must hold; empty for an unconditional action.
fn describe_conditions(conditions: &[Condition]) -> String {
    match conditions.len() {
        0 => String::new(),
        1 => " if 1 condition holds".to_owned(),
        count => format!(" if {count} conditions hold"),
    }
}

/// The HTTP version and `Connection` header that an upstream request has.
fn describe_http1_options(options: Http1Options) -> String {
    let version = match options.version {
        Http1Version::Http11 => "HTTP/1.1",
        Http1Version::Http10 => "HTTP/1.0",
    };
    let connection = match options.connection {
        ConnectionHeader::Unsaid => "",
        ConnectionHeader::Close => " and Connection: close",
        ConnectionHeader::KeepAlive => " and Connection: keep-alive",
    };
    format!("the backend gets {version}{connection}")
}

fn describe_external_auth(auth: &ExternalAuth) -> String {
    format!("external authentication by {} ({})", auth.service, auth.target)
}

fn describe_grpc_auth(auth: &GrpcAuth) -> String {
    let body = match (auth.max_body, auth.allow_partial_body) {
        (0, _) => String::new(),
        (bytes, true) => format!(", with the first {bytes} bytes of its body"),
        (bytes, false) => format!(", with the whole body of at most {bytes} bytes, otherwise 413"),
    };
    let on_no_response = if auth.failure_mode_allow { "allowed" } else { "500" };
    format!(
        "external authorization by {} over gRPC{body}; without a response: {on_no_response}",
        auth.service.backend
    )
}

fn describe_extension(extension: &Extension) -> String {
    let processed =
        [("requests", extension.request), ("responses", extension.response)].map(|(messages, phases)| {
            let body = match phases.body {
                BodyMode::None => None,
                BodyMode::Streamed => Some("streamed body"),
                BodyMode::Buffered => Some("buffered body"),
                BodyMode::BufferedPartial => Some("beginning of the body"),
                BodyMode::FullDuplexStreamed => Some("body in full duplex"),
            };
            let parts = [phases.headers.then_some("headers"), body, phases.trailers.then_some("trailers")];
            let parts: Vec<_> = parts.into_iter().flatten().collect();
            if parts.is_empty() {
                format!("nothing of {messages}")
            } else {
                format!("{} of {messages}", parts.join(", "))
            }
        });
    let on_no_response = if extension.failure_mode_allow { "not processed" } else { "500" };
    format!(
        "{} processes {} ({}); without a response: {on_no_response}",
        extension.service.backend,
        processed.join(" and "),
        extension.name
    )
}

fn describe_basic_auth(auth: &BasicAuth) -> String {
    format!("basic authentication with the users of {}; otherwise 401", auth.policy)
}

fn describe_jwt_auth(auth: &JwtAuth) -> String {
    let describe_issuer = |issuer: &JwtIssuer| {
        let keys = match &issuer.keys {
            JwtKeys::Inline(_) => "keys from the configuration".to_owned(),
            JwtKeys::Published(keys) => format!("keys from {} at {}", keys.host, keys.backend),
        };
        let audiences = match &*issuer.audiences {
            [] => "without audience".to_owned(),
            audiences => format!("for {}", audiences.join(" or ")),
        };
        let claims =
            issuer.claims.iter().map(|claim| format!("{} is {}", claim.claim, claim.values.join(" or ")));
        let scopes = issuer.scopes.iter().map(|scope| format!("scope {scope}"));
        let requirements = claims.chain(scopes).collect::<Vec<_>>();
        let requirements = if requirements.is_empty() {
            String::new()
        } else {
            format!(", with {}", requirements.join(", "))
        };
        format!("{} {audiences}{requirements} ({keys})", issuer.issuer)
    };
    let issuers = auth.issuers.iter().map(describe_issuer).collect::<Vec<_>>().join("; ");
    format!("requires a JWT in {}: {issuers}; otherwise 401", describe_locations(&auth.locations))
}

fn describe_oidc_auth(auth: &OidcAuth) -> String {
    let claims = auth.claims.iter().map(|claim| format!("{} is {}", claim.claim, claim.values.join(" or ")));
    let requirements = claims.collect::<Vec<_>>();
    let requirements =
        if requirements.is_empty() { String::new() } else { format!(", if {}", requirements.join(", ")) };
    let logout = auth.paths.back_channel_logout.as_ref();
    let logout = logout.map(|path| format!(", back-channel logout {path}")).unwrap_or_default();
    format!(
        "requires a login at {} as client {}{requirements}; browsers are redirected there, other clients get 401 \
         (callback {}, logout {}{logout})",
        auth.issuer, auth.client_id, auth.paths.callback, auth.paths.logout
    )
}

fn describe_api_key_auth(auth: &ApiKeyAuth) -> String {
    format!(
        "requires an API key of {} in {}; otherwise 401",
        auth.policy,
        describe_locations(&auth.locations)
    )
}

fn describe_locations(locations: &[CredentialLocation]) -> String {
    let describe_location = |location: &CredentialLocation| match location {
        CredentialLocation::Header { name, .. } => format!("header {name}"),
        CredentialLocation::Cookie(name) => format!("cookie {name}"),
        CredentialLocation::Query(name) => format!("parameter {name}"),
    };
    locations.iter().map(describe_location).collect::<Vec<_>>().join(" or ")
}

fn describe_authorization(authorization: &Authorization) -> String {
    let describe_rule = |rule: &AuthorizationRule| {
        let one_of = |property: &str, values: Vec<String>| {
            (!values.is_empty()).then(|| format!("{property} {}", values.join(" or ")))
        };
        let to_strings = |values: &[std::sync::Arc<str>]| values.iter().map(ToString::to_string).collect();
        let claims =
            rule.claims.iter().map(|claim| format!("{} is {}", claim.claim, claim.values.join(" or ")));
        let scopes = rule.scopes.iter().map(|scope| format!("scope {scope}"));
        let headers = rule.headers.iter().map(|header| format!("header {}", header.name));
        let sources = rule.sources.iter().map(ToString::to_string).collect();
        let value_lists = [
            one_of("address in", sources),
            one_of("country", rule.countries.iter().map(ToString::to_string).collect()),
            one_of("autonomous system", rule.asns.iter().map(ToString::to_string).collect()),
            one_of("method", to_strings(&rule.methods)),
            one_of("API key of", to_strings(&rule.clients)),
        ];
        let conditions: Vec<_> =
            value_lists.into_iter().flatten().chain(claims).chain(scopes).chain(headers).collect();
        let verb = if rule.decision == Decision::Allow { "allows" } else { "denies" };
        match conditions.is_empty() {
            true => format!("{verb} all"),
            false => format!("{verb} {}", conditions.join(" and ")),
        }
    };
    let otherwise = if authorization.otherwise() == Decision::Allow {
        "allows the rest"
    } else {
        "denies the rest with 403"
    };
    let rules = authorization.rules.iter().map(describe_rule).collect::<Vec<_>>().join("; ");
    format!("{rules}; {otherwise}")
}

fn join_statuses(statuses: &[u16]) -> String {
    statuses.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

fn describe_redirect_target(target: &RedirectTarget) -> String {
    match target {
        RedirectTarget::Url(url) => url.to_string(),
        RedirectTarget::Path(path) => format!("path {path}"),
        RedirectTarget::Host(host) => format!("the same on {host}"),
        RedirectTarget::Parts { scheme, host, port, path, .. } => {
            let scheme = scheme.iter().map(|scheme| format!("scheme {scheme}"));
            let host = host.iter().map(|host| format!("host {host}"));
            let port = port.iter().map(|port| format!("port {port}"));
            let path = path.iter().map(|path| format!("path {}", describe_path_rewrite(path)));
            scheme.chain(host).chain(port).chain(path).collect::<Vec<_>>().join(", ")
        }
    }
}

fn describe_access_list(access: &AccessList) -> String {
    let join_ranges =
        |ranges: &[ipnet::IpNet]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (access.deny.is_empty(), access.allow.is_empty()) {
        (true, false) => format!("only clients in {}; others get 403", join_ranges(&access.allow)),
        (false, true) => format!("no clients in {}; they get 403", join_ranges(&access.deny)),
        _ => format!(
            "clients in {} but not in {}; others get 403",
            join_ranges(&access.allow),
            join_ranges(&access.deny)
        ),
    }
}

/// Removed headers are marked `-`, added ones `+`, and replaced ones have no mark.
fn describe_header_edit(edit: &HeaderEdit) -> String {
    let removed = edit.remove.iter().map(|name| format!("-{name}"));
    let set = edit.set.iter().map(|field| format!("{}={}", field.name, field.value));
    let added = edit.add.iter().map(|field| format!("+{}={}", field.name, field.value));
    removed.chain(set).chain(added).collect::<Vec<_>>().join(", ")
}

fn describe_header_templates(templates: &[HeaderTemplate]) -> String {
    let assignments = templates.iter().map(|field| format!("{}={}", field.name, field.value));
    assignments.collect::<Vec<_>>().join(", ")
}

fn describe_path_rewrite(rewrite: &PathRewrite) -> String {
    match rewrite {
        PathRewrite::Full(path) => path.to_string(),
        PathRewrite::Prefix(path) => format!("{path} instead of the matched prefix"),
        PathRewrite::Regex { pattern, replacement, .. } => format!("{replacement} where {pattern} matches"),
    }
}

/// Why a rule returns a response of its own instead of forwarding the request.
pub(super) fn describe_response_reason(reason: FixedResponseReason) -> &'static str {
    match reason {
        FixedResponseReason::ProtectionUnavailable => {
            "the object asks for unsupported protection, the rule fails closed"
        }
        FixedResponseReason::Refused => {
            "the object asks for protection, with a value that ingress-nginx refuses"
        }
        FixedResponseReason::ExtensionUnavailable => {
            "a service that must process its requests is unavailable, the rule fails closed"
        }
        FixedResponseReason::MissingReference => "an object that the rule refers to does not exist",
        FixedResponseReason::NoRoute => "no rule matches",
    }
}

pub(super) fn describe_balancing(balancing: Balancing) -> &'static str {
    match balancing {
        Balancing::RoundRobin => "round robin",
        Balancing::PeakEwma => "peak EWMA of two",
        Balancing::LeastRequests => "least requests",
        Balancing::Random => "random",
    }
}

/// The session affinity of a backend. It follows the name of the load balancing algorithm, hence the leading comma.
pub(super) fn describe_affinity(affinity: &SessionKey) -> String {
    match affinity {
        SessionKey::Cookie(cookie) => match cookie.begins {
            SessionStart::Here => format!(", sessions{}", describe_session_carrier(cookie)),
            SessionStart::Elsewhere => {
                format!(", sessions{}, which is not set here", describe_session_carrier(cookie))
            }
        },
        SessionKey::Hash(SessionHash { spread: None, .. }) => ", one endpoint per hash".to_owned(),
        SessionKey::Hash(SessionHash { spread: Some(count), .. }) => format!(", {count} endpoints per hash"),
    }
}

/// The cookie or header that carries the session token, with a leading space.
fn describe_session_carrier(session: &SessionCookie) -> String {
    match session.carrier {
        SessionCarrier::Cookie => format!(" by cookie {}", session.name),
        SessionCarrier::Header => format!(" by header {}", session.name),
    }
}

/// The HTTP versions of a listener. `early_data` says whether HTTP/3 accepts early data; it is `None` for a listener
/// without HTTP/3.
pub(super) fn describe_http_versions(http2: Http2Settings, early_data: Option<bool>) -> String {
    let over_tcp = match http2 {
        Http2Settings { offered: true, streams } => {
            format!("HTTP/2 with at most {streams} streams, HTTP/1.1")
        }
        Http2Settings { offered: false, .. } => "HTTP/1.1".to_owned(),
    };
    match early_data {
        None => over_tcp,
        Some(false) => format!("HTTP/3, {over_tcp}"),
        Some(true) => format!("HTTP/3 with early data, {over_tcp}"),
    }
}

/// The HTTP versions for a backend, and how its certificate is verified if the connection uses TLS.
pub(super) fn describe_backend_protocol(
    protocol: BackendProtocol,
    tls: Option<&fairway_model::UpstreamTls>,
) -> String {
    let http_versions = match protocol {
        BackendProtocol::Http1 => "HTTP/1.1",
        BackendProtocol::H2c | BackendProtocol::Http2 => "HTTP/2",
        BackendProtocol::Auto => "HTTP/2 or HTTP/1.1",
    };
    match tls.map(|tls| &tls.verification) {
        None => http_versions.to_owned(),
        Some(UpstreamVerification::Off) => format!("{http_versions} over TLS, not verified"),
        Some(UpstreamVerification::Chain { name, .. }) => {
            format!("{http_versions} over TLS, verified for {name}")
        }
        Some(UpstreamVerification::Subject { names, .. }) => {
            let names: Vec<&str> = names
                .iter()
                .map(|name| match name {
                    SubjectName::Dns(name) | SubjectName::Uri(name) => &**name,
                })
                .collect();
            format!("{http_versions} over TLS, verified for {}", names.join(" or "))
        }
    }
}

pub(super) fn describe_policy(policy: &Policy) -> String {
    let format_seconds = |duration: Duration| format!("{} s", duration.as_secs_f64());
    let timeouts = &policy.timeouts;
    let body = policy.max_body.map_or("unlimited".into(), |bytes| format!("at most {bytes} bytes"));
    let request = timeouts.request.map(|limit| format!(", request {}", format_seconds(limit)));
    let attempt = timeouts.backend_request.map(|limit| format!(", attempt {}", format_seconds(limit)));
    let backoff = (!policy.retry.backoff.is_zero())
        .then(|| format!(", backoff {}", format_seconds(policy.retry.backoff)));
    format!(
        "connect {}, send {}, read {}{}{}; body {body}; {} attempts{}; WebSocket {}",
        format_seconds(timeouts.connect),
        format_seconds(timeouts.send),
        format_seconds(timeouts.read),
        request.unwrap_or_default(),
        attempt.unwrap_or_default(),
        policy.retry.tries,
        backoff.unwrap_or_default(),
        if policy.websocket { "yes" } else { "no" },
    )
}

fn describe_client_certificate(certificate: &ClientCertificate) -> String {
    let verification = match certificate.rules.demand {
        ClientCertificateMode::Required => "required",
        ClientCertificateMode::Optional => "valid if present",
        ClientCertificateMode::Unverified => "not verified, reported to the backend",
    };
    let subject = certificate.subject.iter().map(|subject| format!("; the subject matches {subject}"));
    let page = certificate.error_page.iter().map(|page| format!("; others are sent to {page}"));
    let forwarded = certificate.forwarded.then(|| "; forwarded".to_owned());
    [verification.to_owned()].into_iter().chain(subject).chain(page).chain(forwarded).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairway_model::Template;

    use super::*;

    #[test]
    fn the_sample_ratio_is_shown_in_percent() {
        assert_eq!(describe_tracing(&Tracing::default()), "not traced");
        for (ratio, percent) in [(1.0, "100%"), (0.1, "10%"), (0.01, "1%"), (0.0005, "0.05%")] {
            let tracing = Tracing { ratio: SampleRatio::new(ratio).unwrap(), ..Tracing::default() };
            let expected_text = format!(
                "traced: {percent} of new traces are sampled; the trace of a client is not continued"
            );
            assert_eq!(describe_tracing(&tracing), expected_text);
        }
        let tracing = Tracing {
            ratio: SampleRatio::NONE,
            parent_based: true,
            trust_incoming: true,
            propagation: Propagation::W3cAndB3,
            span_name: Some(Arc::new(Template::text("cart"))),
        };
        let expected = "traced: 0% of new traces are sampled; the trace of a client is continued, and \
                        sampled where the client has sampled it; with B3 headers; span name cart";
        assert_eq!(describe_tracing(&tracing), expected);
    }
}
