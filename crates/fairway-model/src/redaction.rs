//! A configuration for display: without the values of headers sent to endpoints and authentication services, which
//! may be passwords and tokens. Names, and variables in values, are kept.

use std::sync::Arc;

use crate::authentication::ExternalAuth;
use crate::condition::{Condition, ConditionTest, ConditionalHeaders};
use crate::config::Config;
use crate::edit::{HeaderEdit, RequestEdit, ResponseEdit};
use crate::extension::{Extension, GrpcAuth};
use crate::forwarding::{Forwarding, Mirror, MirrorTarget};
use crate::guard::Guard;
use crate::identity::{Authorization, JwtAuth, JwtKeys, PublishedDocument};
use crate::matches::TextMatch;
use crate::phases::{Phases, RouteFilters};
use crate::route::{Action, Rule, VirtualHost};
use crate::template::{Template, TemplatePart};

/// Replaces redacted text.
pub const REDACTED: &str = "<hidden>";

impl Config {
    /// A copy for display.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        for (key, host) in &self.hosts {
            if let Some(host) = host.without_secrets() {
                shown.hosts.insert(key.clone(), Arc::new(host));
            }
        }
        shown
    }
}

impl VirtualHost {
    /// A copy for display; `None` if there is nothing to redact.
    #[must_use]
    pub fn without_secrets(&self) -> Option<Self> {
        if !self.routes.iter().any(|route| route.rules.iter().any(|rule| redact_rule(&mut rule.clone()))) {
            return None;
        }
        let mut shown = self.clone();
        for route in &mut shown.routes {
            if route.rules.iter().any(|rule| redact_rule(&mut rule.clone())) {
                for rule in &mut Arc::make_mut(route).rules {
                    redact_rule(rule);
                }
            }
        }
        Some(shown)
    }
}

impl Rule {
    /// A copy for display.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        redact_rule(&mut shown);
        shown
    }
}

/// Redacts a rule; returns whether there was anything to redact.
fn redact_rule(rule: &mut Rule) -> bool {
    let mut phases = Phases::clone(&rule.phases);
    let mut hidden = redact_phases(&mut phases);
    if hidden {
        rule.phases = Arc::new(phases);
    }
    if let Action::Forward(shares) = &mut rule.action {
        for filters in shares.iter_mut().filter_map(|share| share.filters.as_deref_mut()) {
            hidden |= redact_filters(filters);
        }
    }
    hidden
}

/// Names every phase, so that adding one requires a decision here. Ignored phases are visible to clients anyway, or
/// only say who may pass, where to, or how.
fn redact_phases(phases: &mut Phases) -> bool {
    let Phases {
        client: _,
        guards,
        request,
        extensions,
        forwarding,
        answers,
        bounds: _,
        unlogged: _,
        tracing: _,
    } = phases;
    let mut hidden = false;
    for guard in guards {
        hidden |= match guard {
            Guard::ExternalAuth(auth) => redact_external_auth(auth),
            Guard::GrpcAuth(auth) => redact_grpc_auth(auth),
            Guard::Any(any) => {
                let by_service = any.external.as_mut().is_some_and(|auth| redact_external_auth(auth));
                any.jwt.as_mut().is_some_and(redact_jwt) | by_service
            }
            Guard::Jwt(auth) => redact_jwt(auth),
            Guard::Oidc(auth) => redact_document(&mut Arc::make_mut(auth).metadata),
            Guard::Authorize(authorization) => redact_authorization(authorization),
            Guard::Respond(respond) => redact_conditions(&mut Arc::make_mut(respond).when),
            Guard::HttpsRedirect(_)
            | Guard::Redirect(_)
            | Guard::Access(_)
            | Guard::ClientCertificate(_)
            | Guard::OverTls
            | Guard::Deny(_)
            | Guard::NeedsEndpoint
            | Guard::Preflight(_)
            | Guard::BasicAuth(_)
            | Guard::ApiKey(_)
            | Guard::RateLimit(_)
            | Guard::ConcurrencyLimit(_) => false,
        };
    }
    for edit in &mut answers.edits {
        if let ResponseEdit::Chosen(chosen) = edit {
            hidden |= redact_conditions(&mut Arc::make_mut(chosen).when);
        }
    }
    for extension in extensions {
        hidden |= redact_extension(Arc::make_mut(extension));
    }
    hidden |= redact_edits(request);
    hidden | forwarding.as_deref_mut().is_some_and(redact_forwarding)
}

fn redact_forwarding(forwarding: &mut Forwarding) -> bool {
    let Forwarding {
        path: _,
        fields,
        chosen,
        hop: _,
        tls_backend: _,
        fallbacks: _,
        retry_statuses: _,
        mirrors,
        grpc_web: _,
        buffering: _,
        sticky: _,
    } = forwarding;
    let mut hidden = false;
    if let Some(fields) = fields.as_mut().filter(|fields| fields.iter().any(|field| has_text(&field.value))) {
        let mut shown = fields.to_vec();
        shown.iter_mut().for_each(|field| redact_text(&mut field.value));
        *fields = shown.into();
        hidden = true;
    }
    hidden | redact_conditional_headers(chosen) | redact_mirrors(mirrors)
}

/// Headers sent to endpoints.
fn redact_conditional_headers(headers: &mut [Arc<ConditionalHeaders>]) -> bool {
    let mut hidden = false;
    for conditional in headers {
        let conditional = Arc::make_mut(conditional);
        hidden |= redact_conditions(&mut conditional.when);
        for field in conditional.fields.iter_mut().filter(|field| has_text(&field.value)) {
            redact_text(&mut field.value);
            hidden = true;
        }
    }
    hidden
}

/// URLs of published keys, which may contain an API key.
fn redact_jwt(auth: &mut Arc<JwtAuth>) -> bool {
    let mut hidden = false;
    for issuer in &mut Arc::make_mut(auth).issuers {
        if let JwtKeys::Published(keys) = &mut issuer.keys {
            hidden |= redact_document(keys);
        }
    }
    hidden
}

fn redact_document(document: &mut PublishedDocument) -> bool {
    let mut shown = Template::text(&document.target);
    let hidden = redact_query(&mut shown);
    document.target = shown.to_string().into();
    hidden
}

/// Header values that requests must have to be allowed.
fn redact_authorization(authorization: &mut Arc<Authorization>) -> bool {
    let mut hidden = false;
    for header in Arc::make_mut(authorization).rules.iter_mut().flat_map(|rule| &mut rule.headers) {
        header.value = TextMatch::Exact(REDACTED.into());
        hidden = true;
    }
    hidden
}

/// Texts that clients' headers, cookies and parameters are compared with.
fn redact_conditions(conditions: &mut [Condition]) -> bool {
    let is_said = |part: &TemplatePart| {
        matches!(
            part,
            TemplatePart::Header(_)
                | TemplatePart::Cookie(_)
                | TemplatePart::Argument(_)
                | TemplatePart::Query
        )
    };
    let mut hidden = false;
    for condition in conditions.iter_mut().filter(|condition| condition.value.0.iter().any(is_said)) {
        match &mut condition.test {
            ConditionTest::Equal(text) | ConditionTest::EqualIgnoringCase(text) if !text.is_empty() => {
                *text = REDACTED.into();
            }
            ConditionTest::Pattern { pattern, .. } => *pattern = REDACTED.into(),
            _ => continue,
        }
        hidden = true;
    }
    hidden
}

fn redact_filters(filters: &mut RouteFilters) -> bool {
    let RouteFilters {
        cors: _,
        redirect: _,
        respond: _,
        request,
        path: _,
        fields,
        mirrors,
        reply: _,
        conditional_response_headers: _,
        extensions,
        pages: _,
    } = filters;
    let mut hidden = redact_edits(request) | redact_conditional_headers(fields) | redact_mirrors(mirrors);
    for extension in extensions {
        hidden |= redact_extension(Arc::make_mut(extension));
    }
    hidden
}

fn redact_edits(edits: &mut [RequestEdit]) -> bool {
    let mut hidden = false;
    for edit in edits {
        hidden |= match edit {
            RequestEdit::Headers(edit) => redact_header_values(edit),
            RequestEdit::Host(_) | RequestEdit::ForwardedPrefix(_) => false,
        };
    }
    hidden
}

fn redact_mirrors(mirrors: &mut [Mirror]) -> bool {
    let mut hidden = false;
    for mirror in mirrors {
        hidden |= redact_mirror_target(&mut mirror.target);
    }
    hidden
}

fn redact_header_values(edit: &mut HeaderEdit) -> bool {
    let mut hidden = false;
    for field in edit.set.iter_mut().chain(&mut edit.add).filter(|field| !field.value.is_empty()) {
        field.value = REDACTED.into();
        hidden = true;
    }
    hidden
}

fn redact_external_auth(auth: &mut ExternalAuth) -> bool {
    let mut is_secret = auth.fields.iter().any(|(_, value)| has_text(value));
    auth.fields.iter_mut().for_each(|(_, value)| redact_text(value));
    let urls = [Some(&mut auth.target), auth.redirect.as_mut(), auth.sign_in.as_mut()];
    for url in urls.into_iter().flatten() {
        is_secret |= redact_query(url);
    }
    is_secret
}

fn redact_grpc_auth(auth: &mut GrpcAuth) -> bool {
    auth.context.iter_mut().for_each(|(_, value)| *value = REDACTED.into());
    !auth.context.is_empty()
}

/// Attributes and metadata sent to services; their author may have included a key.
fn redact_extension(extension: &mut Extension) -> bool {
    let is_secret = extension.attributes.iter().any(|(_, value)| has_text(value));
    extension.attributes.iter_mut().for_each(|(_, value)| redact_text(value));
    extension.metadata.iter_mut().for_each(|(_, value)| *value = "{}".into());
    is_secret || !extension.metadata.is_empty()
}

fn redact_mirror_target(target: &mut MirrorTarget) -> bool {
    let (MirrorTarget::Received(text) | MirrorTarget::Fixed(text)) = target else { return false };
    let mut shown = Template::text(text);
    let is_secret = redact_query(&mut shown);
    *text = shown.to_string().into();
    is_secret
}

/// Redacts literal parameter values, one of which may be an API key; returns whether there were any.
fn redact_query(url: &mut Template) -> bool {
    use TemplatePart::{EscapedRequestUri, Query, QueryMark, RequestUri};
    let (mut in_query, mut is_secret) = (false, false);
    for part in &mut url.0 {
        let text = match part {
            TemplatePart::Text(text) => text,
            RequestUri | EscapedRequestUri | Query | QueryMark => {
                in_query = true;
                continue;
            }
            _ => continue,
        };
        let start = if in_query { Some(0) } else { text.find(['?', '#']).map(|mark| mark + 1) };
        let Some(start) = start else { continue };
        // Text after a variable continues the value of a parameter.
        let continues = std::mem::replace(&mut in_query, true);
        let (before, query) = text.split_at(start);
        let parameter = |(index, text): (usize, &str)| match text.split_once('=') {
            Some((name, value)) if !(continues && index == 0) => format!("{name}={}", redacted_value(value)),
            _ => redacted_value(text).to_owned(),
        };
        let shown: Vec<_> = query.split('&').enumerate().map(parameter).collect();
        let shown = format!("{before}{}", shown.join("&"));
        if shown != **text {
            *text = shown.into();
            is_secret = true;
        }
    }
    is_secret
}

/// Separators are not secret.
fn redacted_value(text: &str) -> &str {
    match text.contains(|c: char| !c.is_ascii_punctuation()) {
        true => REDACTED,
        false => text,
    }
}

fn has_text(value: &Template) -> bool {
    value.0.iter().any(|part| matches!(part, TemplatePart::Text(text) if !text.is_empty()))
}

fn redact_text(value: &mut Template) {
    for part in &mut value.0 {
        if let TemplatePart::Text(text) = part
            && !text.is_empty()
        {
            *text = REDACTED.into();
        }
    }
}

/// Removes the user information of URLs, a name and a password (RFC 3986 §3.2.1): everything before their last `@`. A
/// password may contain characters that would end the authority, so the end of the authority is ignored. A quoted
/// text counts as one URL.
#[must_use]
pub fn redact_userinfo(text: String) -> String {
    if !text.contains('@') {
        return text;
    }
    let unquoted = |part: &str| {
        let words = part.split_inclusive(|c: char| c.is_whitespace() || c == '\'');
        words.map(redact_userinfo_in_word).collect::<String>()
    };
    let parts = text.split('"').enumerate();
    let parts =
        parts.map(|(at, part)| if at % 2 == 0 { unquoted(part) } else { redact_userinfo_in_word(part) });
    parts.collect::<Vec<_>>().join("\"")
}

/// The same for a single word, if it contains a URL.
fn redact_userinfo_in_word(text: &str) -> String {
    let Some((before, rest)) = text.rsplit_once('@') else { return text.to_owned() };
    let plain = |scheme: &str| scheme.chars().all(|c| c.is_alphanumeric() || "+-.$_".contains(c));
    let scheme = before.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| plain(scheme));
    match scheme {
        Some(scheme) => format!("{scheme}://{REDACTED}@{rest}"),
        None if before.contains(':') => format!("{REDACTED}@{rest}"),
        // An email address, or a named location of nginx.
        None => text.to_owned(),
    }
}

/// Redacts a value that should be a URL but may not be one: everything before its last `@` and after its path. A
/// password may be what makes it invalid, so the end of the authority is ignored.
#[must_use]
pub fn redact_url(text: &str) -> String {
    let schemes = ["http://", "https://", "$scheme://", "$pass_access_scheme://"];
    let scheme = schemes.into_iter().find(|scheme| text.starts_with(scheme)).unwrap_or_default();
    let rest = &text[scheme.len()..];
    let (userinfo, rest) = match rest.rsplit_once('@') {
        // A named location of nginx.
        Some(("", rest)) => ("@".to_owned(), rest),
        Some((_, rest)) => (format!("{REDACTED}@"), rest),
        None => (String::new(), rest),
    };
    let path = rest.find(['?', '#']).map_or(rest.len(), |mark| mark + 1);
    let query = if path < rest.len() { REDACTED } else { "" };
    format!("{scheme}{userinfo}{}{query}", &rest[..path])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::{AnyGuard, AuthCookies, AuthService};
    use crate::condition::{ConditionalResponse, ResponseContent};
    use crate::edit::HeaderField;
    use crate::field::HeaderTemplate;
    use crate::host::HostPattern;
    use crate::origin::Origin;
    use crate::policy::{Policy, Timeouts};
    use crate::route::{HostKey, PathForm, Route, RuleLabels, RuleOrder, WeightedBackend};

    const SECRET: &str = "hunter2";

    fn template() -> Template {
        Template(vec![TemplatePart::Text(SECRET.into()), TemplatePart::Host])
    }

    fn headers() -> Vec<RequestEdit> {
        let field = |name: &str| HeaderField { name: name.into(), value: SECRET.into() };
        let (set, add) = (vec![field("X-Set")], vec![field("X-Add")]);
        vec![RequestEdit::Headers(HeaderEdit { remove: Vec::new(), set, add })]
    }

    #[test]
    fn redacts_texts_compared_with_client_values() {
        let condition =
            |value: TemplatePart, test| Condition { value: Template(vec![value]), test, negated: false };
        let respond = ConditionalResponse {
            origin: "server-snippet line 1: return 403".into(),
            when: vec![
                condition(TemplatePart::Header("x_secret".into()), ConditionTest::Equal(SECRET.into())),
                condition(TemplatePart::Method, ConditionTest::Equal("POST".into())),
            ],
            status: 403,
            content: ResponseContent::Status,
            host_headers: None,
            max_body: None,
        };
        let shown = guarded(Guard::Respond(Arc::new(respond))).without_secrets().unwrap();
        let shown = serde_json::to_string(&shown).unwrap();
        assert!(!shown.contains(SECRET) && shown.contains("POST") && shown.contains("line 1"), "{shown}");
    }

    fn guarded(guard: Guard) -> VirtualHost {
        host(Phases { guards: vec![guard], ..Phases::default() }, None)
    }

    fn forwarding(forwarding: Forwarding) -> VirtualHost {
        host(forwarding.into(), None)
    }

    fn auth() -> Box<ExternalAuth> {
        Box::new(ExternalAuth {
            service: AuthService::OwnHost { scheme: None },
            method: None,
            target: Template::text("/auth"),
            copied: Vec::new(),
            fields: vec![("X-Auth".into(), template())],
            redirect: None,
            sign_in: None,
            cookies: AuthCookies::default(),
            timeouts: Timeouts::default(),
            kept: None,
            filter: None,
        })
    }

    fn host(phases: Phases, of_share: Option<RouteFilters>) -> VirtualHost {
        let filters = of_share.map(Box::new);
        let share = WeightedBackend { filters, ..WeightedBackend::new("b".into(), 1) };
        let rule = Rule {
            origin: Origin::default(),
            matches: Vec::new(),
            phases: phases.shared(),
            action: Action::Forward(vec![share]),
            policy: Arc::<Policy>::default(),
            labels: RuleLabels::default(),
        };
        VirtualHost {
            key: HostKey { table: "t".into(), host: HostPattern::Any },
            order: RuleOrder::Listed,
            path_form: PathForm::Decoded,
            routes: vec![Arc::new(Route {
                origin: Origin::default(),
                created: None,
                hostname_rank: 0,
                rules: vec![rule],
            })],
            certificate: None,
            clients: None,
            suites: None,
            falls_through: false,
        }
    }

    #[test]
    fn redacts_header_values_everywhere() {
        let fields = Some([HeaderTemplate { name: "X-End".into(), value: template() }].into());
        let any = Guard::Any(Box::new(AnyGuard { external: Some(auth()), ..AnyGuard::default() }));
        let of_share = RouteFilters { request: headers(), ..RouteFilters::default() };
        for (name, host) in [
            ("X-Set", host(Phases { request: headers(), ..Phases::default() }, None)),
            ("X-Add", host(Phases::default(), Some(of_share))),
            ("X-End", forwarding(Forwarding { fields, ..Forwarding::default() })),
            ("X-Auth", guarded(Guard::ExternalAuth(auth()))),
            ("X-Auth", guarded(any)),
        ] {
            let mut config = Config::default();
            config.hosts.insert(host.key.clone(), Arc::new(host));
            let written = serde_json::to_string(&config).unwrap();
            assert!(written.contains(SECRET), "what is kept is complete: {written}");
            let shown = serde_json::to_string(&config.without_secrets()).unwrap();
            assert!(shown.contains(name) && shown.contains(REDACTED) && !shown.contains(SECRET), "{shown}");
        }
    }

    #[test]
    fn redacts_a_single_rule_like_its_host() {
        let config = host(Phases { request: headers(), ..Phases::default() }, None);
        let shown = config.without_secrets().expect("it has a secret");
        assert_eq!(config.routes[0].rules[0].without_secrets(), shown.routes[0].rules[0]);
    }

    #[test]
    fn hosts_without_secrets_stay_shared() {
        let mut config = Config::default();
        let host = Arc::new(guarded(Guard::OverTls));
        config.hosts.insert(host.key.clone(), host.clone());
        assert!(Arc::ptr_eq(&config.without_secrets().hosts[&host.key], &host));
    }

    #[test]
    fn redacts_queries_of_auth_urls() {
        let shown = |parts: Vec<TemplatePart>| {
            let mut template = Template(parts);
            let is_secret = redact_query(&mut template);
            (template.to_string(), is_secret)
        };
        let text = |text: &str| TemplatePart::Text(text.into());
        for (url, expected) in [
            ("/auth?token=hunter2&b=1", "/auth?token=<hidden>&b=<hidden>"),
            ("/auth?hunter2", "/auth?<hidden>"),
            ("/auth#hunter2", "/auth#<hidden>"),
            ("/auth?a=b=hunter2", "/auth?a=<hidden>"),
        ] {
            assert_eq!(shown(vec![text(url)]), (expected.to_owned(), true));
        }
        for url in ["/auth", "/auth?", "/auth?rd="] {
            assert_eq!(shown(vec![text(url)]), (url.to_owned(), false));
        }
        let page = vec![text("/?rd="), TemplatePart::Scheme, text("://"), TemplatePart::HttpHost];
        assert_eq!(shown(page), ("/?rd=$scheme://$http_host".to_owned(), false));
        let behind = vec![text("/?a="), TemplatePart::Host, text("hunter2=x&t=hunter2")];
        assert_eq!(shown(behind), ("/?a=$host<hidden>&t=<hidden>".to_owned(), true));
        for query in [TemplatePart::RequestUri, TemplatePart::QueryMark] {
            let (shown, is_secret) = shown(vec![text("/x"), query, text("&t=hunter2")]);
            assert!(is_secret && shown.ends_with("&t=<hidden>"), "{shown}");
        }
        for hidden in [
            ExternalAuth { target: Template::text("/auth?t=hunter2"), ..*auth() },
            ExternalAuth { redirect: Some(Template::text("https://a.test/?t=hunter2")), ..*auth() },
            ExternalAuth { sign_in: Some(Template::text("https://a.test/?t=hunter2")), ..*auth() },
        ] {
            let hidden = ExternalAuth { fields: Vec::new(), ..hidden };
            let config = guarded(Guard::ExternalAuth(Box::new(hidden)));
            let shown = serde_json::to_string(&config.without_secrets().expect("it has a secret")).unwrap();
            assert!(!shown.contains(SECRET), "{shown}");
        }
    }

    #[test]
    fn redacts_queries_of_mirrors() {
        for (target, shown) in [
            (MirrorTarget::Fixed("/all?token=hunter2".into()), "/all?token=<hidden>"),
            (MirrorTarget::Received("/all?hunter2".into()), "/all?<hidden>"),
        ] {
            let mirror =
                Mirror { backend: "b".into(), numerator: 1, denominator: 1, max_body: 0, target, host: None };
            let config = forwarding(Forwarding { mirrors: vec![mirror], ..Forwarding::default() });
            let written = serde_json::to_string(&config.without_secrets().expect("it has a secret")).unwrap();
            assert!(written.contains(shown) && !written.contains(SECRET), "{written}");
        }
    }

    #[test]
    fn redacts_possible_passwords_in_malformed_urls() {
        for (url, shown) in [
            ("http://auth.test/x", "http://auth.test/x"),
            ("http://u:hunter2@auth.test/x", "http://<hidden>@auth.test/x"),
            ("u:hunter2@auth.test/x", "<hidden>@auth.test/x"),
            ("//u:hunter2@h/", "<hidden>@h/"),
            ("http:/u:hunter2@h/", "<hidden>@h/"),
            ("https:u:hunter2@h", "<hidden>@h"),
            ("http://u:a/hunter2@h/", "http://<hidden>@h/"),
            ("http://u:a?hunter2@h/", "http://<hidden>@h/"),
            ("http://u:hunter2#@h", "http://<hidden>@h"),
            ("http://u:hunter2@x@h", "http://<hidden>@h"),
            ("http://u:hunter2@", "http://<hidden>@"),
            ("hunter2://x@h", "<hidden>@h"),
            ("ftp://u:hunter2@h", "<hidden>@h"),
            ("http://h:99999/?t=hunter2", "http://h:99999/?<hidden>"),
            ("http://h/#hunter2", "http://h/#<hidden>"),
            ("$scheme://u:hunter2@h", "$scheme://<hidden>@h"),
            ("@named", "@named"),
        ] {
            assert_eq!(redact_url(url), shown, "{url}");
        }
    }

    #[test]
    fn redacts_userinfo_in_every_url_of_a_text() {
        for (text, shown) in [
            ("\"http://a:b@c.test/x\" names no host", "\"http://<hidden>@c.test/x\" names no host"),
            ("\"http://admin:123/abc@host\" is no URL", "\"http://<hidden>@host\" is no URL"),
            ("http://a:1?b@h", "http://<hidden>@h"),
            ("http://a:1#b@h", "http://<hidden>@h"),
            ("http://a:1\\b@h", "http://<hidden>@h"),
            ("http://a:b@c@d/e@h", "http://<hidden>@h"),
            ("\"http://a:b c'd@h\" or \"x\"", "\"http://<hidden>@h\" or \"x\""),
            ("is http:\\\\a:b@h a URL", "is <hidden>@h a URL"),
            ("a:b://c@h", "<hidden>@h"),
            ("host a.test names @named and a@b", "host a.test names @named and a@b"),
            ("http://a:b:c@d@e", "http://<hidden>@e"),
            ("http://c.test/ and https://tok@d.test", "http://c.test/ and https://<hidden>@d.test"),
            ("a@b is no http:// URL", "a@b is no http:// URL"),
            ("ä://ö@ü", "ä://<hidden>@ü"),
        ] {
            assert_eq!(redact_userinfo(text.to_owned()), shown);
        }
    }
}
