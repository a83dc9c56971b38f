//! How parts of a configuration are said to people.

use std::time::Duration;

use fairway_model::{
    AccessList, AnswerEdit, AnswerReason, ApiKeyAuth, Authorization, AuthorizationRule, BackendProtocol,
    Balancing, BasicAuth, BodyBuffer, BodyMode, Buffering, ChosenFields, ClientCertificate, ClientDemand,
    CodingRule, Compression, Condition, CredentialLocation, Decision, Deny, EndpointHop, Extension,
    ExternalAuth, FieldMatch, FieldTemplate, GrpcAuth, Guard, HeaderEdit, HopConnection, HopVersion,
    Http2Settings, JwtAuth, JwtIssuer, JwtKeys, LimitScope, Manner, Match, OidcAuth, PathMatch, PathRewrite,
    Policy, Propagation, ReceivedEdit, RedirectTarget, RequestEdit, SampleRatio, SessionCarrier,
    SessionCookie, SessionHash, SessionKey, SessionStart, Step, SubjectName, TextMatch, Tracing,
    UpstreamVerification,
};
use fairway_routing::MatchVerdict;
use fairway_routing::explain::Criterion;

pub(super) fn matched(it: &Match) -> String {
    let mut parts = vec![path(&it.path)];
    parts.extend(it.method.iter().map(|method| format!("method {method}")));
    parts.extend(it.headers.iter().map(|field| format!("header {}", condition(field))));
    parts.extend(it.query.iter().map(|field| format!("query {}", condition(field))));
    parts.extend(it.cookies.iter().map(|field| format!("cookie {}", condition(field))));
    parts.join(", ")
}

fn path(it: &PathMatch) -> String {
    match it {
        PathMatch::Exact(path) => format!("exact {path}"),
        PathMatch::Prefix(path) => format!("prefix {path}"),
        PathMatch::Regex { pattern, ignore_case: true } => format!("regex {pattern} (ignoring case)"),
        PathMatch::Regex { pattern, ignore_case: false } => format!("regex {pattern}"),
    }
}

fn condition(it: &FieldMatch) -> String {
    match &it.value {
        TextMatch::Exact(value) => format!("{} = {value}", it.name),
        TextMatch::Regex(pattern) => format!("{} ~ {pattern}", it.name),
    }
}

pub(super) fn verdict(it: &MatchVerdict) -> String {
    match it {
        MatchVerdict::Wins => "wins".into(),
        MatchVerdict::Path => "the path is another".into(),
        MatchVerdict::Method => "the method is another".into(),
        MatchVerdict::Header(name) => format!("the header {name} is absent or another"),
        MatchVerdict::Query(name) => format!("the query parameter {name} is absent or another"),
        MatchVerdict::Cookie(name) => format!("the cookie {name} is absent or another"),
        MatchVerdict::Invalid(why) => format!("never applies: {why}"),
        MatchVerdict::Outranked(criterion) => format!("applies too, but {}", outranked(*criterion)),
    }
}

pub(super) fn outranked(criterion: Criterion) -> &'static str {
    match criterion {
        Criterion::Hostname => "the route with the more specific hostname is first",
        Criterion::PathKind => "exact is before regex, and regex before prefix",
        Criterion::PathLength => "the longer path is first",
        Criterion::Rank => "the rule with the higher rank is first",
        Criterion::Method => "a rule that asks for a method is first",
        Criterion::Headers => "the rule that asks for more headers is first",
        Criterion::Query => "the rule that asks for more query parameters is first",
        Criterion::Cookies => "the rule that asks for more cookies is first",
        Criterion::Age => "the older object is first",
        Criterion::Name => "the first by namespace/name counts",
        Criterion::Listed => "the one that is listed first counts",
        Criterion::Api => "a rule of a route is before one of an Ingress that is as specific",
        Criterion::Unread => "an expression of the other API reads no path so long, and may protect it",
    }
}

/// One thing that a rule does.
pub(super) fn step(it: Step<'_>) -> String {
    match it {
        Step::Client(it) => {
            let (header, ranges) = (&it.header, it.trusted.len());
            format!("the client is whom {header} names, where one of {ranges} ranges says it")
        }
        Step::Guard(it) => guard(it),
        Step::Request(RequestEdit::Headers(it)) => format!("request headers: {}", edit(it)),
        Step::Request(RequestEdit::Host(host)) => format!("host becomes {host}"),
        Step::Request(RequestEdit::ForwardedPrefix(it)) => {
            format!("x-forwarded-prefix becomes {}", rewrite(it))
        }
        Step::Path(it) => format!("path becomes {}", rewrite(it)),
        Step::Secured(it) => format!("requests over TLS go to {it}"),
        Step::Hop(it) => hop(it),
        Step::EndpointFields(it) => format!("request headers of all Ingresses: {}", fields(it)),
        Step::Chosen(it) => chosen("request", it),
        Step::GrpcWeb => "gRPC-Web becomes gRPC".to_owned(),
        Step::RetryStatuses(it) => format!("tried again elsewhere after {}", list(it)),
        Step::Buffering(it) => buffering(it),
        Step::Sticky(it) => format!("requests of a session stay with its backend{}", carrier(&it.session)),
        Step::Fallback(it) => format!("{} serves while there are no endpoints", it.backend),
        Step::Mirror(it) => {
            format!("{} of {} requests are copied to {}", it.numerator, it.denominator, it.backend)
        }
        Step::Received(ReceivedEdit::Hide(it)) => {
            format!("response headers that are hidden: {}", it.join(", "))
        }
        Step::Received(ReceivedEdit::Cookies(it)) => {
            let domain = it.domain.iter().map(|it| format!("domain {} becomes {}", it.from, it.to));
            let path = it.path.iter().map(|it| format!("path {} becomes {}", it.from, it.to));
            format!("in cookies of answers, {}", domain.chain(path).collect::<Vec<_>>().join(", "))
        }
        Step::Received(ReceivedEdit::Location(it)) => {
            format!("in redirects of the backend, {} becomes {}", it.url.from, it.url.to)
        }
        Step::Pages(it) => match &it.backend {
            Some(backend) => format!("{backend} makes the answers with {}", list(&it.statuses)),
            None => format!("answers with {} become 404", list(&it.statuses)),
        },
        Step::Answer(AnswerEdit::Cors(it)) => {
            format!("response headers for other origins: methods {}", it.methods)
        }
        Step::Answer(AnswerEdit::Headers(it)) => format!("response headers: {}", edit(it)),
        Step::Answer(AnswerEdit::Fields(it)) => format!("response headers of all Ingresses: {}", fields(it)),
        Step::Answer(AnswerEdit::Chosen(it)) => chosen("response", it),
        Step::Answer(AnswerEdit::StrictTransportSecurity(value)) => {
            format!("over TLS: strict-transport-security: {value}")
        }
        Step::Extension(it) => extension(it),
        Step::Compression(it) => compression(it),
        Step::HeadBound(bytes) => format!("heads of answers may have {bytes} bytes"),
        Step::Rate(it) => format!("answers go at {} bytes per second after the first {}", it.bytes, it.after),
        Step::Unlogged => "not in the access log".to_owned(),
        Step::Tracing(tracing) => traced(tracing),
    }
}

/// How requests are traced.
pub(super) fn traced(it: &Tracing) -> String {
    if it.is_off() {
        return "not traced".to_owned();
    }
    let clients = match (it.trust_incoming, it.parent_based) {
        (false, _) => "the trace of a client is not continued",
        (true, true) => "the trace of a client is continued, and sampled where the client has sampled it",
        (true, false) => "the trace of a client is continued, and sampled at the same rate",
    };
    let b3 = match it.propagation {
        Propagation::W3c => "",
        Propagation::W3cAndB3 => "; headers of B3, too",
    };
    let name = it.span_name.as_ref().map(|name| format!("; spans are called {name}")).unwrap_or_default();
    format!("traced: {} of new traces are sampled; {clients}{b3}{name}", percent(it.ratio))
}

fn percent(share: SampleRatio) -> String {
    let text = format!("{:.4}", share.ratio() * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

fn buffering(it: Buffering) -> String {
    let bodies = |of: &str, buffer: Option<BodyBuffer>| {
        let BodyBuffer { memory, disk } = buffer?;
        Some(format!("{of} in {memory} bytes of memory and {disk} on disk"))
    };
    let requests = bodies("request bodies are held until they are whole,", it.requests);
    let responses = bodies("responses are read ahead of slow clients,", it.responses);
    requests.into_iter().chain(responses).collect::<Vec<_>>().join("; ")
}

fn compression(it: &Compression) -> String {
    let coding = |rule: &CodingRule| {
        let CodingRule { coding, level, min_length, types } = rule;
        format!("{} at level {level} from {min_length} bytes ({})", coding.name(), types.join(", "))
    };
    let codings: Vec<_> = it.codings.iter().map(coding).collect();
    format!("responses are compressed for clients that accept it: {}", codings.join("; "))
}

fn guard(it: &Guard) -> String {
    match it {
        Guard::HttpsRedirect(it) => format!("redirects plain requests to https with {}", it.status),
        Guard::Redirect(it) => format!("redirects with {} to {}", it.status, redirect(&it.target)),
        Guard::Access(it) => access(it),
        Guard::ClientCertificate(it) => format!("certificates of clients: {}", certificate(it)),
        Guard::OverTls => "requests in the clear are answered 403".to_owned(),
        Guard::Deny(it) if *it == Deny::line_breaks() => {
            format!("refuses with {} paths with a line break", it.status)
        }
        Guard::Deny(it) => {
            format!("refuses with {} what one of {} conditions covers", it.status, it.when.len())
        }
        Guard::Respond(it) => {
            format!("answers {}{} ({})", it.status, where_hold(&it.when), it.origin)
        }
        Guard::NeedsEndpoint => "answers 503 while there are no endpoints".to_owned(),
        Guard::Preflight(it) => format!("cross-origin resource sharing: methods {}", it.methods),
        Guard::ExternalAuth(it) => external(it),
        Guard::GrpcAuth(it) => over_grpc(it),
        Guard::BasicAuth(it) => basic(it),
        Guard::Jwt(it) => token(it),
        Guard::Oidc(it) => login(it),
        Guard::ApiKey(it) => api_key(it),
        Guard::Authorize(it) => authorization(it),
        Guard::Any(it) => {
            let guards = [
                it.access.as_ref().map(access),
                it.jwt.as_deref().map(token),
                it.api_key.as_deref().map(api_key),
                it.basic.as_ref().map(basic),
                it.external.as_deref().map(external),
            ];
            format!("one is enough: {}", guards.into_iter().flatten().collect::<Vec<_>>().join("; "))
        }
        Guard::RateLimit(it) => format!(
            "at most {} requests in {} s of each client, {} of them early{}; else {}",
            it.requests,
            it.per.as_secs(),
            it.burst,
            if it.scope == LimitScope::Fleet { ", at all replicas together" } else { "" },
            it.status
        ),
        Guard::ConcurrencyLimit(it) => {
            format!("at most {} requests of each client under way; else {}", it.most, it.status)
        }
    }
}

fn chosen(of: &str, it: &ChosenFields) -> String {
    let how = if it.manner == Manner::Add { " besides" } else { "" };
    let named = it.fields.iter().map(|field| format!("{}: {}", field.name, field.value)).collect::<Vec<_>>();
    let when = where_hold(&it.when);
    format!("{of} headers{how}: {}{when} ({})", named.join(", "), it.origin)
}

fn where_hold(when: &[Condition]) -> String {
    match when.len() {
        0 => String::new(),
        1 => " where 1 condition holds".to_owned(),
        several => format!(" where {several} conditions hold"),
    }
}

fn hop(it: EndpointHop) -> String {
    let version = match it.version {
        HopVersion::Http11 => "HTTP/1.1",
        HopVersion::Http10 => "HTTP/1.0",
    };
    let connection = match it.connection {
        HopConnection::Unsaid => "",
        HopConnection::Close => " and Connection: close",
        HopConnection::KeepAlive => " and Connection: keep-alive",
    };
    format!("the backend gets {version}{connection}")
}

fn external(it: &ExternalAuth) -> String {
    format!("asks {} ({}) whether it may pass", it.service, it.target)
}

fn over_grpc(it: &GrpcAuth) -> String {
    let body = match (it.max_body, it.allow_partial_body) {
        (0, _) => String::new(),
        (bytes, true) => format!(", with the first {bytes} bytes of its body"),
        (bytes, false) => format!(", with a body of {bytes} bytes at most, else 413"),
    };
    let without = if it.failure_mode_allow { "passes" } else { "500" };
    format!("asks {} over gRPC whether it may pass{body}; without a response {without}", it.service.backend)
}

fn extension(it: &Extension) -> String {
    let sees = [("requests", it.request), ("responses", it.response)].map(|(of, phases)| {
        let body = match phases.body {
            BodyMode::None => None,
            BodyMode::Streamed => Some("streamed body"),
            BodyMode::Buffered => Some("buffered body"),
            BodyMode::BufferedPartial => Some("beginning of the body"),
            BodyMode::FullDuplexStreamed => Some("body in full duplex"),
        };
        let parts = [phases.headers.then_some("headers"), body, phases.trailers.then_some("trailers")];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        if parts.is_empty() { format!("nothing of {of}") } else { format!("{} of {of}", parts.join(", ")) }
    });
    let without = if it.failure_mode_allow { "they go on" } else { "500" };
    format!("{} sees {} ({}); without it {without}", it.service.backend, sees.join(" and "), it.name)
}

fn basic(it: &BasicAuth) -> String {
    format!("asks for the password of a user of {}; else 401", it.policy)
}

fn token(it: &JwtAuth) -> String {
    let issuer = |issuer: &JwtIssuer| {
        let keys = match &issuer.keys {
            JwtKeys::Inline(_) => "keys from the configuration".to_owned(),
            JwtKeys::Published(keys) => format!("keys from {} at {}", keys.host, keys.backend),
        };
        let audiences = match &*issuer.audiences {
            [] => "without audience".to_owned(),
            some => format!("for {}", some.join(" or ")),
        };
        let claims = issuer.claims.iter().map(|of| format!("{} is {}", of.claim, of.values.join(" or ")));
        let scopes = issuer.scopes.iter().map(|scope| format!("scope {scope}"));
        let needs = claims.chain(scopes).collect::<Vec<_>>();
        let needs = if needs.is_empty() { String::new() } else { format!(", with {}", needs.join(", ")) };
        format!("{} {audiences}{needs} ({keys})", issuer.issuer)
    };
    let issuers = it.issuers.iter().map(issuer).collect::<Vec<_>>().join("; ");
    format!("asks for a token in {}: {issuers}; else 401", locations(&it.locations))
}

fn login(it: &OidcAuth) -> String {
    let claims = it.claims.iter().map(|of| format!("{} is {}", of.claim, of.values.join(" or ")));
    let needs = claims.collect::<Vec<_>>();
    let needs = if needs.is_empty() { String::new() } else { format!(", if {}", needs.join(", ")) };
    let told = it.paths.back_channel_logout.as_ref();
    let told = told.map(|path| format!(", told of logouts at {path}")).unwrap_or_default();
    format!(
        "lets users pass who have logged in at {} as client {}{needs}; browsers of others are sent there, else 401 (back at {}, out at {}{told})",
        it.issuer, it.client_id, it.paths.callback, it.paths.logout
    )
}

fn api_key(it: &ApiKeyAuth) -> String {
    format!("asks for an API key of {} in {}; else 401", it.policy, locations(&it.locations))
}

fn locations(all: &[CredentialLocation]) -> String {
    let location = |location: &CredentialLocation| match location {
        CredentialLocation::Header { name, .. } => format!("header {name}"),
        CredentialLocation::Cookie(name) => format!("cookie {name}"),
        CredentialLocation::Query(name) => format!("parameter {name}"),
    };
    all.iter().map(location).collect::<Vec<_>>().join(" or ")
}

fn authorization(it: &Authorization) -> String {
    let rule = |rule: &AuthorizationRule| {
        let any = |what: &str, values: Vec<String>| {
            (!values.is_empty()).then(|| format!("{what} {}", values.join(" or ")))
        };
        let texts = |values: &[std::sync::Arc<str>]| values.iter().map(ToString::to_string).collect();
        let claims = rule.claims.iter().map(|of| format!("{} is {}", of.claim, of.values.join(" or ")));
        let scopes = rule.scopes.iter().map(|scope| format!("scope {scope}"));
        let headers = rule.headers.iter().map(|header| format!("header {}", header.name));
        let sources = rule.sources.iter().map(ToString::to_string).collect();
        let conditions = [
            any("address in", sources),
            any("country", rule.countries.iter().map(ToString::to_string).collect()),
            any("autonomous system", rule.asns.iter().map(ToString::to_string).collect()),
            any("method", texts(&rule.methods)),
            any("API key of", texts(&rule.clients)),
        ];
        let all: Vec<_> =
            conditions.into_iter().flatten().chain(claims).chain(scopes).chain(headers).collect();
        let verb = if rule.decision == Decision::Allow { "allows" } else { "denies" };
        match all.is_empty() {
            true => format!("{verb} all"),
            false => format!("{verb} {}", all.join(" and ")),
        }
    };
    let otherwise =
        if it.otherwise() == Decision::Allow { "allows the rest" } else { "denies the rest with 403" };
    let rules = it.rules.iter().map(rule).collect::<Vec<_>>().join("; ");
    format!("{rules}; {otherwise}")
}

fn list(statuses: &[u16]) -> String {
    statuses.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

fn redirect(it: &RedirectTarget) -> String {
    match it {
        RedirectTarget::Url(url) => url.to_string(),
        RedirectTarget::Path(path) => format!("path {path}"),
        RedirectTarget::Host(host) => format!("the same on {host}"),
        RedirectTarget::Parts { scheme, host, port, path, .. } => {
            let scheme = scheme.iter().map(|scheme| format!("scheme {scheme}"));
            let host = host.iter().map(|host| format!("host {host}"));
            let port = port.iter().map(|port| format!("port {port}"));
            let path = path.iter().map(|path| format!("path {}", rewrite(path)));
            scheme.chain(host).chain(port).chain(path).collect::<Vec<_>>().join(", ")
        }
    }
}

fn access(it: &AccessList) -> String {
    let list =
        |ranges: &[ipnet::IpNet]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (it.deny.is_empty(), it.allow.is_empty()) {
        (true, false) => format!("only clients in {}; others are answered 403", list(&it.allow)),
        (false, true) => format!("no clients in {}; they are answered 403", list(&it.deny)),
        _ => format!("clients in {} but not in {}; others 403", list(&it.allow), list(&it.deny)),
    }
}

fn edit(it: &HeaderEdit) -> String {
    let removed = it.remove.iter().map(|name| format!("-{name}"));
    let set = it.set.iter().map(|field| format!("{}={}", field.name, field.value));
    let added = it.add.iter().map(|field| format!("+{}={}", field.name, field.value));
    removed.chain(set).chain(added).collect::<Vec<_>>().join(", ")
}

fn fields(it: &[FieldTemplate]) -> String {
    let all = it.iter().map(|field| format!("{}={}", field.name, field.value));
    all.collect::<Vec<_>>().join(", ")
}

fn rewrite(it: &PathRewrite) -> String {
    match it {
        PathRewrite::Full(path) => path.to_string(),
        PathRewrite::Prefix(path) => format!("{path} instead of the matched prefix"),
        PathRewrite::Regex { pattern, replacement, .. } => format!("{replacement} where {pattern} is found"),
    }
}

pub(super) fn reason(it: AnswerReason) -> &'static str {
    match it {
        AnswerReason::ProtectionUnavailable => {
            "the object asks for protection that is not given yet: closed, not open"
        }
        AnswerReason::Refused => "the object has a value that ingress-nginx refuses, and asks for protection",
        AnswerReason::ExtensionUnavailable => {
            "a service that must see its requests cannot be asked: closed, not open"
        }
        AnswerReason::MissingReference => "what the rule refers to does not exist",
        AnswerReason::NoRoute => "no rule matches",
    }
}

pub(super) fn balancing(it: Balancing) -> &'static str {
    match it {
        Balancing::RoundRobin => "round robin",
        Balancing::PeakEwma => "peak EWMA of two",
        Balancing::LeastRequests => "least requests",
        Balancing::Random => "random",
    }
}

/// What keeps requests at one endpoint.
pub(super) fn session(it: &SessionKey) -> String {
    match it {
        SessionKey::Cookie(cookie) => match cookie.begins {
            SessionStart::Here => format!(", sessions{}", carrier(cookie)),
            SessionStart::Elsewhere => format!(", sessions{}, which is not set here", carrier(cookie)),
        },
        SessionKey::Hash(SessionHash { spread: None, .. }) => ", one endpoint per hash".to_owned(),
        SessionKey::Hash(SessionHash { spread: Some(count), .. }) => format!(", {count} endpoints per hash"),
    }
}

/// What carries the token of a session.
fn carrier(of: &SessionCookie) -> String {
    match of.carrier {
        SessionCarrier::Cookie => format!(" by cookie {}", of.name),
        SessionCarrier::Header => format!(" by header {}", of.name),
    }
}

/// What clients may speak; `early_data` says whether that is taken over HTTP/3, where there is HTTP/3.
pub(super) fn versions(http2: Http2Settings, early_data: Option<bool>) -> String {
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

pub(super) fn protocol(it: BackendProtocol, tls: Option<&fairway_model::UpstreamTls>) -> String {
    let spoken = match it {
        BackendProtocol::Http1 => "HTTP/1.1",
        BackendProtocol::H2c | BackendProtocol::Http2 => "HTTP/2",
        BackendProtocol::Auto => "HTTP/2 or HTTP/1.1",
    };
    match tls.map(|tls| &tls.verification) {
        None => spoken.to_owned(),
        Some(UpstreamVerification::Off) => format!("{spoken} over TLS, not verified"),
        Some(UpstreamVerification::Chain { name, .. }) => format!("{spoken} over TLS, verified for {name}"),
        Some(UpstreamVerification::Subject { names, .. }) => {
            let names: Vec<&str> = names
                .iter()
                .map(|name| match name {
                    SubjectName::Dns(name) | SubjectName::Uri(name) => &**name,
                })
                .collect();
            format!("{spoken} over TLS, verified for {}", names.join(" or "))
        }
    }
}

pub(super) fn policy(it: &Policy) -> String {
    let seconds = |duration: Duration| format!("{} s", duration.as_secs_f64());
    let times = &it.timeouts;
    let body = it.max_body.map_or("unlimited".into(), |bytes| format!("at most {bytes} bytes"));
    let request = times.request.map(|limit| format!(", all of it {}", seconds(limit)));
    let attempt = times.backend_request.map(|limit| format!(", each try {}", seconds(limit)));
    let backoff = (!it.retry.backoff.is_zero()).then(|| format!(", {} apart", seconds(it.retry.backoff)));
    format!(
        "connect {}, send {}, read {}{}{}; body {body}; {} tries{}; WebSocket {}",
        seconds(times.connect),
        seconds(times.send),
        seconds(times.read),
        request.unwrap_or_default(),
        attempt.unwrap_or_default(),
        it.retry.tries,
        backoff.unwrap_or_default(),
        if it.websocket { "yes" } else { "no" },
    )
}

fn certificate(it: &ClientCertificate) -> String {
    let demand = match it.rules.demand {
        ClientDemand::Required => "needed",
        ClientDemand::Optional => "good, where there is one",
        ClientDemand::Unverified => "reported to the backend",
    };
    let subject = it.subject.iter().map(|subject| format!("; the subject has {subject}"));
    let page = it.error_page.iter().map(|page| format!("; others are sent to {page}"));
    let forwarded = it.forwarded.then(|| "; forwarded".to_owned());
    [demand.to_owned()].into_iter().chain(subject).chain(page).chain(forwarded).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairway_model::Template;

    use super::*;

    #[test]
    fn how_requests_are_traced_is_said_in_percent() {
        assert_eq!(traced(&Tracing::default()), "not traced");
        for (ratio, said) in [(1.0, "100%"), (0.1, "10%"), (0.01, "1%"), (0.0005, "0.05%")] {
            let tracing = Tracing { ratio: SampleRatio::new(ratio).unwrap(), ..Tracing::default() };
            let begin =
                format!("traced: {said} of new traces are sampled; the trace of a client is not continued");
            assert_eq!(traced(&tracing), begin);
        }
        let tracing = Tracing {
            ratio: SampleRatio::NONE,
            parent_based: true,
            trust_incoming: true,
            propagation: Propagation::W3cAndB3,
            span_name: Some(Arc::new(Template::text("cart"))),
        };
        let said = "traced: 0% of new traces are sampled; the trace of a client is continued, and sampled where the client \
                    has sampled it; headers of B3, too; spans are called cart";
        assert_eq!(traced(&tracing), said);
    }
}
