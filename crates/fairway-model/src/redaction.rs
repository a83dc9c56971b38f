//! A configuration as it may be shown: without the values of headers that endpoints and authentication services get, which may be
//! passwords and tokens. Names, and the variables in values, stay.

use std::sync::Arc;

use crate::authentication::ExternalAuth;
use crate::condition::{ChosenFields, Condition, Test};
use crate::config::Config;
use crate::edit::{AnswerEdit, HeaderEdit, RequestEdit};
use crate::extension::{Extension, GrpcAuth};
use crate::forwarding::{Forwarding, Mirror, MirrorTarget};
use crate::guard::Guard;
use crate::identity::{Authorization, JwtAuth, JwtKeys, PublishedDocument};
use crate::matches::TextMatch;
use crate::phases::{Phases, RouteFilters};
use crate::route::{Action, Rule, VirtualHost};
use crate::template::{Template, TemplatePart};

/// What is shown in the place of a text.
pub const HIDDEN: &str = "<hidden>";

impl Config {
    /// A copy to be shown.
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
    /// A copy to be shown; `None` where the host itself may be shown.
    #[must_use]
    pub fn without_secrets(&self) -> Option<Self> {
        if !self.routes.iter().any(|route| route.rules.iter().any(|rule| hide(&mut rule.clone()))) {
            return None;
        }
        let mut shown = self.clone();
        for route in &mut shown.routes {
            if route.rules.iter().any(|rule| hide(&mut rule.clone())) {
                for rule in &mut Arc::make_mut(route).rules {
                    hide(rule);
                }
            }
        }
        Some(shown)
    }
}

impl Rule {
    /// A copy to be shown.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        hide(&mut shown);
        shown
    }
}

/// Hides what a rule must not show, and says whether there was anything.
fn hide(rule: &mut Rule) -> bool {
    let mut phases = Phases::clone(&rule.phases);
    let mut hidden = hide_in_phases(&mut phases);
    if hidden {
        rule.phases = Arc::new(phases);
    }
    if let Action::Forward(shares) = &mut rule.action {
        for filters in shares.iter_mut().filter_map(|share| share.filters.as_deref_mut()) {
            hidden |= hide_in_filters(filters);
        }
    }
    hidden
}

/// Lists every phase, so that a new part is decided on. Clients get what is not looked at, or it says who may pass, where to, or how.
fn hide_in_phases(phases: &mut Phases) -> bool {
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
            Guard::ExternalAuth(auth) => hide_fields(auth),
            Guard::GrpcAuth(auth) => hide_context(auth),
            Guard::Any(any) => {
                let by_service = any.external.as_mut().is_some_and(|auth| hide_fields(auth));
                any.jwt.as_mut().is_some_and(hide_in_token) | by_service
            }
            Guard::Jwt(auth) => hide_in_token(auth),
            Guard::Oidc(auth) => hide_in_document(&mut Arc::make_mut(auth).metadata),
            Guard::Authorize(of) => hide_in_authorization(of),
            Guard::Respond(respond) => hide_conditions(&mut Arc::make_mut(respond).when),
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
        if let AnswerEdit::Chosen(chosen) = edit {
            hidden |= hide_conditions(&mut Arc::make_mut(chosen).when);
        }
    }
    for extension in extensions {
        hidden |= hide_in_extension(Arc::make_mut(extension));
    }
    hidden |= hide_in_edits(request);
    hidden | forwarding.as_deref_mut().is_some_and(hide_in_forwarding)
}

fn hide_in_forwarding(forwarding: &mut Forwarding) -> bool {
    let Forwarding {
        path: _,
        fields,
        chosen,
        hop: _,
        secured: _,
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
        shown.iter_mut().for_each(|field| hide_text(&mut field.value));
        *fields = shown.into();
        hidden = true;
    }
    hidden | hide_in_chosen(chosen) | hide_in_mirrors(mirrors)
}

/// What endpoints are sent.
fn hide_in_chosen(chosen: &mut [Arc<ChosenFields>]) -> bool {
    let mut hidden = false;
    for chosen in chosen {
        let chosen = Arc::make_mut(chosen);
        hidden |= hide_conditions(&mut chosen.when);
        for field in chosen.fields.iter_mut().filter(|field| has_text(&field.value)) {
            hide_text(&mut field.value);
            hidden = true;
        }
    }
    hidden
}

/// Where issuers publish their keys, which may ask for a key of an API itself.
fn hide_in_token(auth: &mut Arc<JwtAuth>) -> bool {
    let mut hidden = false;
    for issuer in &mut Arc::make_mut(auth).issuers {
        if let JwtKeys::Published(keys) = &mut issuer.keys {
            hidden |= hide_in_document(keys);
        }
    }
    hidden
}

fn hide_in_document(document: &mut PublishedDocument) -> bool {
    let mut shown = Template::text(&document.target);
    let hidden = hide_query(&mut shown);
    document.target = shown.to_string().into();
    hidden
}

/// What headers must be so that a request is allowed.
fn hide_in_authorization(of: &mut Arc<Authorization>) -> bool {
    let mut hidden = false;
    for header in Arc::make_mut(of).rules.iter_mut().flat_map(|rule| &mut rule.headers) {
        header.value = TextMatch::Exact(HIDDEN.into());
        hidden = true;
    }
    hidden
}

/// What clients must send to be let in: the texts that their headers, cookies and parameters are compared with.
fn hide_conditions(conditions: &mut [Condition]) -> bool {
    let is_said = |part: &TemplatePart| {
        matches!(
            part,
            TemplatePart::Field(_)
                | TemplatePart::Cookie(_)
                | TemplatePart::Argument(_)
                | TemplatePart::Query
        )
    };
    let mut hidden = false;
    for condition in conditions.iter_mut().filter(|condition| condition.value.0.iter().any(is_said)) {
        match &mut condition.test {
            Test::Equal(text) | Test::EqualIgnoringCase(text) if !text.is_empty() => *text = HIDDEN.into(),
            Test::Pattern { pattern, .. } => *pattern = HIDDEN.into(),
            _ => continue,
        }
        hidden = true;
    }
    hidden
}

fn hide_in_filters(filters: &mut RouteFilters) -> bool {
    let RouteFilters {
        cors: _,
        redirect: _,
        respond: _,
        request,
        path: _,
        fields,
        mirrors,
        answer: _,
        answer_fields: _,
        extensions,
        pages: _,
    } = filters;
    let mut hidden = hide_in_edits(request) | hide_in_chosen(fields) | hide_in_mirrors(mirrors);
    for extension in extensions {
        hidden |= hide_in_extension(Arc::make_mut(extension));
    }
    hidden
}

fn hide_in_edits(edits: &mut [RequestEdit]) -> bool {
    let mut hidden = false;
    for edit in edits {
        hidden |= match edit {
            RequestEdit::Headers(edit) => hide_values(edit),
            RequestEdit::Host(_) | RequestEdit::ForwardedPrefix(_) => false,
        };
    }
    hidden
}

fn hide_in_mirrors(mirrors: &mut [Mirror]) -> bool {
    let mut hidden = false;
    for mirror in mirrors {
        hidden |= hide_target(&mut mirror.target);
    }
    hidden
}

fn hide_values(edit: &mut HeaderEdit) -> bool {
    let mut hidden = false;
    for field in edit.set.iter_mut().chain(&mut edit.add).filter(|field| !field.value.is_empty()) {
        field.value = HIDDEN.into();
        hidden = true;
    }
    hidden
}

fn hide_fields(auth: &mut ExternalAuth) -> bool {
    let mut is_secret = auth.fields.iter().any(|(_, value)| has_text(value));
    auth.fields.iter_mut().for_each(|(_, value)| hide_text(value));
    let urls = [Some(&mut auth.target), auth.redirect.as_mut(), auth.sign_in.as_mut()];
    for url in urls.into_iter().flatten() {
        is_secret |= hide_query(url);
    }
    is_secret
}

fn hide_context(auth: &mut GrpcAuth) -> bool {
    auth.context.iter_mut().for_each(|(_, value)| *value = HIDDEN.into());
    !auth.context.is_empty()
}

/// What services are told besides the request: whoever wrote it may have put a key into it.
fn hide_in_extension(extension: &mut Extension) -> bool {
    let is_secret = extension.attributes.iter().any(|(_, value)| has_text(value));
    extension.attributes.iter_mut().for_each(|(_, value)| hide_text(value));
    extension.metadata.iter_mut().for_each(|(_, value)| *value = "{}".into());
    is_secret || !extension.metadata.is_empty()
}

fn hide_target(target: &mut MirrorTarget) -> bool {
    let (MirrorTarget::Received(text) | MirrorTarget::Fixed(text)) = target else { return false };
    let mut shown = Template::text(text);
    let is_secret = hide_query(&mut shown);
    *text = shown.to_string().into();
    is_secret
}

/// Hides the literal values of parameters, and says whether there were any. A key of an API may be one.
fn hide_query(url: &mut Template) -> bool {
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
        // Text behind a variable continues the value of a parameter.
        let continues = std::mem::replace(&mut in_query, true);
        let (before, query) = text.split_at(start);
        let parameter = |(index, text): (usize, &str)| match text.split_once('=') {
            Some((name, value)) if !(continues && index == 0) => format!("{name}={}", hidden_value(value)),
            _ => hidden_value(text).to_owned(),
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

/// Separators are no secret.
fn hidden_value(text: &str) -> &str {
    match text.contains(|c: char| !c.is_ascii_punctuation()) {
        true => HIDDEN,
        false => text,
    }
}

fn has_text(value: &Template) -> bool {
    value.0.iter().any(|part| matches!(part, TemplatePart::Text(text) if !text.is_empty()))
}

fn hide_text(value: &mut Template) {
    for part in &mut value.0 {
        if let TemplatePart::Text(text) = part
            && !text.is_empty()
        {
            *text = HIDDEN.into();
        }
    }
}

/// A text without what its URLs say before their last `@`: a name and a password (RFC 3986 §3.2.1). A password may hold what
/// would end the authority, so where that ends does not count; what is in quotes is one value, and counts as one URL.
#[must_use]
pub fn without_userinfo(text: String) -> String {
    if !text.contains('@') {
        return text;
    }
    let unquoted = |part: &str| {
        let words = part.split_inclusive(|c: char| c.is_whitespace() || c == '\'');
        words.map(without_userinfo_of).collect::<String>()
    };
    let parts = text.split('"').enumerate();
    let parts = parts.map(|(at, part)| if at % 2 == 0 { unquoted(part) } else { without_userinfo_of(part) });
    parts.collect::<Vec<_>>().join("\"")
}

/// The same of a text that is a URL, if it has one at all.
fn without_userinfo_of(text: &str) -> String {
    let Some((before, rest)) = text.rsplit_once('@') else { return text.to_owned() };
    let plain = |scheme: &str| scheme.chars().all(|c| c.is_alphanumeric() || "+-.$_".contains(c));
    let scheme = before.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| plain(scheme));
    match scheme {
        Some(scheme) => format!("{scheme}://{HIDDEN}@{rest}"),
        None if before.contains(':') => format!("{HIDDEN}@{rest}"),
        // An address of mail, or a named location of nginx.
        None => text.to_owned(),
    }
}

/// A value that should be a URL and may be none: without what stands before its last `@` and behind its path. It may be wrong
/// because of a password in it, so where the authority ends does not count.
#[must_use]
pub fn shown_url(text: &str) -> String {
    let schemes = ["http://", "https://", "$scheme://", "$pass_access_scheme://"];
    let scheme = schemes.into_iter().find(|scheme| text.starts_with(scheme)).unwrap_or_default();
    let rest = &text[scheme.len()..];
    let (userinfo, rest) = match rest.rsplit_once('@') {
        // A named location of nginx.
        Some(("", rest)) => ("@".to_owned(), rest),
        Some((_, rest)) => (format!("{HIDDEN}@"), rest),
        None => (String::new(), rest),
    };
    let path = rest.find(['?', '#']).map_or(rest.len(), |mark| mark + 1);
    let query = if path < rest.len() { HIDDEN } else { "" };
    format!("{scheme}{userinfo}{}{query}", &rest[..path])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::{AnyGuard, AuthCookies, AuthService};
    use crate::condition::{Content, Respond};
    use crate::edit::HeaderField;
    use crate::field::FieldTemplate;
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
    fn what_snippets_compare_with_what_clients_say_is_hidden() {
        let condition =
            |value: TemplatePart, test| Condition { value: Template(vec![value]), test, negated: false };
        let respond = Respond {
            origin: "server-snippet line 1: return 403".into(),
            when: vec![
                condition(TemplatePart::Field("x_secret".into()), Test::Equal(SECRET.into())),
                condition(TemplatePart::Method, Test::Equal("POST".into())),
            ],
            status: 403,
            content: Content::Status,
            of_host: None,
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
            phases: phases.kept(),
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
    fn values_of_headers_are_hidden_wherever_they_are() {
        let fields = Some([FieldTemplate { name: "X-End".into(), value: template() }].into());
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
            assert!(shown.contains(name) && shown.contains(HIDDEN) && !shown.contains(SECRET), "{shown}");
        }
    }

    #[test]
    fn a_rule_alone_is_shown_as_in_its_host() {
        let of = host(Phases { request: headers(), ..Phases::default() }, None);
        let shown = of.without_secrets().expect("it has a secret");
        assert_eq!(of.routes[0].rules[0].without_secrets(), shown.routes[0].rules[0]);
    }

    #[test]
    fn a_host_without_such_values_is_shared() {
        let mut config = Config::default();
        let host = Arc::new(guarded(Guard::OverTls));
        config.hosts.insert(host.key.clone(), host.clone());
        assert!(Arc::ptr_eq(&config.without_secrets().hosts[&host.key], &host));
    }

    #[test]
    fn queries_of_questions_to_other_services_are_hidden() {
        let shown = |parts: Vec<TemplatePart>| {
            let mut template = Template(parts);
            let is_secret = hide_query(&mut template);
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
            let of = guarded(Guard::ExternalAuth(Box::new(hidden)));
            let shown = serde_json::to_string(&of.without_secrets().expect("it has a secret")).unwrap();
            assert!(!shown.contains(SECRET), "{shown}");
        }
    }

    #[test]
    fn queries_of_copies_are_hidden() {
        for (target, shown) in [
            (MirrorTarget::Fixed("/all?token=hunter2".into()), "/all?token=<hidden>"),
            (MirrorTarget::Received("/all?hunter2".into()), "/all?<hidden>"),
        ] {
            let mirror = Mirror {
                backend: "b".into(),
                numerator: 1,
                denominator: 1,
                most_body: 0,
                target,
                host: None,
            };
            let of = forwarding(Forwarding { mirrors: vec![mirror], ..Forwarding::default() });
            let written = serde_json::to_string(&of.without_secrets().expect("it has a secret")).unwrap();
            assert!(written.contains(shown) && !written.contains(SECRET), "{written}");
        }
    }

    #[test]
    fn what_may_be_a_password_of_a_url_is_hidden_however_it_is_written() {
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
            assert_eq!(shown_url(url), shown, "{url}");
        }
    }

    #[test]
    fn userinfo_is_hidden_in_every_url_of_a_text() {
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
            assert_eq!(without_userinfo(text.to_owned()), shown);
        }
    }
}
